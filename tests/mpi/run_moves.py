# SPDX-License-Identifier: Apache-2.0
"""Starts the program mpi_moves under mpirun and reads what its ranks say of their moves, and of their MPI.

run_moves.py PROGRAM FOLDER      the folder of the plug-ins
"""

import re
import sys

from under_mpirun import RANKS, SKIPPED, find_mpirun, under_mpirun

# What it is said to be is what Open MPI was built as: Debian's is not CUDA-aware, others may be.
ANSWER = re.compile(r"rank (\d): moves good, (CUDA-aware|Open MPI v\S+ is not CUDA-aware: MPIX_Query_cuda_support\(\) is [01], opal_cuda_support is [01])")


def main() -> int:
    mpirun = find_mpirun()
    if mpirun is None:
        return SKIPPED
    job = under_mpirun(mpirun, *sys.argv[1:])
    answers = [ANSWER.fullmatch(line) for line in job.stdout.splitlines()]
    said = {answer.group(1): answer.group(2) for answer in answers if answer}
    print(f"{len(said)} of {RANKS} ranks: {', '.join(sorted(set(said.values())))}")
    if job.returncode == 0 and all(answers) and len(said) == RANKS and len(set(said.values())) == 1:
        return 0
    print(f"exit code {job.returncode}\n{job.stdout}{job.stderr}")
    return 1


if __name__ == "__main__":
    sys.exit(main())
