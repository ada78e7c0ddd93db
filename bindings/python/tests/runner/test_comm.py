# SPDX-License-Identifier: Apache-2.0
"""hvd.init(comm=...) on several hosts: communicators of mpi4py, and lists of launched ranks."""

import importlib.util
import sys
from pathlib import Path

import pytest

SUBCOMMUNICATORS = Path(__file__).resolve().parents[1] / "mpi" / "subcommunicators.py"
# The parts into which the launched ranks divide, each a word of digits; a rank in none of them does not call init.
PARTS = """
import os, sys
import numpy as np
import horovod as hvd

launched = int(os.environ.get("HOROVOD_RANK") or os.environ["OMPI_COMM_WORLD_RANK"])
mine = [ranks for ranks in ([int(digit) for digit in word] for word in sys.argv[1:]) if launched in ranks]
if not mine:
    print("outside", flush=True)
    sys.exit(0)
(mine,) = mine
hvd.init(comm=mine)
assert (hvd.rank(), hvd.size()) == (sorted(mine).index(launched), len(mine))
for count in (1, 50_000, 500_000):
    total = hvd.allreduce(np.full(count, float(launched)), op=hvd.Sum, name=f"sum{count}")
    assert (total == sum(mine)).all(), total
others = [hvd.local_size(), hvd.cross_size()]
hvd.barrier()
hvd.shutdown()
print("part", *mine, "local and cross", *others, flush=True)
"""

TURNS = """
import os, time
import horovod as hvd

launched = int(os.environ["HOROVOD_RANK"])

def train(ranks):
    hvd.init(comm=ranks)
    assert hvd.allreduce(float(launched), op=hvd.Sum) == sum(ranks or range(4))
    hvd.shutdown()

def wait_for(name):
    while not os.path.exists(name):
        time.sleep(0.01)

if launched in (0, 2):
    train([0, 2])
    open(f"done{launched}", "w").close()
else:
    wait_for("done0"), wait_for("done2")
    train([1, 3])
train([])
for _ in range(3):
    train([0, 1] if launched < 2 else [2, 3])
print("turns: ok", flush=True)
"""
WRONG = """
import os
import horovod as hvd

launched = int(os.environ["HOROVOD_RANK"])
try:
    hvd.init(comm=[1] if launched == 0 else [1, 7])
except ValueError as error:
    print(f"rank {launched}: {error}", flush=True)
"""


def parts(hosts, *words, flags=(), **options):
    """Exit code, sorted lines of stdout without their ranks, and stderr of 4 ranks on 2 hosts that divide so."""
    path = hosts.folder / "parts.py"
    path.write_text(PARTS)
    code, out, err = hosts.run(*flags, "-H", "h0:2,h1:2", sys.executable, str(path), *words, **options)
    return code, sorted(line.partition(">:")[2] for line in out.splitlines() if ">:" in line), err


@pytest.mark.parametrize("words, expected", [
    (["02", "13"], ["part 0 2 local and cross 1 2"] * 2 + ["part 1 3 local and cross 1 2"] * 2),
    (["10", "32"], ["part 1 0 local and cross 2 1"] * 2 + ["part 3 2 local and cross 2 1"] * 2),
    (["0123"], ["part 0 1 2 3 local and cross 2 2"] * 4),
    (["123"], ["outside"] + [f"part 1 2 3 local and cross {numbers}" for numbers in ("1 2", "2 1", "2 2")]),
    (["23"], ["outside"] * 2 + ["part 2 3 local and cross 2 1"] * 2),
    (["0", "12", "3"], ["part 0 local and cross 1 1"] + ["part 1 2 local and cross 1 2"] * 2 + ["part 3 local and cross 1 1"]),
], ids=str)
def test_lists_of_launched_ranks(many_hosts, words, expected):
    code, lines, err = parts(many_hosts(), *words)
    assert code == 0 and lines == expected, (lines, err)


@pytest.mark.parametrize("options", [{"ipv6_only": True}, {"loopback_names": True}, {"docker_bridge": True},
                                     {"second_network": "unreachable"}], ids=str)
def test_part_without_rank_0_on_other_networks(many_hosts, options):
    code, lines, err = parts(many_hosts(**options), "12")
    assert code == 0 and lines == ["outside"] * 2 + ["part 1 2 local and cross 1 2"] * 2, (lines, err)


def test_parts_one_after_the_other(many_hosts):
    """The second part meets when the first has gone, rank 0 with it; then the ranks meet anew, and once more in the same part."""
    hosts = many_hosts()
    path = hosts.folder / "turns.py"
    path.write_text(TURNS)
    code, out, err = hosts.run("-H", "h0:2,h1:2", sys.executable, str(path))
    assert code == 0 and out.count("turns: ok") == 4, (out, err)


def test_lists_that_do_not_fit(many_hosts):
    hosts = many_hosts()
    path = hosts.folder / "wrong.py"
    path.write_text(WRONG)
    code, out, err = hosts.run("-H", "h0:1,h1:1", sys.executable, str(path))
    assert code == 0, err
    assert "rank 0: init: comm: this is rank 0, which 1 does not list" in out, out
    assert "rank 1: init: comm: rank 7 was not launched; there are 0 to 1" in out, out


@pytest.mark.parametrize("words", [["02", "13"], ["0123"]], ids=str)
def test_lists_of_ranks_under_mpirun(many_hosts, mpirun, words):
    code, lines, err = parts(many_hosts(), *words, flags=["--mpi"], env={"PATH": mpirun[0]})
    assert code == 0, err
    assert "".join(lines).count("part") == 4, lines  # mpirun may break lines where they arrive in pieces


@pytest.mark.parametrize("operations, options, flags", [
    ("native", {}, ()),
    ("mpi", {}, ()),
    ("native", {"ipv6_only": True}, ()),
    ("native", {"loopback_names": True}, ()),
    ("native", {"docker_bridge": True}, ("--network-interfaces", "eth0")),  # else Open MPI itself mistakes the bridges
], ids=str)
def test_communicators(many_hosts, mpirun, operations, options, flags):
    """Split into subcommunicators of which each spans both hosts, as jobs of their own and as process sets."""
    if importlib.util.find_spec("mpi4py") is None:
        pytest.skip("mpi4py is not installed")
    env = {"PATH": mpirun[0], "HOROVOD_CPU_OPERATIONS": operations}
    flags = ["--mpi", *flags, "-H", "h0:2,h1:2"]
    code, out, err = many_hosts(**options).run(*flags, sys.executable, str(SUBCOMMUNICATORS), env=env)
    assert code == 0 and out.count("subcommunicators: ok") == 4, err
