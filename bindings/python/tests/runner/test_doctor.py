# SPDX-License-Identifier: Apache-2.0
"""horovodrun doctor: what facts mean (plain functions), and what it finds on real hosts reached over real ssh."""

import copy
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hosts_fixture import package

from horovod.runner import doctor_engine, doctor_judge, doctor_judge_all, doctor_launch, doctor_links, doctor_report
from horovod.runner.doctor_judge import FAILED, OK, WARNING

sys.path.insert(0, str(Path(doctor_links.__file__).parent))
import doctor_facts  # noqa: E402  (a probe imports it by this name, where there is no package)

_GIB = 1 << 30


def entry(interface, address, bridge=False, loopback=False):
    return {"interface": interface, "address": address, "loopback": loopback, "bridge": bridge, "mtu": 1500, "megabits": None}


def host(**changes):
    """The facts of a host on which nothing is wrong."""
    facts = {
        "hostname": "h0", "user": 1000, "kernel": "6.1.0", "machine": "x86_64", "glibc": "2.36", "python": "3.11.2",
        "executable": "/usr/bin/python3", "cores": 8, "cores_of_machine": 8, "load": 0.5, "container": None, "cwd": True,
        "memory": {"total": 32 * _GIB, "available": 30 * _GIB},
        "limits": {name: {"soft": None, "hard": None} for name in ("open_files", "processes", "locked_memory", "address_space")},
        "cgroup": {"memory_limit": None, "memory_used": None, "processes_limit": None, "processes_used": None, "cores": None},
        "shared_memory": {"memfd": None, "dev_shm": 1 << 26}, "own_name": ["10.0.0.1"], "port": 1,
        "interfaces": [entry("eth0", "10.0.0.1"), entry("lo", "127.0.0.1", loopback=True)],
        "addresses": ["10.0.0.1"], "addresses_problem": None,
        "rank": {
            "horovod": {"path": "/site/horovod", "version": "1.0.0", "problem": None},
            "libhvd": {"path": "/site/libhvd.so.1", "version": "1.0.0", "abi": 1, "problem": None},
            "numpy": "2.0", "torch": None,
            "mpi": {"plugin": None, "usable": False, "problem": "no plug-in at /site", "library": None, "version": None,
                    "library_problem": "not found"},
            "gloo": {"plugin": None, "usable": False, "problem": "no plug-in at /site"},
            "nccl": {"path": None, "version": None, "origin": None, "used": False, "problem": "not found"},
            "cuda": {"path": None, "version": None, "driver": None, "used": False, "problem": "not found"}}}
    facts.update(changes)
    return facts


def rank_view(**changes):
    view = copy.deepcopy(host()["rank"])
    for name, values in changes.items():
        view[name].update(values)
    return view


def bad(findings):
    """Those that are not ok; each must say what to do, and ok ones must not."""
    for finding in findings:
        assert (finding.advice is None) == (finding.level == OK), finding
    return [finding for finding in findings if finding.level != OK]


def one(findings, level):
    found = bad(findings)
    assert [finding.level for finding in found] == [level], found
    return found[0]


# ---- one host


def test_nothing_is_wrong_with_a_good_host():
    facts = host()
    assert bad([*doctor_judge.software("h", facts), *doctor_judge.limits("h", facts, 8, 64), doctor_judge.shared_memory("h", facts),
                doctor_judge.names("h", facts), *doctor_judge.addresses("h", facts), *doctor_judge.libraries("h", facts, "native")]) == []


@pytest.mark.parametrize("failure, fact, advice", [
    ("its host key is not known; connect once with ssh h", "its host key is not known", "connect once with ssh h"),
    ("cannot be reached: no route to host", "cannot be reached: no route to host", "see that h is up"),
    ("did not answer within 10 s", "did not answer within 10 s", "see that h is up"),
    ("its name is not known: name or service not known", "its name is not known", "correct the name"),
    ("ssh ended with exit code 9", "ssh ended with exit code 9", "ssh -v h true"),
])
def test_ssh(failure, fact, advice):
    finding = one([doctor_judge.ssh("h", failure, None)], FAILED)
    assert finding.fact.startswith(fact) and advice in finding.advice and "{" not in finding.advice


def test_ssh_that_works_says_whether_the_key_was_known():
    assert "host key known, ready after 0.25 s" in doctor_judge.ssh("h", None, 0.25).fact
    assert "its key was new" in doctor_judge.ssh("h", None, 0.25, "Warning: Permanently added 'h' to the list").fact


def test_software():
    gone = host(rank=rank_view(horovod={"path": None, "version": None, "problem": "not installed for /usr/bin/python3"}))
    assert "pip install horovod" in one(doctor_judge.software("h", gone), FAILED).advice
    broken = host(rank=rank_view(libhvd={"path": None, "version": None, "abi": None, "problem": "libhvd not found; tried: x"}))
    assert one(doctor_judge.software("h", broken), FAILED).fact == "libhvd not found; tried: x"
    crashed = host(rank={"problem": "a Python that looks for horovod ended with -11"})
    assert "-11" in one(doctor_judge.software("h", crashed), FAILED).fact
    assert doctor_judge.libraries("h", crashed, "native") == []
    assert "home folder" in one(doctor_judge.software("h", host(cwd=False)), WARNING).fact


@pytest.mark.parametrize("name, limit, level, words", [
    ("open_files", {"soft": 256, "hard": 4096}, WARNING, "ulimit -n 1024"),
    ("open_files", {"soft": 100, "hard": 100}, FAILED, "nofile in /etc/security/limits.conf"),
    ("processes", {"soft": 200, "hard": 200}, WARNING, "ulimit -u"),
    ("address_space", {"soft": _GIB, "hard": None}, WARNING, "ulimit -v unlimited"),
])
def test_limits(name, limit, level, words):
    facts = host()
    facts["limits"][name] = limit
    assert words in one(doctor_judge.limits("h", facts, 8, 64), level).advice
    assert doctor_judge.limits("h", facts, 0, 64) == []  # no rank runs there


@pytest.mark.parametrize("changes, level, words", [
    ({"memory_limit": _GIB, "memory_used": _GIB - 1000}, WARNING, "memory limit of the container"),
    ({"processes_limit": 100, "processes_used": 90}, FAILED, "pids.max"),
    ({"cores": 1.5}, WARNING, "at most 1 slots"),
])
def test_control_groups(changes, level, words):
    facts = host()
    facts["cgroup"].update(changes)
    assert words in one(doctor_judge.limits("h", facts, 8, 8), level).advice


def test_a_busy_host_is_a_warning():
    assert "load 30.0" in one(doctor_judge.limits("h", host(load=30.0), 8, 8), WARNING).fact


def test_shared_memory_needs_memfd_and_not_dev_shm():
    assert bad([doctor_judge.shared_memory("h", host(shared_memory={"memfd": None, "dev_shm": 0}))]) == []
    refused = host(shared_memory={"memfd": "[Errno 38] Function not implemented", "dev_shm": _GIB})
    assert "seccomp" in one([doctor_judge.shared_memory("h", refused)], FAILED).advice


def test_own_name_that_is_a_loopback_address_is_no_problem():
    assert "does not use it" in doctor_judge.names("h", host(own_name=["127.0.1.1"])).fact
    assert doctor_judge.names("h", host(own_name="unknown")).level == OK


@pytest.mark.parametrize("offset, uncertainty, level", [(0.5, 0.001, OK), (-2.0, 0.001, WARNING), (1.2, 0.5, OK), (3.0, 0.5, WARNING)])
def test_clock(offset, uncertainty, level):
    finding = doctor_judge.clock("h", {"offset": offset, "uncertainty": uncertainty})
    assert finding.level == level and f"{offset:+.3f} s" in finding.fact


def test_libraries_fail_only_where_they_are_asked_for():
    facts = host()
    assert bad(doctor_judge.libraries("h", facts, "native")) == []
    assert "HOROVOD_CPU_OPERATIONS=mpi" in one(doctor_judge.libraries("h", facts, "mpi"), FAILED).fact
    there = host(rank=rank_view(gloo={"plugin": "/site/hvd-backend-gloo.so", "usable": True, "problem": None}))
    assert bad(doctor_judge.libraries("h", there, "gloo")) == []


# ---- several hosts


def test_versions_that_differ():
    facts = {"a": host(), "b": host(rank=rank_view(libhvd={"version": "1.1.0", "abi": 1})), "c": host(python="3.12.1"), "d": host(kernel="5.4")}
    found = {finding.fact: finding.level for finding in bad(doctor_judge_all.versions(facts))}
    assert found == {"libhvd differs: 1.0.0 (ABI 1) on a, c, d; 1.1.0 (ABI 1) on b": FAILED,
                     "Python differs: 3.11 on a, b, d; 3.12 on c": FAILED, "kernel differs: 6.1.0 on a, b, c; 5.4 on d": WARNING}
    assert bad(doctor_judge_all.versions({"a": host(), "b": host(python="3.11.9")})) == []


def test_addresses_on_several_hosts():
    bridge = [entry("docker0", "172.17.0.1", bridge=True)]
    bridged = {"a": host(interfaces=bridge), "b": host(interfaces=bridge)}
    assert "harmless" in doctor_judge_all.shared_addresses(bridged)[0].fact and bad(doctor_judge_all.shared_addresses(bridged)) == []
    twice = one(doctor_judge_all.shared_addresses({"a": host(), "b": host()}), FAILED)
    assert "10.0.0.1 (eth0) is on a, b" in twice.fact
    local = [entry("eth0", "fe80::1"), entry("lo", "127.0.0.1", loopback=True)]
    assert doctor_judge_all.shared_addresses({"a": host(interfaces=local), "b": host(interfaces=local)}) == []


def way(sender, receiver, address, state="connected", **more):
    return {"from": sender, "to": receiver, "address": address, "state": state, "round_trip": 1e-4, "source": None,
            "error": None, "lost": None, **more}


def test_links():
    facts = {"a": host(), "b": host(interfaces=[entry("eth0", "10.0.0.2"), entry("docker0", "172.17.0.1", bridge=True)])}
    silent = dict(state="no answer", error="no answer within 1.5 s")
    good = way("a", "b", "10.0.0.2")
    assert bad(doctor_judge_all.links([good, way("a", "b", "172.17.0.1", **silent)], facts)) == []
    finding = one(doctor_judge_all.links([way("a", "b", "10.0.0.2", lost=["b", "a"], **silent)], facts), FAILED)
    assert finding.fact == "a to b: none: 10.0.0.2: no answer within 1.5 s, packets from b to a do not arrive"
    finding = one(doctor_judge_all.links([good, way("a", "b", "10.9.0.2", **silent)], facts), WARNING)
    assert finding.fact == "a to b: works over 10.0.0.2 in 100 us, but 10.9.0.2: no answer within 1.5 s"


@pytest.mark.parametrize("variables, several, level, words", [
    ({}, True, None, ""),
    ({"HOROVOD_SECURITY": "none"}, False, None, ""),
    ({"HOROVOD_SECURITY": "none"}, True, WARNING, "nothing is protected"),
    ({"HOROVOD_SECURITY": "more"}, True, FAILED, 'is "more"'),
    ({"HOROVOD_SECURITY": "encrypt", "HOROVOD_CPU_OPERATIONS": "mpi"}, True, FAILED, "plain text"),
    ({"HOROVOD_SECRET_FILE": "/does/not/exist"}, True, WARNING, "no such file"),
    ({"HOROVOD_SECRET": "5ecre7"}, True, WARNING, "HOROVOD_SECRET is set"),
])
def test_protection(variables, several, level, words):
    found = doctor_judge_all.protection(doctor_launch.protection(variables), several)
    assert words in one(found, level).fact if level else bad(found) == []
    assert "5ecre7" not in str(found)


def test_secret_file_that_others_may_read(tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("5ecre7")
    secret.chmod(0o644)
    told = doctor_launch.protection({"HOROVOD_SECRET_FILE": str(secret)})
    assert "0644" in told["secret_file_problem"] and "5ecre7" not in str(told)
    secret.chmod(0o600)
    assert doctor_launch.protection({"HOROVOD_SECRET_FILE": str(secret)})["secret_file_problem"] is None


@pytest.mark.parametrize("variables, level, words", [
    ({}, OK, "no launcher"),
    ({"RANK": "1", "WORLD_SIZE": "4", "MASTER_ADDR": "x", "MASTER_PORT": "1"}, OK, "RANK and WORLD_SIZE: rank 1 of 4"),
    ({"RANK": "1", "WORLD_SIZE": "4"}, WARNING, "missing MASTER_ADDR MASTER_PORT"),
    ({"RANK": "1", "WORLD_SIZE": "4", "HOROVOD_RENDEZVOUS": "file:///x"}, OK, "rank 1 of 4"),
    ({"HOROVOD_RANK": "0", "HOROVOD_SIZE": "2"}, WARNING, "missing HOROVOD_RENDEZVOUS"),
    ({"HOROVOD_RENDEZVOUS": "file:///x"}, WARNING, "missing HOROVOD_RANK HOROVOD_SIZE"),
    ({"SLURM_STEP_ID": "4294967290", "SLURM_JOB_ID": "1"}, OK, "no launcher"),
    ({"SLURM_STEP_ID": "0", "SLURM_JOB_ID": "1", "SLURM_PROCID": "3", "SLURM_STEP_NUM_TASKS": "8"}, OK, "Slurm: rank 3 of 8"),
    ({"JOB_COMPLETION_INDEX": "1"}, OK, "no launcher"),
    ({"JOB_COMPLETION_INDEX": "1", "HOROVOD_SIZE": "2", "MASTER_ADDR": "x"}, OK, "Kubernetes: rank 1 of 2"),
])
def test_launch_environment(variables, level, words):
    finding = doctor_judge_all.launch(doctor_launch.launch(variables))
    assert finding.level == level and words in finding.fact and bool(finding.advice) == (level != OK)


def test_the_table_of_launchers_is_that_of_the_engine():
    source = Path(__file__).resolve().parents[4] / "core" / "rendezvous" / "launchers.cc"
    if not source.is_file():
        pytest.skip("the sources of the engine are not here")
    table = source.read_text().partition("constexpr Row kRows[] = {")[2].partition("};\nconstexpr")[0]
    rows = re.findall(r'\{\s*"([^"]+)",\s*\w+,\s*"(\w+)",\s*"(\w+)",\s*[^,]+,\s*[^,]+,\s*\{([^}]*)\}', table)
    assert [(row.name, row.rank, row.size, row.needed) for row in doctor_launch.LAUNCHERS] == [
        (name, rank, size, tuple(re.findall(r'"(\w+)"', needed))) for name, rank, size, needed in rows]


def test_control_group_limits_are_the_tightest_on_the_way_up(tmp_path):
    inner = tmp_path / "outer" / "inner"
    inner.mkdir(parents=True)
    (inner / "memory.max").write_text("max\n")
    (tmp_path / "outer" / "memory.max").write_text("1000\n")
    (tmp_path / "outer" / "memory.current").write_text("600\n")
    (inner / "pids.max").write_text("50\n")
    (inner / "pids.current").write_text("7\n")
    (tmp_path / "outer" / "cpu.max").write_text("150000 100000\n")
    assert doctor_facts.cgroup(str(tmp_path), "0::/outer/inner\n") == {
        "memory_limit": 1000, "memory_used": 600, "processes_limit": 50, "processes_used": 7, "cores": 1.5}


# ---- connections between probes, without hosts


@pytest.fixture
def listener():
    made = doctor_links.Listener(b"k" * 32, 7)
    yield made
    made.close()


def test_probes_know_each_other_by_the_token(listener):
    target = {"number": 7, "addresses": ["127.0.0.1"], "port": listener.port}
    result = doctor_links.connect_all(b"k" * 32, [target], 5.0)[0]
    assert result["state"] == "connected" and 0 < result["round_trip"] < 5
    sent = doctor_links.send(b"k" * 32, target, "127.0.0.1", 5.0, 1 << 20, 5.0)
    assert sent["bytes"] >= 1 << 20 and sent["seconds"] > 0
    assert doctor_links.connect_all(b"x" * 32, [target], 5.0)[0]["state"] == "refused"
    assert doctor_links.connect_all(b"k" * 32, [{**target, "number": 8}], 5.0)[0]["state"] == "wrong host"


def test_report_is_narrow_and_the_worst_comes_last():
    findings = [doctor_judge.Finding("x", FAILED, "h", "word " * 60, "advice " * 40),
                *(doctor_judge.Finding("y", OK, name, "same") for name in ("a", "b")), doctor_judge.Finding("z", WARNING, "h", "w", "a")]
    report = doctor_report.as_object("1.0.0", 1.0, [], [], [], None, {}, findings)
    report["hosts"] = [{"name": name, "slots": 1, "facts": None, "failure": None, "clock": None} for name in ("a", "b")]
    text = doctor_report.as_text(report, False)
    assert max(map(len, text.splitlines())) <= doctor_report.WIDTH and "\x1b" not in text
    assert "ok       y: all hosts: same\n" in text
    assert [line.split()[0] for line in text.splitlines() if re.match("ok|warning|failed", line)] == [OK, WARNING, FAILED]
    assert "\x1b[31mfailed" in doctor_report.as_text(report, True)


# ---- the program, on this machine


def doctor(*arguments, **variables):
    """horovodrun doctor here: exit code, stdout, stderr."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HOROVOD_")}
    done = subprocess.run([sys.executable, "-m", "horovod.runner", "doctor", *arguments], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=60, env={**environment, "PYTHONPATH": package(), **variables})
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
    result = doctor_engine.try_engine()
    assert result["latency"] is None and "libhvd not found" in result["problem"]


@pytest.mark.parametrize("arguments, words", [
    (["--nonsense"], "--nonsense"), (["-H", "a:0"], "0 slots"), (["-hostfile", "/does/not/exist"], "/does/not/exist"),
    (["-H", "a", "-hostfile", "b"], "not allowed with"), (["-p", "0"], "less than 1"),
])
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
    return [(finding["check"], finding["host"], finding["fact"]) for finding in report["findings"]
            if finding["level"] == FAILED and "libhvd" not in finding["fact"]]


def test_three_good_hosts(many_hosts):
    hosts = many_hosts(hosts=3, docker_bridge=True, loopback_names=True)
    report, seconds = examine(hosts)
    assert failed(report) == [] and [one["name"] for one in report["hosts"]] == ["h0", "h1", "h2"]
    assert set(report) == {"format", "horovod", "seconds", "exit_code", "summary", "hosts", "links", "bandwidth", "engine",
                           "environment", "findings"}
    connected = {(link["from"], link["to"], link["address"]) for link in report["links"] if link["state"] == "connected"}
    names = hosts.net.host_names
    assert connected == {(a, b, address) for a in names for b in names if a != b for address in hosts.net.addresses(names.index(b))}
    assert len(report["bandwidth"]) == 6 and all(one["bytes_per_second"] > 1e6 for one in report["bandwidth"])
    for one_host in report["hosts"][1:]:
        assert one_host["facts"]["hostname"] == one_host["name"] and abs(one_host["clock"]["offset"]) < 1
        assert one_host["facts"]["own_name"] == ["127.0.1.1"]
    assert any(finding["fact"].startswith("172.17.0.1 (docker0) is on h0, h1, h2: a bridge") for finding in report["findings"])
    assert not any(finding["check"] == "connections" and finding["level"] != OK for finding in report["findings"])
    assert report["seconds"] < 20, seconds


def test_the_report_for_people(many_hosts):
    hosts = many_hosts()
    code, out, err = hosts.run("doctor", "--fast", "-H", "h0:1,h1:2")
    assert err == "" and max(map(len, out.splitlines())) <= 110
    assert re.search(r"^h1 +2 +\d", out, re.M) and "shortest round trip" in out and "bandwidth" not in out
    assert re.search(r"^ok +connections: h0 to h1: 10\.77\.0\.2 in \d+ us, fd77::2 in \d+ us$", out, re.M)


def test_launcher_that_is_no_host_of_the_job(many_hosts):
    report, _ = examine(many_hosts(hosts=3), "--fast", where="h1:1,h2:1")
    assert failed(report) == [] and [(one["name"], one["slots"]) for one in report["hosts"]] == [("localhost", 0), ("h1", 1), ("h2", 1)]
    assert {(link["from"], link["to"]) for link in report["links"]} == {("h1", "h2"), ("h2", "h1")}


def test_host_that_does_not_let_us_in(many_hosts):
    hosts = many_hosts(hosts=3)
    (hosts.folder / "empty").touch(mode=0o600)
    assert hosts.net.run(1, ["mount", "--bind", str(hosts.folder / "empty"), f"{hosts.net.folder}/id.pub"]).returncode == 0
    report, _ = examine(hosts, "--fast")
    assert report["exit_code"] == 1
    assert failed(report) == [("ssh", "h1", "ssh: permission denied (publickey)")]
    advice = next(finding["advice"] for finding in report["findings"] if finding["check"] == "ssh" and finding["host"] == "h1")
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
    assert report["exit_code"] == 1 and len(report["bandwidth"]) == 4 and seconds < 25


def test_ipv6_only(many_hosts):
    report, _ = examine(many_hosts(ipv6_only=True), where="[fd77::1]:1,[fd77::2]:1")
    assert failed(report) == [] and {link["address"] for link in report["links"]} == {"fd77::1", "fd77::2"}
    assert all(link["state"] == "connected" for link in report["links"])


def test_host_that_is_down(many_hosts):
    hosts = many_hosts(hosts=3)
    hosts.net.cut(2)
    report, seconds = examine(hosts, "--fast", "--start-timeout", "4")
    found = failed(report)
    assert [(check, name) for check, name, _ in found] == [("ssh", "h2")] and seconds < 12
    assert re.match("cannot be reached|did not answer", found[0][2])
    assert report["hosts"][2]["facts"] is None and {(link["from"], link["to"]) for link in report["links"]} == {("h0", "h1"), ("h1", "h0")}


def test_interface_that_no_host_has(many_hosts):
    hosts = many_hosts(second_network="good")
    report, _ = examine(hosts, "--fast", "--network-interfaces", "eth0", where="h0:1,h1:1")
    assert [(check, name) for check, name, _ in failed(report)][0] == ("addresses", "h1")
    report, _ = examine(hosts, "--fast", "--network-interfaces", "eth0,enp1", where="h0:1,h1:1")
    assert failed(report) == [] and {link["address"] for link in report["links"]} == {"10.77.0.1", "fd77::1", "10.77.0.2", "fd77::2"}
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
