# SPDX-License-Identifier: Apache-2.0
"""horovodrun doctor: what facts mean. Plain functions, facts in and findings out."""

import copy
import re
import sys
from pathlib import Path

import pytest

from horovod.runner import on_host
from horovod.runner.doctor import judge, judge_all, launch
from horovod.runner.doctor.judge import FAILED, OK, WARNING
from horovod.runner.doctor.report import WIDTH, as_object, as_text

sys.path.insert(0, on_host.FOLDER)  # it imports its neighbours by plain names: a probe has no package
from horovod.runner.doctor.on_host.facts import cgroup  # noqa: E402

_GIB = 1 << 30


def entry(interface, address, bridge=False, loopback=False):
    return {
        "interface": interface,
        "address": address,
        "loopback": loopback,
        "bridge": bridge,
        "mtu": 1500,
        "megabits": None,
    }


def host(**changes):
    """The facts of a host on which nothing is wrong."""
    facts = {
        "hostname": "h0",
        "user": 1000,
        "kernel": "6.1.0",
        "machine": "x86_64",
        "glibc": "2.36",
        "python": "3.11.2",
        "executable": "/usr/bin/python3",
        "cores": 8,
        "cores_of_machine": 8,
        "load": 0.5,
        "container": None,
        "cwd": True,
        "memory": {"total": 32 * _GIB, "available": 30 * _GIB},
        "limits": {
            name: {"soft": None, "hard": None} for name in ("open_files", "processes", "locked_memory", "address_space")
        },
        "cgroup": {
            "memory_limit": None,
            "memory_used": None,
            "processes_limit": None,
            "processes_used": None,
            "cores": None,
        },
        "shared_memory": {"memfd": None, "dev_shm": 1 << 26},
        "own_name": ["10.0.0.1"],
        "port": 1,
        "interfaces": [entry("eth0", "10.0.0.1"), entry("lo", "127.0.0.1", loopback=True)],
        "addresses": ["10.0.0.1"],
        "addresses_problem": None,
        "rank": {
            "horovod": {"path": "/site/horovod", "version": "1.0.0", "problem": None},
            "libhvd": {"path": "/site/libhvd.so.1", "version": "1.0.0", "abi": 1, "problem": None},
            "numpy": "2.0",
            "torch": None,
            "mpi": {
                "plugin": None,
                "usable": False,
                "problem": "no plug-in at /site",
                "library": None,
                "version": None,
                "library_problem": "not found",
            },
            "gloo": {"plugin": None, "usable": False, "problem": "no plug-in at /site", "library": None},
            "nccl": {"path": None, "version": None, "origin": None, "used": False, "problem": "not found"},
            "cuda": {"path": None, "version": None, "driver": None, "used": False, "problem": "not found"},
        },
    }
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
    assert (
        bad(
            [
                *judge.software("h", facts),
                *judge.limits("h", facts, 8, 64),
                judge.shared_memory("h", facts),
                judge.names("h", facts),
                *judge.addresses("h", facts),
                *judge.libraries("h", facts, "native"),
            ]
        )
        == []
    )


@pytest.mark.parametrize(
    "failure, fact, advice",
    [
        ("its host key is not known; connect once with ssh h", "its host key is not known", "connect once with ssh h"),
        ("cannot be reached: no route to host", "cannot be reached: no route to host", "see that h is up"),
        ("did not answer within 10 s", "did not answer within 10 s", "see that h is up"),
        ("its name is not known: name or service not known", "its name is not known", "correct the name"),
        ("ssh ended with exit code 9", "ssh ended with exit code 9", "ssh -v h true"),
    ],
)
def test_ssh(failure, fact, advice):
    finding = one([judge.ssh("h", failure, None)], FAILED)
    assert finding.fact.startswith(fact) and advice in finding.advice and "{" not in finding.advice


def test_ssh_that_works_says_whether_the_key_was_known():
    assert "host key known, ready after 0.25 s" in judge.ssh("h", None, 0.25).fact
    assert "its key was new" in judge.ssh("h", None, 0.25, "Warning: Permanently added 'h' to the list").fact


def test_software():
    gone = host(
        rank=rank_view(horovod={"path": None, "version": None, "problem": "not installed for /usr/bin/python3"})
    )
    assert "-m pip install ." in one(judge.software("h", gone), FAILED).advice
    broken = host(
        rank=rank_view(libhvd={"path": None, "version": None, "abi": None, "problem": "libhvd not found; tried: x"})
    )
    assert one(judge.software("h", broken), FAILED).fact == "libhvd not found; tried: x"
    crashed = host(rank={"problem": "a Python that looks for horovod ended with -11"})
    assert "-11" in one(judge.software("h", crashed), FAILED).fact
    assert judge.libraries("h", crashed, "native") == []
    assert "home folder" in one(judge.software("h", host(cwd=False)), WARNING).fact


@pytest.mark.parametrize(
    "name, limit, level, words",
    [
        ("open_files", {"soft": 256, "hard": 4096}, WARNING, "ulimit -n 1024"),
        ("open_files", {"soft": 100, "hard": 100}, FAILED, "nofile in /etc/security/limits.conf"),
        ("processes", {"soft": 200, "hard": 200}, WARNING, "ulimit -u"),
        ("address_space", {"soft": _GIB, "hard": None}, WARNING, "ulimit -v unlimited"),
    ],
)
def test_limits(name, limit, level, words):
    facts = host()
    facts["limits"][name] = limit
    assert words in one(judge.limits("h", facts, 8, 64), level).advice
    assert judge.limits("h", facts, 0, 64) == []  # no rank runs there


@pytest.mark.parametrize(
    "changes, level, words",
    [
        ({"memory_limit": _GIB, "memory_used": _GIB - 1000}, WARNING, "memory limit of the container"),
        ({"processes_limit": 100, "processes_used": 90}, FAILED, "pids.max"),
        ({"cores": 1.5}, WARNING, "at most 1 slots"),
    ],
)
def test_control_groups(changes, level, words):
    facts = host()
    facts["cgroup"].update(changes)
    assert words in one(judge.limits("h", facts, 8, 8), level).advice


def test_a_busy_host_is_a_warning():
    assert "load 30.0" in one(judge.limits("h", host(load=30.0), 8, 8), WARNING).fact


def test_shared_memory_needs_memfd_and_not_dev_shm():
    assert bad([judge.shared_memory("h", host(shared_memory={"memfd": None, "dev_shm": 0}))]) == []
    refused = host(shared_memory={"memfd": "[Errno 38] Function not implemented", "dev_shm": _GIB})
    assert "seccomp" in one([judge.shared_memory("h", refused)], FAILED).advice


def test_own_name_that_is_a_loopback_address_is_no_problem():
    assert "does not use it" in judge.names("h", host(own_name=["127.0.1.1"])).fact
    assert judge.names("h", host(own_name="unknown")).level == OK


@pytest.mark.parametrize(
    "offset, uncertainty, level", [(0.5, 0.001, OK), (-2.0, 0.001, WARNING), (1.2, 0.5, OK), (3.0, 0.5, WARNING)]
)
def test_clock(offset, uncertainty, level):
    finding = judge.clock("h", {"offset": offset, "uncertainty": uncertainty})
    assert finding.level == level and f"{offset:+.3f} s" in finding.fact


def test_libraries_fail_only_where_they_are_asked_for():
    facts = host()
    assert bad(judge.libraries("h", facts, "native")) == []
    assert "HOROVOD_CPU_OPERATIONS=mpi" in one(judge.libraries("h", facts, "mpi"), FAILED).fact
    there = host(rank=rank_view(gloo={"plugin": "/site/hvd-backend-gloo.so", "usable": True, "problem": None}))
    assert bad(judge.libraries("h", there, "gloo")) == []


# ---- several hosts


def test_versions_that_differ():
    facts = {
        "a": host(),
        "b": host(rank=rank_view(libhvd={"version": "1.1.0", "abi": 1})),
        "c": host(python="3.12.1"),
        "d": host(kernel="5.4"),
    }
    found = {finding.fact: finding.level for finding in bad(judge_all.versions(facts))}
    assert found == {
        "libhvd differs: 1.0.0 (ABI 1) on a, c, d; 1.1.0 (ABI 1) on b": FAILED,
        "Python differs: 3.11 on a, b, d; 3.12 on c": FAILED,
        "kernel differs: 6.1.0 on a, b, c; 5.4 on d": WARNING,
    }
    assert bad(judge_all.versions({"a": host(), "b": host(python="3.11.9")})) == []


def test_addresses_on_several_hosts():
    bridge = [entry("docker0", "172.17.0.1", bridge=True)]
    bridged = {"a": host(interfaces=bridge), "b": host(interfaces=bridge)}
    assert (
        "harmless" in judge_all.shared_addresses(bridged)[0].fact
        and bad(judge_all.shared_addresses(bridged)) == []
    )
    twice = one(judge_all.shared_addresses({"a": host(), "b": host()}), FAILED)
    assert "10.0.0.1 (eth0) is on a, b" in twice.fact
    local = [entry("eth0", "fe80::1"), entry("lo", "127.0.0.1", loopback=True)]
    assert judge_all.shared_addresses({"a": host(interfaces=local), "b": host(interfaces=local)}) == []


def way(sender, receiver, address, state="connected", **more):
    return {
        "from": sender,
        "to": receiver,
        "address": address,
        "state": state,
        "round_trip": 1e-4,
        "source": None,
        "error": None,
        "lost": None,
        **more,
    }


def test_links():
    facts = {
        "a": host(),
        "b": host(interfaces=[entry("eth0", "10.0.0.2"), entry("docker0", "172.17.0.1", bridge=True)]),
    }
    silent = dict(state="no answer", error="no answer within 1.5 s")
    good = way("a", "b", "10.0.0.2")
    assert bad(judge_all.links([good, way("a", "b", "172.17.0.1", **silent)], facts)) == []
    finding = one(judge_all.links([way("a", "b", "10.0.0.2", lost=["b", "a"], **silent)], facts), FAILED)
    assert finding.fact == "a to b: none: 10.0.0.2: no answer within 1.5 s, packets from b to a do not arrive"
    finding = one(judge_all.links([good, way("a", "b", "10.9.0.2", **silent)], facts), WARNING)
    assert finding.fact == "a to b: works over 10.0.0.2 in 100 us, but 10.9.0.2: no answer within 1.5 s"


@pytest.mark.parametrize(
    "variables, several, level, words",
    [
        ({}, True, None, ""),
        ({"HOROVOD_SECURITY": "none"}, False, None, ""),
        ({"HOROVOD_SECURITY": "none"}, True, WARNING, "nothing is protected"),
        ({"HOROVOD_SECURITY": "more"}, True, FAILED, 'is "more"'),
        ({"HOROVOD_SECURITY": "encrypt", "HOROVOD_CPU_OPERATIONS": "mpi"}, True, FAILED, "plain text"),
        ({"HOROVOD_SECRET_FILE": "/does/not/exist"}, True, WARNING, "no such file"),
        ({"HOROVOD_SECRET": "5ecre7"}, True, WARNING, "HOROVOD_SECRET is set"),
    ],
)
def test_protection(variables, several, level, words):
    found = judge_all.protection(launch.protection(variables), several)
    assert words in one(found, level).fact if level else bad(found) == []
    assert "5ecre7" not in str(found)


def test_secret_file_that_others_may_read(tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("5ecre7")
    secret.chmod(0o644)
    told = launch.protection({"HOROVOD_SECRET_FILE": str(secret)})
    assert "0644" in told["secret_file_problem"] and "5ecre7" not in str(told)
    secret.chmod(0o600)
    assert launch.protection({"HOROVOD_SECRET_FILE": str(secret)})["secret_file_problem"] is None


@pytest.mark.parametrize(
    "variables, level, words",
    [
        ({}, OK, "no launcher"),
        (
            {"RANK": "1", "WORLD_SIZE": "4", "MASTER_ADDR": "x", "MASTER_PORT": "1"},
            OK,
            "RANK and WORLD_SIZE: rank 1 of 4",
        ),
        ({"RANK": "1", "WORLD_SIZE": "4"}, WARNING, "missing MASTER_ADDR MASTER_PORT"),
        ({"RANK": "1", "WORLD_SIZE": "4", "HOROVOD_RENDEZVOUS": "file:///x"}, OK, "rank 1 of 4"),
        ({"HOROVOD_RANK": "0", "HOROVOD_SIZE": "2"}, WARNING, "missing HOROVOD_RENDEZVOUS"),
        ({"HOROVOD_RENDEZVOUS": "file:///x"}, WARNING, "missing HOROVOD_RANK HOROVOD_SIZE"),
        ({"SLURM_STEP_ID": "4294967290", "SLURM_JOB_ID": "1"}, OK, "no launcher"),
        (
            {"SLURM_STEP_ID": "0", "SLURM_JOB_ID": "1", "SLURM_PROCID": "3", "SLURM_STEP_NUM_TASKS": "8"},
            OK,
            "Slurm: rank 3 of 8",
        ),
        ({"JOB_COMPLETION_INDEX": "1"}, OK, "no launcher"),
        ({"JOB_COMPLETION_INDEX": "1", "HOROVOD_SIZE": "2", "MASTER_ADDR": "x"}, OK, "Kubernetes: rank 1 of 2"),
    ],
)
def test_launch_environment(variables, level, words):
    finding = judge_all.launch(launch.launch(variables))
    assert finding.level == level and words in finding.fact and bool(finding.advice) == (level != OK)


def test_the_table_of_launchers_is_that_of_the_engine():
    source = Path(__file__).resolve().parents[4] / "core" / "rendezvous" / "launcher_table.cc"
    if not source.is_file():
        pytest.skip("the sources of the engine are not here")
    table = source.read_text().partition("constexpr LauncherRow kRows[] = {")[2].partition("};\n")[0]
    rows = re.findall(r'\{\s*"([^"]+)",\s*\w+,\s*"(\w+)",\s*"(\w+)",\s*[^,]+,\s*[^,]+,\s*\{([^}]*)\}', table)
    assert [(row.name, row.rank, row.size, row.needed) for row in launch.LAUNCHERS] == [
        (name, rank, size, tuple(re.findall(r'"(\w+)"', needed))) for name, rank, size, needed in rows
    ]


def test_control_group_limits_are_the_tightest_on_the_way_up(tmp_path):
    inner = tmp_path / "outer" / "inner"
    inner.mkdir(parents=True)
    (inner / "memory.max").write_text("max\n")
    (tmp_path / "outer" / "memory.max").write_text("1000\n")
    (tmp_path / "outer" / "memory.current").write_text("600\n")
    (inner / "pids.max").write_text("50\n")
    (inner / "pids.current").write_text("7\n")
    (tmp_path / "outer" / "cpu.max").write_text("150000 100000\n")
    assert cgroup(str(tmp_path), "0::/outer/inner\n") == {
        "memory_limit": 1000,
        "memory_used": 600,
        "processes_limit": 50,
        "processes_used": 7,
        "cores": 1.5,
    }


def test_report_is_narrow_and_the_worst_comes_last():
    findings = [
        judge.Finding("x", FAILED, "h", "word " * 60, "advice " * 40),
        *(judge.Finding("y", OK, name, "same") for name in ("a", "b")),
        judge.Finding("z", WARNING, "h", "w", "a"),
    ]
    report = as_object("1.0.0", 1.0, [], [], [], None, {}, findings)
    report["hosts"] = [{"name": name, "slots": 1, "facts": None, "failure": None, "clock": None} for name in ("a", "b")]
    text = as_text(report, False)
    assert max(map(len, text.splitlines())) <= WIDTH and "\x1b" not in text
    assert "ok       y: all hosts: same\n" in text
    assert [line.split()[0] for line in text.splitlines() if re.match("ok|warning|failed", line)] == [
        OK,
        WARNING,
        FAILED,
    ]
    assert "\x1b[31mfailed" in as_text(report, True)


def test_bandwidth_of_many_hosts_is_one_line():
    names = [f"h{number}" for number in range(12)]
    hosts = [{"name": name, "slots": 1, "facts": host(), "failure": None, "clock": None} for name in names]
    rates = [
        {"from": a, "to": b, "address": "x", "bytes_per_second": 125e6 * (1 + number), "error": None}
        for number, (a, b) in enumerate(zip(names, names[1:] + names[:1]))
    ]
    report = as_object("1.0.0", 1.0, [], [], rates, None, {}, [])
    text = as_text({**report, "hosts": hosts}, False)
    assert "bandwidth of each host to the next, Gbit/s: 1 (h0 to h1) to 12\n" in text
    assert "round trip" not in text and max(map(len, text.splitlines())) <= WIDTH
