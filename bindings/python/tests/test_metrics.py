# SPDX-License-Identifier: Apache-2.0
"""Metrics and histograms of a rank, and the address at which each rank serves them."""

import contextlib
import os
import socket
import stat
import textwrap

import pytest
from watched_jobs import Job, free_ports, read, sample, wait_for


@pytest.fixture
def job(tmp_path):
    started = Job(tmp_path)
    yield started
    started.close()


def served(port, **arguments):
    """The metrics at that port, as soon as some operation has ended."""

    def look():
        status, text = read(port, **arguments)
        return status == 200 and sample(text, "hvd_operations_completed_total") and text

    return wait_for(look)


def seconds(name, port, rank):
    """How much time that counter of a rank has added up."""
    return sample(read(port + rank)[1], f"hvd_{name}_seconds_total", rank=rank)


def write(folder, text, name="program.py"):
    path = folder / name
    path.write_text(textwrap.dedent(text))
    return path


def test_histograms_stand_beside_counters(alone, native, tmp_path):
    program = write(tmp_path, """\
        import json
        import numpy as np, horovod as hvd
        hvd.init()
        for size in (1, 1024, 1025):
            hvd.allreduce(np.ones(size, np.uint8), op=hvd.Sum, name=f"of{size}")
        metrics = hvd.metrics()
        sizes = metrics["operation_size"]
        assert sizes == {"unit": "bytes", "count": 3, "sum": 2050, "buckets": {1: 1, 1024: 1, 2048: 1}}, sizes
        duration = metrics["operation_duration"]
        assert duration["unit"] == "ns" and duration["count"] == 3 == sum(duration["buckets"].values()), duration
        assert metrics["operations_completed"] == 3 and metrics["restarts"] == 0, metrics
        assert metrics["bytes_by_tcp"] == 0 == metrics["operations_late"], metrics
        json.dumps(metrics)
        """)  # fmt: skip
    alone(program, native=native)


def test_bytes_that_a_plugin_gets_are_its_own(horovodrun, tmp_path):
    features = pytest.importorskip("horovod.common.features")
    if not features.gloo_built():
        pytest.skip("the plug-in for Gloo is not built here")
    program = write(tmp_path, """\
        import numpy as np, horovod as hvd
        hvd.init()
        hvd.allreduce(np.ones(1 << 20, np.float32), name="large")
        metrics = hvd.metrics()
        assert metrics["bytes_by_plugin"] == 4 << 20, metrics
        assert metrics["bytes_by_shared_memory"] < 1 << 20 and metrics["bytes_by_tcp"] == 0, metrics
        """)  # fmt: skip
    horovodrun(2, program, env={"HOROVOD_CPU_OPERATIONS": "gloo"})


def test_each_rank_serves_its_metrics(job, native):
    port = free_ports()
    job.start("-np", 2, "--metrics-port", port, more=["late"], HVD_PYTHON_NATIVE=native)
    texts = [served(port + rank) for rank in range(2)]
    for rank, text in enumerate(texts):
        labels = {"rank": rank, "host": "localhost"}
        assert sample(text, "hvd_size", **labels) == 2, text
        assert sample(text, "hvd_job_info", local_rank=rank, epoch=0, **labels) == 1, text
        assert sample(text, "hvd_transport_bytes_total", transport="tcp", **labels) == 0, text
        assert sample(text, "hvd_operation_size_bytes_bucket", le="64.0", **labels) > 0, text
        assert "# HELP hvd_cache_hits_total operations whose agreement was remembered" in text
    # at the start any rank may come late
    wait_for(lambda: seconds("late", port, 1) > 0.5 + 3 * seconds("late", port, 0))
    assert seconds("missing_ranks", port, 0) > 0.3
    assert sample(served(port), "hvd_transport_bytes_total", transport="shared_memory") > 256 * 256 * 4
    assert read(port, path="/other")[0] == 404
    assert job.end() == 0, job.text
    assert [read(port + rank)[0] for rank in range(2)] == [None, None]
    assert f"rank 1 on localhost: metrics for Prometheus at http://127.0.0.1:{port + 1}/metrics" in job.text


def test_a_port_in_use_does_not_stop_the_training(job):
    port = free_ports()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", port + 1))
        taken.listen()
        job.start("-np", 2, "--metrics-port", port)
        served(port)
        assert job.end() == 0, job.text
    assert f"rank 1 on localhost: no metrics for Prometheus at 127.0.0.1:{port + 1}: address already in use" in job.text, job.text
    assert "--metrics-port chooses another port" in job.text


def test_a_port_beyond_the_last_does_not_stop_the_training(job):
    job.start("-np", 2, "--metrics-port", 65535)
    assert job.end() == 0, job.text
    assert "rank 1 on localhost: no metrics for Prometheus at 127.0.0.1:65536: there is no such port" in job.text, job.text


def test_without_prometheus_client_the_training_goes_on(job, tmp_path):
    write(tmp_path, "raise ImportError('not here')\n", "prometheus_client.py")
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    job.start("-np", 2, "--metrics-port", free_ports(), PYTHONPATH=path)
    assert job.end() == 0, job.text
    assert job.text.count("pip install prometheus_client; training goes on") == 1, job.text


@pytest.mark.parametrize(
    "variables, words",
    [
        ({"HOROVOD_METRICS_PORT": "x"}, 'HOROVOD_METRICS_PORT: "x" is not a port from 1 to 65535'),
        ({"HOROVOD_METRICS_PORT": "70000"}, 'HOROVOD_METRICS_PORT: "70000" is not a port from 1 to 65535'),
        ({"HOROVOD_METRICS_ADDRESS": "0.0.0.0"}, "HOROVOD_METRICS_ADDRESS is 0.0.0.0, where other machines could read"),
        ({"HOROVOD_METRICS_ADDRESS": "::"}, "give horovodrun --metrics-token-out FILE"),
        ({"HOROVOD_METRICS_ADDRESS": "here"}, 'HOROVOD_METRICS_ADDRESS: "here" is no IP address'),
        ({"HOROVOD_METRICS_TOKEN_FILE": "/nowhere/token"}, "HOROVOD_METRICS_TOKEN_FILE: /nowhere/token cannot be read: no such file"),
        ({"HOROVOD_METRICS_TOKEN_FILE": "/dev/null"}, "/dev/null has to hold one word of 16 characters or more"),
    ],
)
def test_wrong_settings_end_init_before_the_ranks_meet(alone, tmp_path, variables, words):
    program = write(tmp_path, "import horovod as hvd\nhvd.init()\n")
    result = alone(program, env={"HOROVOD_METRICS_PORT": "9400", **variables}, expect=1)
    assert words in result.stderr.splitlines()[-1], result.text


def test_other_machines_need_the_token_of_the_job(job, tmp_path):
    port, file = free_ports(), tmp_path / "token"
    job.start("-np", 2, "--metrics-port", port, "--metrics-address", "0.0.0.0", "--metrics-token-out", file)
    token = wait_for(lambda: file.exists() and file.read_text()).strip()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600 and len(token) == 64
    served(port + 1, token=token)
    for wrong in (None, "", "x", token[:-1], token + "0", "é"):
        status, text = read(port, token=None if wrong is None else wrong.encode().decode("latin-1"))
        assert (status, "Bearer" in text) == (401, True), (wrong, status, text)
    assert job.end() == 0, job.text
    assert token not in job.text


def test_horovodrun_refuses_an_address_without_a_token(job):
    job.start("-np", 2, "--metrics-port", 9400, "--metrics-address", "0.0.0.0")
    assert job.wait() == 2
    assert job.text.startswith("horovodrun: HOROVOD_METRICS_ADDRESS is 0.0.0.0, where other machines could read"), job.text
    assert len(job.text.splitlines()) == 1, job.text


def test_silent_readers_take_neither_the_answer_nor_the_threads(job):
    port = free_ports()
    job.start("-np", 2, "--metrics-port", port)
    served(port)
    with contextlib.ExitStack() as held:
        for _ in range(8):
            held.enter_context(socket.create_connection(("127.0.0.1", port)))
        assert read(port)[0] == 200
        more = [held.enter_context(socket.create_connection(("127.0.0.1", port))) for _ in range(20)]
        for connection in more:
            connection.settimeout(0.2)
        # the connections above the limit are closed at once
        assert wait_for(lambda: sum(closed(connection) for connection in more) >= 12)
    assert wait_for(lambda: read(port)[0] == 200)
    assert job.end() == 0, job.text


def closed(connection):
    """Whether the other end has closed the connection."""
    try:
        return connection.recv(1, socket.MSG_PEEK) == b""
    except socket.timeout:
        return False
    except OSError:
        return True


def test_a_token_of_the_users_own(job, tmp_path):
    port, file = free_ports(), tmp_path / "own"
    file.write_text("a-word-that-nobody-guesses\n")
    job.start("-np", 2, "--metrics-port", port, HOROVOD_METRICS_TOKEN_FILE=str(file))
    served(port, token="a-word-that-nobody-guesses")
    assert read(port)[0] == 401
    assert job.end() == 0, job.text


def test_a_program_that_begins_again_and_forks(alone, tmp_path):
    port = free_ports(1)
    program = write(tmp_path, f"""\
        import os, signal, time, urllib.request
        import numpy as np, prometheus_client
        import horovod as hvd

        def text():
            return urllib.request.urlopen("http://127.0.0.1:{port}/metrics", timeout=5).read().decode()

        def refused():
            try:
                text()
            except OSError:
                return True

        prometheus_client.Gauge("own_loss", "of the program").set(0.25)
        for _ in range(3):
            assert refused()
            hvd.init()
            hvd.allreduce(np.ones(3), name="x")
            assert "hvd_operations_completed_total" in text() and "own_loss 0.25" in text()
            hvd.shutdown()
        assert refused()
        hvd.init()
        child = os.fork()
        if child == 0:
            time.sleep(60)
        hvd.shutdown()
        assert refused()
        hvd.init()  # the child does not hold the port
        assert "hvd_size" in text()
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        """)  # fmt: skip
    result = alone(program, env={"HOROVOD_METRICS_PORT": str(port)})
    assert "no metrics" not in result.stderr, result.text


def test_restarts_of_an_elastic_job_are_counted(job, tmp_path):
    port = free_ports(3)
    program = write(tmp_path, """\
        import os, signal, sys, time
        import numpy as np, horovod as hvd
        hvd.init()

        @hvd.elastic.run
        def train(state):
            while not os.path.exists(sys.argv[1]):
                hvd.allreduce(np.ones(4), name="x")
                state.step += 1
                state.commit()
                if state.step == 20 and os.environ["HOROVOD_WORKER"] == "1":
                    os.kill(os.getpid(), signal.SIGKILL)
                ends = hvd.allreduce(np.array([os.path.exists(sys.argv[1])], np.float32), op=hvd.Max, name="ends")
                if ends[0]:
                    return
                time.sleep(0.01)

        train(hvd.elastic.ObjectState(step=0))
        """)  # fmt: skip
    job.start("-np", 3, "--min-np", 2, "--metrics-port", port, worker=program)

    def again():
        text = read(port)[1]
        return sample(text, "hvd_restarts_total") and text

    text = wait_for(again)
    assert sample(text, "hvd_restarts_total") >= 1
    assert sample(text, "hvd_job_info") == 1 and sample(text, "hvd_size") >= 2
    done = sample(text, "hvd_operations_completed_total")
    wait_for(lambda: (sample(read(port)[1], "hvd_operations_completed_total") or 0) > done)
    assert job.end() == 0, job.text
