# SPDX-License-Identifier: Apache-2.0
"""What other processes read of a rank's flight memory, whatever is in there."""

import importlib
import json
import os
import random
import time
import zlib

import pytest
from flight_writer import SLOTS, Writer, flight

from horovod._native import constants, kinds
from horovod.runner.view import words

records = importlib.import_module("records")  # its folder is in the path since flight_writer is there
SECOND = 1_000_000_000


@pytest.fixture
def memory():
    descriptor = flight.new(0)
    yield descriptor
    os.close(descriptor)


def test_the_numbers_mean_what_the_package_means():
    assert flight.KINDS == kinds.KIND_NAMES
    assert [flight.KINDS.index(name) for name in flight.REDUCING] == list(kinds.REDUCING)
    assert {name: number for number, name in enumerate(flight.DTYPES)} == constants.DTYPES
    named = ("AVERAGE", "SUM", "ADASUM", "MIN", "MAX", "PRODUCT")
    assert [getattr(constants, name) for name in named] == list(range(6)) and flight.REDUCTIONS == tuple(name.lower() for name in named)


def test_memory_that_no_rank_has_used_tells_nothing(memory):
    assert flight.Flight(memory).header() is None and flight.Flight(memory).facts() is None
    assert flight.Flight(memory).records() == ([], 0) and flight.Flight(memory).stalls() == []
    assert flight.Flight(-1).facts() is None


def test_last_operation_and_what_the_rank_is_in(memory):
    now = time.monotonic_ns()
    writer = Writer(memory, rank=2, size=4, pid=77)
    writer.operation("a", now - 3 * SECOND, now - 2 * SECOND)
    writer.wait("b", now - SECOND, now - SECOND // 10, kind=6, planned=1, waited_for=3)
    facts = flight.Flight(memory).facts()
    assert [facts[name] for name in ("rank", "size", "pid", "state", "submitted", "completed", "failed")] == [2, 4, 77, 1, 2, 1, None]
    assert facts["last"] == {"kind": "allreduce", "name": "a", "set": 0, "submitted": now - 3 * SECOND, "ended": pytest.approx(now - 2 * SECOND, abs=9)}
    assert facts["now"] == {"kind": "barrier", "name": "b", "set": 0, "submitted": now - SECOND, "at": now - SECOND // 10, "in_flight": 1,
                            "planned": True, "waited_for": 3}
    # The operation has ended since the driver looked.
    writer.operation("b", now - SECOND, now, kind=6)
    writer.submitted = 2
    writer.header()
    assert flight.Flight(memory).facts()["now"] is None


def test_the_first_failure_after_the_last_success_is_told(memory):
    now = time.monotonic_ns()
    writer = Writer(memory)
    writer.operation("good", now - 9 * SECOND, now - 8 * SECOND)
    writer.operation("bad", now - 7 * SECOND, now - SECOND, status=-60)
    writer.operation("worse", now - SECOND, now, status=-62)
    facts = flight.Flight(memory).facts()
    assert (facts["last"]["name"], facts["failed"]["name"], facts["failed"]["status"]) == ("good", "bad", -60)


def test_stalls_are_told_once(memory):
    writer = Writer(memory)
    for number in range(12):
        writer.stall(f"t{number}", 1, 2 + number, [1, 3])
    reader = flight.Flight(memory)
    newest = reader.header()["stalls"]
    assert newest == 12
    assert [one["name"] for one in reader.stalls(10)] == ["t10", "t11"]
    assert [one["number"] for one in reader.stalls()] == list(range(5, 13))  # the ring keeps eight
    assert reader.stalls(newest) == [] and reader.stalls(10)[0]["missing"] == [1, 3]


def test_records_have_every_operation_that_is_known_and_their_times_add_up(memory, tmp_path):
    now = time.monotonic_ns()
    writer = Writer(memory, rank=1, size=2)
    count = SLOTS["operations"] + 100
    for number in range(count):
        writer.operation(f"t{number}", now + 1000 * number, now + 1000 * number + 900, waited=300)
    assert records.write_all(str(tmp_path), [(rank, memory, ("h1", 3)) for rank in range(5)]) == [f"records.{rank}.z" for rank in range(5)]
    texts = {zlib.decompress((tmp_path / f"records.{rank}.z").read_bytes()) for rank in range(5)}
    head, *lines = [json.loads(line) for line in texts.pop().splitlines()]
    assert (head["rank"], head["size"], head["host"], head["local_rank"], head["truncated"]) == (1, 2, "h1", 3, 100)
    assert abs(head["unix_at_zero"] + now / 1e9 - time.time()) < 60
    assert [line["n"] for line in lines] == list(range(101, count + 1))
    last = lines[-1]
    assert (last["name"], last["kind"], last["op"], last["dtype"], last["shape"]) == (f"t{count - 1}", "allreduce", "sum", "float32", [10, 1])
    assert last["ended"] - last["begun"] == last["waited"] + last["moved"] + last["reduced"] + last["copied"] and last["waited"] == 300
    assert (last["last"], last["waited_for"], last["spread"]) == (-1, 1, 3000)


def test_a_value_that_is_being_written_is_left_out(memory):
    now = time.monotonic_ns()
    writer = Writer(memory)
    for number in range(3):
        writer.operation(f"t{number}", now, now + 10)
    at = writer.offsets["operations"] + 2 * writer.slot_bytes("operations")
    os.pwrite(memory, b"\0" * 8, at)
    assert [record["n"] for record in flight.Flight(memory).records()[0]] == [1, 3]


def test_any_bytes_are_read_without_an_error(memory):
    choose = random.Random(20261129)
    now = time.monotonic_ns()
    writer = Writer(memory, size=2)
    writer.operation("a", now, now + 5)
    writer.wait("b", now, now + 9)
    writer.stall("c", now, now, [1])
    whole = os.pread(memory, writer.bytes, 0)
    places = [*range(flight.HEADER_BYTES)] * 2 + [writer.offsets[name] + writer.slot_bytes(name) + byte
                                                  for name in flight.RINGS for byte in range(writer.slot_bytes(name))]
    for _ in range(300):
        os.ftruncate(memory, 0)
        os.pwrite(memory, whole, 0)
        for _ in range(choose.choice((1, 2, 40))):
            size = choose.choice((1, 2, 4, 8))
            os.pwrite(memory, choose.choice((b"\xff" * size, b"\0" * size, choose.randbytes(size))), choose.choice(places))
        if choose.random() < 0.3:
            os.ftruncate(memory, choose.randrange(writer.bytes))
        reader = flight.Flight(memory)
        facts, found = reader.facts(), reader.records()
        reader.stalls()
        json.dumps([facts, found])


@pytest.mark.parametrize("value, text", [(0, "0.00 s"), (0.25, "0.25 s"), (7.14, "7.1 s"), (42, "42 s"), (150, "2.5 min"), (1500, "25 min"),
                                         (9000, "2.5 h"), (200000, "2.3 d")])
def test_times_as_people_read_them(value, text):
    assert words.seconds(value) == text
