# SPDX-License-Identifier: Apache-2.0
"""horovodrun report on jobs of which everything is known, because a test has made them up."""

import json
import random
import re
from html.parser import HTMLParser

import pytest
from job_records import MS, NAMES, MadeJob, ring_links

from horovod.runner.report import causes
from horovod.runner.report.analysis import analyse
from horovod.runner.report.page import page
from horovod.runner.report.records import ReportError
from horovod.runner.report.replay import Replay
from horovod.runner.report.tables import bandwidths, group_rows, tensor_rows
from horovod.runner.report.waits import waited_for


def test_steps_begin_before_the_first_operation_of_the_model(tmp_path):
    found = analyse(MadeJob(steps=20).write(tmp_path / "job"))
    assert found.steps.found and found.steps.operations == len(NAMES)
    assert found.steps.count == 18  # what was before the first operation is not known, and the last step has no begin after it
    assert found.steps.length == pytest.approx(22 * MS)


def test_an_operation_that_comes_in_between_moves_no_later_step(tmp_path):
    job = MadeJob(steps=30)
    for rows in job.rows.values():
        at = rows[29]["ended"] + MS // 2
        rows.insert(30, dict(rows[30], name="validation", use=10_000, group=0, submitted=at, agreed=at, begun=at, ended=at + MS // 2))
    found = analyse(job.write(tmp_path / "job"))
    assert found.steps.operations == len(NAMES) and found.steps.count == 28
    assert all(abs(end - begin - 22 * MS) <= MS for begin, end in found.steps.spans[0])


def test_steps_are_found_where_the_order_changes(tmp_path):
    job = MadeJob(steps=30)
    rng = random.Random(3)
    for step in range(30):
        for place, name in enumerate(rng.sample(NAMES, 3)):
            for rows in job.rows.values():
                rows[3 * step + place].update(name=name, bytes=64)
    found = analyse(job.write(tmp_path / "job"))
    assert found.steps.found and found.steps.operations == 3
    assert "the order of operations changes" in found.steps.rule


def test_a_burst_of_own_operations_ends_where_the_step_goes_on(tmp_path):
    found = analyse(MadeJob(steps=40, alone={1: 100}).write(tmp_path / "job"))
    mean = found.mean(1)  # each operation costs 0.06 ms with what is between them
    assert mean.own == pytest.approx(6 * MS, rel=0.02) and mean.compute == pytest.approx(20 * MS, rel=0.02)


def test_without_steps_the_time_is_cut_into_slices(tmp_path):
    job = MadeJob(steps=30)
    for rows in job.rows.values():
        for number, row in enumerate(rows):
            row.update(name=f"always another {number}")
    found = analyse(job.write(tmp_path / "job"))
    assert not found.steps.found and found.steps.count == 50
    assert "no operation comes again" in found.steps.rule


def test_unnamed_operations_make_steps_too(tmp_path):
    job = MadeJob(steps=20)
    for rows in job.rows.values():
        for number, row in enumerate(rows):
            row.update(name=f"unnamed.{number % 256}", bytes=64 << number % 3)
    assert analyse(job.write(tmp_path / "job")).steps.operations == 3


def test_a_step_is_divided_as_it_was_spent(tmp_path):
    found = analyse(MadeJob(late={2: 10}).write(tmp_path / "job"))
    for rank in range(4):
        mean = found.mean(rank)
        assert mean.compute == pytest.approx((30 if rank == 2 else 20) * MS, rel=0.01)
        assert mean.waiting == pytest.approx((0 if rank == 2 else 10) * MS, abs=0.01 * MS)
        assert mean.moving == pytest.approx(2 * MS, rel=0.01)
        assert mean.total == pytest.approx(32 * MS, rel=0.01)
    assert [round(row.time / MS) for row in waited_for(found.ways, found.steps)] == [0, 0, 10, 0]


def test_waiting_in_the_data_phase_is_waiting_for_bytes_and_names_the_rank(tmp_path):
    job = MadeJob(data=5)
    for rank, rows in job.rows.items():
        for row in rows:
            row.update(waited=3 * MS if rank != 1 else 0, moved=row["moved"] - 3 * MS, waited_for=1 if rank != 1 else -1)
    found = analyse(job.write(tmp_path / "job"))
    assert found.mean(0).starving == pytest.approx(3 * MS, rel=0.05) and found.mean(1).starving == pytest.approx(0, abs=0.1 * MS)
    assert [round(row.data / MS) for row in waited_for(found.ways, found.steps)][1] == 3


def test_what_overlaps_is_neither_computing_nor_waiting(tmp_path):
    job = MadeJob(compute=20)
    for rows in job.rows.values():
        for number, row in enumerate(rows):
            row["submitted"] -= (2 - number % 3) * 4 * MS  # each tensor 4 ms after the one before, while that is in flight
    mean = analyse(job.write(tmp_path / "job")).mean(0)
    assert (mean.overlap, mean.compute) == (pytest.approx(8 * MS, rel=0.01), pytest.approx(12 * MS, rel=0.01))


def test_the_replay_of_a_job_gives_its_own_times(tmp_path):
    found = analyse(MadeJob(late={1: 3, 3: 7}, alone={0: 5}).write(tmp_path / "job"))
    ends = [operation.ended for way in found.ways.values() for operation in way.operations]
    begins = [way.gaps[0].begin for way in found.ways.values()]
    assert Replay(found.ways).length() == pytest.approx(max(ends) - min(begins), abs=1)


@pytest.mark.parametrize("late, gain", [({2: 10}, 10), ({2: 10, 0: 4}, 6), ({}, 0)])
def test_the_gain_is_what_the_next_slowest_rank_leaves(tmp_path, late, gain):
    found = analyse(MadeJob(late=late).write(tmp_path / "job"))
    assert found.gains[2].time == pytest.approx(gain * MS, rel=0.05, abs=0.1 * MS)


def test_the_gain_is_right_where_buckets_depart_while_the_program_computes(tmp_path):
    job = MadeJob(late={2: 15}, compute=30)
    for rank, rows in job.rows.items():
        for number, row in enumerate(rows):
            early = (2 - number % 3) * 8 * MS  # each bucket 8 ms after the one before
            row["submitted"] -= early
            # A bucket goes when the last rank has it, and takes 2 ms: on rank 2 nothing is in flight when the next one departs.
            row["agreed"] = row["begun"] = row["agreed"] - early
            row["ended"] -= early
            row["group"] = row["use"]
    found = analyse(job.write(tmp_path / "job"))
    assert found.gains[2].time == pytest.approx(15 * MS, rel=0.02) and found.gains[0].time == pytest.approx(0, abs=0.1 * MS)
    assert found.mean(0).compute == pytest.approx(14 * MS, rel=0.02)
    assert found.mean(2).overlap == pytest.approx(4 * MS, rel=0.02)  # what it computes while the first two buckets move


def test_a_program_that_waits_for_one_of_two_goes_on_since_its_end(tmp_path):
    # The first tensor is waited for while the second is in flight; 3 ms later the third departs. Rank 1 is late with all of it.
    job = MadeJob(late={1: 10}, data=12)
    for rows in job.rows.values():
        for start in range(0, len(rows), 3):
            first, second, third = rows[start : start + 3]
            first.update(ended=first["agreed"] + 4 * MS, group=first["use"])
            second.update(ended=first["agreed"] + 9 * MS, group=second["use"])
            third.update(submitted=first["ended"] + 3 * MS, agreed=first["ended"] + 4 * MS, begun=first["ended"] + 4 * MS, group=third["use"])
    found = analyse(job.write(tmp_path / "job"))
    assert {gap.waits for gap in found.ways[0].gaps[5::3]} == {"one"}
    assert found.gains[1].time == pytest.approx(10 * MS, rel=0.02)
    assert found.mean(0).overlap == pytest.approx(3 * MS, rel=0.02)


def test_a_job_without_a_slow_rank_has_no_finding(tmp_path):
    found = analyse(MadeJob().sample().write(tmp_path / "job"))
    assert found.findings == [] and found.verdict.startswith("No rank stands out")


_OTHERS_RUN = {1: 25}
_CAUSES = [
    (causes.SLOW_COMPUTE, {"late": {1: 20}}, {"more": {1: {"cpu": 20}}}),
    (causes.BUSY_NEIGHBOUR, {"late": {1: 20}}, {"more": {1: {"queued": 20}}}),
    (causes.SLEEPING_LOADER, {"late": {1: 20}}, {"more": {1: {"slept": 1}}}),
    (causes.SLEEPING_LOADER, {"late": {1: 20}}, {"more": {1: {"slept": 1}}, "others": _OTHERS_RUN}),  # its workers run, and it does not ask
    (causes.GIL_HOG, {"late": {1: 20}}, {"more": {1: {"slept": 6}}, "others": _OTHERS_RUN}),
    (causes.GIL_HOG, {"late": {1: 20}}, {"more": {1: {"slept": 6, "queued": 12}}, "others": _OTHERS_RUN}),
    (causes.PAGE_FAULTS, {"late": {1: 20}}, {"more": {1: {"cpu": 20, "system": 12, "minor": 8000}}}),
    (causes.PAGE_FAULTS, {"late": {1: 20}}, {"more": {1: {"major": 40, "slept": 40}}}),
    (causes.SLOW_COMPUTE, {"late": {1: 20}}, {"more": {1: {"cpu": 20, "system": 12}}}),  # system calls, but no faults
    (causes.STORM, {"alone": {1: 300}}, {"more": {1: {"cpu": 10}}}),
    (causes.STORM, {"alone": {1: 300}}, None),
    (causes.UNKNOWN, {"late": {1: 20}}, None),
    (causes.SLOW_LINK, {"data": 20}, {"links": ring_links(4, acked=10_000_000, busy=36 * MS, slow=1)}),
    (causes.LOSSY_LINK, {"data": 20}, {"links": ring_links(4, acked=10_000_000, busy=36 * MS, slow=1, resent=(1, 200))}),
]


@pytest.mark.parametrize("cause, job, samples", _CAUSES)
def test_the_class_of_a_cause_follows_from_what_the_kernel_counted(tmp_path, cause, job, samples):
    made = MadeJob(**job)
    if cause == causes.LOSSY_LINK:
        _spare(made, every=2, data=4)
    if samples is not None:
        made.sample(**samples)
    found = analyse(made.write(tmp_path / "job", host="b"))
    assert [(finding.rank, finding.cause.name) for finding in found.findings] == [(1, cause)]
    assert re.match(r"Rank 1 on host b makes every step \d+\.\d ms longer \(\d+ %\): it \w+", found.verdict)


def _spare(made, every, data):
    """Every so many steps a data phase is short: no packet was lost."""
    for rows in made.rows.values():
        for row in rows:
            if (row["use"] - 1) // 3 % every == 0:
                row["begun"] = row["agreed"] = row["ended"] - data * MS


def test_cores_that_are_short_for_everybody_are_no_neighbour(tmp_path):
    # Everybody is queued twice as long as it runs; rank 1 runs 20 ms longer and is queued 40 ms longer.
    made = MadeJob(late={1: 60}).sample(more={rank: {"queued": 48 if rank == 1 else 8, "cpu": 20 if rank == 1 else 0} for rank in range(4)})
    assert analyse(made.write(tmp_path / "job")).findings[0].cause.name == causes.SLOW_COMPUTE


def test_a_slow_link_s_gain_is_the_time_its_links_are_busy_longer(tmp_path):
    made = MadeJob(data=20)
    made.sample(links=ring_links(4, acked=10_000_000, busy=round(0.08 * made.length / 20 * 20), slow=1))
    found = analyse(made.write(tmp_path / "job"))
    finding = found.findings[0]
    # Its links are busy for 80 % of the job, the others for 8 %: of a step of 40 ms, 28.8 ms; but no data phase is shorter than nothing.
    assert finding.gain == pytest.approx(20 * 0.98 * MS, rel=0.1)


def test_of_two_ranks_the_one_that_sends_again_has_the_lossy_link(tmp_path):
    made = MadeJob(ranks=2, data=20)
    _spare(made, every=2, data=4)
    links = ring_links(2, acked=10_000_000, busy=36 * MS)
    links[1][0]["resent"] = 200
    finding = analyse(made.sample(links=links).write(tmp_path / "job")).findings[0]
    assert (finding.rank, finding.cause.name) == (1, causes.LOSSY_LINK) and "between it and rank 0 had" in finding.sentence


def test_a_single_link_that_loses_nothing_is_not_called_slow(tmp_path):
    made = MadeJob(ranks=2, data=20).sample(links=ring_links(2, acked=10_000_000, busy=36 * MS, slow=1))
    assert analyse(made.write(tmp_path / "job")).findings == []


def test_rings_that_ended_at_different_operations_are_cut_to_what_all_know(tmp_path):
    found = analyse(MadeJob(steps=40, late={3: 10}).write(tmp_path / "job", keep={0: 60, 1: 75, 2: 61}))
    assert found.steps.count >= 18 and found.findings[0].rank == 3
    assert found.job.lost == 60 + 45 + 59
    assert "164 older records are lost" in page(found)


def test_clocks_of_other_hosts_are_put_on_rank_0_s(tmp_path):
    made = MadeJob(late={1: 10})
    offset = 123_456_789_000
    for row in made.rows[3]:
        for name in ("submitted", "agreed", "begun", "ended"):
            row[name] -= offset
    folder = made.write(tmp_path / "job")
    name = tmp_path / "job" / "rank.3" / "records.jsonl"
    lines = name.read_text().splitlines()
    head = {**json.loads(lines[0]), "clock_offset": offset, "clock_error": 50_000}
    name.write_text("\n".join([json.dumps(head), *lines[1:]]) + "\n")
    found = analyse(folder)
    assert found.findings[0].rank == 1 and found.mean(3).waiting == pytest.approx(10 * MS, rel=0.01)
    assert "aligned to 50.0 µs or better" in page(found)


def test_the_tables(tmp_path):
    found = analyse(MadeJob(late={2: 10}).write(tmp_path / "job"))
    tensors = tensor_rows(found.ways, {rank: found.inside(rank) for rank in found.ways}, found.steps.count)
    assert sorted(row.name for row in tensors) == sorted(NAMES)
    assert {row.last for row in tensors} == {"rank 2 (100 %)"} and {row.shape for row in tensors} == {"1024", "2048", "4096"}
    groups = group_rows(found.inside(0))
    assert sum(row.groups for row in groups) == 18 and all(row.rate > 0 for row in groups)
    (bandwidth,) = bandwidths(found.inside(0), 4, found.steps.count)
    assert bandwidth.bytes_per_step == 4096 * 7 and bandwidth.link == pytest.approx(bandwidth.algorithm * 1.5)


class _Balanced(HTMLParser):
    """Checks that every tag is closed by its own."""

    def __init__(self):
        super().__init__()
        self.open, self.tags = [], set()

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        assert not {"src", "href"}.intersection(name for name, _ in attrs), (tag, attrs)
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.add(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_the_page_is_whole_and_needs_nothing_else(tmp_path):
    made = MadeJob(late={1: 20}).sample(more={1: {"cpu": 20}}, links=ring_links(4, 10_000_000, 36 * MS))
    found = analyse(made.write(tmp_path / "a <b> & c", host="<host>"))
    text = page(found)
    parser = _Balanced()
    parser.feed(text)
    assert parser.open == [] and "script" not in parser.tags and "link" not in parser.tags
    assert not re.search(r"https?:|url\((?!#)|@import", text)
    assert "<host>" not in text and "&lt;host&gt;" in text and "a &lt;b&gt; &amp; c" in text
    for words in ("Rank 1 on host", "Where the time of a step goes", "Ten costliest tensors", "embedding", "Fusion", "slow compute"):
        assert words in text
    assert text.count("<svg") == 4 + 4  # patterns, legend, bars, who is waited for; each rank


def test_a_page_of_many_steps_stays_small(tmp_path):
    assert len(page(analyse(MadeJob(steps=1300).write(tmp_path / "job")))) < 300_000


@pytest.mark.parametrize("files, text", [
    ({}, "no rank.N/records.jsonl in it"),
    ({"rank.0/records.jsonl": ""}, "does not begin with a line of hvd_records 1"),
    ({"rank.0/records.jsonl": '{"hvd_records": 2}\n'}, "does not begin with a line of hvd_records 1"),
    ({"rank.0/records.jsonl": '{"hvd_records": 1, "rank": 0}\n{"name": "x"}\n'}, "a line is not what a record is (KeyError('status'))"),
    ({"rank.0/records.jsonl": '{"hvd_records": 1, "rank": 0}\n'}, "no operation that all ranks took part in"),
    ({f"rank.{n}/records.jsonl": '{"hvd_records": 1, "rank": 0}\n' for n in (0, 1)}, "two of its folders have records of rank 0"),
])
def test_a_folder_without_records_is_refused_with_what_to_do(tmp_path, files, text):
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content)
    with pytest.raises(ReportError) as caught:
        analyse(str(tmp_path))
    assert text in str(caught.value) and str(tmp_path) in str(caught.value)


def test_half_a_line_at_the_end_and_strange_samples_are_left_out(tmp_path):
    folder = MadeJob(late={1: 20}).sample(more={1: {"cpu": 20}}).write(tmp_path / "job")
    for rank in range(4):
        with open(tmp_path / "job" / f"rank.{rank}" / "records.jsonl", "a") as file:
            file.write('{"n": 99, "set": 0, "use')
        with open(tmp_path / "job" / f"rank.{rank}" / "samples.jsonl", "ab") as file:
            file.write(b'{"since": "x", "at": 1, "threads": []}\n{"since": 1, "at": 2, "threads": [7]}\n[1]\n\xff\xfe\n{"since": 5')
    assert analyse(folder).findings[0].cause.name == causes.SLOW_COMPUTE


def test_one_rank_alone_gets_a_report_without_a_culprit(tmp_path):
    found = analyse(MadeJob(ranks=1).write(tmp_path / "job"))
    assert found.findings == [] and "1 ranks" not in page(found)


@pytest.mark.parametrize("steps", [1, 2, 3, 4])
def test_a_job_that_was_short_gets_a_report_too(tmp_path, steps):
    found = analyse(MadeJob(steps=steps, late={1: 5}).write(tmp_path / "job"))
    assert found.steps.found == (steps > 4) and found.steps.count >= 1 and "How to read this" in page(found)


def test_operations_that_took_no_time_divide_by_nothing(tmp_path):
    job = MadeJob(steps=1)
    for rows in job.rows.values():
        for row in rows:
            row.update(dict.fromkeys(("submitted", "agreed", "begun", "ended"), 5 * MS), moved=0)
    found = analyse(job.write(tmp_path / "job"))
    assert found.findings == [] and "How to read this" in page(found)


@pytest.mark.parametrize("seed", range(150))
def test_no_file_makes_the_reader_fail_without_saying_why(tmp_path, seed):
    rng = random.Random(seed)
    folder = MadeJob(steps=8, late={1: 20}).sample(more={1: {"cpu": 20}}, links=ring_links(4, 1000, MS)).write(tmp_path / "job")
    for path in sorted((tmp_path / "job").rglob("*.jsonl")):
        lines = path.read_text().splitlines()
        for number in rng.sample(range(len(lines)), 2):
            row = json.loads(lines[number])
            row[rng.choice(list(row))] = rng.choice([None, -1, 0, "x", [], {}, 1 << 62, 1.5, [{}], float("nan")])
            lines[number] = rng.choice([json.dumps(row), lines[number][: rng.randrange(len(lines[number]) + 1)]])
        path.write_text("\n".join(lines))
    try:
        assert "How to read this" in page(analyse(folder))
    except ReportError as error:
        assert str(tmp_path) in str(error)
