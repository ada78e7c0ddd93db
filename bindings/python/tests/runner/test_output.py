# SPDX-License-Identifier: Apache-2.0
import random

from horovod.runner.job.output import LineCutter, Tail


def cut(*pieces):
    cutter = LineCutter()
    lines = [line for piece in pieces for line in cutter.feed(piece)]
    return lines + cutter.close()


def test_lines_keep_their_ends():
    assert cut(b"a\nb\r\nc\rd\n\ne") == ["a\n", "b\r\n", "c\r", "d\n", "\n", "e\n"]


def test_progress_bar_that_begins_with_a_carriage_return():
    assert cut(b"\r 1%", b"\r 2%", b"\n") == [" 1%\r", " 2%\n"]


def test_line_end_split_between_pieces():
    assert cut(b"x\r", b"\ny\n") == ["x\r", "", "y\n"]


def test_invalid_utf8_is_replaced_and_split_characters_are_joined():
    assert cut(b"\xff\xfe ok\n") == ["\ufffd\ufffd ok\n"]
    assert cut(b"gr\xc3", b"\xbc\xc3\x9f\n") == ["gr\u00fc\u00df\n"]
    assert cut(b"end \xc3") == ["end \ufffd\n"]


def test_text_does_not_depend_on_the_pieces():
    random.seed(5)
    data = "".join(random.choice(["ab", "\n", "\r", "\r\n", "\u00e9\u4e2d", "\U0001f600", ""]) for _ in range(3000)).encode()
    def text(lines):
        # "x\r" then "" says the same as "x\r\n"; a \r before nothing but a line end says nothing
        joined = "".join(line or "\n" for line in lines)
        while "\r\r" in joined:
            joined = joined.replace("\r\r", "\r")
        return joined.replace("\r\n", "\n")

    whole = text(cut(data))
    for _ in range(20):
        cuts = sorted(random.sample(range(len(data)), 400))
        pieces = [data[a:b] for a, b in zip([0] + cuts, cuts + [len(data)])]
        assert text(cut(*pieces)) == whole


def test_endless_line_is_cut_and_loses_nothing():
    piece = b"x" * (1 << 20)
    lines = cut(*[piece] * 20)
    assert len(lines) > 1 and sum(line.count("x") for line in lines) == 20 << 20


def test_tail_keeps_twenty_lines_and_the_last_state_of_a_progress_bar():
    tail = Tail()
    for number in range(30):
        tail.add(f"line {number}\n")
    for percent in range(100):
        tail.add(f"{percent}%\r")
    tail.add("")
    tail.add("end\n")
    assert tail.lines() == [f"line {number}" for number in range(12, 30)] + ["99%", "end"]
