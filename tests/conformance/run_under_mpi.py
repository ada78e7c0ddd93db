# SPDX-License-Identifier: Apache-2.0
"""Runs the conformance vectors over MPI: each number of ranks is a launch of the C++ runner by a real mpirun.

    run_under_mpi.py RUNNER QUIRKS [--mpirun PROGRAM] [--hosts N] [--one-thread] FILE.json...

Without mpirun the test is skipped (exit code 77) and says so. HVD_MPIRUN names another mpirun than the one on PATH.
"""

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

SKIPPED = 77
TIME_LIMIT = 100
SUMMARY = re.compile(r"^\w+: (\d+) vectors, (\d+) runs, (\d+) failures$", re.MULTILINE)


def sizes(files: list) -> list:
    return sorted({vector["size"] for path in files for vector in json.loads(path.read_text())["vectors"]})


def launch(arguments: argparse.Namespace, mpirun: str, size: int) -> str:
    """Empty, or what went wrong."""
    environment = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    if arguments.one_thread:
        environment["HOROVOD_MPI_THREADS_DISABLE"] = "1"
    with tempfile.TemporaryDirectory(prefix="hvd-mpi-") as folder:
        for path in arguments.files:
            (Path(folder) / path.stem).mkdir()
        command = [mpirun, "--oversubscribe", "-np", str(size), arguments.runner, "--backend", "mpi", "--quirks", arguments.quirks,
                   "--hosts", str(arguments.hosts), "--launched", folder, *map(str, arguments.files)]  # fmt: skip
        job = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                               start_new_session=True)  # fmt: skip
        try:
            output, _ = job.communicate(timeout=TIME_LIMIT)
        except subprocess.TimeoutExpired:
            os.killpg(job.pid, signal.SIGTERM)  # mpirun ends its ranks
            output, _ = job.communicate()
            return f"{size} ranks: not done after {TIME_LIMIT} s\n{output}"
    found = SUMMARY.findall(output)
    runs = sum(int(count) for _vectors, count, _failures in found)
    print(f"{size} ranks: {runs} runs of rank 0 in {len(found)} files", flush=True)
    if job.returncode != 0 or len(found) != len(arguments.files) or runs == 0:
        return f"{size} ranks: exit code {job.returncode}\n{output}"
    return ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runner")
    parser.add_argument("quirks")
    parser.add_argument("--mpirun", default=os.environ.get("HVD_MPIRUN", "mpirun"))
    parser.add_argument("--hosts", type=int, default=1)
    parser.add_argument("--one-thread", action="store_true")
    parser.add_argument("files", nargs="+", type=Path)
    arguments = parser.parse_args()
    mpirun = shutil.which(arguments.mpirun)
    if mpirun is None:
        print(f"skipped: {arguments.mpirun} is not here; Debian's package openmpi-bin has it")
        return SKIPPED
    version = subprocess.run([mpirun, "--version"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False).stdout
    if "Open MPI" not in version and "OpenRTE" not in version:
        print(f"skipped: {mpirun} is not Open MPI's: {version.splitlines()[0] if version else 'no version'}")
        return SKIPPED
    problems = [problem for size in sizes(arguments.files) if (problem := launch(arguments, mpirun, size))]
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
