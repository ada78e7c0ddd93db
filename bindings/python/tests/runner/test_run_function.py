# SPDX-License-Identifier: Apache-2.0
"""horovod.run: results, exceptions, deaths, and nothing left behind."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from time_scale import scaled

from horovod.runner import run


@pytest.fixture(autouse=True)
def temporary(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    yield tmp_path
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("horovod-")] == []


def test_results_come_by_rank():
    factor = 10

    def work(offset, scale=1):
        rank = int(os.environ["HOROVOD_RANK"])
        time.sleep(0.1 * (2 - rank))
        return rank * factor * scale + offset

    assert run(work, (5,), {"scale": 2}, num_proc=3) == [5, 25, 45]


def test_np_and_hosts():
    def place():
        return os.environ["HOROVOD_HOSTNAME"], int(os.environ["HOROVOD_LOCAL_SIZE"])

    assert run(place, np=1) == [("localhost", 1)]
    assert run(place, hosts="127.0.0.1:2,127.0.0.2:1") == [("127.0.0.1", 2)] * 2 + [("127.0.0.2", 1)]


def test_exception_names_the_rank_and_carries_the_traceback():
    def work():
        if os.environ["HOROVOD_RANK"] == "1":
            raise ValueError("wrong number")
        time.sleep(60)

    with pytest.raises(RuntimeError) as caught:
        run(work, num_proc=2)
    text = str(caught.value)
    assert text.startswith("rank 1 raised ValueError: wrong number")
    assert "Traceback (most recent call last)" in text and "in work" in text


def train(state):
    import horovod as hvd

    while state.step < 30:
        if os.environ["HOROVOD_WORKER"] == "1" and state.step == 10:
            os.kill(os.getpid(), signal.SIGKILL)
        state.sum += hvd.allreduce(np.ones(1), op=hvd.Average, name="ones")[0]
        state.step += 1
        time.sleep(0.02)
        state.commit()
    return hvd.rank(), hvd.size(), state.sum


def elastic():
    import horovod as hvd

    hvd.init()
    return hvd.elastic.run(train)(hvd.elastic.ObjectState(step=0, sum=0.0))


def test_results_of_an_elastic_job_are_those_of_its_last_ranks(tmp_path):
    results = run(elastic, num_proc=3, min_num_proc=1)
    assert results == [(rank, len(results), 30.0) for rank in range(len(results))] and len(results) in (2, 3)
    listed = run(elastic, min_np=1, np=1, max_np=1, host_discovery_script="echo localhost", slots=2, cooldown_range=(1, 2))
    assert listed == [(0, 1, 30.0)]


@pytest.mark.parametrize("arguments, text", [
    ({"max_np": 4}, "max_num_proc: of elastic jobs"), ({"cooldown_range": (1, 2)}, "cooldown_range: of elastic jobs"),
    ({"min_np": 1, "use_mpi": True}, "use_mpi: mpirun cannot replace ranks"),
    ({"hosts": "a:1", "host_discovery_script": "true"}, "only one of them can say where ranks run"),
])
def test_arguments_of_elastic_jobs_that_cannot_be_served(arguments, text):
    with pytest.raises(ValueError, match=text):
        run(elastic, num_proc=2, **arguments)


def test_failures_of_an_elastic_job_are_told():
    def work():
        raise KeyError("always")

    with pytest.raises(RuntimeError, match="raised KeyError: 'always'"):
        run(work, num_proc=2, min_num_proc=1)


def test_death_of_a_rank_is_told():
    def work():
        if os.environ["HOROVOD_RANK"] == "0":
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(60)

    with pytest.raises(RuntimeError, match="rank 0 failed first: killed by signal 9"):
        run(work, num_proc=2)


def test_rank_that_leaves_before_its_function_returns():
    with pytest.raises(RuntimeError, match="rank 0 ended with exit code 0 before its function returned"):
        run(lambda: os._exit(0))


def test_result_that_cannot_be_sent():
    with pytest.raises(RuntimeError, match="rank 0 raised TypeError"):
        run(lambda: (value for value in ()))


def test_wrong_hosts():
    with pytest.raises(ValueError, match="3 processes asked for"):
        run(print, num_proc=3, hosts="localhost:2")
    with pytest.raises(RuntimeError, match="no-such-host.invalid"):
        run(print, hosts="no-such-host.invalid:2", start_timeout=20)
    with pytest.raises(ValueError, match="at least 1"):
        run(print, num_proc=0)


PROGRAM = """
import os, time
from horovod.runner import run
def work():
    open(os.path.join(os.environ["UP"], "up" + os.environ["HOROVOD_RANK"]), "w").close()
    time.sleep(300)
run(work, num_proc=2)
"""


def _start(tmp_path):
    environment = dict(os.environ, UP=str(tmp_path))
    process = subprocess.Popen([sys.executable, "-c", PROGRAM], env=environment, stderr=subprocess.PIPE,
                               preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
    began = time.monotonic()
    while not all((tmp_path / f"up{rank}").exists() for rank in range(2)):
        assert time.monotonic() - began < scaled(60)
        time.sleep(0.02)
    return process


def _living(mark):
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit() and int(entry) != os.getpid():
            try:
                with open(f"/proc/{entry}/environ", "rb") as file:
                    if f"UP={mark}\0".encode() in file.read():
                        found.append(int(entry))
            except OSError:
                pass
    return found


def test_interrupt_of_the_caller_stops_the_job(tmp_path):
    process = _start(tmp_path)
    process.send_signal(signal.SIGINT)
    err = process.communicate(timeout=30)[1].decode()
    assert "KeyboardInterrupt" in err
    assert _living(tmp_path) == []


def test_kill_9_of_the_caller_leaves_no_process(tmp_path):
    process = _start(tmp_path)
    process.kill()
    process.communicate()
    began = time.monotonic()
    while _living(tmp_path):
        assert time.monotonic() - began < scaled(8)
        time.sleep(0.02)
    assert run(lambda: 1) == [1]  # the next job cleans up


class Plain:
    pass


def by_name(value, scale=1):
    """Imported by the ranks of a safe job."""
    rank = int(os.environ["HOROVOD_RANK"])
    if value is None:
        raise ValueError("wrong number")
    return {"rank": rank, "value": (value * scale, [rank] * rank)} if value > 0 else [1, Plain]


def test_safe_job_takes_the_name_of_the_function(monkeypatch):
    monkeypatch.setenv("HOROVOD_SAFE_OBJECTS", "yes")
    found = run(by_name, (5,), {"scale": 2.5}, num_proc=2)
    assert found == [{"rank": 0, "value": (12.5, [])}, {"rank": 1, "value": (12.5, [1])}]
    with pytest.raises(RuntimeError, match=r"rank 0 raised ValueError: wrong number\n\nTraceback"):
        run(by_name, (None,))
    with pytest.raises(RuntimeError, match=r"rank 0 raised TypeError: horovod.run: result\[1\] is a type; HOROVOD_SAFE"):
        run(by_name, (-1,))


def test_safe_job_refuses_what_has_no_name(monkeypatch):
    monkeypatch.setenv("HOROVOD_SAFE_OBJECTS", "1")
    with pytest.raises(TypeError, match="horovod.run: function .*<lambda> is a lambda, which cannot be imported"):
        run(lambda: 1)
    with pytest.raises(TypeError, match=r"horovod.run: call\['kwargs'\]\['scale'\] is a type"):
        run(by_name, (1,), {"scale": Plain})
    program = "import horovod\ndef work():\n    pass\nhorovod.run(work)"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert "TypeError: horovod.run: function work is defined in the program itself or in a notebook" in ended.stderr
