# SPDX-License-Identifier: Apache-2.0
"""Starts the program mpi_launch under mpirun, with MPI called from any thread and from one, and compares what it prints.

run_launch.py PROGRAM FOLDER      the folder of the plug-ins; HVD_MPIRUN names another mpirun than the one on PATH
"""

import sys

from under_mpirun import RANKS, SKIPPED, find_mpirun, under_mpirun


def main() -> int:
    mpirun = find_mpirun()
    if mpirun is None:
        return SKIPPED
    wanted = sorted(f"rank {rank} of {RANKS}, local {rank} of {RANKS}" for rank in range(RANKS))
    problems = 0
    for one_thread in ("0", "1"):
        job = under_mpirun(mpirun, *sys.argv[1:], one_thread)
        # mpirun complains on stderr about a process that ends without ending MPI.
        if job.returncode != 0 or sorted(job.stdout.splitlines()) != wanted or "mpirun" in job.stderr or "prterun" in job.stderr:
            problems += 1
            print(f"one thread {one_thread}: exit code {job.returncode}\n{job.stdout}{job.stderr}")
    print(f"{RANKS} ranks, {problems} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
