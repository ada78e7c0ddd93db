# SPDX-License-Identifier: Apache-2.0
"""Random training programs in PyTorch with 1, 2 and 3 ranks, each against the same program in one process.

    python bindings/python/tests/random_trainings.py --programs 2000 --seed 7

A failure prints the program and its number; ``--seed 7 --only 123 --ranks 2`` runs it again. A job that hangs or dies is
reported with the program it was in, and another job goes on behind it.
"""

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path

WORKER = Path(__file__).resolve().parent / "workers" / "random_trainings.py"
MOST_DEATHS = 10
SECONDS = 60  # that a program may take, and the start of its job; the worker itself ends one after half of it


def job(ranks, seed, first, count, kinds):
    """Runs a job. (its exit code, what it printed, the number after the last program that began)"""
    launcher = [sys.executable, "-m", "horovod.runner.launch", "-np", str(ranks)]
    command = [*launcher, sys.executable, str(WORKER), str(seed), str(first), str(count), kinds]
    environment = dict(os.environ, OMP_NUM_THREADS="1", PYTHONUNBUFFERED="1")
    found = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=SECONDS + 5 * count, check=False)
    begun = [int(number) for number in re.findall(r"begins (\d+)", found.stdout)]
    return found, max(begun, default=first) + 1


def run(ranks, seed, first, count, kinds):
    """How many programs were wrong or ended a job, of ``count``."""
    end, bad, deaths = first + count, 0, 0
    while first < end and deaths < MOST_DEATHS:
        found, after = job(ranks, seed, first, end - first, kinds)
        lines = [line for line in found.stdout.splitlines() if "begins " not in line]
        print("\n".join(re.sub(r"^\[\d+\]<stdout>:", "", line) for line in lines if "trainings: ok" not in line), flush=True)
        bad += found.stdout.count("WRONG")
        if found.returncode and not re.search(r"\d+ programs, ", found.stdout):
            bad, deaths = bad + 1, deaths + 1
            print(f"the job of {ranks} ranks ended in program {after - 1} of seed {seed}:\n{found.stderr[-6000:]}", flush=True)
            first = after
        else:
            first = end
    return bad


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--programs", type=int, default=100, help="of all numbers of ranks together")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of the first program, to go on")
    parser.add_argument("--only", type=int, help="number of the one program to run")
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--kinds", default="", help="kinds of programs, with commas; see training_programs.py. All without")
    given = parser.parse_args()
    first, count = (given.first, -(-given.programs // len(given.ranks))) if given.only is None else (given.only, 1)
    bad = sum(run(ranks, given.seed, first, count, given.kinds) for ranks in given.ranks)
    print(f"{count * len(given.ranks)} programs, {bad} wrong")
    sys.exit(bad > 0)


if __name__ == "__main__":
    main()
