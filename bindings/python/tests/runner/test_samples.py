# SPDX-License-Identifier: Apache-2.0
"""The samples of a host's ranks (on_host/samples.py)."""

import json
import os
import sys
import zlib

from horovod.runner import on_host

sys.path.insert(0, on_host.FOLDER)
import samples  # noqa: E402


def lines_of(path):
    with open(path, "rb") as file:
        return [json.loads(line) for line in zlib.decompress(file.read()).splitlines()]


def test_before_any_rank_has_come_to_init(tmp_path):
    taken = samples.Samples()
    assert taken.take(0.0, dict) == 0.5
    assert taken.take(0.2, dict) == 0.3
    assert taken.write(tmp_path, {}) == []


def test_a_rank_that_comes_is_sampled(tmp_path):
    taken = samples.Samples()
    taken.take(0.0, dict)
    for now in (1.0, 2.0, 3.0):
        taken.take(now, lambda: {3: os.getpid()})
    assert taken.write(tmp_path, {3: "node1"}) == ["samples.3.z"]
    head, *rest = lines_of(tmp_path / "samples.3.z")
    assert head == {"hvd_samples": 1, "rank": 3, "pid": os.getpid(), "host": "node1"}
    assert [sample["threads"][0]["thread"] for sample in rest] == [os.getpid()] * 2
    assert rest[1]["since"] == rest[0]["at"]


def test_only_the_last_ten_minutes_are_kept(tmp_path):
    taken = samples.Samples()
    for now in range(1300):
        taken.take(float(now), lambda: {0: os.getpid()})
    taken.write(tmp_path, {0: "node1"})
    assert len(lines_of(tmp_path / "samples.0.z")) == 1 + 1200


def test_a_full_disk_leaves_the_file_out(tmp_path):
    taken = samples.Samples()
    for now in (0.0, 1.0):
        taken.take(now, lambda: {0: os.getpid()})
    assert taken.write(tmp_path / "none", {0: "node1"}) == []
