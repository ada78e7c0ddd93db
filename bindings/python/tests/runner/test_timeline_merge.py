# SPDX-License-Identifier: Apache-2.0
"""horovodrun timeline merge: clocks, order, and what is said about files that do not fit."""

import json

import pytest

from horovod.runner.timeline import merge
from horovod.runner.timeline.command import notices, summary


def timeline(rank, size=2, start=0, offset=0, error=0, host="a", unix=0, events=()):
    """A file of a rank as the engine writes it: one row, a tensor."""
    head = {"name": f"rank {rank} on {host}", "rank": rank, "size": size, "start_monotonic_ns": start, "host": host,
            "start_time_since_epoch_in_micros": unix, "clock_offset_ns": offset, "clock_error_ns": error}
    return [
        {"ph": "M", "name": "process_name", "pid": 0, "tid": 0, "args": head},
        {"ph": "M", "name": "process_sort_index", "pid": 0, "tid": 0, "args": {"sort_index": 0}},
        {"ph": "M", "name": "process_name", "pid": 1, "tid": 0, "args": {"name": "grad"}},
        {"ph": "M", "name": "process_sort_index", "pid": 1, "tid": 0, "args": {"sort_index": 1}},
        *events,
    ]


def span(begin, end, name="ALLREDUCE"):
    return [{"ph": "B", "name": name, "ts": begin, "pid": 1, "tid": 0}, {"ph": "E", "ts": end, "pid": 1, "tid": 0}]


def merged(folder, *contents):
    paths = []
    for number, content in enumerate(contents):
        path = folder / f"{number}.json"
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        paths.append(str(path))
    return merge.merge([merge.read(path) for path in paths])


def times(result, process):
    return [event["ts"] for event in result.events if event["pid"] == process and "ts" in event]


def test_times_are_those_of_rank_0s_clock(tmp_path):
    first = timeline(0, start=5_000_000, events=span(10, 20))
    # Its clock is 3 ms behind rank 0's, and it began 1 ms later.
    second = timeline(1, start=3_000_000, offset=3_000_000, error=40_000, host="b", events=span(10, 20))
    result = merged(tmp_path, second, first)
    assert times(result, 1) == [10, 20] and times(result, 2) == [1010, 1020]
    assert (result.ranks, result.hosts, result.error, result.not_compared, result.missing) == ([0, 1], 2, 40_000, [], [])
    assert summary("all.json", result) == "all.json: 2 ranks of 2 hosts, whose clocks agree to 40 us or better"
    assert notices(result) == []


def test_the_earliest_file_begins_at_zero(tmp_path):
    result = merged(tmp_path, timeline(0, start=2000, events=span(1, 2)), timeline(1, start=1000, events=span(1, 2)))
    assert times(result, 1) == [2, 3] and times(result, 2) == [1, 2]


def test_ranks_are_processes_and_tensors_their_rows(tmp_path):
    mark = {"ph": "i", "name": "CYCLE_START", "ts": 1, "pid": 0, "tid": 0, "s": "g"}
    result = merged(tmp_path, timeline(0, events=[mark, *span(1, 2)]), timeline(1, events=span(1, 2)))
    names = [(event["name"], event["pid"], event["tid"], event["args"].get("name")) for event in result.events
             if event["ph"] == "M" and event["name"].endswith("_name")]
    assert names == [("process_name", 1, 0, "rank 0 on a"), ("thread_name", 1, 1, "grad"),
                     ("process_name", 2, 0, "rank 1 on a"), ("thread_name", 2, 1, "grad")]
    (moved,) = [event for event in result.events if event["ph"] == "i"]
    assert (moved["pid"], moved["s"]) == (1, "p")
    stamped = [event["ts"] for event in result.events if "ts" in event]
    assert stamped == sorted(stamped)


def test_ends_have_names_and_spans_of_one_moment_keep_their_order(tmp_path):
    begin, end = span(1, 5)
    end["args"] = {"dtype": "float32"}
    mark = {"ph": "X", "name": "3", "ts": 1, "dur": 0, "pid": 1, "tid": 0}
    unfinished = {"ph": "B", "name": "NEGOTIATE_ALLREDUCE", "ts": 5, "pid": 1, "tid": 0}
    result = merged(tmp_path, timeline(0, size=1, events=[mark, begin, *span(1, 1, "QUEUE"), *span(1, 5, "HVD_ALLREDUCE"), end, unfinished]))
    found = [(event["ph"], event["name"], event["ts"], event.get("args")) for event in result.events if event["ph"] != "M"]
    assert found == [
        ("i", "3", 1, None), ("B", "ALLREDUCE", 1, {"dtype": "float32"}), ("B", "QUEUE", 1, None), ("E", "QUEUE", 1, None), ("B", "HVD_ALLREDUCE", 1, None),
        ("E", "HVD_ALLREDUCE", 5, None), ("E", "ALLREDUCE", 5, None), ("B", "NEGOTIATE_ALLREDUCE", 5, None)]


def test_a_clock_that_was_not_compared_is_told(tmp_path):
    first = timeline(0, size=3, start=7_000, unix=1_000_000, events=span(1, 2))
    second = timeline(1, size=3, start=99, offset=None, error=None, host="b", unix=1_000_300, events=span(1, 2))
    result = merged(tmp_path, first, second)
    assert times(result, 2) == [301, 302]
    assert result.not_compared == [1] and result.missing == [2]
    lines = notices(result)
    assert lines[0] == "no file of rank 2" and lines[1].startswith("the clock of rank 1 was not compared with rank 0's")
    assert "not all been compared" in summary("all.json", result)


@pytest.mark.parametrize("contents, text", [
    (["[1, 2"], "0.json: not a timeline: "),
    (["{}"], "0.json: not a timeline of a rank"),
    (['[{"ph": "M", "name": "process_name", "args": {"start_time_since_epoch_in_micros": 3}}]'], "0.json: not a timeline of a rank"),
    ([timeline(0), timeline(0)], "are both of rank 0; give the files of one job"),
    ([timeline(0), timeline(1, size=4)], "a job of 2 ranks, "),
])
def test_files_that_do_not_fit_are_named(tmp_path, contents, text):
    with pytest.raises(merge.TimelineError) as caught:
        merged(tmp_path, *contents)
    assert text in str(caught.value)


def test_the_command(runner):
    for rank in (0, 1):
        (runner.folder / f"t{rank}.json").write_text(json.dumps(timeline(rank, events=span(1, 2))))
    assert runner.run("timeline", "merge", "all.json", "t1.json", "t0.json") == (0, "all.json: 2 ranks all of one host, by one clock\n", "")
    assert len(json.loads((runner.folder / "all.json").read_text())) == 12
    assert runner.run("timeline", "merge", "all.json", "t0.json") == (
        0, "all.json: 1 rank all of one host, by one clock\n", "horovodrun: timeline merge: no file of rank 1\n")


@pytest.mark.parametrize("words, text", [
    (["merge", "t.json", "./t.json"], "timeline merge: t.json is to be written and is one of the files to read; give OUT another name"),
    (["merge", "all.json", "none.json"], "timeline merge: none.json: No such file or directory"),
    (["merge", "no/folder/all.json", "t.json"], "timeline merge: cannot write no/folder/all.json: No such file or directory"),
    (["split", "all.json", "t.json"], "invalid choice: 'split'"),
    (["merge", "all.json"], "the following arguments are required: FILE"),
])
def test_what_cannot_be_done_is_one_line(runner, words, text):
    (runner.folder / "t.json").write_text(json.dumps(timeline(0, size=1)))
    code, out, err = runner.run("timeline", *words)
    assert (code, out) == (2, "") and text in err and err.count("\n") == 1, err


def test_help_teaches(runner):
    code, out, err = runner.run("timeline", "--help")
    assert (code, err) == (0, "") and "horovodrun timeline merge all.json /tmp/run*.json" in out and "ui.perfetto.dev" in out
