# SPDX-License-Identifier: Apache-2.0
"""How jobs end when somebody else wants it: signals, kill -9 of every process that keeps the job, closed output."""

import os
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
            open(f"detached{rank}", "w").write(str(os.getpid()))
            time.sleep(300)
        os._exit(0)
    os.wait()
    while not os.path.exists(f"detached{rank}"): time.sleep(0.01)
    open(f"up{rank}", "w").close()
    time.sleep(300)
"""


def start_family(runner, size=2):
    process = runner.start("-np", size, *runner.script(FAMILY))
    runner.wait_until(lambda: all((runner.folder / f"up{rank}").exists() for rank in range(size)))
    # launcher, guardian, and per rank: itself, its child, the detached one
    assert len(runner.marked(str(runner.temporary))) == 2 + 3 * size
    return process


def guardian_of(process):
    with open(f"/proc/{process.pid}/task/{process.pid}/children") as file:
        children = [int(word) for word in file.read().split()]
    for child in children:
        with open(f"/proc/{child}/comm") as file:
            if file.read().strip() == "hvd-guardian":
                return child
    raise AssertionError(f"no guardian among {children}")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signal_stops_everything(runner, number):
    process = start_family(runner)
    began = time.monotonic()
    process.send_signal(number)
    err = process.communicate(timeout=30)[1].decode()
    assert process.returncode == 128 + number and time.monotonic() - began < scaled(6)
    assert f"horovodrun: {number.name}: stopping 2 ranks" in err
    assert "failed first" not in err
    assert runner.marked(str(runner.temporary)) == []


def test_ranks_receive_the_signal_itself(runner):
    command = runner.script("""
        try:
            open(f"up{rank}", "w").close()
            time.sleep(60)
        except KeyboardInterrupt:
            print("interrupted", flush=True)
    """)
    process = runner.start("-np", 2, *command)
    runner.wait_until(lambda: (runner.folder / "up0").exists() and (runner.folder / "up1").exists())
    time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=30)
    assert process.returncode == 130
    assert sorted(out.decode().splitlines()) == ["[0]<stdout>:interrupted", "[1]<stdout>:interrupted"]


STUBBORN = """
    for number in (signal.SIGINT, signal.SIGTERM): signal.signal(number, signal.SIG_IGN)
    open(f"up{rank}", "w").close()
    time.sleep(300)
"""


def test_second_interrupt_kills_at_once(runner):
    process = runner.start("-np", 2, *runner.script(STUBBORN))
    runner.wait_until(lambda: (runner.folder / "up0").exists() and (runner.folder / "up1").exists())
    process.send_signal(signal.SIGINT)
    assert any(b"SIGINT: stopping 2 ranks" in line for line in process.stderr)
    assert process.poll() is None
    began = time.monotonic()
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)
    assert process.returncode == 130 and time.monotonic() - began < scaled(2)


def test_ranks_that_ignore_the_signal_are_gone_within_five_seconds(runner):
    process = runner.start("-np", 2, *runner.script(STUBBORN))
    runner.wait_until(lambda: (runner.folder / "up0").exists() and (runner.folder / "up1").exists())
    began = time.monotonic()
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)
    assert process.returncode == 130 and 2 < time.monotonic() - began < scaled(6)


def stale_is_cleaned_by_the_next(runner):
    assert runner.run("-np", 1, "true")[0] == 0
    assert runner.private_dirs() == []


@pytest.mark.parametrize("round", range(3))
def test_kill_9_of_the_launcher_leaves_no_process(runner, round):
    process = start_family(runner)
    process.kill()
    process.wait()
    assert runner.wait_until(lambda: runner.marked(str(runner.temporary)) == [], limit=10) < 5
    assert len(runner.private_dirs()) == 1
    process.communicate()
    stale_is_cleaned_by_the_next(runner)


def test_kill_9_of_the_launchers_group_leaves_no_process(runner):
    process = runner.start("-np", 2, *runner.script(FAMILY), start_new_session=True)
    runner.wait_until(lambda: all((runner.folder / f"up{rank}").exists() for rank in range(2)))
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    runner.wait_until(lambda: runner.marked(str(runner.temporary)) == [], limit=5)
    stale_is_cleaned_by_the_next(runner)


def test_kill_9_of_the_guardian_ends_the_job(runner):
    process = start_family(runner)
    os.kill(guardian_of(process), signal.SIGKILL)
    err = process.communicate(timeout=30)[1].decode()
    assert process.returncode == 1 and "the guardian process was killed" in err
    assert runner.marked(str(runner.temporary)) == []


def test_kill_9_of_launcher_and_guardian_together_ends_the_ranks(runner):
    process = runner.start("-np", 2, *runner.script("open(f'up{rank}', 'w').close()\ntime.sleep(300)"))
    runner.wait_until(lambda: all((runner.folder / f"up{rank}").exists() for rank in range(2)))
    guardian = guardian_of(process)
    os.kill(process.pid, signal.SIGSTOP)  # it must not react to the guardian's death
    os.kill(guardian, signal.SIGKILL)
    process.kill()
    process.communicate()
    runner.wait_until(lambda: runner.marked(str(runner.temporary)) == [], limit=5)
    stale_is_cleaned_by_the_next(runner)


def test_kill_9_of_a_rank_takes_its_family_along(runner):
    process = start_family(runner)
    ranks = [pid for pid in runner.marked(str(runner.temporary)) if _parent(pid) == guardian_of(process)]
    detached = {int((runner.folder / f"detached{rank}").read_text()) for rank in range(2)}
    victim = next(pid for pid in ranks if pid not in detached)
    began = time.monotonic()
    os.kill(victim, signal.SIGKILL)
    err = process.communicate(timeout=30)[1].decode()
    assert process.returncode == 137 and time.monotonic() - began < scaled(6)
    assert "killed by signal 9 (SIGKILL)" in err
    assert runner.marked(str(runner.temporary)) == []


def _parent(pid):
    with open(f"/proc/{pid}/stat", "rb") as file:
        return int(file.read().rpartition(b")")[2].split()[1])


def test_what_outlives_successful_ranks_is_stopped_and_named(runner):
    command = runner.script("""
        read, write = os.pipe()
        if os.fork() == 0:
            os.setsid()
            os.execvp("sleep", ["sleep", "300"])
        os.close(write)
        os.read(read, 1)  # ends with the child's exec
    """)
    code, _, err = runner.run("-np", 1, *command)
    assert code == 0 and "stopped 1 processes that outlived the ranks: sleep (pid " in err


def test_closed_output_ends_the_job(runner):
    process = runner.start("-np", 2, *runner.script("while True: print('x' * 1000)"))
    assert process.stdout.readline().startswith(b"[")
    process.stdout.close()
    process.communicate(timeout=30)  # until the guardian, which has this stderr too, is gone
    assert process.returncode == 128 + signal.SIGPIPE


def test_reader_that_does_not_read_cannot_keep_the_job_alive(runner):
    process = runner.start("-np", 2, *runner.script("open(f'up{rank}', 'w').close()\nwhile True: print('x' * 1000)"))
    runner.wait_until(lambda: all((runner.folder / f"up{rank}").exists() for rank in range(2)))
    time.sleep(0.5)  # until the launcher is stuck in a write
    began = time.monotonic()
    process.send_signal(signal.SIGTERM)
    process.wait(timeout=30)
    assert process.returncode == 143 and time.monotonic() - began < scaled(7)
    process.communicate()
    runner.wait_until(lambda: runner.marked(str(runner.temporary)) == [], limit=5)
    stale_is_cleaned_by_the_next(runner)


def test_ignored_hangup_stays_ignored(runner):
    command = runner.script("print(signal.getsignal(signal.SIGHUP) is signal.SIG_IGN)")
    process = runner.start("-np", 1, *command, preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    assert process.communicate(timeout=30)[0] == b"[0]<stdout>:True\n"


def test_ranks_start_with_default_signals_and_few_descriptors(runner):
    command = runner.script("""
        print(signal.getsignal(signal.SIGTERM) is signal.SIG_DFL, signal.getsignal(signal.SIGCHLD) is signal.SIG_DFL,
              signal.pthread_sigmask(signal.SIG_BLOCK, []), os.getsid(0) == os.getpid(), sorted(map(int, os.listdir("/proc/self/fd")))[:-1])
    """)
    assert runner.run("-np", 3, *command)[1].splitlines()[0].endswith(":True True set() True [0, 1, 2]")


SAVING = """
    stop = []
    signal.signal(signal.SIGTERM, lambda *_: stop.append(1))
    open(f"up{rank}", "w").close()
    while not stop: time.sleep(0.01)
    time.sleep(float(sys.argv[1]))
    print("saved")
"""


def stop_while_saving(runner, seconds, *flags, again=False):
    process = runner.start("-np", 2, *flags, *runner.script(SAVING), seconds)
    runner.wait_until(lambda: (runner.folder / "up0").exists() and (runner.folder / "up1").exists())
    began = time.monotonic()
    process.send_signal(signal.SIGTERM)
    if again:
        process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 143
    return out.decode(), err.decode(), time.monotonic() - began


def test_ranks_have_time_to_save_after_a_scheduler_stops_the_job(runner):
    # The signal comes twice, as from `timeout` and some schedulers, which signal the process and its group.
    out, err, _ = stop_while_saving(runner, 4, again=True)
    assert out.count("saved") == 2 and "busy" not in err
    assert "SIGTERM: stopping 2 ranks, which are killed after 30 s (--grace-period); once more to kill them at once" in err


@pytest.mark.parametrize("flags, variable", [(["--grace-period", "0.5"], None), ([], "0.5")])
def test_ranks_killed_while_they_save_are_named(runner, flags, variable):
    if variable:
        runner.environment["HOROVOD_GRACE_PERIOD"] = variable
    out, err, took = stop_while_saving(runner, 60, *flags)
    assert "saved" not in out and took < scaled(5)
    assert "killed while still busy, 0." in err and "after SIGTERM: ranks 0 1; what they were writing may be incomplete" in err


PASSED_ON = """
    seen = []
    for name in sys.argv[1:]: signal.signal(getattr(signal, name), lambda number, _: seen.append(signal.Signals(number).name))
    child = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(300)"])
    open(f"up{rank}", "w").close()
    while len(set(seen)) < len(sys.argv[1:]): time.sleep(0.01)
    assert child.poll() is None  # not for the children
    child.kill()
    print(*sorted(set(seen)))
"""


def test_other_signals_pass_through_to_the_ranks(runner):
    names = ["SIGCONT", "SIGUSR1", "SIGUSR2", "SIGWINCH"]
    process = runner.start("-np", 2, *runner.script(PASSED_ON), *names)
    runner.wait_until(lambda: (runner.folder / "up0").exists() and (runner.folder / "up1").exists())
    for name in names:
        process.send_signal(getattr(signal, name))
    out, err = process.communicate(timeout=30)
    assert process.returncode == 0, err
    assert sorted(out.decode().splitlines()) == [f"[{rank}]<stdout>:{' '.join(names)}" for rank in range(2)]


def state_of(pid):
    with open(f"/proc/{pid}/stat", "rb") as file:
        return file.read().rpartition(b")")[2].split()[0]


# A job of a shell is a process group. SIGTSTP stops no group that nobody of its session could wake: that of the tests may be one.
OF_A_SHELL = {"process_group": 0}


def test_stop_from_the_terminal_stops_the_ranks_until_they_go_on(runner):
    process = runner.start("-np", 2, *runner.script("""
        open(f"up{rank}", "w").write(str(os.getpid()))
        while not os.path.exists("go"): time.sleep(0.01)
    """), **OF_A_SHELL)
    runner.wait_until(lambda: all((runner.folder / f"up{rank}").exists() and (runner.folder / f"up{rank}").read_text()
                                  for rank in range(2)))
    everybody = [process.pid] + [int((runner.folder / f"up{rank}").read_text()) for rank in range(2)]
    process.send_signal(signal.SIGTSTP)
    runner.wait_until(lambda: all(state_of(pid) == b"T" for pid in everybody))
    (runner.folder / "go").touch()
    process.send_signal(signal.SIGCONT)
    assert process.wait(timeout=30) == 0
    process.communicate()


def test_handler_for_the_stop_from_the_terminal_is_called_instead(runner):
    process = runner.start("-np", 1, *runner.script("""
        seen = []
        signal.signal(signal.SIGTSTP, lambda *_: seen.append(1))
        open("up0", "w").close()
        while not seen: time.sleep(0.01)
        open("handled", "w").close()
        print("handled")
    """), **OF_A_SHELL)
    runner.wait_until(lambda: (runner.folder / "up0").exists())
    process.send_signal(signal.SIGTSTP)
    # SIGCONT would take back a SIGTSTP that the rank has not had the time to see.
    runner.wait_until(lambda: (runner.folder / "handled").exists() and state_of(process.pid) == b"T")
    process.send_signal(signal.SIGCONT)
    assert process.communicate(timeout=30)[0] == b"[0]<stdout>:handled\n"
