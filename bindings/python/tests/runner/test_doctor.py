# SPDX-License-Identifier: Apache-2.0
"""horovodrun doctor as a program: on this machine, and on hosts reached over real ssh."""

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hosts_fixture import package
from time_scale import scaled

from horovod.runner.doctor import engine
from horovod.runner.doctor.judge import FAILED, OK
from horovod.runner.doctor.on_host import links


# ---- connections between probes, without hosts


@pytest.fixture
def listener():
    made = links.Listener(b"k" * 32, 7)
    yield made
    made.close()


def test_probes_know_each_other_by_the_token(listener):
    target = {"number": 7, "addresses": ["127.0.0.1"], "port": listener.port}
    result = links.connect_all(b"k" * 32, [target], 5.0)[0]
    assert result["state"] == "connected" and 0 < result["round_trip"] < 5
    sent = links.send(b"k" * 32, target, "127.0.0.1", 5.0, 1 << 20, 5.0)
    assert sent["bytes"] >= 1 << 20 and sent["seconds"] > 0
    assert links.connect_all(b"x" * 32, [target], 5.0)[0]["state"] == "refused"
    assert links.connect_all(b"k" * 32, [{**target, "number": 8}], 5.0)[0]["state"] == "wrong host"


# ---- the program, on this machine


def doctor(*arguments, **variables):
    """horovodrun doctor here: exit code, stdout, stderr."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HOROVOD_")}
    done = subprocess.run(
        [sys.executable, "-m", "horovod.runner", "doctor", *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        env={**environment, "PYTHONPATH": package(), **variables},
    )
    return done.returncode, done.stdout, done.stderr


def test_this_machine_alone_runs_a_job():
    code, out, err = doctor("--json")
    report = json.loads(out)
    if report["hosts"][0]["facts"]["rank"]["libhvd"]["problem"]:
        pytest.skip(report["hosts"][0]["facts"]["rank"]["libhvd"]["problem"])
    assert (code, err) == (0, "")
    assert report["engine"]["problem"] is None and 0 < report["engine"]["latency"] < 1
    assert [one["name"] for one in report["hosts"]] == ["localhost"] and report["links"] == []


def test_library_that_does_not_load_is_a_finding(tmp_path):
    (tmp_path / "libhvd.so.1").write_text("no library")
    code, out, err = doctor(HVD_LIBRARY=str(tmp_path / "libhvd.so.1"))
    assert (code, err) == (1, "") and "Traceback" not in out
    assert re.search(r"failed +software: localhost: libhvd not found", out) and "engine:" not in out
    assert "a job will not run on 1 host: 1 failed" in out


def test_engine_that_fails_is_a_finding(monkeypatch):
    monkeypatch.setenv("HVD_LIBRARY", "/does/not/exist")
    result = engine.try_engine()
    assert result["latency"] is None and "libhvd not found" in result["problem"]


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["--nonsense"], "--nonsense"),
        (["-H", "a:0"], "0 slots"),
        (["-hostfile", "/does/not/exist"], "/does/not/exist"),
        (["-H", "a", "-hostfile", "b"], "not allowed with"),
        (["-p", "0"], "less than 1"),
    ],
)
def test_wrong_usage(arguments, words):
    code, out, err = doctor(*arguments)
    assert (code, out) == (2, "") and words in err and err.startswith("horovodrun: ") and err.count("\n") == 1


def test_help_teaches():
    code, out, _ = doctor("--help")
    assert code == 0 and "horovodrun doctor -H server1:4,server2:4" in out and "Exit code: 0" in out


# ---- several hosts


def examine(hosts, *arguments, where="h0:1,h1:1,h2:1", host=0, **options):
    """The report of a doctor on h0, with the seconds it took in all."""
    began = time.monotonic()
    code, out, err = hosts.run("doctor", "--json", "-H", where, *arguments, **options)
    report = json.loads(out)
    assert code == report["exit_code"] and err == ""
    return report, time.monotonic() - began


def failed(report):
    return [
        (finding["check"], finding["host"], finding["fact"])
        for finding in report["findings"]
        if finding["level"] == FAILED and "libhvd" not in finding["fact"]
    ]


def test_three_good_hosts(many_hosts):
    hosts = many_hosts(hosts=3, docker_bridge=True, loopback_names=True)
    report, seconds = examine(hosts)
    assert failed(report) == [] and [one["name"] for one in report["hosts"]] == ["h0", "h1", "h2"]
    assert set(report) == {
        "format",
        "horovod",
        "seconds",
        "exit_code",
        "summary",
        "hosts",
        "links",
        "bandwidth",
        "engine",
        "environment",
        "findings",
    }
    connected = {
        (link["from"], link["to"], link["address"]) for link in report["links"] if link["state"] == "connected"
    }
    names = hosts.net.host_names
    assert connected == {
        (a, b, address) for a in names for b in names if a != b for address in hosts.net.addresses(names.index(b))
    }
    assert len(report["bandwidth"]) == 6 and all(one["bytes_per_second"] > 1e6 for one in report["bandwidth"])
    for one_host in report["hosts"][1:]:
        assert one_host["facts"]["hostname"] == one_host["name"] and abs(one_host["clock"]["offset"]) < 1
        assert one_host["facts"]["own_name"] == ["127.0.1.1"]
    assert any(
        finding["fact"].startswith("172.17.0.1 (docker0) is on h0, h1, h2: a bridge") for finding in report["findings"]
    )
    assert not any(finding["check"] == "connections" and finding["level"] != OK for finding in report["findings"])
    assert report["seconds"] < scaled(20), seconds


def test_the_report_for_people(many_hosts):
    hosts = many_hosts()
    code, out, err = hosts.run("doctor", "--fast", "-H", "h0:1,h1:2")
    assert err == "" and max(map(len, out.splitlines())) <= 110
    assert re.search(r"^h1 +2 +\d", out, re.M) and "shortest round trip" in out and "bandwidth" not in out
    assert re.search(r"^ok +connections: h0 to h1: 10\.77\.0\.2 in \d+ us, fd77::2 in \d+ us$", out, re.M)


def test_launcher_that_is_no_host_of_the_job(many_hosts):
    report, _ = examine(many_hosts(hosts=3), "--fast", where="h1:1,h2:1")
    assert failed(report) == [] and [(one["name"], one["slots"]) for one in report["hosts"]] == [
        ("localhost", 0),
        ("h1", 1),
        ("h2", 1),
    ]
    assert {(link["from"], link["to"]) for link in report["links"]} == {("h1", "h2"), ("h2", "h1")}


def test_host_that_does_not_let_us_in(many_hosts):
    hosts = many_hosts(hosts=3)
    (hosts.folder / "empty").touch(mode=0o600)
    assert (
        hosts.net.run(1, ["mount", "--bind", str(hosts.folder / "empty"), f"{hosts.net.folder}/id.pub"]).returncode == 0
    )
    report, _ = examine(hosts, "--fast")
    assert report["exit_code"] == 1
    assert failed(report) == [("ssh", "h1", "ssh: permission denied (publickey)")]
    advice = next(
        finding["advice"] for finding in report["findings"] if finding["check"] == "ssh" and finding["host"] == "h1"
    )
    assert "ssh-copy-id h1" in advice
    assert {(link["from"], link["to"]) for link in report["links"]} == {("h0", "h2"), ("h2", "h0")}


def test_unknown_host_key(many_hosts):
    hosts = many_hosts()
    args = f"-o UserKnownHostsFile={hosts.folder}/known {hosts.ssh_args}"
    report, _ = examine(hosts, "--fast", where="h0:1,h1:1", env={"HOROVOD_SSH_ARGS": args})
    assert failed(report) == [("ssh", "h1", "its host key is not known")]
    accept = f"-o StrictHostKeyChecking=accept-new {args}"
    report, _ = examine(hosts, "--fast", "--ssh-accept-new", where="h0:1,h1:1", env={"HOROVOD_SSH_ARGS": accept})
    assert failed(report) == [] and any("its key was new" in finding["fact"] for finding in report["findings"])


@pytest.mark.parametrize("source, target", [(1, 2), (2, 1)])
def test_firewall_is_named_with_its_direction(many_hosts, source, target):
    hosts = many_hosts(hosts=3)
    hosts.net.drop(source, target)
    report, seconds = examine(hosts)
    lost, opposite = f"packets from h{source} to h{target} do not arrive", f"from h{target} to h{source} do"
    found = [fact for check, _, fact in failed(report) if check == "connections"]
    assert len(found) == 2 and len(failed(report)) == 2  # no connection works in either direction, for one reason
    assert {fact.partition(":")[0] for fact in found} == {"h1 to h2", "h2 to h1"}
    assert all(lost in fact and opposite not in fact for fact in found)
    assert report["exit_code"] == 1 and len(report["bandwidth"]) == 4 and seconds < scaled(25)


def test_ipv6_only(many_hosts):
    report, _ = examine(many_hosts(ipv6_only=True), where="[fd77::1]:1,[fd77::2]:1")
    assert failed(report) == [] and {link["address"] for link in report["links"]} == {"fd77::1", "fd77::2"}
    assert all(link["state"] == "connected" for link in report["links"])


def test_host_that_is_down(many_hosts):
    hosts = many_hosts(hosts=3)
    hosts.net.cut(2)
    report, seconds = examine(hosts, "--fast", "--start-timeout", "30")
    found = failed(report)
    assert [(check, name) for check, name, _ in found] == [("ssh", "h2")] and seconds < scaled(50)
    assert re.match("cannot be reached|did not answer", found[0][2])
    assert report["hosts"][2]["facts"] is None and {(link["from"], link["to"]) for link in report["links"]} == {
        ("h0", "h1"),
        ("h1", "h0"),
    }


def test_interface_that_no_host_has(many_hosts):
    hosts = many_hosts(second_network="good")
    report, _ = examine(hosts, "--fast", "--network-interfaces", "eth0", where="h0:1,h1:1")
    assert [(check, name) for check, name, _ in failed(report)][0] == ("addresses", "h1")
    report, _ = examine(hosts, "--fast", "--network-interfaces", "eth0,enp1", where="h0:1,h1:1")
    assert failed(report) == [] and {link["address"] for link in report["links"]} == {
        "10.77.0.1",
        "fd77::1",
        "10.77.0.2",
        "fd77::2",
    }
    report, _ = examine(hosts, "--fast", "--network-interfaces", "eth0,enp1,typo", where="h0:1,h1:1")
    assert failed(report) == [("addresses", None, "network interface typo: on no host")]


def test_horovod_that_is_not_the_same_everywhere(many_hosts):
    hosts = many_hosts()
    other = hosts.folder / "_version.py"
    other.write_text("def version():\n    return '0.0.1'\n")
    place = Path(package()) / "horovod" / "_version.py"
    assert hosts.net.run(1, ["mount", "--bind", str(other), str(place)]).returncode == 0
    report, _ = examine(hosts, "--fast", where="h0:1,h1:1")
    assert [check for check, _, _ in failed(report)] == ["versions"]
    assert re.fullmatch(r"horovod differs: [\d.]+ on h0; 0\.0\.1 on h1", failed(report)[0][2])


def test_one_machine_under_two_names(many_hosts):
    report, _ = examine(many_hosts(), "--fast", where="h1:1,10.77.0.2:1")
    assert ("addresses", None) in [(check, name) for check, name, _ in failed(report)]
    assert any("one machine under several names" in fact for _, _, fact in failed(report))


def command_name(pid):
    try:
        return Path(f"/proc/{pid}/comm").read_text()
    except OSError:
        return ""  # ended meanwhile


def test_host_that_goes_away_while_it_is_looked_at(many_hosts):
    hosts = many_hosts(hosts=3)
    process = hosts.start("doctor", "--json", "--start-timeout", "30", "-H", "h0:1,h1:1,h2:1")

    def begun():
        """The probe on h1 has the name that it gives itself."""
        return any("hvd-doctor" in command_name(pid) for pid in hosts.net.processes(1))

    hosts.wait_until(begun)
    hosts.net.kill_host(1)
    out, err = process.communicate(timeout=60)
    report = json.loads(out)
    assert (process.returncode, err) == (1, b"")
    assert [(finding["check"], finding["host"]) for finding in report["findings"] if finding["level"] == FAILED][0] in [
        ("ssh", "h1"),
        ("host", "h1"),
    ]
    assert any(link["state"] == "connected" for link in report["links"] if {link["from"], link["to"]} == {"h0", "h2"})
    hosts.wait_until(lambda: not hosts.net.processes(0) and not hosts.net.processes(2))
