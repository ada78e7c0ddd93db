# SPDX-License-Identifier: Apache-2.0
"""horovodrun --mpi: the command line of each MPI, and jobs started by a real mpirun."""

import importlib.util
import sys
import time

import pytest
from time_scale import scaled

from horovod.runner.command_line.flags import parse
from horovod.runner.job import mpi
from horovod.runner.plan.hosts import assign, parse_hosts

VERSIONS = [
    ("mpirun (Open MPI) 4.1.4\n\nReport bugs to http://www.open-mpi.org", (mpi.OPEN_MPI, 4)),
    ("mpirun (Open MPI) 5.0.6", (mpi.OPEN_MPI, 5)),
    ("mpirun (OpenRTE) 3.1.2", (mpi.OPEN_MPI, 3)),
    ("mpirun (IBM Spectrum MPI) 10.3.1.2", (mpi.SPECTRUM, 0)),
    ("HYDRA build details:\n    Version:                                 4.0.2", (mpi.MPICH, 4)),
    ("Intel(R) MPI Library for Linux* OS, Version 2021.8 Build 20221129", (mpi.INTEL, 2021)),
]


@pytest.mark.parametrize("text, expected", VERSIONS)
def test_implementation_is_read_from_its_version(text, expected):
    assert mpi.implementation_of(text) == expected


def test_unknown_mpi_is_told():
    with pytest.raises(mpi.MpiError, match='prints "something else"; known are Open MPI'):
        mpi.implementation_of("something else\nand more")


def line(implementation, flags, where="a:2,b:2", major=4, names=("PATH", "X")):
    args = parse([*flags, "true"])
    return mpi.command_line(implementation, major, args, assign(parse_hosts(where)), names, ["python", "t.py"])


def test_open_mpi(monkeypatch):
    monkeypatch.delenv("HOROVOD_SSH_ARGS", raising=False)
    assert line(mpi.OPEN_MPI, []) == (
        "mpirun --allow-run-as-root --tag-output -np 4 -H a:2,b:2 --bind-to none --map-by slot --mca pml ob1 --mca btl ^openib "
        "-x PATH -x X python t.py").split()
    flags = ["-p", "22", "-i", "my key", "--network-interfaces", "e0,e1", "--output-filename", "out", "-prefix-timestamp",
             "--mpi-args=--mca a 'b c'", "--binding-args=--bind-to core"]
    assert line(mpi.OPEN_MPI, flags) == [
        *"mpirun --allow-run-as-root --tag-output --output-filename out --timestamp-output -np 4".split(),
        *"-H a:2,b:2 --bind-to core".split(),
        *"--mca pml ob1 --mca btl ^openib --mca plm_rsh_args".split(), "-p 22 -i 'my key'",
        *"--mca btl_tcp_if_include e0,e1 -x PATH -x X --mca a".split(), "b c", "python", "t.py"]
    words = line(mpi.OPEN_MPI, ["--output-filename", "out", "-prefix-timestamp"], major=5)
    assert words[2:4] == ["--output", "tag,timestamp,file=out"]


def test_many_hosts_are_reached_from_here():
    words = line(mpi.OPEN_MPI, [], ",".join(f"h{number}:1" for number in range(64)))
    assert words[words.index("plm_rsh_num_concurrent") + 1] == "64" and "plm_rsh_no_tree_spawn" in words
    assert "plm_rsh_no_tree_spawn" not in line(mpi.OPEN_MPI, [], ",".join(f"h{number}:1" for number in range(63)))


def test_spectrum():
    words = line(mpi.SPECTRUM, ["--tcp"])
    assert "-tcp" in words and " ".join(words[words.index("-bind-to"):][:6]) == "-bind-to socket -map-by socket -rank-by core"
    assert "-tcp" not in line(mpi.SPECTRUM, []) and "^openib" not in words


def test_mpich_and_intel(monkeypatch):
    monkeypatch.delenv("HOROVOD_SSH_ARGS", raising=False)
    flags = ["-p", "22", "--network-interfaces", "e0", "--output-filename", "out"]
    assert line(mpi.MPICH, flags) == [
        *"mpirun -l -np 4 -ppn 2 -hosts a,b -bind-to none -map-by slot -bootstrap=ssh -bootstrap-exec-args".split(), "-p 22",
        *"-iface e0 -outfile-pattern out python t.py".split()]
    assert line(mpi.INTEL, []) == "mpirun -l -np 4 -ppn 2 -hosts a,b python t.py".split()
    with pytest.raises(mpi.MpiError, match="MPICH wants as many ranks on every host, not a:2,b:1"):
        line(mpi.MPICH, [], "a:2,b:1")
    with pytest.raises(mpi.MpiError, match="takes one network interface, not e0,e1"):
        line(mpi.MPICH, ["--network-interfaces", "e0,e1"])


def test_only_names_are_exported():
    names = mpi.exported_names({"B": "secret", "A": "1", "BASH_FUNC_x%%": "f", "OLDPWD": "/", "HOROVOD_SECRET": "s",
                                "bad-name": "x", "CUDA_VISIBLE_DEVICES": "0", "SSH_AUTH_SOCK": "x"})
    assert names == ["A", "B"]


# ---- real ones


def test_a_job_on_two_hosts(many_hosts, mpirun):
    hosts = many_hosts()
    path, major = mpirun
    env = {"PATH": path, "MINE": "a 'b'", "OMP_NUM_THREADS": ""}
    look = ("printf '%s\\n' \"$OMPI_COMM_WORLD_RANK $(hostname) $HOROVOD_CPU_OPERATIONS $NCCL_SOCKET_IFNAME $MINE\"; "
            "cat /proc/$PPID/cmdline | tr '\\0' ' ' | grep -c -e \"$MINE\"; exit 0")
    code, out, err = hosts.run("--mpi", "-np", 3, "-H", "h0:1,h1:2", "--network-interfaces", "eth0", "sh", "-c", look, env=env)
    assert code == 0, err
    marked = sorted(text.partition("]<stdout>:")[2].strip() for text in out.splitlines())
    assert marked == ["0", "0", "0", "0 h0 mpi eth0 a 'b'", "1 h1 mpi eth0 a 'b'", "2 h1 mpi eth0 a 'b'"]
    code, _, _ = hosts.run("--mpi", "-np", 2, "-H", "h0:1,h1:1", "sh", "-c", "exit 4", env=env)
    assert code == 4


def test_without_mpirun_it_says_so(runner):
    (runner.folder / "empty").mkdir()
    runner.environment["PATH"] = str(runner.folder / "empty")
    code, out, err = runner.run("--mpi", "-np", 2, "true")
    assert (code, out) == (2, "")
    assert err == "horovodrun: --mpi: mpirun: no such file or directory; install an MPI, or leave --mpi out\n"


@pytest.mark.parametrize("start, end", [
    ("hvd.init()", "raise RuntimeError('planned')"),
    ("hvd.init()", "sys.exit(3)"),
    ("from mpi4py import MPI; hvd.init(comm=MPI.COMM_WORLD)", "raise RuntimeError('planned')"),
])
def test_a_rank_that_fails_ends_the_job(runner, mpirun, start, end):
    """It does not wait in MPI_Finalize for ranks that have something to do; they have a minute of that here."""
    if "mpi4py" in start and importlib.util.find_spec("mpi4py") is None:
        pytest.skip("mpi4py is not installed")
    path, _ = mpirun
    runner.environment.update(PATH=path, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    program = runner.folder / "program.py"
    program.write_text(f"import sys, time\nimport horovod as hvd\n{start}\nif hvd.rank() == 1:\n    open('failed', 'w')\n    {end}\n"
                       "time.sleep(60)\n")
    process = runner.start("--mpi", "--mpi-args=--oversubscribe", "-np", 2, sys.executable, str(program))
    runner.wait_until(lambda: (runner.folder / "failed").exists() or process.poll() is not None, limit=40)
    began = time.monotonic()
    _, err = process.communicate(timeout=60)
    assert process.returncode not in (0, None) and (runner.folder / "failed").exists(), err
    assert time.monotonic() - began < scaled(5)
