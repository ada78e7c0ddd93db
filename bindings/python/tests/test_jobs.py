# SPDX-License-Identifier: Apache-2.0
"""Whole jobs: every worker of tests/workers, alone and under the launcher."""

import json
import re

import pytest


def test_numpy_operations_alone(alone, native):
    assert "numpy_ops: ok" in alone("numpy_ops.py", native=native).text


@pytest.mark.parametrize("ranks", [2, 4])
def test_numpy_operations(horovodrun, native, ranks):
    assert horovodrun(ranks, "numpy_ops.py", native=native).text.count("numpy_ops: ok") == ranks


def test_help(horovodrun):
    assert horovodrun(2, "documented.py", "horovod").text.count("documented: ok") == 2


def test_memory_is_not_copied(alone, native):
    assert "zero_copy: ok" in alone("zero_copy.py", native=native).text


def test_arrays_that_the_native_layer_reads(horovodrun, native):
    assert horovodrun(2, "own_arrays.py", "numpy", native=native).text.count("own_arrays: ok") == 2


def test_behaviour_alone(alone, native):
    assert "behaviour: ok" in alone("behaviour.py", native=native).text


def test_operations_that_nobody_waits_for(horovodrun, native):
    assert horovodrun(3, "unattended.py", native=native).text.count("unattended: ok") == 3


@pytest.mark.parametrize("ranks", [2, 4])
def test_behaviour(horovodrun, native, ranks):
    assert horovodrun(ranks, "behaviour.py", native=native).text.count("behaviour: ok") == ranks


def test_elastic_alone(alone, native):
    assert "elastic_numpy: ok" in alone("elastic_numpy.py", native=native).text


def test_elastic(horovodrun, native):
    assert horovodrun(3, "elastic_numpy.py", native=native).text.count("elastic_numpy: ok") == 3


def test_survivors_name_the_killed_rank(horovodrun, native, tmp_path):
    result = horovodrun(3, "killed.py", str(tmp_path), native=native, expect=None)
    assert result.returncode != 0, result.text
    line = r"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{6}: E \w+\] \[0\]: .*rank 1 \(host"
    assert re.search(line, result.text), result.text
    pid = int((tmp_path / "pid").read_text())
    for rank in (0, 2):
        told = json.loads((tmp_path / f"{rank}.json").read_text())
        for name in ("second", "third"):
            lost_rank, lost_pid, host, status, operation, message = told[name]
            assert (lost_rank, lost_pid, status) == (1, pid, "HVD_ERR_PEER_LOST"), told
            assert host and operation == name and "rank 1" in message, told
        assert told["seconds"] < 3 and told["initialized"] is False, told


def test_a_late_rank_on_sets_with_equal_names(horovodrun):
    assert horovodrun(4, "late_on_sets.py").text.count("late_on_sets: ok") == 4


def test_the_end_of_a_stall_names_each_ranks_operation(horovodrun):
    env = {"HOROVOD_STALL_CHECK_TIME_SECONDS": "2", "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS": "3"}
    assert horovodrun(2, "stalled.py", env=env).text.count("stalled: ok") == 2


def test_the_others_hear_why_a_rank_cannot_start(horovodrun):
    assert horovodrun(3, "start_without_memory.py").text.count("start_without_memory: ok") == 3
