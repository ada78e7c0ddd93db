# SPDX-License-Identifier: Apache-2.0
"""The timeline of real jobs: its events against the records of the same operations, and whether its files stay whole."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

WORKER = Path(__file__).resolve().parent / "workers" / "timeline.py"
MICROSECONDS = 100  # by which times of one host may differ
NAMES = {"allreduce": "ALLREDUCE", "allgather": "ALLGATHER", "broadcast": "BROADCAST", "alltoall": "ALLTOALL",
         "reducescatter": "REDUCESCATTER", "barrier": "BARRIER"}
ACTIVITIES = {"allreduce": "HVD_ALLREDUCE", "allgather": "HVD_ALLGATHER", "broadcast": "HVD_BCAST", "alltoall": "HVD_ALLTOALL",
              "reducescatter": "HVD_REDUCESCATTER"}


def load(path):
    return json.loads(Path(path).read_bytes())


def rows(events):
    """name of the row: its number"""
    return {event["args"]["name"]: event["pid"] for event in events if event["ph"] == "M" and event["name"] == "process_name"}


def spans(events, row):
    """The spans of a row as (name, begin, end, arguments of the end, depth), in the order in which they ended."""
    open_ones, found = [], []
    for event in events:
        if event["pid"] == row and event["ph"] == "B":
            open_ones.append(event)
        elif event["pid"] == row and event["ph"] == "E":
            begin = open_ones.pop()
            assert event["ts"] >= begin["ts"], (begin, event)
            found.append((begin["name"], begin["ts"], event["ts"], event.get("args", {}), len(open_ones)))
    assert not open_ones, open_ones
    return found


@pytest.fixture(scope="module")
def every_kind(horovodrun, tmp_path_factory):
    folder = tmp_path_factory.mktemp("every_kind")
    horovodrun(3, "timeline.py", "every_kind", str(folder), env={"HOROVOD_TIMELINE": str(folder / "run.json")})
    return folder


@pytest.mark.parametrize("rank", range(3))
def test_every_operation_has_the_events_that_its_record_says(every_kind, rank):
    events = load(every_kind / ("run.json" if rank == 0 else f"run.rank{rank}.json"))
    head = events[0]["args"]
    assert (head["rank"], head["size"], head["clock_offset_ns"], head["clock_error_ns"]) == (rank, 3, 0, 0)
    start, seen = head["start_monotonic_ns"], 0
    for record in load(every_kind / f"records.{rank}.json")["records"]:
        name = record["name"] + (f" (process set {record['process_set']})" if record["process_set"] else "")
        adasum = record["name"] == "adasum"
        operation = "ADASUM" if adasum else NAMES.get(record["kind"])
        if operation is None:
            continue  # process sets
        seen += 1
        found = spans(events, rows(events)[name])

        def at(moment):
            return (record[moment] - start) / 1000

        close = [one for one in found if one[0] == f"NEGOTIATE_{operation}" and abs(one[2] - at("agreed")) < MICROSECONDS]
        assert len(close) == 1, (record, found)
        (_, begin, _, told, depth), = close
        assert depth == 0 and told["use"] == record["use"] and told["last_rank"] == record["last_rank"]
        assert begin <= at("submitted") + MICROSECONDS
        if operation == "BARRIER":
            assert not [one for one in found if not one[0].startswith("NEGOTIATE_")]
            continue
        (_, begin, end, told, depth), = [one for one in found if one[0] == operation and one[4] == 0]
        assert abs(begin - at("agreed")) < MICROSECONDS and abs(end - at("ended")) < MICROSECONDS
        assert told["dtype"] == record["dtype"] and told["bytes"] == record["bytes"] and told["shape"].startswith("[")
        nested = [one for one in found if one[4] == 1]
        if record["group"] == 0:
            assert nested == []
            continue
        activity = "HVD_ADASUM_ALLREDUCE" if adasum else ACTIVITIES[record["kind"]]
        assert [one[0] for one in nested] == ["QUEUE", activity]
        assert abs(nested[1][1] - at("begun")) < MICROSECONDS
        for part in ("waited", "moved", "reduced", "copied"):
            assert abs(nested[1][3][f"{part}_us"] - record[part] / 1000) < MICROSECONDS
        assert nested[1][3]["group_operations"] == record["group_operations"]
    assert seen == (15 if rank == 0 else 14)


def test_the_coordinator_shows_when_each_rank_came(every_kind):
    events = load(every_kind / "run.json")
    row = rows(events)["late"]
    came = {event["name"]: event["ts"] for event in events if event["ph"] == "X" and event["pid"] == row}
    assert set(came) == {"0", "1", "2"} and came["2"] - max(came["0"], came["1"]) > 40_000
    (_, begin, end, told, _), *_ = spans(events, row)
    assert told["last_rank"] == 2 and told["spread_us"] > 40_000 and end - begin > 40_000
    assert not [event for event in load(every_kind / "run.rank1.json") if event["ph"] == "X"]


def test_merged_times_are_those_of_one_clock(every_kind, tmp_path):
    files = [str(path) for path in every_kind.glob("run*.json")]
    merged = tmp_path / "all.json"
    command = [sys.executable, "-m", "horovod.runner.launch", "timeline", "merge", str(merged), *files]
    result = subprocess.run(command, capture_output=True, text=True)
    assert (result.returncode, result.stderr) == (0, "") and "3 ranks all of one host" in result.stdout
    events = load(merged)
    start = min(load(path)[0]["args"]["start_monotonic_ns"] for path in files)
    ranks = {}
    for event in events:
        if event["ph"] == "M" and event["name"] == "process_name":
            ranks[event["args"]["rank"]] = event["pid"]
    assert sorted(ranks) == [0, 1, 2] and len(set(ranks.values())) == 3
    for rank, process in ranks.items():
        noted = load(every_kind / f"records.{rank}.json")
        rows_of_rank = [event["tid"] for event in events if event["pid"] == process and event["ph"] == "M"
                        and event["name"] == "thread_name" and event["args"]["name"] == "large"]
        times = [event["ts"] for event in events
                 if event["pid"] == process and event["tid"] == rows_of_rank[0] and event["ph"] == "E"]
        before, after = ((noted[name] - start) / 1000 for name in ("before", "after"))
        assert times and all(before - MICROSECONDS <= at <= after + MICROSECONDS for at in times), (before, after, times)


@pytest.mark.skipif(not shutil.which("chromium") or not shutil.which("npm"), reason="needs chromium, and npm to fetch a viewer")
def test_a_viewer_reads_the_merged_file(every_kind, tmp_path):
    """Every row is there, and no span without its beginning or end."""
    merged = tmp_path / "all.json"
    files = [str(path) for path in every_kind.glob("run*.json")]
    subprocess.run([sys.executable, "-m", "horovod.runner.launch", "timeline", "merge", str(merged), *files], check=True)
    viewer = [sys.executable, str(WORKER.parent.parent / "speedscope.py"), str(tmp_path), str(merged)]
    told = json.loads(subprocess.run(viewer, stdout=subprocess.PIPE, check=True, timeout=200).stdout)
    assert "Importing as Trace Event Format profile" in told["lines"] and "all.json" in told["title"], told
    # The viewer appends the arguments of a span's beginning to the span's name, because the end has none.
    wrong = [line for line in told["lines"] if "Doing nothing instead" in line or "still open" in line]
    assert wrong == []
    rows = {(event["pid"], event["tid"]) for event in load(merged) if event["ph"] == "B"}
    assert f"(1/{len(rows)})" in told["text"], (len(rows), told["text"])


def test_hosts_compare_their_clocks(tmp_path):
    """Two hosts that this machine plays, whose clocks are one in truth; the flag and the file of settings begin the timeline."""
    (tmp_path / "settings.yaml").write_text(f"timeline: {{filename: {tmp_path}/run.json, mark_cycles: true}}\n")
    command = [sys.executable, "-m", "horovod.runner.launch", "-H", "127.0.0.1:1,127.0.0.2:2", "--config-file",
               str(tmp_path / "settings.yaml"), sys.executable, str(WORKER), "every_kind", str(tmp_path)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (result.returncode, result.stderr) == (0, "")
    files = [load(tmp_path / name) for name in ("run.json", "run.rank1.json", "run.rank2.json")]
    clocks = [(events[0]["args"]["clock_offset_ns"], events[0]["args"]["clock_error_ns"]) for events in files]
    assert clocks[0] == (0, 0) and clocks[1] == clocks[2]
    assert 0 < clocks[1][1] < 50_000_000 and abs(clocks[1][0]) <= clocks[1][1]
    assert all(any(event.get("name") == "CYCLE_START" for event in events) for events in files)


def test_start_and_stop(horovodrun, native, tmp_path):
    result = horovodrun(2, "timeline.py", "dynamic", str(tmp_path), native=native, env={"HOROVOD_TIMELINE": "DYNAMIC"})
    assert result.text.count("timeline: ok") == 2
    assert not Path("DYNAMIC").exists()
    for mark in ("", ".rank1"):
        names = [set(rows(load(tmp_path / f"{name}{mark}.json"))) for name in ("first", "second", "cycles")]
        assert [{row for row in found if not row.startswith("rank ")} for found in names] == [
            {"one", "two"}, {"three", "four"}, {"five"}
        ]
        marks = [event for event in load(tmp_path / f"cycles{mark}.json") if event["ph"] == "i"]
        assert [(event["name"], event["s"]) for event in marks] == [("CYCLE_START", "g")]


def test_start_is_refused_where_horovod_refuses_it(alone, native, tmp_path):
    assert "timeline: ok" in alone("timeline.py", "refused", str(tmp_path), native=native).text


def test_a_file_that_cannot_be_made_does_not_stop_a_job(horovodrun, tmp_path):
    env = {"HOROVOD_TIMELINE": "/no/such/folder/t.json"}
    result = horovodrun(2, "timeline.py", "every_kind", str(tmp_path), env=env)
    assert result.text.count("cannot open /no/such/folder/t.json: No such file or directory (2); the job runs without it") == 1, result.text
    assert result.text.count("cannot open /no/such/folder/t.rank1.json") == 1


KILLS = int(os.environ.get("HVD_TIMELINE_KILLS", "12"))


def test_files_are_whole_after_kills_at_any_moment(tmp_path):
    """Ranks of a real job die at any moment, one by a kill, the other by what follows from it."""
    chance, operations = random.Random(5), 0
    for turn in range(KILLS):
        folder = tmp_path / str(turn)
        folder.mkdir()
        command = [sys.executable, "-m", "horovod.runner.launch", "-np", "2", "--timeline-filename", str(folder / "run.json"),
                   sys.executable, str(WORKER), "for_ever", str(folder)]
        job = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            wait_for(lambda: (folder / "ready.0").exists() and (folder / "ready.1").exists())
            time.sleep(chance.uniform(0, 0.6))
            files = [folder / "run.json", folder / "run.rank1.json"]
            os.kill(load_while_written(files[turn % 2])[0]["args"]["process_id"], signal.SIGKILL)
            assert job.wait(timeout=60) != 0
        finally:
            job.kill()
            job.wait()
        for path in files:
            operations += sum(event["ph"] == "B" for event in load(path))
    assert operations > 100 * KILLS


def load_while_written(path):
    """A reader may come between the bytes of a write, which takes a microsecond, and reads again."""
    for _ in range(20):
        try:
            return load(path)
        except ValueError:
            time.sleep(0.001)
    return load(path)


def wait_for(condition):
    until = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.01)


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 256 KB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "none", str(folder)], capture_output=True)
    if mounted.returncode != 0:
        pytest.skip("this user may not mount a file system; test_a_file_that_must_not_grow has the same without")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_full_disk_is_one_warning(horovodrun, small_disk, tmp_path):
    path = small_disk / "run.json"
    result = horovodrun(2, "timeline.py", "full_disk", str(tmp_path), env={"HOROVOD_TIMELINE": str(path)})
    assert result.text.count("timeline: ok") == 2
    assert result.text.count(f"cannot write {path}: No space left on device (28); the job goes on") == 1, result.text
    assert result.text.count(": W timeline]") == 2, result.text  # one on each rank
    assert sum(event["ph"] == "B" for event in load(path)) > 100
    load(small_disk / "run.rank1.json")


def test_a_file_that_must_not_grow(alone, tmp_path):
    """What could not be written is written as soon as it can be, and what was too much for that is counted."""
    path = tmp_path / "run.json"
    result = alone("timeline.py", "full_disk", str(tmp_path), "again", env={"HOROVOD_TIMELINE": str(path)})
    assert "timeline: ok" in result.text and result.text.count("; the job goes on") == 1, result.text
    events = load(path)
    lost = 0
    for event in events:
        if event["ph"] == "i" and event["name"] == "LOST_OPERATIONS":
            lost += event["args"]["operations"]
    written = sum(event["ph"] == "B" and event["name"] == "ALLREDUCE" for event in events)
    assert lost > 0 and written + lost == 12001
    spans(events, rows(events)["x"])
