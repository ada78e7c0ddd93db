# SPDX-License-Identifier: Apache-2.0
"""Parts of what a launcher tells about a running job, by themselves: reports of stalls, the socket, the table, the last lines."""

import json
import os
import random
import select
import signal
import socket
import subprocess
import sys

import pytest

from horovod.runner.ask import jobs
from horovod.runner.job.desk import Desk
from horovod.runner.job.looks import Looks
from horovod.runner.job.outcome import Outcome
from horovod.runner.job.stalls import Stalls
from horovod.runner.job.summary import failure_block, stop_block
from horovod.runner.plan.hosts import assign, parse_hosts
from horovod.runner.view import blame, stacks, table


def operation(name, **more):
    return {"kind": "allreduce", "name": name, "set": 0, **more}


def flight(last=None, now=None, since=5.0, planned=False, waited_for=-1, failed=None):
    return {"rank": 0, "size": 4, "pid": 1, "state": 1, "submitted": 3, "completed": 2 if now or failed is None else 3,
            "last": last and operation(last, ago=since, took=0.1), "failed": failed,
            "now": now and operation(now, since=since, seen=0.1, in_flight=1, planned=planned, waited_for=waited_for)}


def row(label, facts, state="waiting", host="h0", stack=None, called=True):
    return {"label": label, "rank": label, "host": host, "pid": 100 + label, "process": 100 + label, "name": "python", "state": state,
            "called_init": called, "flight": facts, "stack": stack, "busy": 0.01}


def answer(*rows):
    hosts = {}
    for one in rows:
        hosts.setdefault(one["host"], []).append(one)
    return {"job": {"pid": 77, "command": ["python", "train.py"], "ranks": len(rows), "seconds": 100.0},
            "hosts": [{"host": name, "ranks": found} for name, found in hosts.items()], "ended": []}


# ---- stalls

class Watched:
    def __init__(self, size=4):
        self.looks, self.said = [], []
        found = answer(row(0, flight("a", "b")), row(1, flight("a"), stack={"language": "Python", "lines": ["x"], "left_out": 0, "file": "f"}))
        self.stalls = Stalls(self._look, lambda rank, of: rank if of == size else None, self.said.append)
        self._found = found

    def _look(self, numbers, done):
        self.looks.append(numbers)
        done(self._found)

    def note(self, now, waited, name="b", missing=(1,), size=4):
        entry = operation(name, missing=list(missing), missing_count=len(missing), text="the text", waited=waited)
        self.stalls.note({"stalled": [entry], "rank": 0, "own": 0, "size": size}, now)


def test_a_stall_is_reported_once_and_again_when_it_is_twice_as_old():
    watched = Watched()
    for second in range(10, 90, 10):
        for _ in range(3):  # ranks that wait
            watched.note(1000.0 + second, float(second))
    assert [said.splitlines()[0] for said in watched.said] == [f'allreduce "b": rank 0 has waited {text} for rank 1'
                                                               for text in ("10 s", "20 s", "40 s", "80 s")]
    assert watched.looks[0] == [1] and "    x" in watched.said[0] and "rank 1 on h0 (pid 101, python)" in watched.said[0]


def test_operations_that_wait_for_the_same_ranks_are_one_report():
    watched = Watched()
    for number in range(600):
        watched.note(1000.0, 10.0, name=f"t{number}")
    watched.note(1010.0, 20.0, name="t0")
    assert len(watched.said) == 2 and 'allreduce "t0" and 599 more: ' in watched.said[1]


def test_a_later_stall_is_news():
    watched = Watched()
    watched.note(1000.0, 10.0)
    watched.note(1015.0, 10.0)  # submitted after the report
    watched.note(1015.0, 10.0, missing=(2, 3))
    assert len(watched.said) == 3


def test_a_part_of_the_job_is_reported_in_the_words_of_its_ranks():
    watched = Watched()
    watched.note(1000.0, 10.0, size=2)
    assert watched.looks == [[]] and "  the text" in watched.said[0]


# ---- looks

class Agent:
    is_remote = False

    def __init__(self, name):
        self.name, self.finished, self.orders = name, False, []

    def order(self, **message):
        self.orders.append(message)


def looks_at(*names):
    agents = [Agent(name) for name in names]
    return agents, Looks(agents, Outcome(assign(parse_hosts(",".join(f"{name}:1" for name in names)))), ["train"])


def test_a_look_ends_when_all_hosts_have_answered_or_are_gone_or_late():
    agents, looks = looks_at("a", "b", "c")
    answers = []
    looks.begin([1], answers.append)
    assert [agent.orders for agent in agents] == [[{"look": 1, "stacks": [1]}]] * 3
    looks.note(agents[0], {"looked": 1, "ranks": [{"rank": 0}]})
    agents[2].finished = True
    late = looks.tick(0.0)
    assert answers == [] and late is not None
    looks.tick(late)
    looks.note(agents[1], {"looked": 1, "ranks": []})  # too late
    (found,) = answers
    assert found["hosts"] == [{"host": "a", "ranks": [{"rank": 0, "label": 0, "host": "a"}]}, {"host": "b", "ranks": None}]
    assert looks.tick(0.0) is None


def test_a_mistake_in_a_report_does_not_end_the_job(capfd):
    agents, looks = looks_at("a")
    looks.begin(False, lambda found: found["no such thing"])
    looks.note(agents[0], {"looked": 1, "ranks": []})
    assert capfd.readouterr().err == "horovodrun: what the ranks do cannot be told: KeyError: 'no such thing'\n"


# ---- who is waited for

@pytest.mark.parametrize("rows, text", [
    ([row(0, flight("a", "b")), row(1, flight("a"), "stopped")],
     'rank 0 has waited 5.0 s in allreduce "b" for rank 1: rank 1 is stopped by a signal (kill -CONT lets it go on)'),
    ([row(0, flight("a", "b", planned=True, waited_for=2)), row(1, flight("a", "b", planned=True, waited_for=2)), row(2, flight("a", "b", 5.0, True, 1))],
     'ranks 0-2 have waited 5.0 s in allreduce "b" for ranks 1-2: '),
    ([row(0, flight("a", "b")), row(1, flight("a", "c")), row(2, flight("a"))],
     'rank 0 has waited 5.0 s in allreduce "b" for ranks 1-2: rank 1 waits in the kernel, using 1% of a core, in allreduce "c" for 5.0 s; rank 2'),
    ([row(0, flight("a", "b")), row(1, flight("a", "c"))], 'the ranks wait for each other: rank 0 in allreduce "b"; rank 1 in allreduce "c"'),
    ([row(0, flight("a", "b")), row(1, flight("a")), {**row(2, None, called=False), "label": None}], 'rank 0 has waited 5.0 s in allreduce "b" for rank 1: '),
    ([row(0, flight("a", "b", since=0.1)), row(1, flight("a"))], "no rank waits for another one"),
    ([row(0, None, called=False), row(1, flight("a"))], "rank 0 has not called init yet"),
    ([row(0, flight("a")), row(1, flight("a"), "stopped")], "no rank waits for another one yet; rank 1 is stopped"),
])
def test_the_sentence(rows, text):
    assert blame.sentence(rows).startswith(text)


def test_a_screen_fits_into_80_columns_whatever_names_are():
    choose = random.Random(5)
    for count in (1, 8, 300):
        rows = [row(rank, flight("x" * choose.randrange(150), choose.choice([None, "é" * choose.randrange(1, 99)]), choose.random() * 10 ** choose.randrange(9)),
                    host="h" * choose.randrange(1, 60), state=choose.choice(["waiting", "blocked in the kernel"])) for rank in range(count)]
        lines = table.screen(answer(*rows))
        assert max(map(len, lines)) <= 80 and len(lines) <= count + 14


def test_a_thousand_ranks_are_a_screen():
    rows = [row(rank, flight("a", None if rank == 77 else "b"), host=f"h{rank // 8}") for rank in range(1000)]
    lines = table.screen(answer(*rows))
    assert len(lines) < 10 and max(map(len, lines)) <= 80
    assert lines[2].split()[:5] == ["0-76", "78-999", "125", "hosts", "999"] and lines[3].startswith("77"), lines
    rows = [row(rank, flight("a"), host=f"h{rank // 100}") for rank in range(1000)]
    assert [line.split()[:3] for line in table.screen(answer(*rows))[2:4]] == [["0-99", "h0", "100"], ["100-199", "h1", "100"]]


def test_a_worker_without_a_rank_is_shown_as_such():
    text = "\n".join(table.screen(answer(row(0, flight("a")), {**row(7, None, called=False), "label": None})))
    assert "\nw7 " in text and "worker 7 on h0" in stacks.about({**row(7, None, called=False), "label": None})


def test_names_cannot_command_a_terminal():
    text = "\n".join(table.screen(answer(row(0, flight("a\x1b[2J\nb", "c\rd")))) + stacks.listing(answer(row(0, flight("a\x1b[2J\nb", "c\rd")))))
    assert not {"\x1b", "\r"} & set(text) and 'allreduce "a?[2J?b"' in " ".join(text.split())


def test_ranks_with_the_same_stack_stand_together():
    same, other = ({"language": "Python", "lines": lines, "left_out": 2, "file": "f"} for lines in (["a"], ["b"]))
    text = "\n".join(stacks.listing(answer(row(0, flight("a"), stack=same), row(1, flight("a"), stack=other), row(2, flight("a"), stack=same))))
    assert text.count("    a") == text.count("    b") == 1 and text.index("rank 2") < text.index("    a") < text.index("rank 1")
    assert "2 more threads" in text


# ---- the last lines

def test_the_last_lines_are_12_at_most():
    choose = random.Random(3)
    for _ in range(300):
        size = choose.choice((1, 2, 4, 200))
        outcome = Outcome(assign(parse_hosts(f"a:{size // 2 + 1},b:{size}"))[:size] if size > 1 else assign(parse_hosts("a:1")))
        outcome.records = choose.choice((None, "/tmp/x"))
        for rank in choose.sample(range(size), size):
            told = {"flight": flight("a", choose.choice([None, f"n{choose.randrange(9)}"]),
                                     failed=choose.choice([None, operation("z", ago=1.0, took=2.0, status=-60)]))}
            if choose.random() < 0.5:
                told["raised"] = [choose.random(), "ValueError: " + "x" * choose.choice((3, 3000))]
            if choose.random() < 0.3:
                told["blames"] = [choose.randrange(size), size, choose.random()]
            if choose.random() < 0.3:
                outcome.note(None, {"stopping": [rank], "signal": choose.choice((2, 9, 15)), "after": 0.5})
            outcome.note(None, {"exited": rank, "code": choose.choice((1, 3, -9, -15)), "after": 1 + choose.random(), **told})
            outcome.ranks[rank].pid = 7
            outcome.ranks[rank].stderr_tail = [choose.choice(("text", "Traceback (most recent call last):", "init: waited 3 s", "E: no"))
                                               for _ in range(choose.choice((0, 1, 20)))]
        if outcome.first_failure is not None:
            lines = failure_block(outcome, "out of memory? one more")
            assert len(lines) <= 12 and max(map(len, lines)) <= 502, lines
        outcome.signal = int(signal.SIGINT)
        assert len(stop_block(outcome)) <= 12


# ---- the socket

@pytest.fixture
def desk():
    """A desk whose loop turns while ``turn()`` is called; it answers at once."""
    poll = select.epoll()
    made = Desk(poll, lambda wants_stacks, done: done({"stacks": wants_stacks, "long": "x" * 3_000_000}))

    def turn():
        for descriptor, _ in poll.poll(0.05):
            made.handle(descriptor)

    yield made, turn
    made.close()


def name_of_own_desk():
    return next(found for found in jobs.running() if found.pid == os.getpid()).name


def test_a_question_gets_its_answer_however_long(desk):
    _, turn = desk
    with socket.socket(socket.AF_UNIX) as visitor:
        visitor.connect("\0" + name_of_own_desk())
        visitor.sendall(b'{"stacks": true}\n')
        visitor.setblocking(False)
        got = b""
        for _ in range(10_000):
            turn()
            try:
                piece = visitor.recv(1 << 16)
            except BlockingIOError:
                continue
            if not piece:
                break
            got += piece
    assert json.loads(got)["stacks"] is True


@pytest.mark.parametrize("nonsense", [b"hello\n", b"{}\n", b"[]\n", b"\xff\xfe\n", b"1\n", b"x" * 10_000])
def test_nonsense_ends_the_connection(desk, nonsense):
    _, turn = desk
    with socket.socket(socket.AF_UNIX) as visitor:
        visitor.connect("\0" + name_of_own_desk())
        visitor.sendall(nonsense)
        for _ in range(5):
            turn()
        assert is_ended(visitor)


def is_ended(visitor):
    try:
        return visitor.recv(10) == b""
    except ConnectionResetError:  # not all that was sent has been read
        return True


def test_a_visitor_that_says_nothing_is_sent_away(desk):
    made, turn = desk
    with socket.socket(socket.AF_UNIX) as visitor:
        visitor.connect("\0" + name_of_own_desk())
        turn()
        due = made.tick(0.0)
        assert due is not None and made.tick(due) is None and visitor.recv(10) == b""


@pytest.mark.skipif(os.getuid() != 0, reason="only root can be somebody else")
def test_another_user_gets_no_answer(desk):
    _, turn = desk
    text = f"import socket; s = socket.socket(socket.AF_UNIX); s.connect('\\0{name_of_own_desk()}'); print(s.recv(9))"
    other = subprocess.Popen(["/usr/bin/env", "python3", "-c", text], stdout=subprocess.PIPE, user=65534, cwd="/", env={"PATH": "/usr/bin:/bin"})
    while other.poll() is None:
        turn()
    assert other.communicate()[0] == b"b''\n"


@pytest.mark.skipif(os.getuid() != 0, reason="only root can be somebody else")
def test_the_socket_of_another_user_is_not_believed():
    name = f"horovodrun.{os.getuid()}.{os.getpid()}.feedbeef"
    text = f"import socket; s = socket.socket(socket.AF_UNIX); s.bind('\\0{name}'); s.listen(); print(1, flush=True); s.accept()[0].recv(99)"
    other = subprocess.Popen(["/usr/bin/env", "python3", "-c", text], stdout=subprocess.PIPE, user=65534, cwd="/", env={"PATH": "/usr/bin:/bin"})
    other.stdout.readline()
    with pytest.raises(jobs.AskError, match="belongs to another user"):
        jobs.ask(jobs.Found(os.getpid(), name), False)
    other.communicate()


def test_nothing_is_left_of_a_desk_whose_process_was_killed():
    text = ("import os, select; from horovod.runner.job.desk import Desk; desk = Desk(select.epoll(), None); print(os.getpid(), flush=True); "
            "import time; time.sleep(300)")
    process = subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE)
    try:
        assert int(process.stdout.readline()) in [found.pid for found in jobs.running()]
    finally:
        process.kill()
        process.communicate()
    assert process.pid not in [found.pid for found in jobs.running()]
