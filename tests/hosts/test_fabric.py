# SPDX-License-Identifier: Apache-2.0
"""Ranks on several hosts: every kind of network, and every way in which a rank, a host or a cable can go."""

import signal
import time

import pytest
from job import Job
from network import Network, available
from time_scale import scaled

import horovod as hvd

pytestmark = pytest.mark.skipif(available() is not None, reason=str(available()))

NETWORKS = {
    "plain": {},
    "ipv6-only": {"ipv6_only": True},
    "two-networks": {"second_network": "good"},
    "second-network-unreachable": {"second_network": "unreachable"},
    "docker-bridge": {"docker_bridge": True},
    "loopback-names": {"loopback_names": True},
}
# Everybody who lives must know who is gone this soon; the rest is the time to write and read a line.
KILLED_LIMIT = scaled(0.5)
SLACK = scaled(0.5)


@pytest.mark.parametrize("kind", NETWORKS)
def test_ranks_meet_and_compute_on(kind):
    with Network(hosts=2, **NETWORKS[kind]) as net, Job(net, 2, "check") as job:
        for number, event in enumerate(job.wait_for_all("ready")):
            assert event["local"] == [number % 2, 2] and event["cross"] == [number // 2, 2]
        assert [event["ended"] for event in job.wait_for_all("ended", 60)] == ["done"] * 4


@pytest.mark.parametrize("hosts, ranks_per_host", [(3, 1), (3, 2), (4, 1), (4, 2)])
def test_more_hosts(hosts, ranks_per_host):
    with Network(hosts=hosts) as net, Job(net, ranks_per_host, "check") as job:
        assert [event["ended"] for event in job.wait_for_all("ended", 60)] == ["done"] * (hosts * ranks_per_host)


@pytest.mark.parametrize("environment", [{}, {"HOROVOD_DATA_MAC": "1"}, {"HOROVOD_SECURITY": "none"}])
def test_payloads_that_come_behind_their_messages(environment):
    """On a slow link a payload comes in parts, while everybody sleeps; without a peer timeout nothing else would wake them."""
    with Network(hosts=2, rate="20mbit") as net, Job(net, 1, "payloads", {"HOROVOD_PEER_TIMEOUT": "0", **environment}) as job:
        assert [event["ended"] for event in job.wait_for_all("ended", 60)] == ["done"] * 2


@pytest.mark.parametrize("level", ["encrypt", "none"])
def test_other_levels_of_protection(level):
    with Network(hosts=2) as net, Job(net, 1, "check", {"HOROVOD_SECURITY": level}) as job:
        assert [event["ended"] for event in job.wait_for_all("ended", 60)] == ["done"] * 2


@pytest.mark.parametrize("environment", [{"HOROVOD_TCP_STREAMS": "3"}, {"HOROVOD_DATA_MAC": "1"}])
def test_several_connections_between_two_ranks_and_checksums(environment):
    with Network(hosts=2) as net, Job(net, 2, "check", environment) as job:
        assert [event["ended"] for event in job.wait_for_all("ended", 60)] == ["done"] * 4


@pytest.mark.parametrize("level", ["auth", "encrypt"])
def test_gloo_between_hosts_except_where_all_data_must_be_encrypted(level):
    if not hvd.gloo_built():
        pytest.skip("the Gloo plug-in does not load here: libgloo is not installed")
    environment = {"HOROVOD_CPU_OPERATIONS": "gloo", "HOROVOD_SECURITY": level}
    with Network(hosts=2) as net, Job(net, 2, "check", environment) as job:
        endings = [event["ended"] for event in job.wait_for_all("ended", 60)]
    if level == "auth":
        assert endings == ["done"] * 4
    else:
        assert all("gloo" in text.lower() and "encrypt" in text for text in endings), endings


def test_unknown_interface_is_an_immediate_error_that_lists_what_there_is():
    with Network(hosts=2) as net:
        began = time.monotonic()
        with Job(net, 1, "check", per_rank={1: {"HOROVOD_NETWORK_INTERFACES": "eth7"}}, env={"HOROVOD_START_TIMEOUT": "20"}) as job:
            text = job.ranks[1].wait_for("ended")["ended"]
        assert 'network interface "eth7" is not there' in text and "eth0 (10.77.0.2)" in text, text
        assert time.monotonic() - began < scaled(10)


def test_loopback_is_refused_for_another_machine():
    with Network(hosts=2) as net, Job(net, 1, "check", {"HOROVOD_NETWORK_INTERFACES": "lo", "HOROVOD_START_TIMEOUT": "5"}) as job:
        text = job.ranks[1].wait_for("ended")["ended"]
        assert "loopback addresses only" in text, text


def listening_on(net, host):
    """The addresses of a host at which somebody but sshd listens for TCP connections."""
    table = net.run(host, ["ss", "-Hltnp"])
    assert table.returncode == 0 and '"sshd"' in table.stdout, table
    lines = table.stdout.splitlines()
    return {line.split()[3].rsplit(":", 1)[0] for line in lines if '"sshd"' not in line}


def test_ports_are_open_at_the_interfaces_of_the_job_only():
    interfaces = {rank: {"HOROVOD_NETWORK_INTERFACES": "eth0" if rank < 2 else "enp1"} for rank in range(4)}
    with Network(hosts=2, second_network="good", docker_bridge=True) as net, Job(net, 2, "stream", per_rank=interfaces) as job:
        job.wait_for_all("ready")
        for host in range(2):
            open_at = listening_on(net, host)
            own = {address if ":" not in address else f"[{address}]" for address in net.addresses(host)}
            assert open_at and open_at <= own, (host, open_at)


def test_ranks_of_one_host_open_no_port():
    with Network(hosts=2) as net, Job(net, 2, "stream", {"HOROVOD_SIZE": "2"}, per_rank={2: {"HOROVOD_RANK": "9"}}) as job:
        job.wait_for_all("ready", ranks=[0, 1])
        assert listening_on(net, 0) == set()


def check_in_time(endings, began, limit):
    """All were told within the limit, not counting how long the one of them that stood still longest did so meanwhile."""
    told = max(event["time"] for event in endings)
    stood_still = max(
        sum(max(0, min(until, told) - max(until - seconds, began)) for until, seconds in event["stood_still"])
        for event in endings
    )
    assert told - began - stood_still <= limit + SLACK, (endings, told - began, stood_still)


def survivors_after(net, ranks_per_host, fault, victim, survivors, limit, env=None, mode="stream"):
    """Runs a job, applies the fault while data flows, and checks what every survivor says and how soon."""
    with Job(net, ranks_per_host, mode, env) as job:
        job.wait_for_all("ready")
        time.sleep(0.5)  # into the stream of operations
        fault(job)
        began = time.monotonic()
        endings = job.wait_for_all("ended", limit + 15, survivors)
        for event in endings:
            assert event["kind"] == "HorovodPeerLostError", event
            assert event["culprit"] == victim, event
        check_in_time(endings, began, limit)
        return endings


@pytest.mark.parametrize("victim", [0, 1, 2, 3])
def test_killed_rank_is_named_by_all_others(victim):
    survivors = [rank for rank in range(4) if rank != victim]
    with Network(hosts=2) as net:
        endings = survivors_after(net, 2, lambda job: job.ranks[victim].process.kill(), victim, survivors, KILLED_LIMIT)
    for event in endings:
        assert f"rank {victim} (host h{victim // 2}, pid " in event["ended"], event


@pytest.mark.parametrize("both", [True, False], ids=["both-ways", "one-way"])
def test_silent_loss_is_noticed_within_the_peer_timeout(both):
    """A firewall that drops everything between two hosts, or everything in one direction."""
    with Network(hosts=2) as net, Job(net, 1, "stream", {"HOROVOD_PEER_TIMEOUT": "3"}) as job:
        job.wait_for_all("ready")
        time.sleep(0.5)
        net.drop(0, 1, both=both)
        began = time.monotonic()
        endings = job.wait_for_all("ended", 20)
        # In one direction only, whoever still hears may be told by the other that it is the silent one.
        assert all(event["kind"] == "HorovodPeerLostError" for event in endings), endings
        check_in_time(endings, began, 3 + 1)


def test_host_without_power_is_named_alike_by_all_survivors():
    with Network(hosts=3) as net:
        endings = survivors_after(net, 2, lambda job: net.kill_host(1), 2, [0, 1, 4, 5], 3 + 1, {"HOROVOD_PEER_TIMEOUT": "3"})
    assert all("was not heard for" in event["ended"] for event in endings), endings


def test_idle_job_notices_a_cut_cable():
    with Network(hosts=2) as net:
        survivors_after(net, 1, lambda job: net.cut(1), 1, [0], 3 + 1, {"HOROVOD_PEER_TIMEOUT": "3"}, mode="idle")


def test_stopped_rank_is_lost_after_the_timeout_and_learns_it():
    with Network(hosts=2) as net, Job(net, 1, "stream", {"HOROVOD_PEER_TIMEOUT": "2"}) as job:
        job.wait_for_all("ready")
        job.ranks[1].process.send_signal(signal.SIGSTOP)
        event = job.ranks[0].wait_for("ended", 10)
        assert event["culprit"] == 1 and "was not heard for" in event["ended"], event
        job.ranks[1].process.send_signal(signal.SIGCONT)
        assert job.ranks[1].wait_for("ended", 10)["kind"] == "HorovodPeerLostError"


def test_slow_rank_is_not_lost():
    """Stopped for less than the timeout: everything goes on."""
    with Network(hosts=2) as net, Job(net, 1, "stream", {"HOROVOD_PEER_TIMEOUT": "4"}) as job:
        job.wait_for_all("ready")
        for _ in range(2):
            job.ranks[1].process.send_signal(signal.SIGSTOP)
            time.sleep(1.5)
            job.ranks[1].process.send_signal(signal.SIGCONT)
            time.sleep(0.5)
        assert not any("ended" in event for rank in job.ranks for event in rank.events)
