# SPDX-License-Identifier: Apache-2.0
"""What a guardian watches of its ranks, by itself: reports of stalls, looks that cannot be taken, memories of ranks that have ended."""

import errno
import importlib
import os
import select
import subprocess

import pytest
from flight_writer import Writer

watching, looking, stacks = map(importlib.import_module, ("watching", "looking", "stacks"))
SECOND = 1_000_000_000


@pytest.fixture
def watch(tmp_path):
    """A Watch with one rank, which is a process that sleeps, and what the Watch has reported."""
    said = []
    poll = select.epoll()
    made = watching.Watch(poll, lambda **event: said.append(event))
    sleeper = subprocess.Popen(["sleep", "300"])
    made.variables(order(0), str(tmp_path))
    made.begin(0, sleeper.pid)
    made.loop = poll  # for tests that turn it
    yield made, said
    made.close()
    sleeper.kill()
    sleeper.wait()


def order(rank):
    return {"rank": rank, "environment": {"HOROVOD_HOSTNAME": "h0", "HOROVOD_LOCAL_RANK": str(rank)}}


def test_a_report_of_a_stall_is_passed_on_once(watch):
    made, said = watch
    writer = Writer(made._memories[0], rank=2, size=4)
    made.tick(1.0)
    writer.stall("a", 5 * SECOND, 15 * SECOND, [1, 3])
    made.tick(1.5)
    assert said == []  # one look a second
    made.tick(2.5)
    made.tick(4.0)
    told = {"kind": "allreduce", "name": "a", "set": 0, "missing": [1, 3], "missing_count": 2, "text": 'allreduce "a": stalled', "waited": 10.0}
    assert said == [{"stalled": [told], "rank": 0, "own": 2, "size": 4}]


def test_a_rank_that_joins_anew_counts_anew(watch):
    made, said = watch
    first = Writer(made._memories[0], size=2)
    for number in range(3):
        first.stall(f"a{number}", 0, SECOND, [1])
    made.tick(1.0)
    again = Writer(made._memories[0], size=2)
    again.header()
    made.tick(3.0)
    again.stall("b", 0, SECOND, [1])
    made.tick(5.0)
    assert [one["name"] for event in said for one in event["stalled"]] == ["a0", "a1", "a2", "b"]


def test_a_host_that_has_no_processes_left_says_that_it_cannot_look(watch, monkeypatch):
    made, said = watch

    def none_left():
        raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    descriptors = len(os.listdir("/proc/self/fd"))
    monkeypatch.setattr(os, "fork", none_left)
    made.look({"look": 7})
    assert said == [{"looked": 7, "ranks": None}] and len(os.listdir("/proc/self/fd")) == descriptors


def test_a_look_that_takes_too_long_is_given_up(watch, monkeypatch):
    made, said = watch
    sleeper = subprocess.Popen(["sleep", "300"])
    reader, writer = os.pipe()
    monkeypatch.setattr(looking, "start", lambda ranks, with_stacks: (os.pidfd_open(sleeper.pid), reader))
    made.look({"look": 8})
    deadline = made._looks[reader].deadline
    made.tick(deadline - 0.1)
    assert said == []
    made.tick(deadline)
    assert said == [{"looked": 8, "ranks": None}] and sleeper.wait(10) == -9
    os.close(writer)


def test_a_look_tells_of_a_rank(watch):
    made, said = watch
    made.look({"look": 9, "stacks": False})
    while not said:
        for descriptor, _ in made.loop.poll(5):
            made.handle(descriptor)
    (event,) = said
    (rank,) = event["ranks"]
    assert (event["looked"], rank["rank"], rank["name"], rank["state"], rank["flight"], rank["stack"]) == (9, 0, "sleep", "waiting", None, None)


def test_memories_of_ranks_that_have_ended_do_not_pile_up(watch, tmp_path, monkeypatch):
    made, _ = watch
    monkeypatch.setattr(watching, "_MOST_ENDED", 3)
    for rank in range(1, 20):
        made.variables(order(rank), str(tmp_path))
        made.begin(rank, 2**22 + 1)
        Writer(made._memories[rank]).header()
        assert made.end(rank, True)["flight"]["completed"] == 0
    assert sorted(made._memories) == [0, 17, 18, 19]
    assert made.write_records(str(tmp_path)) == [f"records.{rank}.z" for rank in (17, 18, 19)]


def test_what_a_rank_was_in_when_it_was_stopped_is_told_at_its_end(watch):
    made, _ = watch
    writer = Writer(made._memories[0])
    writer.wait("a", 0, 2**62)
    made.remember()
    writer.operation("a", 0, 2**62 + 1, status=-62)
    writer.submitted = 1
    writer.header()
    assert made.end(0, True)["flight"]["now"]["name"] == "a"


def test_tools_for_stacks_have_an_end(tmp_path):
    assert stacks._run(["sleep", "300"], str(tmp_path / "x"), 1.2) == ("", "sleep had no answer from it within 1 s")
    assert "was not started" in stacks._run(["sleep", "300"], str(tmp_path / "x"), 0.5)[1]
    assert stacks._run(["false"], str(tmp_path / "x"), 9.0) == ("", "false failed")
    assert "cannot be started" in stacks._run(["/no/such/tool"], str(tmp_path / "x"), 9.0)[1]
