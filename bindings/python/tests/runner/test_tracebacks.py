# SPDX-License-Identifier: Apache-2.0
"""Tracebacks that several ranks write are printed once, and nothing else is held up or lost."""

import random
import re
import signal
import time

from horovod.runner.job.tracebacks import HOLD, Repeated, Tracebacks

HEAD = "Traceback (most recent call last):\n"
FRAMES = ['  File "a.py", line 1, in <module>\n', "    f()\n", '  File "a.py", line 9, in f\n', "    raise ValueError\n"]


def ranks(count):
    shared = Tracebacks()
    return [Repeated(rank, shared) for rank in range(count)]


def test_the_same_frames_are_told_once_and_each_exception():
    first, second = ranks(2)
    whole = ["before\n", HEAD, *FRAMES, "ValueError: 0\n", "after\n"]
    assert first.feed(whole) == whole
    said = second.feed([HEAD, *FRAMES, "ValueError: 1\n", "after\n"])
    assert said == ["Traceback (most recent call last): the same 4 lines as above, [0]<stderr>\n", "ValueError: 1\n", "after\n"]


def test_a_rank_repeats_its_own_in_full():
    (only,) = ranks(1)
    for _ in range(2):
        assert only.feed([HEAD, *FRAMES, "E\n"]) == [HEAD, *FRAMES, "E\n"]


def test_lines_that_differ_are_printed_at_once():
    first, second = ranks(2)
    first.feed([HEAD, *FRAMES, "E\n"])
    assert second.feed([HEAD, FRAMES[0]]) == [] and second.since is not None
    assert second.feed(["    g()\n"]) == [HEAD, FRAMES[0], "    g()\n"] and second.since is None
    assert second.feed(["E\n"]) == ["E\n"]


def test_a_shorter_or_longer_one_is_another():
    first, second, third = ranks(3)
    first.feed([HEAD, *FRAMES, "E\n"])
    assert second.feed([HEAD, *FRAMES[:2], "E\n"]) == [HEAD, *FRAMES[:2], "E\n"]
    assert third.feed([HEAD, *FRAMES, "  more\n", "E\n"]) == [HEAD, *FRAMES, "  more\n", "E\n"]


def test_one_that_is_still_being_printed_is_not_the_same_yet():
    first, second = ranks(2)
    first.feed([HEAD, *FRAMES])
    assert second.feed([HEAD, *FRAMES, "E\n"]) == [HEAD, *FRAMES, "E\n"]


def test_what_is_held_is_released():
    first, second = ranks(2)
    first.feed([HEAD, *FRAMES, "E\n"])
    assert second.feed([HEAD, FRAMES[0]]) == []
    assert second.release() == [HEAD, FRAMES[0]] and second.release() == []
    assert second.feed([FRAMES[1]]) == [FRAMES[1]]


def test_whatever_ranks_write_can_be_put_together_again():
    """Lines left out stand above: with them, each rank's output is what it wrote."""
    choose = random.Random(7)
    for _ in range(200):
        streams = ranks(3)
        written, printed = [[], [], []], []
        for _ in range(40):
            rank = choose.randrange(3)
            line = choose.choice([HEAD, *FRAMES, "E\n", "text\n", "\n"])
            written[rank].append(line)
            printed += [(rank, one) for one in streams[rank].feed([line])]
        for rank in range(3):
            printed += [(rank, one) for one in streams[rank].release()]
        for rank in range(3):
            assert restored(rank, printed) == written[rank]


def restored(rank, printed):
    lines = []
    for at, (who, line) in enumerate(printed):
        match = re.match(r".*: the same (\d+) lines as above, \[(\d)\]", line)
        if who == rank and match:
            count, other = int(match[1]), int(match[2])
            above = [text for number, text in printed[:at] if number == other]
            starts = [start for start in range(len(above)) if above[start] == HEAD and frames_from(above, start) == count]
            assert starts
            lines += [above[starts[-1]], *above[starts[-1] + 1: starts[-1] + 1 + count]]
        elif who == rank:
            lines.append(line)
    return lines


def frames_from(lines, start):
    count = 0
    while start + 1 + count < len(lines) and lines[start + 1 + count].startswith(" "):
        count += 1
    return count


def test_half_a_traceback_is_printed_by_a_job_in_time(runner):
    command = runner.script(f"""
        head = {HEAD!r} + {FRAMES[0]!r}
        if rank == 0:
            sys.stderr.write(head + "E\\n")
            open("printed", "w").close()
        while not os.path.exists("printed"): time.sleep(0.01)
        if rank == 1:
            time.sleep(0.5)
            sys.stderr.write(head)
            open("half", "w").close()
            time.sleep(300)
    """)
    process = runner.start("-np", 2, *command)
    try:
        runner.wait_until(lambda: (runner.folder / "half").exists())
        began = time.monotonic()
        lines = [process.stderr.readline().decode() for _ in range(4)]
        assert lines[3] == "[1]<stderr>:" + HEAD and time.monotonic() - began < 20 * HOLD
        assert process.stderr.readline().decode() == "[1]<stderr>:" + FRAMES[0]
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):  # the second one kills the ranks at once
            process.send_signal(number)
        process.communicate()
