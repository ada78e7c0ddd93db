# SPDX-License-Identifier: Apache-2.0
"""Elastic jobs: horovodrun --min-np, whose processes are killed and replaced."""

import os
import signal
import subprocess
import sys

import pytest
from elastic_kills import Job, expected, one_run, results


@pytest.mark.parametrize("flavour, runs", (("numpy", 12), ("torch", 3)))
def test_random_kills(flavour, runs):
    # Each job lasts some seconds, because processes have to start anew in it.
    wrong = [(seed, why) for seed in range(1, runs + 1) for why, _times in [one_run(seed, flavour)] if why]
    assert wrong == []


@pytest.mark.parametrize("flavour", ("numpy", "torch"))
def test_rank_0_dies_and_is_replaced(flavour):
    job = Job(3, flavour)
    job.wait_for("begins")
    os.kill(job.pids[0], signal.SIGKILL)
    text, code = job.end()
    assert code == 0 and set(results(text)) == {expected(flavour)}, text
    assert "worker 0 on localhost was lost (killed by signal 9 (SIGKILL)); 2 ranks go on" in text, text
    if "worker 3 on localhost has joined; 3 ranks go on" in text:  # perhaps it has come too late
        assert len(results(text)) == 3, text


def test_too_few_ranks_are_left():
    job = Job(2, "numpy", "--min-np", "2", "--blacklist-cooldown-range", "30", "60", "--elastic-timeout", "0.5")
    job.wait_for("begins")
    os.kill(job.pids[1], signal.SIGKILL)
    text, code = job.end()
    assert code == 137 and "the job cannot go on: 2 ranks are needed, and 1 rank has had a place for 0.5 s" in text, text
    assert "rank 1 failed first: killed by signal 9 (SIGKILL)" in text, text


def test_reset_limit():
    job = Job(3, "numpy", "--reset-limit", "1")
    job.wait_for("begins")
    for number in (0, 1):
        os.kill(job.pids[number], signal.SIGKILL)
        job.wait_for("go on" if number == 0 else "cannot")
    text, code = job.end()
    assert code == 137 and "the members of the job have changed 1 times (--reset-limit)" in text, text


def test_a_job_that_is_stopped_starts_nobody_any_more():
    job = Job(3, "numpy")
    job.wait_for("begins")
    job.process.send_signal(signal.SIGTERM)
    text, code = job.end()
    assert code == 143 and sorted(job.pids) == [0, 1, 2] and not job.living(), text


def test_a_program_without_hvd_elastic_ends_with_the_rank_that_failed(tmp_path):
    program = tmp_path / "plain.py"
    program.write_text(
        "import os, sys\nimport numpy as np\nimport horovod as hvd\nhvd.init()\n"
        "for step in range(100):\n"
        "    if step == 50 and os.environ['HOROVOD_WORKER'] == '1': raise ValueError('planned')\n"
        "    hvd.allreduce(np.ones(3), name='ones')\n"
    )
    command = [sys.executable, "-m", "horovod.runner.launch", "-np", "3", "--min-np", "2", sys.executable, str(program)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert result.returncode == 1, result
    assert "rank 1 failed first: exit code 1" in result.stderr and "it raised ValueError: planned" in result.stderr, result.stderr
