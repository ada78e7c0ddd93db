# SPDX-License-Identifier: Apache-2.0
"""Starts the program mpi_launch under mpirun, with MPI called from any thread and from one, and compares what it prints.

run_launch.py PROGRAM FOLDER      the folder of the plug-ins; HVD_MPIRUN names another mpirun than the one on PATH
"""

import os
import shutil
import subprocess
import sys

SKIPPED = 77
RANKS = 3


def main() -> int:
    mpirun = shutil.which(os.environ.get("HVD_MPIRUN", "mpirun"))
    if mpirun is None:
        print("skipped: mpirun is not here; Debian's package openmpi-bin has it")
        return SKIPPED
    environment = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    wanted = sorted(f"rank {rank} of {RANKS}, local {rank} of {RANKS}" for rank in range(RANKS))
    problems = 0
    for one_thread in ("0", "1"):
        command = [mpirun, "--oversubscribe", "-np", str(RANKS), sys.argv[1], sys.argv[2], one_thread]
        job = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=50)
        # mpirun complains on stderr about a process that ends without ending MPI.
        if job.returncode != 0 or sorted(job.stdout.splitlines()) != wanted or "mpirun" in job.stderr or "prterun" in job.stderr:
            problems += 1
            print(f"one thread {one_thread}: exit code {job.returncode}\n{job.stdout}{job.stderr}")
    print(f"{RANKS} ranks, {problems} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
