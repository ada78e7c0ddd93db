# SPDX-License-Identifier: Apache-2.0
"""How jobs on several hosts end when somebody else wants it, or a cable is cut: nothing is left on any host."""

import os
import shutil
import signal
import time

import pytest
from time_scale import scaled

# A rank with a child in its group, and a grandchild that detached itself (double fork, session of its own).
FAMILY = """
    child = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(300)"])
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            open(f"detached{rank}", "w").close()
            time.sleep(300)
        os._exit(0)
    os.wait()
    while not os.path.exists(f"detached{rank}"): time.sleep(0.01)
    open(f"pid{rank}", "w").write(str(os.getpid()))
    os.rename(f"pid{rank}", f"up{rank}")
    time.sleep(300)
"""


def start_family(hosts, where="h0:1,h1:1", *flags):
    """A running job, two hosts with three processes of each rank beside those of horovodrun."""
    process = hosts.start("-H", where, *flags, *hosts.script(FAMILY))
    hosts.wait_for("up0", "up1")
    return process


def end_of(process, limit=30):
    """Exit code and stderr of a horovodrun that must end by itself."""
    _, err = process.communicate(timeout=limit)
    return process.returncode, err.decode()


def rank_pid(hosts, host, rank):
    """A rank's process as seen from here."""
    inside = (hosts.folder / f"up{rank}").read_text()
    for pid in hosts.net.processes(host):
        with open(f"/proc/{pid}/status") as file:
            spaces = [line.split()[1:] for line in file if line.startswith("NSpid")][0]
        if spaces[-1] == inside:
            return pid
    raise AssertionError(f"rank {rank} is not on h{host}")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signal_stops_every_host(many_hosts, number):
    hosts = many_hosts()
    process = start_family(hosts)
    began = time.monotonic()
    process.send_signal(number)
    code, err = end_of(process)
    assert code == 128 + number and time.monotonic() - began < scaled(6)
    assert f"horovodrun: {number.name}: stopping 2 ranks" in err and "failed first" not in err
    hosts.wait_until(lambda: hosts.left() == [], limit=5)


def test_signals_pass_through_to_ranks_elsewhere(many_hosts):
    hosts = many_hosts()
    process = hosts.start("-H", "h0:1,h1:1", *hosts.script("""
        seen = []
        signal.signal(signal.SIGUSR1, lambda *_: seen.append(1))
        open(f"up{rank}", "w").close()
        while not seen: time.sleep(0.01)
    """))
    hosts.wait_for("up0", "up1")
    os.kill(process.command_pid, signal.SIGUSR1)
    code, err = end_of(process)
    assert code == 0 and err.startswith("horovodrun: job ")  # the signal is a question to horovodrun as well


def test_stubborn_ranks_are_gone_within_five_seconds(many_hosts):
    hosts = many_hosts()
    process = hosts.start("-H", "h0:1,h1:1", *hosts.script("""
        for number in (signal.SIGINT, signal.SIGTERM): signal.signal(number, signal.SIG_IGN)
        open(f"up{rank}", "w").close()
        time.sleep(300)
    """))
    hosts.wait_for("up0", "up1")
    began = time.monotonic()
    process.send_signal(signal.SIGINT)
    code, _ = end_of(process)
    assert code == 130 and 2 < time.monotonic() - began < scaled(6)


def test_kill_9_of_the_launcher_leaves_nothing_anywhere(many_hosts):
    hosts = many_hosts()
    process = start_family(hosts)
    process.kill()
    process.communicate()
    assert hosts.wait_until(lambda: not any(hosts.net.processes(host) for host in (0, 1)), limit=10) < 5
    # The launcher's own folder is removed by the next launcher of the same user, the agent's by the agent.
    assert len(hosts.left()) == 1
    assert hosts.run("-np", 1, "true")[0] == 0
    hosts.wait_until(lambda: hosts.left() == [], limit=5)


def test_signal_ends_the_wait_for_a_host_that_does_not_answer(many_hosts):
    hosts = many_hosts()
    hosts.net.drop(0, 1)
    process = hosts.start("-H", "h0:1,h1:1", *hosts.script("open('ran', 'w')"))
    hosts.wait_until(lambda: any("ssh" in command.split()[0] for command in hosts.net.processes(0).values()))
    began = time.monotonic()
    process.send_signal(signal.SIGTERM)
    code, err = end_of(process)
    assert code == 143 and time.monotonic() - began < scaled(4) and "failed first" not in err and "did not get ready" not in err
    hosts.wait_until(lambda: hosts.left() == [], limit=5)
    assert not (hosts.folder / "ran").exists()


@pytest.mark.parametrize("who", ["ssh", "sshd"])
def test_cut_ssh_connection_ends_the_job(many_hosts, who):
    hosts = many_hosts()
    process = start_family(hosts)
    if who == "ssh":
        os.kill(hosts.pid_of(0, "ssh"), signal.SIGKILL)
    else:
        kill = "for p in $(pgrep -x sshd); do grep -q 'sshd: .*notty' /proc/$p/cmdline && kill -9 $p; done; true"
        assert hosts.net.run(1, ["sh", "-c", kill]).returncode == 0
    began = time.monotonic()
    code, err = end_of(process)
    assert code == 1 and time.monotonic() - began < scaled(6)
    assert 'horovodrun: host "h1" was lost: ' in err
    hosts.wait_until(lambda: hosts.left() == [], limit=5)


@pytest.mark.parametrize("who", ["hvd-guardian", "hvd-keeper"])
def test_kill_9_of_what_keeps_a_host_ends_the_job(many_hosts, who):
    hosts = many_hosts()
    process = start_family(hosts)
    os.kill(hosts.pid_of(1, who), signal.SIGKILL)
    began = time.monotonic()
    code, err = end_of(process)
    assert code == 1 and time.monotonic() - began < scaled(6)
    assert 'horovodrun: host "h1" was lost: ' in err
    hosts.wait_until(lambda: hosts.left() == [], limit=5)


def test_kill_9_of_a_rank_is_told_with_its_host(many_hosts):
    hosts = many_hosts()
    process = start_family(hosts)
    began = time.monotonic()
    os.kill(rank_pid(hosts, 1, 1), signal.SIGKILL)
    code, err = end_of(process)
    assert code == 137 and time.monotonic() - began < scaled(6)
    assert "horovodrun: rank 1 failed first: killed by signal 9 (SIGKILL)" in err and "(host h1, pid " in err
    hosts.wait_until(lambda: hosts.left() == [], limit=5)


def test_survivors_on_other_hosts_may_say_what_they_saw(many_hosts):
    hosts = many_hosts()
    code, _, err = hosts.run("-H", "h0:1,h1:1", *hosts.script("""
        import fcntl
        if rank == 1:
            lock = open("new", "w")
            fcntl.flock(lock, fcntl.LOCK_EX)
            os.rename("new", "lock")
            sys.exit(1)
        while not os.path.exists("lock"): time.sleep(0.01)
        fcntl.flock(open("lock"), fcntl.LOCK_EX)  # the kernel unlocks it when rank 1 has ended
        time.sleep(0.3)
        print("saw it", file=sys.stderr)
        sys.exit(5)
    """))
    assert code == 1 and "[0]<stderr>:saw it\n" in err and "rank 0 exit code 5\n" in err


def test_silence_ends_both_sides(many_hosts):
    """Four ways in which a host falls silent, at the same time on four networks, because each takes its ten seconds."""
    faults = {"cable": lambda net: net.cut(1), "there": lambda net: net.drop(0, 1), "back": lambda net: net.drop(1, 0),
              "power": lambda net: net.kill_host(1)}
    jobs = {}
    for name in faults:
        hosts = many_hosts()
        hosts.folder = hosts.folder / name
        hosts.folder.mkdir()
        jobs[name] = hosts, start_family(hosts)
    began = time.monotonic()
    for name, (hosts, _) in jobs.items():
        faults[name](hosts.net)
    # The far side ends its ranks although no packet can tell it to.
    for name in ("cable", "there", "back"):
        jobs[name][0].wait_until(lambda: not jobs[name][0].net.processes(1), limit=14)  # noqa: B023  (called at once)
    for hosts, process in jobs.values():
        code, err = end_of(process)
        assert code == 1 and 'horovodrun: host "h1" was lost: ' in err
        assert "not heard for 10 s" in err or "does not answer any more" in err
        assert time.monotonic() - began < scaled(17)
    # A host without power could not remove its folder.
    shutil.rmtree(jobs["power"][0].net.temporary(1))


def test_two_jobs_side_by_side_do_not_touch_each_other(many_hosts):
    hosts = many_hosts()
    first = hosts.start("-H", "h0:1,h1:1", *hosts.script("open(f'a{rank}', 'w').close(); time.sleep(300)"))
    hosts.wait_for("a0", "a1")
    code, out, _ = hosts.run("-H", "h0:1,h1:1", *hosts.script("print(rank)"))
    assert code == 0 and len(out.splitlines()) == 2 and first.poll() is None
    first.send_signal(signal.SIGTERM)
    assert end_of(first)[0] == 143


def test_neither_a_slow_reader_nor_ctrl_z_is_silence(many_hosts):
    """Longer than the longest silence: nobody reads the output of one job, the other is stopped by the terminal."""
    hosts = many_hosts()
    flood = hosts.start("-H", "h1:1", *hosts.script("""
        for number in range(20000): print("x" * 200)
    """))
    sleeper = hosts.start("-H", "h0:1,h1:1", *hosts.script("""
        open(f"up{rank}", "w").close()
        while not os.path.exists("go"): time.sleep(0.05)
    """), preexec_fn=os.setpgrp)  # the kernel stops only groups that somebody outside could continue
    hosts.wait_for("up0", "up1")
    launcher = sleeper.command_pid
    os.kill(launcher, signal.SIGTSTP)
    hosts.wait_until(lambda: state_of(launcher) == "T")
    time.sleep(11)
    assert flood.poll() is None and sleeper.poll() is None
    sleeper.send_signal(signal.SIGCONT)
    (hosts.folder / "go").touch()
    out, err = flood.communicate(timeout=30)
    assert (flood.returncode, err, out.count(b"\n")) == (0, b"", 20000)
    assert end_of(sleeper) == (0, "")


def state_of(pid):
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(")")[2].split()[0]
