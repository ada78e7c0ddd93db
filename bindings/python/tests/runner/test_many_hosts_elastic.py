# SPDX-License-Identifier: Apache-2.0
"""Elastic jobs on several hosts: ranks and hosts that die, and hosts that come and go by a discovery script."""

import sys

import pytest
from time_scale import scaled

ELASTIC = """
import atexit, os, sys, time
import numpy as np
import horovod as hvd

atexit.register(lambda: open(f"{worker} left", "w").close())
worker = int(os.environ["HOROVOD_WORKER"])
hvd.init()

@hvd.elastic.run
def train(state):
    open(f"{worker} begins", "w").close()
    if hvd.size() == 2 and os.path.exists("2 begins"):
        open("again", "w").close()
    while state.step < 60:
        if state.step == 10 and worker in map(int, sys.argv[1:]):
            os.kill(os.getpid(), 9)
        state.sum = state.sum + hvd.allreduce(np.ones(2), name="ones")
        state.step += 1
        time.sleep(0.02)
        state.commit()

state = hvd.elastic.ObjectState(step=0, sum=np.zeros(2))
train(state)
print("sum", state.sum[0], "of", hvd.size(), flush=True)
"""


def elastic(hosts, *dying):
    path = hosts.folder / "elastic.py"
    path.write_text(ELASTIC)
    return hosts.start("-np", 4, "--min-np", 2, "-H", "h0:2,h1:2", sys.executable, str(path), *dying)


@pytest.mark.parametrize("dying", [0, 3], ids=["rank0", "elsewhere"])
def test_others_go_on_when_a_rank_of_an_elastic_job_dies(many_hosts, dying):
    out, err = elastic(many_hosts(), dying).communicate(timeout=scaled(60))
    lines = [line.partition(">:")[2] for line in out.decode().splitlines()]
    assert lines and {line.partition(" of")[0] for line in lines} == {"sum 60.0"}, (lines, err)
    assert f"worker {dying} on h{dying // 2} was lost (killed by signal 9 (SIGKILL)); 3 ranks go on" in err.decode(), err


def test_others_go_on_when_a_host_of_an_elastic_job_is_lost(many_hosts):
    hosts = many_hosts()
    process = elastic(hosts)
    hosts.wait_for("2 begins", "3 begins")
    hosts.net.cut(1)  # which both sides notice after ten seconds of silence
    out, err = process.communicate(timeout=scaled(60))
    lines = [line.partition(">:")[2] for line in out.decode().splitlines()]
    assert lines == ["sum 60.0 of 2"] * 2, (lines, err)
    assert 'host "h1" was lost: ' in err.decode() and "was lost with its host; 2 ranks go on" in err.decode(), err


JOB = ("-np", 1, "--min-np", 1, "--max-np", 3, "--host-discovery-script", "cat hosts", "--verbose")


def listing(hosts, *names):
    """Changes what the discovery script lists."""
    (hosts.folder / "hosts.part").write_text("".join(f"{name}\n" for name in names))
    (hosts.folder / "hosts.part").replace(hosts.folder / "hosts")


def until_told(hosts, *names):
    """A job that goes on until the test has seen enough, as the ranks see by a file."""
    path = hosts.folder / "elastic.py"
    path.write_text(ELASTIC.replace("state.step < 60", "not hvd.broadcast_object(os.path.exists('enough')) or state.step < 60"))
    listing(hosts, *names)
    return hosts.start(*JOB, sys.executable, str(path))


def lines_of(process):
    out, err = process.communicate(timeout=scaled(60))
    assert process.returncode == 0, err
    return [line.partition(">:")[2] for line in out.decode().splitlines()], err.decode()


def test_hosts_that_a_script_lists_come_and_go(many_hosts):
    hosts = many_hosts()
    process = until_told(hosts, "h0:1")
    hosts.wait_for("0 begins")
    listing(hosts, "h0:1", "h1:2")
    hosts.wait_for("1 begins", "2 begins")
    listing(hosts, "h1:2")  # rank 0's host goes, the state stays with the others
    hosts.wait_for("0 left")
    (hosts.folder / "enough").touch()
    lines, err = lines_of(process)
    assert "worker 1 on h1 has joined" in err and "worker 2 on h1 has joined" in err, err
    assert "worker 0 on h0 leaves; 2 ranks go on" in err, err
    assert len(lines) == 2 and lines[0] == lines[1] and lines[0].endswith(" of 2"), (lines, err)


def test_a_listed_host_that_cannot_be_reached_is_left_out(many_hosts):
    hosts = many_hosts()
    process = until_told(hosts, "no-such-host.invalid:1", "h1:2")
    hosts.wait_for("0 begins")
    (hosts.folder / "enough").touch()
    lines, err = lines_of(process)
    assert 'host "no-such-host.invalid" cannot be used: its name is not known' in err and "it is tried again in 10 s" in err, err
    assert lines and all(line.startswith("sum ") for line in lines), lines


def test_a_host_that_comes_while_others_wait_for_it(many_hosts):
    hosts = many_hosts()
    listing(hosts)
    path = hosts.folder / "elastic.py"
    path.write_text(ELASTIC)
    process = hosts.start(*JOB, sys.executable, str(path))
    line = process.stderr.readline().decode()
    assert "waiting for hosts: cat hosts lists 0 slots, and 1 are needed" in line, line
    listing(hosts, "h1:1")
    lines, err = lines_of(process)
    assert lines == ["sum 60.0 of 1"], (lines, err)


def test_hosts_are_lost_and_found(many_hosts):
    """A host whose cable is cut goes without a word; the script lists another one in its place."""
    hosts = many_hosts(hosts=3)
    process = until_told(hosts, "h1:1", "h0:1")
    hosts.wait_for("0 begins")
    listing(hosts, "h1:1", "h0:1", "h2:1")
    hosts.wait_for("2 begins")
    hosts.net.cut(1)
    listing(hosts, "h0:1", "h2:1")
    hosts.wait_until(lambda: (hosts.folder / "again").exists() or process.poll() is not None)
    (hosts.folder / "enough").touch()
    lines, err = lines_of(process)
    assert "worker 0 on h1" in err and len(lines) == 2 and lines[0] == lines[1], (lines, err)
