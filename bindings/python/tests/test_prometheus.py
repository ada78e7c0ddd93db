# SPDX-License-Identifier: Apache-2.0
"""A training job in the eyes of a real Prometheus: Debian's server reads it, and answers each query of the dashboard."""

import json
import re
import shutil
import subprocess
import urllib.parse
import urllib.request
from pathlib import Path

import pytest
from watched_jobs import Job, free_ports, read, wait_for

EXAMPLES = Path(__file__).resolve().parents[3] / "examples" / "observability"
needs_prometheus = pytest.mark.skipif(
    shutil.which("prometheus") is None or shutil.which("promtool") is None,
    reason="no prometheus and promtool in PATH; Debian's package prometheus has them",
)


class Server:
    """A Prometheus that reads every second what `configuration` says."""

    def __init__(self, folder, configuration):
        self.port = free_ports(1)
        file = folder / "prometheus.yml"
        file.write_text(configuration)
        self._log_file = folder / "prometheus.log"
        self._log = open(self._log_file, "wb")
        command = ["prometheus", f"--config.file={file}", f"--storage.tsdb.path={folder / 'data'}"]
        command += [f"--web.listen-address=127.0.0.1:{self.port}"]
        self._process = subprocess.Popen(command, stdout=self._log, stderr=subprocess.STDOUT)

    def ask(self, what, **parameters):
        """The `data` of an answer of its HTTP API; None while it starts."""
        assert self._process.poll() is None, self._log_file.read_text()
        url = f"http://127.0.0.1:{self.port}/api/v1/{what}?{urllib.parse.urlencode(parameters)}"
        try:
            with urllib.request.urlopen(url, timeout=10) as answer:
                found = json.load(answer)
        except urllib.error.HTTPError as error:
            if error.code == 503:  # it starts
                return None
            raise AssertionError(f"{parameters}: {error.read().decode()}") from None
        except OSError:
            return None
        assert found["status"] == "success", found
        return found["data"]

    def values(self, expression):
        """{labels as sorted pairs: value} of an instant query."""
        data = self.ask("query", query=expression)
        return {tuple(sorted(one["metric"].items())): float(one["value"][1]) for one in (data or {}).get("result", ())}

    def close(self):
        self._process.terminate()
        self._process.wait(30)
        self._log.close()


def dashboard_queries():
    """(title, expression) of every query of the dashboard, with its variables filled in."""
    board = json.loads((EXAMPLES / "dashboard.json").read_text())
    for panel in board["panels"]:
        for target in panel["targets"]:
            text = target["expr"].replace("$__rate_interval", "10s").replace("$job", "training")
            assert "$" not in text, text
            yield panel["title"], text


def configuration(port, token=None):
    """The example's configuration, with the ports of this job and a shorter interval."""
    text = (EXAMPLES / "prometheus.yml").read_text().replace("scrape_interval: 5s", "scrape_interval: 1s")
    text = text.replace("127.0.0.1:9400", f"127.0.0.1:{port}").replace("127.0.0.1:9401", f"127.0.0.1:{port + 1}")
    if token is not None:
        text = text.replace("job_name: training\n", f"job_name: training\n    authorization:\n      credentials_file: {token}\n", 1)
    return text


@pytest.fixture(scope="module")
def watched(tmp_path_factory):
    """A job whose rank 1 is late, with a token, and the Prometheus that has read it for some seconds."""
    folder = tmp_path_factory.mktemp("watched")
    port, token = free_ports(), folder / "token"
    job = Job(folder)
    server = None
    try:
        job.start("-np", 2, "--metrics-port", port, "--metrics-token-out", token, more=["late"])
        wait_for(lambda: token.exists() and read(port + 1, token=token.read_text().strip())[0] == 200)
        server = Server(folder, configuration(port, token))
        wait_for(lambda: len(server.values("rate(hvd_operations_completed_total[10s]) > 0")) == 2)
        yield job, server, read(port, token=token.read_text().strip())[1]
        assert job.end() == 0, job.text
    finally:
        if server is not None:
            server.close()
        job.close()


@needs_prometheus
def test_prometheus_finds_nothing_to_complain_of(watched):
    _job, _server, text = watched
    checked = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True, timeout=30)
    ours = [line for line in (checked.stdout + checked.stderr).splitlines() if line.startswith("hvd_")]
    assert not ours and "error while linting" not in checked.stderr, checked.stderr


@needs_prometheus
def test_prometheus_reads_every_rank(watched):
    _job, server, _text = watched
    targets = server.ask("targets")["activeTargets"]
    assert [target["health"] for target in targets] == ["up", "up"], targets
    assert sorted(dict(labels)["rank"] for labels in server.values("hvd_size")) == ["0", "1"]


@needs_prometheus
def test_each_query_of_the_dashboard_is_answered(watched):
    _job, server, _text = watched
    queries = list(dashboard_queries())
    assert len(queries) > 15
    for title, expression in queries:
        values = wait_for(lambda expression=expression: server.values(expression))
        assert all(value == value for value in values.values()), (title, expression, values)  # noqa: PLR0124  (NaN is not itself)


@needs_prometheus
def test_prometheus_names_the_late_rank(watched):
    _job, server, _text = watched

    def named():
        late, missing = by_rank(server, "hvd_late_seconds_total"), by_rank(server, "hvd_missing_ranks_seconds_total")
        return late["1"] > 0.1 and late["1"] > 5 * late["0"] and missing["0"] > 2 * missing["1"] and [*late.values(), *missing.values()]

    shares = wait_for(named)
    assert all(0 <= share <= 1.2 for share in shares), shares  # two scrapes are not exactly a second apart


def by_rank(server, counter):
    """How fast a counter grows on each rank."""
    return {dict(labels)["rank"]: value for labels, value in server.values(f"rate({counter}[10s])").items()}


@needs_prometheus
def test_the_example_configuration_is_valid():
    checked = subprocess.run(["promtool", "check", "config", "--syntax-only", EXAMPLES / "prometheus.yml"], capture_output=True, text=True)
    assert checked.returncode == 0, checked.stderr


def test_the_dashboard_can_be_imported():
    board = json.loads((EXAMPLES / "dashboard.json").read_text())
    assert board["title"] and board["uid"] and not board.get("id")
    numbers = [panel["id"] for panel in board["panels"]]
    assert len(set(numbers)) == len(numbers)
    for panel in board["panels"]:
        assert panel["description"] and panel["targets"], panel["title"]
        assert panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24, panel["title"]
    assert not re.search(r'"uid": "(?!hvd|\$\{datasource\})', json.dumps(board["panels"])), "a datasource of somebody's own"


def test_metrics_of_opentelemetry_are_read_at_the_same_address(tmp_path):
    pytest.importorskip("opentelemetry.exporter.prometheus", reason="no PyPI package opentelemetry-exporter-prometheus")
    job = Job(tmp_path)
    job.start("-np", 2, "--metrics-port", free_ports(), worker=EXAMPLES / "with_opentelemetry.py")
    assert job.wait() == 0, job.text
    for rank in range(2):
        lines = [line for line in job.text.splitlines() if line.startswith(f"[{rank}]<stdout>:")]
        assert any("steps_total{" in line and line.endswith(" 10.0") for line in lines), job.text
        assert any("hvd_operations_completed_total{" in line and line.endswith(" 10.0") for line in lines), job.text
