# SPDX-License-Identifier: Apache-2.0
"""Elastic jobs whose processes are killed at random moments: in a step, while they meet again, while the state is sent, at their start.

    python elastic_kills.py --runs 200 [--seed 1] [--flavour numpy|torch]

Each job must end with what a run without kills comes to, and leave nothing behind. Prints every run that went wrong, and how long
the survivors stood still; the exit code is 1 if a run went wrong.
"""

import argparse
import os
import random
import re
import signal
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path

WORKER = Path(__file__).resolve().parent / "workers" / "elastic_job.py"
STEPS = 40
_LIMIT = 90  # seconds for a job; 2 to 8 are usual


class Job:
    """A running horovodrun whose processes are known by what they say."""

    def __init__(self, ranks, flavour, *flags, environment=None):
        launcher = [sys.executable, "-m", "horovod.runner.launch", "-np", str(ranks), "--min-np", "1", *flags]
        command = [*launcher, sys.executable, str(WORKER), flavour, str(STEPS)]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=dict(os.environ, **(environment or {}))
        )
        self.lines, self.pids = [], {}
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self):
        for line in self.process.stdout:
            self.lines.append(line)
            said = re.search(r"worker (\d+) pid (\d+)", line)
            if said:
                self.pids[int(said[1])] = int(said[2])

    def wait_for(self, text, limit=_LIMIT):
        """Until a process has said so, or the job has ended."""
        give_up = time.monotonic() + limit
        while not any(text in line for line in self.lines) and self.process.poll() is None and time.monotonic() < give_up:
            time.sleep(0.01)

    def living(self):
        return [pid for pid in list(self.pids.values()) if _lives(pid)]

    def end(self, limit=_LIMIT):
        """What was written, and the exit code; None if the job did not end in time."""
        try:
            self.process.wait(limit)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            self._reader.join()
            return "".join(self.lines), None
        self._reader.join()
        return "".join(self.lines), self.process.returncode


def _lives(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def results(text):
    """What the ranks came to."""
    return re.findall(r"came to ([-\d. ]+) as rank", text)


def one_run(seed, flavour):
    """What went wrong, or an empty text; and how long each change took, in seconds, as the launcher saw it."""
    chance = random.Random(seed)
    job = Job(chance.randint(2, 4), flavour)
    kills = chance.randint(1, 4)
    if chance.random() < 0.8:
        job.wait_for("begins")
    else:
        kills = min(kills, 2)  # a job that has lost three processes before it has begun is given up
    for _ in range(kills):
        time.sleep(chance.choice([chance.uniform(0.05, 0.8), chance.uniform(0, 0.02), 0]))
        living = job.living()
        if len(living) > 1:
            os.kill(chance.choice(living), signal.SIGKILL)
    text, code = job.end()
    times = [float(seconds) for seconds in re.findall(r"; ([\d.]+) s from the first sign", text)]
    if code is None:
        return f"no end within {_LIMIT} s\n{text}", times
    if code != 0 and "no rank is left that had the state" in text:
        return "", times  # all of them were hit before one of them knew
    found = results(text)
    if code != 0 or not found or set(found) != {expected(flavour)}:
        return f"exit code {code}, {found}\n{text}", times
    return ("" if not job.living() else f"still alive: {job.living()}"), times


_expected = {}


def expected(flavour):
    """What a job without kills comes to."""
    if flavour not in _expected:
        text, code = Job(1, flavour).end()
        assert code == 0 and len(results(text)) == 1, text
        _expected[flavour] = results(text)[0]
    return _expected[flavour]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--flavour", choices=("numpy", "torch"), default="numpy")
    options = parser.parse_args()
    expected(options.flavour)
    wrong, times, began = 0, [], time.monotonic()
    for seed in range(options.seed, options.seed + options.runs):
        why, took = one_run(seed, options.flavour)
        times += took
        if why:
            wrong += 1
            print(f"seed {seed}: {why}", flush=True)
    print(f"{options.runs} jobs, {wrong} wrong, {len(times)} changes of members, "
          f"median {statistics.median(times or [0]):.3f} s, longest {max(times, default=0):.3f} s; {time.monotonic() - began:.0f} s in all")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
