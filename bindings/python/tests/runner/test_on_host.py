# SPDX-License-Identifier: Apache-2.0
"""Parts of the guardian by themselves: what ranks of an elastic job say, and ranks that a signal has stopped."""

import contextlib
import select
import socket

import pytest

from horovod.runner.on_host import frozen, members


@pytest.fixture
def office(tmp_path):
    """Where ranks ask, with the lines that have been heard there; ``handle()`` takes in what has arrived."""
    poll, heard = select.epoll(), []
    made = members.Members(str(tmp_path), poll, heard.append)

    def handle():
        for descriptor, _ in poll.poll(0):
            if descriptor in made:
                made.handle(descriptor)

    with contextlib.closing(made):
        yield made, heard, handle


def rank(tmp_path, *lines):
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.connect(str(tmp_path / members.NAME))
    connection.sendall("".join(f"{line}\n" for line in lines).encode())
    return connection


def test_what_a_rank_said_before_is_heard_before_it_asks(office, tmp_path):
    made, heard, handle = office
    with rank(tmp_path, "ask 4 -1") as before:
        handle()
        handle()
        before.sendall(b"set 4 1 0,2\nset 4 2 1\nunset 4 1\n")
        with rank(tmp_path, "ask 4 7") as after:
            made.handle(made._listener.fileno())  # however the system orders them
            handle()
            assert heard == ["ask 4 -1", "set 4 1 0,2", "set 4 2 1", "unset 4 1", "ask 4 7"]
            made.tell(4, "begin")
            assert after.recv(100) == b"begin\n"


def test_lines_that_make_no_sense_are_not_passed_on(office, tmp_path):
    made, heard, handle = office
    lines = ("ask", "ask x 1", "ask 1", "set 1 2", "set 1 2 3,", "set 1 2 -3", "unset 1", "leave", "GET / HTTP/1.1", "\xff", "leave 3")
    with rank(tmp_path, *lines):
        handle()
        handle()
    assert heard == ["leave 3"]


def test_a_line_without_an_end_ends_the_connection(office, tmp_path):
    _made, heard, handle = office
    with rank(tmp_path) as endless:
        handle()
        with pytest.raises(OSError):  # before anything like this much has been taken in
            for _ in range(1000):
                endless.sendall(b"x" * 16384)
                handle()
    assert heard == []


def test_a_rank_that_stands_still_is_expelled_once_and_ended_later(monkeypatch):
    stopped = {7}
    monkeypatch.setattr(frozen, "_is_stopped", stopped.__contains__)
    watch, later = frozen.Frozen("2"), frozen.PATIENCE
    assert watch.look(0.0, [7, 8]) == ([], [])
    assert watch.look(0.5, [7, 8]) == ([], []) and watch.wait(0.5) == 0.5
    assert watch.look(2.0, [7, 8]) == ([7], [])
    assert watch.look(3.0, [7, 8]) == ([], [])
    assert watch.look(2.0 + later, [7, 8]) == ([], [7])
    # Another process has the number of one that was expelled.
    assert watch.look(4.0 + later, [8]) == ([], [])
    assert watch.look(5.0 + later, [7]) == ([], []) and watch.look(7.0 + later, [7]) == ([7], [])


def test_a_rank_that_goes_on_is_not_expelled(monkeypatch):
    stopped = {7}
    monkeypatch.setattr(frozen, "_is_stopped", stopped.__contains__)
    watch = frozen.Frozen("2")
    watch.look(0.0, [7])
    stopped.clear()
    watch.look(1.0, [7])
    stopped.add(7)
    assert watch.look(2.5, [7]) == ([], [])
    watch.forget()  # the whole job stands still
    assert watch.look(4.5, [7]) == ([], []) and watch.look(6.5, [7]) == ([7], [])
    assert frozen.Frozen("0").wait(0.0) == float("inf")
