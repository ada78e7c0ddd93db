# SPDX-License-Identifier: Apache-2.0
"""One program under every launcher that is here, on one host: it joins, works, leaves, joins again.

No secret and no port is needed there.
"""

import os
import re
import shutil
import subprocess
import time

import pytest
from launchers import DEBIAN_MPI, HERE, SETTINGS, local, open_mpi_4, torchrun
from time_scale import scaled


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


def run_with_late_pmix(work, answers, *wrapper):
    launcher = [open_mpi_4(), "--oversubscribe", "-np", "2", *late_pmix(work.folder, answers)]
    variables = {"HOROVOD_BACKEND_PATH": str(work.folder), "HOROVOD_START_TIMEOUT": "60"}
    return work.run([*launcher, "env", "-u", "OMPI_COMM_WORLD_LOCAL_SIZE", *wrapper], **variables)


def test_pmix_that_finds_nothing_yet_is_asked_again(work):
    output = run_with_late_pmix(work, 20)
    work.check(output, "Open MPI.*", 2, 2, "tcp://")
    assert output.count("late_pmix: nothing found yet") == 1, output


def test_pmix_that_finds_nothing_is_not_asked_for_ever(work):
    # Only rank 1 asks. Rank 0 waits for it longer: if that ended first, mpirun would kill rank 1 before it speaks.
    limit = '[ "$OMPI_COMM_WORLD_RANK" = 0 ] || export HOROVOD_START_TIMEOUT=2; exec "$@"'
    with pytest.raises(AssertionError, match=r"waited [\d.]+ s; rank 0 has put nothing into the launcher's PMIx server"):
        run_with_late_pmix(work, 10**9, "sh", "-c", limit, "sh")


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
    assert time.monotonic() - began < scaled(20)


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
