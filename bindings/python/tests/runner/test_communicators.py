# SPDX-License-Identifier: Apache-2.0
"""Communicators of an MPI that does not know the ranks of the job: each rank would train alone."""

import importlib.util

import pytest

from horovod.common.communicators import why_not_all

ALONE = {"HOROVOD_RANK": "1", "HOROVOD_SIZE": "4"}


@pytest.mark.parametrize("variables, processes, launched", [
    ({}, 1, None),
    ({}, 4, None),
    (ALONE, 1, 4),
    (ALONE, 2, 4),
    (ALONE, 4, None),
    ({"HOROVOD_RANK": "0", "HOROVOD_SIZE": "1"}, 1, None),
    ({"HOROVOD_SIZE": "4", "OMPI_COMM_WORLD_SIZE": "2"}, 2, None),  # the size of a Kubernetes job, and mpirun inside
    ({"OMPI_COMM_WORLD_SIZE": "1", "SLURM_STEP_NUM_TASKS": "3"}, 1, None),
    ({"SLURM_STEP_NUM_TASKS": "3"}, 1, 3),
    ({"SLURM_STEP_NUM_TASKS": "3"}, 3, None),
    ({"WORLD_SIZE": "2", "RANK": "0"}, 1, 2),
])
def test_what_mpi_must_span(monkeypatch, variables, processes, launched):
    for name in ("HOROVOD_RANK", "HOROVOD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE", "WORLD_SIZE",
                 "SLURM_STEP_NUM_TASKS"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    why = why_not_all(processes)
    if launched is None:
        assert why is None
    else:
        assert f"and {launched} were started" in why and "horovodrun --mpi, or with mpirun" in why


CALLS = {
    "init: comm": "hvd.init(comm=MPI.COMM_WORLD.Split(color=rank % 2, key=rank))",
    "mpi_threads_supported": "hvd.init(); hvd.mpi_threads_supported()",
    "ProcessSet": "hvd.init(); hvd.add_process_set(hvd.ProcessSet(MPI.COMM_WORLD))",
}


def test_mpi_of_one_process_in_a_job_of_two_is_refused(runner):
    if importlib.util.find_spec("mpi4py") is None:
        pytest.skip("mpi4py is not installed")
    # Processes that Open MPI 4 did not start fail where two make its folder in the temporary one at the same moment ("File exists").
    command = runner.script(f"""
        import os, tempfile
        os.environ["OMPI_MCA_orte_tmpdir_base"] = tempfile.mkdtemp()
        from mpi4py import MPI
        import horovod as hvd
        for what, call in {CALLS!r}.items():
            try:
                exec(call)
            except ValueError as error:
                print(what, str(error).startswith(what + ": MPI knows of 1 process here, and 2 were started"))
    """)
    command.remove("-S")
    code, out, err = runner.run("-np", 2, *command)
    assert code == 0, err
    assert sorted(out.splitlines()) == sorted(f"[{rank}]<stdout>:{what} True" for rank in range(2) for what in CALLS)
