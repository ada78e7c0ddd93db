# SPDX-License-Identifier: Apache-2.0
"""The engine under horovodrun on several hosts: ranks meet where the launcher says, with the secret that it gave them."""

import sys
import time

import pytest
from time_scale import scaled

TRAIN = """
import signal, sys, time
if "die" in sys.argv:
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
import numpy as np
import horovod as hvd

hvd.init()
value = hvd.allreduce(np.full(1000, hvd.rank() + 1.0), op=hvd.Sum)[0]
print("sum", value, "local", hvd.local_rank(), hvd.local_size(), "cross", hvd.cross_rank(), hvd.cross_size(), flush=True)
if "die" in sys.argv:
    if hvd.rank() == 1:
        import os
        os.kill(os.getpid(), 9)
    try:
        while True:
            hvd.allreduce(np.ones(1000))
    except hvd.HorovodInternalError as error:
        print("told", error, flush=True)
        # So that the first failure that the launcher hears of is the death.
        signal.sigwait({signal.SIGTERM})
        sys.exit(5)
"""


def train(hosts, *flags):
    """Exit code, sorted lines of stdout without their ranks, and stderr of a job that reduces once."""
    path = hosts.folder / "train.py"
    path.write_text(TRAIN)
    arguments = [flag for flag in flags if flag != "die"]
    code, out, err = hosts.run(*arguments, sys.executable, str(path), *["die"] * ("die" in flags))
    return code, sorted(line.partition(">:")[2] for line in out.splitlines()), err


@pytest.mark.parametrize("options", [{}, {"ipv6_only": True}, {"loopback_names": True}, {"docker_bridge": True},
                                     {"second_network": "unreachable"}], ids=str)
@pytest.mark.parametrize("first", ["h0:2,h1:2", "h1:2,h0:2"])
def test_allreduce_over_two_hosts(many_hosts, options, first):
    code, lines, err = train(many_hosts(**options), "-np", 4, "-H", first)
    assert code == 0, err
    assert lines == [f"sum 10.0 local {local} 2 cross {cross} 2" for local in (0, 1) for cross in (0, 1)]


def test_allreduce_over_four_hosts_with_the_commands_that_users_write(many_hosts):
    hosts = many_hosts(hosts=4)
    code, lines, err = train(hosts, "-np", 6, "-H", "h0:2,h1:2,h2:1,h3:1")
    assert code == 0 and len(lines) == 6 and all(line.startswith("sum 21.0 ") for line in lines), err
    code, lines, err = train(hosts, "-np", 2, "-H", "localhost:1,10.77.0.2:1")
    assert code == 0 and lines == ["sum 3.0 local 0 1 cross 0 2", "sum 3.0 local 0 1 cross 1 2"], err


def test_named_interfaces_carry_the_job(many_hosts):
    hosts = many_hosts(second_network="good")
    code, lines, err = train(hosts, "-H", "h0:1,h1:1", "--network-interfaces", "eth1,enp2")
    assert code == 0 and lines == ["sum 3.0 local 0 1 cross 0 2", "sum 3.0 local 0 1 cross 1 2"], err


def test_survivors_elsewhere_name_the_rank_that_died(many_hosts):
    code, lines, err = train(many_hosts(hosts=3), "-H", "h0:1,h1:1,h2:1", "die")
    assert code == 137, err
    told = [line for line in lines if line.startswith("told")]
    assert len(told) == 2 and all("rank 1 (host h1, pid " in line for line in told), told
    assert "rank 1 failed first: killed by signal 9 (SIGKILL)" in err and "ranks 0 2 exit code 5 after horovodrun sent SIGTERM" in err


FAILING = """
import os, sys
import numpy as np
import horovod as hvd

hvd.init()
for step in range(20):
    if hvd.rank() == 1 and step == 10:
        exec(sys.argv[1])
    try:
        hvd.allreduce(np.ones(1000))
    except hvd.HorovodInternalError:
        os._exit(5)
"""


@pytest.mark.parametrize("fault, how", [
    ("os.kill(os.getpid(), 9)", "killed by signal 9 (SIGKILL)"),
    ("raise ValueError('planned')", "exit code 1"),
    ("import atexit, time; atexit.register(time.sleep, 0.5); sys.exit(3)", "exit code 3"),
], ids=["kill", "raise", "exit"])
def test_a_rank_elsewhere_that_failed_is_named_although_others_end_sooner(many_hosts, fault, how):
    hosts = many_hosts(hosts=3)
    path = hosts.folder / "failing.py"
    path.write_text(FAILING)
    _, _, err = hosts.run("-H", "h0:1,h1:1,h2:1", sys.executable, str(path), fault)
    assert f"rank 1 failed first: {how}" in err and "2 ranks failed because of it: ranks 0 2 exit code 5" in err, err


def test_start_of_four_ranks_on_two_hosts_is_quick(many_hosts):
    hosts = many_hosts()
    began = time.monotonic()
    assert train(hosts, "-np", 4, "-H", "h0:2,h1:2")[0] == 0
    seconds = time.monotonic() - began
    assert seconds < scaled(6)  # 2 s on an idle machine
