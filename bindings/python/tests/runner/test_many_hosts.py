# SPDX-License-Identifier: Apache-2.0
"""Jobs on several hosts, reached over real ssh: places, environment, secret, output, exit codes."""

import os
import re
import sys

import pytest
from hosts_fixture import package

PLACE = """
    names = "RANK SIZE LOCAL_RANK LOCAL_SIZE CROSS_RANK CROSS_SIZE HOSTNAME".split()
    print(os.uname().nodename, *[os.environ["HOROVOD_" + name] for name in names])
"""
MEET = "print(os.environ['HOROVOD_RENDEZVOUS'])"


def by_rank(out):
    """{rank: [lines]} of forwarded output."""
    found = {}
    for line in out.splitlines():
        match = re.fullmatch(r"\[(\d+)\]<stdout>:(.*)", line)
        assert match, line
        found.setdefault(int(match.group(1)), []).append(match.group(2))
    return found


def test_every_rank_gets_its_place(many_hosts):
    hosts = many_hosts(hosts=3)
    code, out, err = hosts.run("-np", 5, "-H", "h0:2,h1:2,h2:2", *hosts.script(PLACE))
    assert (code, err) == (0, "")
    assert by_rank(out) == {
        0: ["h0 0 5 0 2 0 3 h0"], 1: ["h0 1 5 1 2 0 2 h0"], 2: ["h1 2 5 0 2 1 3 h1"], 3: ["h1 3 5 1 2 1 2 h1"],
        4: ["h2 4 5 0 1 2 3 h2"]}


def test_localhost_and_an_address_as_users_write_them(many_hosts):
    hosts = many_hosts()
    code, out, err = hosts.run("-np", 2, "-H", "localhost:1,10.77.0.2:1", *hosts.script(PLACE))
    assert (code, err) == (0, "")
    assert by_rank(out) == {0: ["h0 0 2 0 1 0 2 localhost"], 1: ["h1 1 2 0 1 1 2 10.77.0.2"]}


def test_hostfile(many_hosts):
    hosts = many_hosts()
    (hosts.folder / "hosts").write_text("# mine\nh0 slots=1\n\nh1:2  # two\n")
    code, out, _ = hosts.run("-hostfile", "hosts", *hosts.script("print(os.uname().nodename)"))
    assert code == 0 and by_rank(out) == {0: ["h0"], 1: ["h1"], 2: ["h1"]}


@pytest.mark.parametrize("first, numbers", [("h0:1,h1:1", "1"), ("h1:1,h0:1", "2")])
def test_ranks_meet_at_the_host_of_rank_0(many_hosts, first, numbers):
    hosts = many_hosts()
    code, out, _ = hosts.run("-H", first, *hosts.script(MEET))
    lines = by_rank(out)
    assert code == 0 and lines[0] == lines[1]
    url = rf"tcp://10\.77\.0\.{numbers}:(\d+),\[fd77::{numbers}\]:(\d+)/[0-9a-f]{{16}}"
    match = re.fullmatch(url, lines[0][0])
    assert match and match.group(1) == match.group(2)


def test_the_port_is_free_for_rank_0_and_for_nobody_else(many_hosts):
    hosts = many_hosts()
    code, out, err = hosts.run("-H", "h1:1,h0:1", *hosts.script("""
        import re, socket
        address, port = re.match(r"tcp://([\\d.]+):(\\d+)", os.environ["HOROVOD_RENDEZVOUS"]).groups()
        if rank == 0:
            plain = socket.socket()
            try:
                plain.bind(("", int(port)))
            except OSError as error:
                print(error.strerror)
            server = socket.socket()
            server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            server.bind((address, int(port)))
            server.listen()
            print("listens")
    """))
    assert (code, err) == (0, "") and by_rank(out) == {0: ["Address already in use", "listens"]}


def test_all_ranks_on_one_other_host_meet_in_a_folder_there(many_hosts):
    hosts = many_hosts()
    code, out, _ = hosts.run("-H", "h1:2", *hosts.script("""
        url = os.environ["HOROVOD_RENDEZVOUS"]
        print(os.uname().nodename, url.startswith("file:///"), oct(os.stat(url[7:]).st_mode & 0o777))
    """))
    assert code == 0 and by_rank(out) == {0: ["h1 True 0o700"], 1: ["h1 True 0o700"]}


def test_ipv6_only(many_hosts):
    hosts = many_hosts(ipv6_only=True)
    code, out, err = hosts.run("-H", "[fd77::1]:1,[fd77::2]:1", *hosts.script(f"{MEET}\nprint(os.environ['HOROVOD_HOSTNAME'])"))
    assert (code, err) == (0, "")
    lines = by_rank(out)
    assert re.fullmatch(r"tcp://\[fd77::1\]:\d+/\w+", lines[0][0]) and lines[1] == [lines[0][0], "fd77::2"]


def test_names_that_are_127_0_1_1_at_home_are_no_rendezvous_place(many_hosts):
    hosts = many_hosts(loopback_names=True)
    code, out, _ = hosts.run("-H", "h0:1,h1:1", *hosts.script(MEET))
    assert code == 0 and "tcp://10.77.0.1:" in out and "127." not in out


def test_interfaces(many_hosts):
    hosts = many_hosts(second_network="good", docker_bridge=True)
    names = hosts.script(MEET + "\nprint(os.environ.get('NCCL_SOCKET_IFNAME'), os.environ.get('HOROVOD_NETWORK_INTERFACES'))")
    code, out, _ = hosts.run("-H", "h0:1,h1:1", *names)
    url, rest = by_rank(out)[1]
    addresses = re.findall(r"([\d.]{7,}|\[[^]]*\]):\d+", url)
    assert (code, rest) == (0, "None None")
    # Only the address of the container bridge, which every host has, comes last.
    assert addresses == ["10.77.0.1", "10.78.0.1", "[fd77::1]", "[fd78::1]", "172.17.0.1"]
    for flags in (["--network-interfaces", "eth0,enp1"], ["--network-interface", "eth0", "--network-interface", "enp1"]):
        code, out, _ = hosts.run("-H", "h0:1,h1:1", *flags, *names)
        url, rest = by_rank(out)[1]
        assert (code, rest) == (0, "eth0,enp1 enp1")
        assert re.findall(r"([\d.]{7,}|\[[^]]*\]):\d+", url) == ["10.77.0.1", "[fd77::1]"]


@pytest.mark.parametrize("flag, lines", [
    ("eth7", ['host "h0": network interface eth7: not found; there are lo, eth0, eth1',
              'host "h1": network interface eth7: not found; there are lo, enp1, enp2']),
    ("eth0", ['host "h1": network interface eth0: not found; there are lo, enp1, enp2']),
    ("eth0,enp1,typo", ["network interface typo: on no host; h0 has eth0, eth1, lo; h1 has enp1, enp2, lo"]),
    ("lo", ['host "h0": network interfaces lo: no address that another host can connect to; there are lo, eth0, eth1']),
])
def test_wrong_interface_is_an_immediate_error(many_hosts, flag, lines):
    hosts = many_hosts(second_network="good")
    code, out, err = hosts.run("-H", "h0:1,h1:1", "--network-interfaces", flag, *hosts.script("print('ran')"))
    assert (code, out) == (1, "")
    assert all(line in err for line in lines)


def test_the_users_environment_goes_along(many_hosts):
    hosts = many_hosts()
    env = {"MINE": "a b\n'\"$x", "BASH_FUNC_f%%": "() { :; }", "OLDPWD": "/old", "CUDA_VISIBLE_DEVICES": "7",
           "X_CUDA_VISIBLE_DEVICES": "7", "SSH_AUTH_SOCK": "/no", "HOROVOD_CYCLE_TIME": "3", "HOROVOD_SECRET": "leaks"}
    code, out, _ = hosts.run("-H", "h1:1", *hosts.script(f"""
        print(repr(os.environ["MINE"]), os.environ["HOROVOD_CYCLE_TIME"], os.environ["PYTHONUNBUFFERED"])
        print(*sorted(set({sorted(set(env) - {"MINE", "HOROVOD_CYCLE_TIME"})}) & set(os.environ)), os.environ.get("SSH_AUTH_SOCK"))
        print(os.getcwd() == os.environ["PWD"], os.environ["OMP_NUM_THREADS"], repr(sys.stdin.read()))
    """), env=env)
    cores = len(os.sched_getaffinity(0))
    assert code == 0
    assert by_rank(out)[0] == [repr(env["MINE"]) + " 3 1", "None", f"True {os.environ.get('OMP_NUM_THREADS', cores)} ''"]


def test_the_secret_is_one_file_and_nowhere_else(many_hosts):
    hosts = many_hosts()
    # Every rank looks at all processes of its host, among them ssh and the launcher, for the secret.
    code, out, err = hosts.run("--verbose", "-H", "h0:1,h1:1", *hosts.script("""
        path = os.environ["HOROVOD_SECRET_FILE"]
        with open(path) as file: secret = file.read()
        places = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            for name in ("cmdline", "environ"):
                try:
                    with open(f"/proc/{pid}/{name}", "rb") as file: text = file.read()
                except OSError:
                    continue
                if secret.encode() in text: places.append(pid + name)
        print(secret, oct(os.stat(path).st_mode & 0o777), oct(os.stat(os.path.dirname(path)).st_mode & 0o777), places, path)
    """))
    first, second = (by_rank(out)[rank][0].split() for rank in (0, 1))
    assert code == 0 and first[0] == second[0] and re.fullmatch("[0-9a-f]{64}", first[0])
    assert first[1:4] == second[1:4] == ["0o600", "0o700", "[]"] and first[4] != second[4]
    assert first[0] not in err
    tell = hosts.script("print(open(os.environ['HOROVOD_SECRET_FILE']).read())")
    assert first[0] not in hosts.run("-H", "h0:1,h1:1", *tell)[1]


def test_output_of_every_kind_arrives_whole(many_hosts):
    hosts = many_hosts()
    code, out, err = hosts.run("-H", "h1:2", "--output-filename", "log", *hosts.script(r"""
        write = sys.stdout.buffer.write
        if rank == 0:
            write(b"\r 1%"); write(b"\r 2%\n"); write(b"\xff\xc3\xa9\n")
            write(b"x" * (3 << 20) + b"\n"); write(b"no line end")
        else:
            for number in range(2000): print(number, "y" * 100)
        print("error", rank, file=sys.stderr)
    """))
    assert code == 0 and sorted(err.splitlines()) == ["[0]<stderr>:error 0", "[1]<stderr>:error 1"]
    lines = out.split("\n")
    ours = [line for line in lines if line.startswith("[0]")]
    assert ours == ["[0]<stdout>: 1%\r[0]<stdout>: 2%", "[0]<stdout>:\ufffd\u00e9", "[0]<stdout>:" + "x" * (3 << 20),
                    "[0]<stdout>:no line end"]
    assert [line for line in lines if line.startswith("[1]")] == [f"[1]<stdout>:{n} {'y' * 100}" for n in range(2000)]
    assert (hosts.folder / "log" / "rank.0" / "stdout").read_bytes().startswith(b"\r 1%\r 2%\n\xff\xc3\xa9\nxxx")
    assert (hosts.folder / "log" / "rank.1" / "stderr").read_text() == "error 1\n"


def test_exit_code_and_summary_name_the_host(many_hosts):
    hosts = many_hosts(hosts=3)
    code, _, err = hosts.run("-H", "h0:1,h1:1,h2:1", *hosts.script("""
        if rank == 1:
            print("what went wrong", file=sys.stderr)
            sys.exit(3)
        time.sleep(60)
    """))
    assert code == 3
    block = err[err.index("horovodrun: "):].splitlines()
    assert re.fullmatch(r"horovodrun: rank 1 failed first: exit code 3 after \d\.\d\d s \(host h1, pid \d+\)", block[0])
    assert block[1:] == [
        "  last line of its stderr:", "    what went wrong",
        "  2 ranks ended after it: ranks 0 2 killed by signal 15 (SIGTERM) after horovodrun sent SIGTERM"]


def test_command_that_is_not_there(many_hosts):
    hosts = many_hosts()
    code, out, err = hosts.run("-H", "h0:1,h1:1", "sh", "-c", "exec no-such-thing")
    assert code == 127
    (hosts.folder / "text").write_text("x")
    code, out, err = hosts.run("-H", "h1:1", "./text")
    assert (code, out) == (126, "")
    assert err == 'horovodrun: command "./text": permission denied (13) for rank 0 on host "h1"; all ranks were stopped\n'


def test_folder_that_the_other_host_does_not_have(many_hosts):
    hosts = many_hosts()
    here = hosts.folder / "here"
    here.mkdir()
    assert hosts.net.run(0, ["mount", "-t", "tmpfs", "tmpfs", str(here)]).returncode == 0
    assert hosts.net.run(0, ["mkdir", str(here / "inside")]).returncode == 0
    # env -C of the network's own starter needs the folder, so a shell enters it.
    run = f"cd {here}/inside && exec {sys.executable} -m horovod.runner -H h0:1,h1:1 sh -c pwd"
    done = hosts.net.run(0, ["sh", "-c", run], {"HOROVOD_SSH_ARGS": hosts.ssh_args, "PYTHONPATH": package()})
    assert done.returncode == 0
    assert done.stderr == f'horovodrun: host "h1": has no folder {here}/inside; its ranks start in the home folder\n'
    assert by_rank(done.stdout)[0] == [f"{here}/inside"] and by_rank(done.stdout)[1] == [os.path.expanduser("~")]


def test_a_function_needs_no_shared_file_system(many_hosts):
    hosts = many_hosts()
    program = hosts.folder / "caller.py"
    program.write_text("""
import os, horovod
big = bytes(5 << 20)
def work(number):
    return os.environ["HOROVOD_RANK"], os.uname().nodename, len(big) + number, os.environ["HOROVOD_RUN_FOLDER"]
results = horovod.run(work, (3,), hosts="h0:1,h1:2", np=3)
print(*[result[:3] for result in results], len({result[3] for result in results}))
def fail():
    raise KeyError("told")
try:
    horovod.run(fail, hosts="h1:1")
except RuntimeError as error:
    print(str(error).splitlines()[0])
""")
    process = hosts.start(program=(str(program),))
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err.decode()
    size = (5 << 20) + 3
    assert out.decode() == f"('0', 'h0', {size}) ('1', 'h1', {size}) ('2', 'h1', {size}) 2\nrank 0 raised KeyError: 'told'\n"
