# SPDX-License-Identifier: Apache-2.0
"""What a job looks like from outside: environment, output, exit codes, summary."""

import errno
import os
import stat
import subprocess
import sys
import time

import pytest
from time_scale import scaled


def test_every_rank_gets_its_place(runner):
    names = "RANK SIZE LOCAL_RANK LOCAL_SIZE CROSS_RANK CROSS_SIZE HOSTNAME".split()
    command = runner.script(f"print(*[os.environ['HOROVOD_' + name] for name in {names!r}])")
    code, out, err = runner.run("-np", 3, "-H", "127.0.0.1:2,127.0.0.2:2", *command)
    assert (code, err) == (0, "")
    assert sorted(out.splitlines()) == [
        "[0]<stdout>:0 3 0 2 0 2 127.0.0.1", "[1]<stdout>:1 3 1 2 0 1 127.0.0.1", "[2]<stdout>:2 3 0 1 1 2 127.0.0.2"]


def test_private_directory_is_private_and_given_as_rendezvous(runner):
    command = runner.script("""
        url = os.environ["HOROVOD_RENDEZVOUS"]
        folder = os.path.dirname(url[len("file://"):])
        print(url.startswith("file:///"), oct(os.stat(folder).st_mode & 0o777), os.path.basename(folder), os.getppid())
    """)
    code, out, _ = runner.run("-np", 1, *command)
    good, mode, name, _ = out.strip()[len("[0]<stdout>:"):].split()
    assert (code, good, mode) == (0, "True", "0o700")
    assert name.startswith("horovod-")


def test_number_of_ranks_defaults_to_the_slots(runner):
    code, out, _ = runner.run("-H", "localhost:2,127.0.0.1:1", *runner.script("print(size)"))
    assert code == 0 and sorted(out.splitlines()) == [f"[{rank}]<stdout>:3" for rank in range(3)]


def test_fewer_ranks_than_slots(runner):
    code, out, _ = runner.run("-np", 2, "-H", "localhost:4", *runner.script("print(size, os.environ['HOROVOD_HOSTNAME'])"))
    assert code == 0 and sorted(out.splitlines()) == ["[0]<stdout>:2 localhost", "[1]<stdout>:2 localhost"]


@pytest.mark.parametrize("arguments, text", [
    (["-np", 5, "-H", "localhost:4", "true"], "5 processes asked for, but the hosts localhost:4 have 4 slots"),
    (["-H", "a b:2", "true"], 'entry "a b:2" is not name or name:slots'),
    (["true"], "number of ranks not given"),
    (["-np", 2], "no command given"),
    (["-np", 0, "true"], "0 is less than 1"),
    (["-np", 2, "--cycle-time-ms", "-1", "true"], "-1 is less than 0"),
    (["-np", 2, "--no-such-thing", "x", "true"], "--no-such-thing: unknown flag; see horovodrun --help"),
    (["-np", 2, "--hostfle", "x", "true"], "--hostfle: unknown flag; did you mean --hostfile?"),
])
def test_wrong_calls_are_refused_before_anything_starts(runner, arguments, text):
    code, out, err = runner.run(*arguments)
    assert (code, out) == (2, "")
    assert text in err and err.startswith("horovodrun: ") and err.count("\n") == 1


def test_flags_become_variables(runner):
    flags = ("--fusion-threshold-mb 2 --cycle-time-ms 1.5 --cache-capacity 7 --no-hierarchical-allreduce --no-stall-check "
             "--stall-check-warning-time-seconds 5 --stall-check-shutdown-time-seconds 9 --log-level INFO "
             "--log-without-timestamp --start-timeout 11").split()
    command = runner.script("""
        for name in "FUSION_THRESHOLD CYCLE_TIME CACHE_CAPACITY HIERARCHICAL_ALLREDUCE STALL_CHECK_DISABLE \\
                STALL_CHECK_TIME_SECONDS STALL_SHUTDOWN_TIME_SECONDS LOG_LEVEL LOG_HIDE_TIME START_TIMEOUT".split():
            print(name, os.environ.get("HOROVOD_" + name))
    """)
    code, out, _ = runner.run("-np", 1, *flags, *command)
    assert code == 0
    assert [line.partition(":")[2] for line in out.splitlines()] == [
        "FUSION_THRESHOLD 2097152", "CYCLE_TIME 1.5", "CACHE_CAPACITY 7", "HIERARCHICAL_ALLREDUCE 0",
        "STALL_CHECK_DISABLE 1", "STALL_CHECK_TIME_SECONDS 5", "STALL_SHUTDOWN_TIME_SECONDS 9", "LOG_LEVEL info",
        "LOG_HIDE_TIME 1", "START_TIMEOUT 11"]


def test_without_flags_the_users_environment_stays(runner):
    runner.environment["HOROVOD_CYCLE_TIME"] = "3"
    command = runner.script("print(os.environ.get('HOROVOD_CYCLE_TIME'), os.environ.get('HOROVOD_CACHE_CAPACITY'))")
    assert runner.run("-np", 1, *command)[1] == "[0]<stdout>:3 None\n"


def test_ranks_of_other_languages_learn_where_the_library_is(runner):
    runner.environment.pop("HVD_LAUNCHER_LIBRARY", None)
    command = runner.script("import ctypes, os; print(ctypes.CDLL(os.environ['HVD_LAUNCHER_LIBRARY']).hvd_version() > 0)")
    assert runner.run("-np", 1, *command)[1] == "[0]<stdout>:True\n"


def test_threads_are_shared_out_unless_the_user_says_otherwise(runner):
    cores = len(os.sched_getaffinity(0))
    command = runner.script("print(os.environ['OMP_NUM_THREADS'])")
    assert runner.run("-np", 1, *command)[1] == f"[0]<stdout>:{cores}\n"
    assert runner.run("-np", cores, *command)[1].splitlines()[0].endswith(":1")
    runner.environment["OMP_NUM_THREADS"] = "5"
    assert runner.run("-np", 1, *command)[1] == "[0]<stdout>:5\n"


def test_streams_stay_apart_and_stdin_is_empty(runner):
    command = runner.script("print('out'); print('err', file=sys.stderr); print(repr(sys.stdin.read()))")
    code, out, err = runner.run("-np", 1, *command)
    assert (code, out, err) == (0, "[0]<stdout>:out\n[0]<stdout>:''\n", "[0]<stderr>:err\n")


def test_output_of_every_kind(runner):
    command = runner.script(r"""
        write = sys.stdout.buffer.write
        write(b"\r 1%"); write(b"\r 2%\n"); write(b"a\r\n\n"); write(b"\xff\xc3\xa9\n")
        write(b"x" * (1 << 20) + b"\n"); write(b"no line end")
    """)
    process = runner.start("-np", 1, *command)
    out = process.communicate(timeout=60)[0].decode()
    prefix = "[0]<stdout>:"
    assert out == (f"{prefix} 1%\r{prefix} 2%\n{prefix}a\r\n{prefix}\n{prefix}\ufffd\u00e9\n{prefix}" + "x" * (1 << 20)
                   + f"\n{prefix}no line end\n")


def test_lines_of_many_ranks_are_never_mixed(runner):
    command = runner.script("""
        for number in range(500):
            print(f"{rank}:{number}:" + str(rank % 10) * 200, flush=number % 7 == 0)
    """)
    code, out, _ = runner.run("-np", 16, *command)
    assert code == 0
    expected = [f"[{rank}]<stdout>:{rank}:{number}:" + str(rank % 10) * 200 for rank in range(16) for number in range(500)]
    assert sorted(out.splitlines()) == sorted(expected)
    for rank in range(16):
        mine = [line for line in out.splitlines() if line.startswith(f"[{rank}]<")]
        assert mine == [line for line in expected if line.startswith(f"[{rank}]<")]


def test_timestamps(runner):
    code, out, _ = runner.run("-np", 1, "-prefix-timestamp", *runner.script("print('x')"))
    stamp, _, rest = out.partition("[0]<stdout>:")
    assert code == 0 and rest == "x\n" and time.strptime(stamp, "%a %b %d %H:%M:%S %Y")


@pytest.mark.parametrize("size, folders", [(1, ["rank.0"]), (10, [f"rank.{n}" for n in range(10)]),
                                           (11, [f"rank.{n:02d}" for n in range(11)])])
def test_output_files(runner, size, folders):
    command = runner.script("print('out', rank); print('err', rank, file=sys.stderr); sys.stdout.buffer.write(b'\\xff')")
    code, out, err = runner.run("-np", size, "--output-filename", "log/here", *command)
    assert code == 0 and out.count("\n") == size * 2 and err.count("\n") == size
    base = runner.folder / "log" / "here"
    assert sorted(os.listdir(base)) == folders
    for rank, folder in enumerate(folders):
        assert (base / folder / "stdout").read_bytes() == f"out {rank}\n".encode() + b"\xff"
        assert (base / folder / "stderr").read_text() == f"err {rank}\n"


# For ranks of which one ends after another: one calls end(code), the other await_end(), which returns when the guardian has
# taken note of it.
IN_ORDER = """
        def end(code):
            open("new", "w").write(str(os.getpid()))
            os.rename("new", "ending")
            sys.exit(code)

        def await_end():
            while not os.path.exists("ending"): time.sleep(0.01)
            while os.path.exists("/proc/" + open("ending").read()): time.sleep(0.01)

"""


def test_exit_code_and_summary_of_the_first_failure(runner):
    command = runner.script(IN_ORDER + """
        if rank == 2:
            for number in range(25):
                print("line", number, file=sys.stderr)
            end(3)
        if rank == 1:
            await_end()
            sys.exit(7)
        time.sleep(60)
    """)
    began = time.monotonic()
    code, _, err = runner.run("-np", 4, *command)
    assert code == 3 and time.monotonic() - began < scaled(15)
    block = err[err.index("horovodrun: "):].splitlines()
    assert block[0].startswith("horovodrun: rank 2 failed first: exit code 3 after ")
    assert "(host localhost, pid " in block[0]
    assert block[1] == "  last 9 lines of its stderr:"
    assert block[2:11] == [f"    line {number}" for number in range(16, 25)]
    assert block[11].startswith("  3 ranks ended after it: ")
    assert "rank 1 exit code 7" in block[11]
    assert "ranks 0 3 killed by signal 15 (SIGTERM) after horovodrun sent SIGTERM" in block[11]
    assert len(block) == 12


def test_ranks_that_ended_before_the_failure_are_told_apart(runner):
    code, _, err = runner.run("-np", 2, *runner.script(IN_ORDER + """
        if rank == 0: end(0)
        await_end()
        sys.exit(4)
    """))
    assert code == 4
    assert "  it wrote nothing to stderr\n  1 rank ended before it: rank 0 exit code 0\n" in err


@pytest.mark.parametrize("name, number", [("SIGKILL", 9), ("SIGSEGV", 11), ("SIGABRT", 6)])
def test_death_by_signal(runner, name, number):
    command = runner.script(f"""
        import resource
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        os.kill(os.getpid(), {number}) if rank == 1 else time.sleep(60)
    """)
    code, _, err = runner.run("-np", 2, *command)
    assert code == 128 + number
    assert f"rank 1 failed first: killed by signal {number} ({name}) after" in err
    assert "out of memory" not in err


def test_survivors_may_say_what_they_saw_before_they_are_stopped(runner):
    command = runner.script(IN_ORDER + """
        if rank == 0: end(1)
        await_end()
        time.sleep(0.3)
        print("saw it", file=sys.stderr)
        sys.exit(5)
    """)
    code, _, err = runner.run("-np", 2, *command)
    assert code == 1 and "[1]<stderr>:saw it\n" in err and "rank 1 exit code 5\n" in err


def test_a_rank_that_ignores_sigterm_is_killed_within_five_seconds(runner):
    command = runner.script("""
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        open(f"ready{rank}", "w").close()
        while not all(os.path.exists(f"ready{other}") for other in range(size)): time.sleep(0.01)
        if rank == 0:
            print("failing at", time.monotonic(), flush=True)
            sys.exit(1)
        time.sleep(60)
    """)
    code, out, err = runner.run("-np", 2, *command)
    failed_at = float(out.split()[-1])
    assert code == 1 and time.monotonic() - failed_at < scaled(6)
    assert "rank 1 killed by signal 9 (SIGKILL) after horovodrun sent SIGKILL" in err


def test_command_that_does_not_exist(runner):
    code, out, err = runner.run("-np", 3, "no-such-command", "x")
    assert (code, out) == (127, "")
    assert err == 'horovodrun: command "no-such-command": no such file or directory (2) for rank 0; all ranks were stopped\n'


def test_command_that_is_not_executable(runner):
    (runner.folder / "text").write_text("x")
    code, _, err = runner.run("-np", 2, "./text")
    assert code == 126 and 'command "./text": permission denied (13)' in err


def test_verbose_tells_places_environment_and_pids(runner):
    code, _, err = runner.run("-np", 2, "--verbose", "true")
    assert code == 0
    assert "2 ranks on 1 hosts" in err and "OMP_NUM_THREADS=" in err and "rank 1: host localhost, local rank 1 of 2" in err


def test_module_imports_nothing_heavy(runner):
    import subprocess

    text = ("import sys, horovod.runner.launch, horovod.runner.job.job, horovod.runner.job.summary; "
            "print(*[name for name in ('numpy', 'torch', 'subprocess', 'asyncio') if name in sys.modules])")
    done = subprocess.run([sys.executable, "-c", text], env=runner.environment, capture_output=True, text=True, check=True)
    assert done.stdout == "\n"


def test_removed_folder(runner):
    removed = ["sh", "-c", 'mkdir gone && cd gone && rmdir ../gone && exec "$@"', "sh"]
    command = [*removed, sys.executable, "-m", "horovod.runner", "-np", "1", "true"]
    done = subprocess.run(command, cwd=runner.folder, env=runner.environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and "current folder was removed" in done.stderr, done


def test_full_disk_for_output_files_does_not_end_the_job(runner):
    if not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full here")
    folder = runner.folder / "log" / "rank.0"
    folder.mkdir(parents=True)
    (folder / "stdout").symlink_to("/dev/full")
    code, out, err = runner.run("-np", 1, "--output-filename", "log", *runner.script("print('x')"))
    assert (code, out) == (0, "[0]<stdout>:x\n") and "no space left on device" in err.lower()


def test_stale_directories_are_removed_and_living_ones_kept(runner):
    from horovod.runner.on_host import private_dir

    stale = runner.temporary / "horovod-999999999-5-abc"
    (stale / "rendezvous").mkdir(parents=True)
    (stale / "lock").touch()
    (stale / "rendezvous" / "key").touch()
    (runner.folder / "precious").touch()
    (stale / "link").symlink_to(runner.folder)
    own = runner.temporary / f"horovod-{os.getpid()}-{private_dir.start_time(os.getpid())}-abc"
    own.mkdir()
    young = runner.temporary / "horovod-999999999-6-abc"  # no lock yet: its owner may be just starting
    young.mkdir()
    strange = runner.temporary / "horovod-notes"
    strange.mkdir()
    assert runner.run("-np", 1, "true")[0] == 0
    assert runner.private_dirs() == sorted([own.name, young.name, strange.name])
    assert (runner.folder / "precious").exists()
    for folder in (own, young, strange):
        folder.rmdir()


def test_private_directory_has_mode_0700_whatever_the_umask(runner):
    from horovod.runner.on_host.private_dir import PrivateDir

    old, before = os.environ.get("TMPDIR"), os.umask(0)
    xdg = os.environ.pop("XDG_RUNTIME_DIR", None)
    os.environ["TMPDIR"] = str(runner.temporary)
    try:
        private = PrivateDir()
        assert stat.S_IMODE(os.stat(private.path).st_mode) == 0o700
        assert stat.S_IMODE(os.stat(private.rendezvous()[len("file://"):]).st_mode) == 0o700
        private.remove()
        private.remove()
    finally:
        os.umask(before)
        os.environ.pop("TMPDIR") if old is None else os.environ.update(TMPDIR=old)
        if xdg:
            os.environ["XDG_RUNTIME_DIR"] = xdg


def test_a_full_disk_behind_the_output_is_told(runner):
    with open("/dev/full", "wb") as full:
        process = runner.start("-np", 2, *runner.script("while True: print('x' * 1000)"), stdout=full)
        err = process.communicate(timeout=60)[1].decode()
    assert process.returncode == 1
    assert err.splitlines() == ["horovodrun: the output of the ranks cannot be written: no space left on device; all ranks were stopped"]


def test_a_private_directory_without_room_is_told(runner, monkeypatch, capfd):
    from horovod.runner import launch
    from horovod.runner.on_host import preparation

    def no_room(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(preparation, "write_secret", no_room)
    monkeypatch.setenv("TMPDIR", str(runner.temporary))
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    assert launch.main(["-np", "1", "true"]) == 1
    where = f"horovodrun: no private directory in {runner.temporary}"
    assert capfd.readouterr().err == f"{where}: no space left on device; TMPDIR names another folder\n"
    assert runner.private_dirs() == []


def test_a_mistyped_command_of_horovodrun_is_told(runner):
    code, _, err = runner.run("docter")
    assert (code, err) == (2, "horovodrun: docter: no such program or command; did you mean horovodrun doctor?\n")


CHILD = """
    import horovod as hvd
    hvd.init()
    if rank == 0:
        code = "import horovod as hvd; hvd.init(timeout=8)"
        child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        print(child.returncode, "init waits in process" in child.stderr, f"by process {os.getpid()}, " in child.stderr)
"""


def test_a_child_of_one_rank_that_waits_in_init_says_why(runner):
    """It takes 8 s: the child says so after 5."""
    command = runner.script(CHILD)
    command.remove("-S")
    code, out, err = runner.run("-np", 2, *command)
    assert (code, out) == (0, "[0]<stdout>:1 True True\n"), err
