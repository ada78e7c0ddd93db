# SPDX-License-Identifier: Apache-2.0
"""Jobs with one rank that hangs or fails, for real: does horovodrun name it, and say what it is doing?"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import textwrap

import pytest
from hosts_fixture import LIMIT, default_signals

from horovod.runner.ask import jobs

HANG = """
    import re
    import numpy as np
    import horovod as hvd

    def stay_away():
        if sys.argv[1] == "sleep": time.sleep(300)
        elif sys.argv[1] == "gil": re.match("(a+)+$", "a" * 60 + "b")
        elif sys.argv[1] == "stop": os.kill(os.getpid(), signal.SIGSTOP)
        elif sys.argv[1] == "blocked":
            # A process waits uninterruptibly until the child that shares its memory is a program: this one never is.
            os.mkfifo("fifo")
            os.posix_spawn("/bin/true", ["true"], {}, file_actions=[(os.POSIX_SPAWN_OPEN, 0, "fifo", os.O_RDONLY, 0)])
        elif sys.argv[1] == "raise": raise ValueError("no such file: train.bin")
        elif sys.argv[1] == "kill": os.kill(os.getpid(), signal.SIGKILL)
        elif sys.argv[1] == "exit": os._exit(3)

    hvd.init()
    for step in range(4):
        hvd.allreduce(np.ones(100, "f4"), name=f"step.{step}")
    if rank == 1:
        time.sleep(float(sys.argv[2]))
        stay_away()
    hvd.allreduce(np.ones(100, "f4"), name="last")
"""


class Job:
    """A running horovodrun whose stderr grows in a file."""

    def __init__(self, runner, *arguments):
        self._runner, self._path = runner, runner.folder / "err"
        with open(self._path, "wb") as file:
            self.process = runner.start(*arguments, stderr=file, stdout=subprocess.DEVNULL)
        runner.wait_until(lambda: self.process.pid in [found.pid for found in jobs.running()] or self.process.poll() is not None)

    def said(self):
        return self._path.read_text(errors="replace")

    def wait_for(self, pattern):
        """Waits until stderr has the pattern; returns all of it."""
        self._runner.wait_until(lambda: re.search(pattern, self.said()) or self.process.poll() is not None)
        assert re.search(pattern, self.said()), self.said()
        return self.said()

    def asked(self, *words):
        """What horovodrun status or stacks prints about the job."""
        code, out, err = self._runner.run(*words, self.process.pid)
        assert (code, err) == (0, ""), err
        return out

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.send_signal(signal.SIGINT)  # at once
        self.process.wait(LIMIT)


@pytest.fixture
def job(runner):
    """job(arguments of horovodrun, ...): a running job that is ended at last."""
    made = []

    def start(*arguments):
        made.append(Job(runner, *arguments))
        return made[-1]

    yield start
    for one in made:
        if one.process.poll() is None:
            one.end()


def program(runner, text=HANG, *arguments):
    command = runner.script(text)
    command.remove("-S")
    return [*command, *arguments]


STATES = {
    "sleep": (r"waits in the kernel", r'in stay_away\n'),
    "gil": (r"computes, using \d+% of a core", r'in stay_away\n'),
    "blocked": (r"is blocked in the kernel", r"its Python stack cannot be taken while it is blocked in the kernel"),
    "stop": (r"is stopped by a signal", r"its Python stack cannot be taken while it is stopped"),
}


@pytest.mark.parametrize("how", list(STATES))
def test_a_rank_that_hangs_is_named_with_its_state_and_stack(runner, job, how):
    runner.environment["HOROVOD_STALL_CHECK_TIME_SECONDS"] = "1"
    state, stack = STATES[how]
    one = job("-np", 3, *program(runner, HANG, how, "0"))
    said = one.wait_for(r'(?s)horovodrun: allreduce "last".*' + stack)
    report = said[said.index("horovodrun: "):]
    assert re.match(r'horovodrun: allreduce "last": ranks 0 2 have waited \d\.\d s for rank 1\n  rank 1 on localhost \(pid \d+, python', report)
    flat = " ".join(report.split())
    assert re.search(state, flat) and re.search(r'last completed allreduce "step\.3" [\d.]+ s ago; now in no operation', flat), flat
    screen = one.asked("status")
    assert all(len(line) <= 80 for line in screen.splitlines()), screen
    assert re.search(r"^1 +localhost +\d+ +(waiting|computing|stopped|blocked) +allreduce step\.3 ", screen, re.MULTILINE), screen
    assert re.search(r"^0 +localhost +\d+ +waiting +allreduce step\.3 +[\d.]+s allreduce last +[\d.]+s$", screen, re.MULTILINE), screen
    assert re.search(r'ranks 0 2 have waited [\d.]+ s in allreduce "last" for rank 1: rank 1 ' + state, " ".join(screen.split())), screen
    stacks = one.asked("stacks")
    assert re.search(stack, stacks) and "in blocking" in stacks, stacks
    # Twice at most until now: a report comes again when the wait has lasted twice as long.
    assert said.count('horovodrun: allreduce "last"') <= 2


def test_a_question_by_signal_ends_no_rank(runner, job):
    runner.environment["HOROVOD_STALL_CHECK_TIME_SECONDS"] = "0"
    one = job("-np", 2, *program(runner, HANG, "sleep", "0"))
    runner.wait_until(lambda: "allreduce last" in one.asked("status"))
    one.process.send_signal(signal.SIGUSR1)
    said = one.wait_for(r"in stay_away\n")
    assert re.search(r"^horovodrun: job \d+: ", said, re.MULTILINE) and "rank  host" not in said
    assert one.process.poll() is None and "failed" not in said
    json_answer = json.loads(one.asked("stacks", "--json"))
    rows = {row["label"]: row for host in json_answer["hosts"] for row in host["ranks"]}
    assert rows[1]["stack"]["language"] == "Python" and rows[0]["flight"]["now"]["name"] == "last"


def block(err):
    """The last thing that horovodrun says."""
    return err[err.rindex("\nhorovodrun: ") + 1:].splitlines()


@pytest.mark.parametrize("how, first, code", [
    ("raise", "rank 1 failed first: exit code 1", 1), ("kill", r"rank 1 failed first: killed by signal 9 \(SIGKILL\)", 137),
    ("exit", "rank 1 failed first: exit code 3", 3)])
def test_a_job_that_fails_ends_with_few_lines_that_say_why(runner, how, first, code):
    found, _, err = runner.run("-np", 4, *program(runner, HANG, how, "0.5"))
    lines = block("\n" + err)
    assert found == code and len(lines) <= 12, err
    assert re.match("horovodrun: " + first, lines[0])
    text = "\n".join(lines)
    assert re.search(r'\n  its last completed operation was allreduce "step\.3", 0\.\d+ s before\n', text), text
    assert re.search(r'\n  ranks 0 2-3 had waited 0\.\d+ s in allreduce "last"\n', text), text
    folder = re.search(r"\n  the last operations of every rank are in (\S+)$", text)[1]
    assert os.path.dirname(folder) == str(runner.temporary) and os.stat(folder).st_mode & 0o777 == 0o700
    assert sorted(os.listdir(folder)) == [f"rank.{rank}" for rank in range(4)]
    for rank in range(4):
        head, records = read_records(folder, rank)
        assert (head["rank"], head["size"], head["host"]) == (rank, 4, "localhost")
        assert [record["name"] for record in records[-5:-1] or records][-1].startswith("step")
    if how == "raise":
        assert err.count("Traceback (most recent call last):\n") == 2, err  # of rank 1, and of one that was told
        assert "  it raised ValueError: no such file: train.bin" in lines


def read_records(folder, rank):
    with open(os.path.join(folder, f"rank.{rank}", "records.jsonl")) as file:
        head, *records = map(json.loads, file)
    return head, records


def test_only_the_last_few_folders_of_records_are_kept(runner):
    for number in range(8):
        path = runner.temporary / f"hvd-records-20200101-00000{number}-1"
        path.mkdir()
        os.utime(path, (number, number))
    strange = runner.temporary / "hvd-records-notes"
    strange.mkdir()
    runner.run("-np", 2, *program(runner, HANG, "exit", "0"))
    left = sorted(path.name for path in runner.temporary.iterdir())
    assert left[:4] == [f"hvd-records-20200101-00000{number}-1" for number in (4, 5, 6, 7)] and len(left) == 6 and left[-1] == strange.name


def test_records_of_a_job_that_ends_well_are_kept_if_the_user_wants_output(runner):
    code, _, err = runner.run("-np", 2, "--output-filename", "log", *program(runner, HANG, "return", "0"))
    assert (code, err) == (0, "")
    for rank in range(2):
        assert sorted(os.listdir(runner.folder / "log" / f"rank.{rank}")) == ["records.jsonl", "stderr", "stdout"]
        head, records = read_records(runner.folder / "log", rank)
        assert head["clock_offset"] == head["clock_error"] == 0
        assert [record["name"] for record in records if record["kind"] == "allreduce"] == [*(f"step.{step}" for step in range(4)), "last"]
        for record in records:
            times = [record[name] for name in ("submitted", "agreed", "begun", "ended")]
            assert times == sorted(times) or (record["group"] == times[1] == times[2] == 0 and times[0] <= times[3]), record
    assert list(runner.temporary.iterdir()) == []


@pytest.mark.parametrize("number, code", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_job_that_is_stopped_while_it_hangs_says_who_was_waited_for(runner, job, number, code):
    runner.environment["HOROVOD_STALL_CHECK_TIME_SECONDS"] = "0"
    one = job("-np", 3, "--grace-period", 1, *program(runner, HANG, "sleep", "0"))
    runner.wait_until(lambda: re.search(r"allreduce last +[2-9]\.", one.asked("status")))
    one.process.send_signal(number)
    assert one.process.wait(LIMIT) == code
    lines = block(one.said())
    name = signal.Signals(number).name
    assert len(lines) <= 12 and re.match(rf'horovodrun: ranks 0 2 had waited [\d.]+ s in allreduce "last" when {name} came', lines[0]), lines
    assert re.match(r'rank 1 on localhost: last completed allreduce "step.3" [\d.]+ s ago; now in no operation', lines[1])
    assert lines[2].startswith("the last operations of every rank are in ")


def test_a_reader_that_has_seen_enough_is_no_failure(runner):
    process = runner.start("-np", 2, *program(runner, """
        import horovod as hvd
        hvd.init()
        hvd.barrier()
        while True: print("x" * 1000)
    """))
    process.stdout.readline()
    process.stdout.close()
    assert process.wait(LIMIT) == 141 and "hvd-records" not in process.stderr.read().decode()
    process.stderr.close()
    assert list(runner.temporary.iterdir()) == []


def test_a_stall_that_ends_the_job_says_the_same(runner):
    runner.environment.update(HOROVOD_STALL_CHECK_TIME_SECONDS="1", HOROVOD_STALL_SHUTDOWN_TIME_SECONDS="3")
    code, _, err = runner.run("-np", 3, *program(runner, HANG, "sleep", "0"))
    lines = block(err)
    assert code == 1 and len(lines) <= 12 and "the last operations of every rank are in" in lines[-1], err
    assert any(re.match(r'  (rank \d|its last).*allreduce "last"', line) for line in lines), lines


def test_jobs_are_found_without_a_list_of_them(runner, job):
    code, _, err = runner.run("status", 1)
    assert (code, err) == (1, "horovodrun: job 1: no such job of this user on this machine\n") or "there are" in err
    one, other = (job("-np", 1, *runner.script("time.sleep(300)")) for _ in range(2))
    runner.wait_until(lambda: all(str(each.process.pid) in runner.run("status", 1)[2] for each in (one, other)))
    code, out, err = runner.run("status")
    assert (code, out) == (1, "") and f"\n  horovodrun status {one.process.pid}   " in err
    one.process.kill()
    one.process.wait()
    runner.wait_until(lambda: str(one.process.pid) not in runner.run("status", 1)[2])
    runner.run("-np", 1, "true")  # removes the private folder of the job that was killed
    assert "(init not called)" in other.asked("status")


def test_a_shell_around_a_rank_is_looked_through(runner, job):
    runner.environment["HOROVOD_STALL_CHECK_TIME_SECONDS"] = "0"
    one = job("-np", 2, "sh", "-c", '"$@"; true', "sh", *program(runner, HANG, "sleep", "0"))
    runner.wait_until(lambda: "in stay_away" in one.asked("stacks"))


def test_a_process_that_is_no_python_shows_native_frames_or_says_what_is_missing(runner, job):
    one = job("-np", 1, "sleep", "300")
    out = " ".join(one.asked("stacks").split())
    assert "(init not called)" in one.asked("status") and "no Python that has called hvd.init()" in out
    assert "native stack" in out or "gdb or eu-stack" in out or "failed" in out, out


@pytest.mark.skipif(shutil.which("java") is None or shutil.which("jstack") is None, reason="no JDK here")
def test_a_java_rank_shows_its_thread_dump(runner, job):
    (runner.folder / "Sleeper.java").write_text("""
        public class Sleeper {
            static void layDown() throws Exception { Thread.sleep(300000); }
            public static void main(String[] arguments) throws Exception { layDown(); }
        }
    """)
    one = job("-np", 1, "java", "Sleeper.java")
    runner.wait_until(lambda: "at Sleeper.layDown" in one.asked("stacks"))
    out = one.asked("stacks")
    assert "Java stack (whole: " in out and 'thread "main", most recent call first:' in out and "more threads)" in out, out


def test_ranks_of_an_elastic_job_are_named_by_their_ranks(runner, job):
    program = runner.folder / "elastic.py"
    program.write_text(textwrap.dedent("""
        import time
        import numpy as np
        import horovod as hvd

        hvd.init()
        hvd.allreduce(np.ones(100, "f4"), name="first")
        if hvd.rank() == 1:
            time.sleep(300)
        hvd.allreduce(np.ones(100, "f4"), name="last")
    """))
    runner.environment["HOROVOD_STALL_CHECK_TIME_SECONDS"] = "1"
    one = job("-np", 2, "--min-np", 2, sys.executable, program)
    said = " ".join(one.wait_for("line 9 in <module>").partition("horovodrun: ")[2].split())
    assert re.match(r'allreduce "last": rank 0 has waited [\d.]+ s for rank 1 rank 1 on localhost', said), said
    screen = one.asked("status")
    assert re.search(r"^1 +localhost +\d+ +waiting +allreduce first ", screen, re.MULTILINE), screen


def test_a_rank_that_uses_the_signal_itself_is_not_disturbed(runner, job):
    one = job("-np", 1, *program(runner, """
        import horovod as hvd
        signal.signal(signal.SIGRTMIN + 16, lambda *_: os._exit(9))
        hvd.init()
        time.sleep(300)
    """))
    runner.wait_until(lambda: "no Python that has called hvd.init()" in " ".join(one.asked("stacks").split()))
    assert one.process.poll() is None


def test_a_stopped_launcher_is_told_and_does_not_answer_for_ever(runner, monkeypatch):
    import socket

    monkeypatch.setattr(jobs, "_LIMIT", 0.3)
    name = f"horovodrun.{os.getuid()}.{os.getpid()}.0123abcd"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind("\0" + name)
        listener.listen()
        assert jobs.Found(os.getpid(), name) in jobs.running()
        with pytest.raises(jobs.AskError, match="has not answered within 0.3 s; it may be stopped"):
            jobs.ask(jobs.Found(os.getpid(), name), False)
    assert jobs.Found(os.getpid(), name) not in jobs.running()


def test_ranks_on_two_hosts(many_hosts):
    hosts = many_hosts()
    command = hosts.script(HANG)
    command.remove("-S")
    process = hosts.start("-H", "h0:1,h1:2", "--output-filename", "log", *command, "sleep", "0", env={"HOROVOD_STALL_CHECK_TIME_SECONDS": "1"},
                          stderr=open(hosts.folder / "err", "wb"), preexec_fn=default_signals)
    try:
        said = hosts.folder / "err"
        hosts.wait_until(lambda: "in stay_away" in said.read_text())
        report = " ".join(said.read_text().partition("horovodrun: ")[2].split())
        assert re.match(r'allreduce "last": ranks 0 2 have waited .* s for rank 1 rank 1 on h1 \(pid \d+', report), report
        found = subprocess.run([sys.executable, "-m", "horovod.runner", "status"], capture_output=True, text=True)
        assert "h1" not in found.stdout  # the network of its hosts is not ours
        answer = hosts.net.popen(0, [sys.executable, "-m", "horovod.runner", "status"], {}, stdout=subprocess.PIPE)
        screen = answer.communicate(timeout=LIMIT)[0].decode()
        assert re.search(r"^1 +h1 ", screen, re.MULTILINE) and "for rank 1" in screen, screen
    finally:
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGINT)
        process.wait(LIMIT)
    heads = [read_records(hosts.folder / "log", rank)[0] for rank in range(3)]
    assert [(head["host"], head["local_rank"]) for head in heads] == [("h0", 0), ("h1", 0), ("h1", 1)]
    assert heads[0]["clock_offset"] == heads[0]["clock_error"] == 0
    for head in heads[1:]:  # both hosts have one clock in truth
        assert abs(head["clock_offset"]) <= head["clock_error"] < 1_000_000_000
