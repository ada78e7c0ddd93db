# SPDX-License-Identifier: Apache-2.0
"""Elastic jobs: horovodrun --min-np, whose processes are killed and replaced."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from elastic_kills import C_PROGRAM, Job, expected, many_deaths, one_run, results

HERE = Path(__file__).parent

once = pytest.mark.skipif(
    os.environ.get("HVD_PYTHON_NATIVE") == "ctypes", reason="about the launcher and the program; runs with the other native layer"
)


@pytest.mark.parametrize("flavour, runs", (("numpy", 6), ("torch", 1)))
def test_random_kills(flavour, runs):
    # Each job lasts some seconds, because processes have to start anew in it.
    wrong = [(seed, why) for seed in range(1, runs + 1) for why, _killed, _times in [one_run(seed, flavour)] if why]
    assert wrong == []


@pytest.mark.parametrize("flavour", ("c", "numpy", "torch"))
@once
def test_two_hundred_deaths(flavour):
    """Of processes that start in milliseconds. Half a minute: each death waits for a commit after the one before."""
    if flavour == "c" and not C_PROGRAM.exists():
        pytest.skip(f"{C_PROGRAM} is not built: meson setup build; ninja -C build")
    wrong, killed, _times = many_deaths(1, flavour, 200)
    assert wrong == {} and killed >= 200


@once
def test_each_sample_counts_once():
    wrong = [(seed, why) for seed in range(1, 4) for why, _killed, _times in [one_run(seed, "ledger", 3)] if why]
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


@once
def test_too_few_ranks_are_left():
    job = Job(2, "numpy", "--min-np", "2", "--blacklist-cooldown-range", "30", "60", "--elastic-timeout", "0.5")
    job.wait_for("begins")
    os.kill(job.pids[1], signal.SIGKILL)
    text, code = job.end()
    assert code == 137 and "the job cannot go on: 2 ranks are needed, and 1 rank has had a place for 0.5 s" in text, text
    assert "rank 1 failed first: killed by signal 9 (SIGKILL)" in text, text


@once
def test_reset_limit():
    job = Job(3, "numpy", "--reset-limit", "1")
    job.wait_for("begins")
    for number in (0, 1):
        os.kill(job.pids[number], signal.SIGKILL)
        job.wait_for("go on" if number == 0 else "cannot")
    text, code = job.end()
    assert code == 137 and "the members of the job have changed 1 times (--reset-limit)" in text, text


def begins(text):
    """At which steps processes have begun to train."""
    return [int(step) for step in re.findall(r"begins at step (\d+)", text)]


@pytest.mark.parametrize("flavour, leavers", (("numpy", (0,)), ("numpy", (2, 1)), ("torch", (1,))))
def test_sigterm_lets_a_rank_leave_in_order(flavour, leavers):
    job = Job(3, flavour, "--max-np", "3")
    job.wait_for("begins")
    for number in leavers:
        os.kill(job.pids[number], signal.SIGTERM)
    text, code = job.end()
    assert code == 0 and results(text) == [expected(flavour)] * (3 - len(leavers)), text
    for number in leavers:
        assert f"worker {number} on localhost leaves" in text and "was lost" not in text, text
    # The ranks that stay begin at the step where they were, not at an earlier commit. No process is started in a slot that a rank has
    # left.
    epochs = len(re.findall("go(es)? on;", text))
    assert len(begins(text)) <= 3 + epochs * (3 - 1) and all(step > 0 for step in begins(text)[3:]) and len(job.pids) == 3, text


@once
def test_the_second_leaves_while_the_others_recover_from_a_death():
    job = Job(4, "numpy", "--max-np", "4")
    job.wait_for("begins")
    os.kill(job.pids[1], signal.SIGKILL)
    os.kill(job.pids[2], signal.SIGTERM)
    text, code = job.end()
    assert code == 0 and set(results(text)) == {expected("numpy")}, text
    assert "worker 1 on localhost was lost" in text and "worker 2 on localhost leaves" in text, text


@once
@pytest.mark.parametrize("number", (0, 1))
def test_a_frozen_rank_is_expelled(number):
    job = Job(3, "numpy", environment={"HOROVOD_PEER_TIMEOUT": "1.5"})
    job.wait_for("begins")
    os.kill(job.pids[number], signal.SIGSTOP)
    text, code = job.end()
    assert code == 0 and set(results(text)) == {expected("numpy")}, text
    assert f"worker {number} on localhost has been stopped by a signal for 1.5 s (HOROVOD_PEER_TIMEOUT)" in text, text
    assert f"worker {number} on localhost was expelled (stopped by a signal for 1.5 s); 2 ranks go on" in text, text


@once
@pytest.mark.parametrize("hosts", ("localhost:3", "127.0.0.2:2,127.0.0.3:1", "127.0.0.2:1,127.0.0.3:2"))
def test_an_expelled_rank_learns_of_it_when_it_wakes(hosts):
    job = Job(3, "numpy", "-H", hosts, environment={"HOROVOD_PEER_TIMEOUT": "1"})
    job.wait_for("begins")
    os.kill(job.pids[1], signal.SIGSTOP)
    job.wait_for("2 ranks go on")
    os.kill(job.pids[1], signal.SIGCONT)
    text, code = job.end()
    assert code == 0 and set(results(text)) == {expected("numpy")}, text
    learnt = "HorovodDismissedError: init: this process was expelled from the job: it was stopped by a signal for too long"
    assert learnt in text and "killed by signal" not in text, text


@once
def test_ranks_that_stand_still_with_their_job_are_not_expelled():
    # A group of its own, as a shell makes for a job: SIGTSTP stops no group that nobody of its session could wake.
    job = Job(2, "numpy", environment={"HOROVOD_PEER_TIMEOUT": "1"}, process_group=0)
    job.wait_for("begins")
    job.process.send_signal(signal.SIGTSTP)
    time.sleep(3.0)  # the time after which one alone would have been expelled
    job.process.send_signal(signal.SIGCONT)
    text, code = job.end()
    assert code == 0 and results(text) == [expected("numpy")] * 2 and "killed" not in text, text


@once
def test_a_job_that_is_stopped_ends_at_its_next_commit():
    job = Job(3, "numpy", "--verbose")
    job.wait_for("begins")
    job.process.send_signal(signal.SIGTERM)
    text, code = job.end(20)  # the grace is 30 s
    assert code == 143 and sorted(job.pids) == [0, 1, 2] and not job.living(), text
    assert text.count("with code 0") == 3 and "killed" not in text.replace("which are killed after 30 s", ""), text


@once
@pytest.mark.parametrize("victims", ([1], [0, 1], [3]))
def test_process_sets_whose_members_all_go_on_keep_their_ids(victims):
    sets = {"low": (1, [0, 1]), "high": (2, [2, 3]), "odd": (3, [1, 3])}  # registered in this order
    expected = {
        name: {"gone"} if set(victims) & set(workers) else {"None", f"({number}, {sum(10**worker for worker in workers)})"}
        for name, (number, workers) in sets.items()
    }
    program = [sys.executable, str(HERE / "workers" / "elastic_sets.py"), *map(str, victims)]
    command = [sys.executable, "-m", "horovod.runner.launch", "-np", "4", "--min-np", "2", *program]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert result.returncode == 0, result
    begins = re.findall(r"worker \d size ([234]) low (.*) high (.*) odd (.*)", result.stdout)
    after = [begin for begin in begins if begin[0] != "4"] + begins[-4:]
    assert len(begins) > 8, result
    for place, name in enumerate(sets, start=1):
        assert {begin[place] for begin in after} <= expected[name], (name, result)
    ends = re.findall(r"worker (\d) ends: kept (.*) again (.*) lost (.*)", result.stdout)
    assert len(ends) == 4 and all(kept == again != "gone" for _worker, kept, again, _lost in ends), result
    made = {lost for *_, lost in ends} - {"None"}  # by both of its members, if the program makes the lost set again
    assert made == {"gone"} if len(victims) == 2 else len(made) == 1 and made.pop().startswith("(4, "), result
    assert {int(worker) for worker, *_ in ends} == {0, 1, 2, 3, *range(4, 4 + len(victims))} - set(victims), result


def elastic_job(folder, program, ranks, least):
    """How a job of this program, a text, ended."""
    path = folder / "program.py"
    path.write_text(program)
    command = [sys.executable, "-m", "horovod.runner.launch", "-np", str(ranks), "--min-np", str(least), sys.executable, str(path)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


@once
def test_a_handler_of_the_program_for_sigterm_is_left_alone(tmp_path):
    program = (
        "import os, signal, sys\nimport numpy as np\nimport horovod as hvd\n"
        "signal.signal(signal.SIGTERM, lambda *_: print('mine', flush=True))\n"
        "hvd.init()\n"
        "@hvd.elastic.run\n"
        "def train(state):\n"
        "    while state.step < 50:\n"
        "        if state.step == 20 and hvd.rank() == 1: os.kill(os.getpid(), signal.SIGTERM)\n"
        "        state.sum += hvd.allreduce(np.ones(1), name='ones')[0]\n"
        "        state.step += 1\n"
        "        state.commit()\n"
        "state = hvd.elastic.ObjectState(step=0, sum=0.0)\n"
        "train(state)\n"
        "print(state.sum, hvd.size())\n"
    )
    result = elastic_job(tmp_path, program, 2, 1)
    assert result.returncode == 0, result
    assert result.stdout.count("mine") == 1 and result.stdout.count("50.0 2") == 2, result


@once
def test_a_replacement_takes_over_the_local_rank_and_the_others_keep_theirs(tmp_path):
    program = (
        "import os, signal\nimport horovod as hvd\n"
        "worker = os.environ['HOROVOD_WORKER']\n"
        "hvd.init()\n"
        "@hvd.elastic.run\n"
        "def train(state):\n"
        "    state.lost = state.lost or hvd.size() < 3\n"
        "    names = 'RANK', 'SIZE', 'LOCAL_RANK', 'LOCAL_SIZE'\n"
        "    told = [int(os.environ['HOROVOD_' + name]) for name in names]\n"
        "    assert told == [hvd.rank(), hvd.size(), hvd.local_rank(), hvd.local_size()], told\n"
        "    print('worker', worker, 'has', hvd.local_rank(), 'of', hvd.local_size(), flush=True)\n"
        "    while not (state.lost and hvd.size() == 3):\n"
        "        if state.step == 3 and worker == '1': os.kill(os.getpid(), signal.SIGKILL)\n"
        "        state.step += 1\n"
        "        state.commit()\n"
        "train(hvd.elastic.ObjectState(step=0, lost=False))\n"
    )
    result = elastic_job(tmp_path, program, 3, 1)
    assert result.returncode == 0, result
    told = set(re.findall(r"worker (\d) has (\d) of (\d)", result.stdout))
    begin, end = {("0", "0", "3"), ("1", "1", "3"), ("2", "2", "3")}, {("3", "1", "3")}
    assert begin | end <= told <= begin | end | {("0", "0", "2"), ("2", "2", "2")}, result


@once
def test_a_program_lets_a_rank_leave(tmp_path):
    program = (
        "import horovod as hvd\n"
        "hvd.init()\n"
        "@hvd.elastic.run\n"
        "def train(state):\n"
        "    while hvd.size() == 3:\n"
        "        if state.step == 20 and hvd.rank() == 1: hvd.elastic.leave()\n"
        "        state.step += 1\n"
        "        state.commit()\n"
        "train(hvd.elastic.ObjectState(step=0))\n"
        "print('ends as one of', hvd.size())\n"
    )
    result = elastic_job(tmp_path, program, 3, 1)
    assert result.returncode == 0 and result.stdout.count("ends as one of 2") == 2, result
    assert "worker 1 on localhost leaves; 2 ranks go on" in result.stderr, result


@once
def test_a_program_without_hvd_elastic_ends_with_the_rank_that_failed(tmp_path):
    program = (
        "import os, sys\nimport numpy as np\nimport horovod as hvd\nhvd.init()\n"
        "for step in range(100):\n"
        "    if step == 50 and os.environ['HOROVOD_WORKER'] == '1': raise ValueError('planned')\n"
        "    hvd.allreduce(np.ones(3), name='ones')\n"
    )
    result = elastic_job(tmp_path, program, 3, 2)
    assert result.returncode == 1, result
    assert "rank 1 failed first: exit code 1" in result.stderr and "it raised ValueError: planned" in result.stderr, result.stderr
