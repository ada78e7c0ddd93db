# SPDX-License-Identifier: Apache-2.0
"""Elastic jobs whose processes are killed at random moments: in a step, while they meet again, while the state is sent, at their start.

    python elastic_kills.py --runs 200 [--seed 1] [--flavour numpy|torch|jax|tensorflow|keras|c|ledger]
    python elastic_kills.py --deaths 1000 [--seed 1] [--flavour numpy|torch|jax|tensorflow|keras|c]

The first is jobs as a user starts them, with up to four kills each. The second is jobs that lose rank after rank, two at a time now
and then, for as many kills as are asked for; processes of Python are forked there from a process that has imported the framework.
Each job must end with what a run without kills comes to, and leave nothing behind. Prints every run that went wrong, and how long
the survivors stood still; the exit code is 1 if a run went wrong.
"""

import argparse
import contextlib
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

from preloaded import Preloaded

WORKER = Path(__file__).resolve().parent / "workers" / "elastic_job.py"
C_PROGRAM = Path(__file__).resolve().parents[3] / "build" / "tests" / "process" / "elastic"  # of examples/c/elastic.c
LEDGER = WORKER.with_name("elastic_ledger.py")
_PROGRAMS = {"c": [str(C_PROGRAM)], "ledger": [sys.executable, str(LEDGER)]}
_MODULES = {
    "numpy": ("numpy", "horovod"),
    "torch": ("torch", "torch._dynamo", "horovod.torch"),
    "jax": ("jax", "jax.numpy", "horovod.jax"),
    "tensorflow": ("tensorflow", "horovod.tensorflow"),
    "keras": ("keras", "horovod.keras"),
}
FLAVOURS = ("ledger", "numpy", "torch", "jax", "tensorflow", "keras", "c")
LEAVING = ("ledger",)  # here SIGTERM comes now and then, too, on which a rank leaves in order
STEPS = 40
_LIMIT = 90  # seconds for a job; 2 to 8 are usual


class Job:
    """A running horovodrun whose processes are known by what they say."""

    def __init__(self, ranks, flavour, *flags, environment=None, steps=STEPS, program=None, **options):
        """``program``: the words of the command, if it is not the one of the flavour."""
        launcher = [sys.executable, "-m", "horovod.runner.launch", "-np", str(ranks), "--min-np", "1", *flags]
        program = program or _PROGRAMS.get(flavour, [sys.executable, str(WORKER), flavour])
        self.process = subprocess.Popen(
            [*launcher, *program, str(steps)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=dict(os.environ, **(environment or {})),
            **options,
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
        self.wait_until(lambda: any(text in line for line in self.lines), limit)

    def wait_until(self, condition, limit=_LIMIT):
        """Until the condition holds, or the job has ended."""
        give_up = time.monotonic() + limit
        while not condition() and self.process.poll() is None and time.monotonic() < give_up:
            time.sleep(0.005)

    def living(self):
        return [pid for pid in list(self.pids.values()) if _lives(pid)]

    def who_said(self, text):
        """The living processes that have begun a line so."""
        said = {int(number) for number in re.findall(rf"\[(\d+)\]<stdout>:{text}", "".join(self.lines))}
        return [pid for number, pid in list(self.pids.items()) if number in said and _lives(pid)]

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


def one_run(seed, flavour, steps=STEPS, environment=None):
    """What went wrong, or an empty text; how many were killed; how long each change took, in seconds, as the launcher saw it."""
    chance = random.Random(seed)
    job = Job(chance.randint(2, 4), flavour, environment=environment, steps=steps)
    kills = chance.randint(1, 4)
    if chance.random() < 0.8:
        job.wait_for("begins")
    else:
        kills = min(kills, 2)  # a job that has lost three processes before it has begun is given up
    hit = set()  # killed, or asked to leave; they may live for a moment
    for _ in range(kills):
        time.sleep(chance.choice([chance.uniform(0.05, 0.8), chance.uniform(0, 0.02), 0]))
        living = [pid for pid in job.living() if pid not in hit]
        if len(living) > 1:
            victim = chance.choice(living)
            hit.add(victim)
            with contextlib.suppress(ProcessLookupError):  # the job is about to end
                os.kill(victim, chance.choice([signal.SIGKILL] * 3 + [signal.SIGTERM] * (flavour in LEAVING)))
    text, code = job.end()
    if code is None:
        return f"no end within {_LIMIT} s\n{text}", len(hit), _times(text)
    if code != 0 and "no rank is left that had the state" in text:
        return "", len(hit), _times(text)  # all of them were hit before one of them knew
    return _judge(job, text, code, expected(flavour, steps, environment)), len(hit), _times(text)


def _times(text):
    return [float(seconds) for seconds in re.findall(r"; ([\d.]+) s from the first sign", text)]


def _judge(job, text, code, wanted):
    """What is wrong with the end of a job."""
    found = results(text)
    if code != 0 or not found or set(found) != {wanted}:
        return f"exit code {code}, {found}\n{text}"
    return f"still alive: {job.living()}" if job.living() else ""


def many_deaths(seed, flavour, wanted, environment=None):
    """Jobs that lose rank after rank, until so many were killed.

    What went wrong, by seed; how many were killed; the times as above."""
    with contextlib.ExitStack() as stack:
        program = None
        if flavour in _MODULES:
            program = stack.enter_context(Preloaded(*_MODULES[flavour], environment=environment)).command(WORKER, flavour)
        wrong, killed, times = {}, 0, []
        while killed < wanted and len(wrong) < 3:
            why, count, took = _deaths_of_one_job(seed, flavour, program, environment)
            killed, times = killed + count, times + took
            if why or not count:
                wrong[seed] = why or "nobody was killed"
            seed += 1
    return wrong, killed, times


def _deaths_of_one_job(seed, flavour, program, environment, steps=300):
    """Two at a time now and then, until the job ends. What went wrong, how many were killed, and the times."""
    chance = random.Random(seed)
    job = Job(chance.randint(2, 5), flavour, steps=steps, program=program, environment=environment)
    killed, give_up = set(), time.monotonic() + _LIMIT  # the killed may live for a moment
    while job.process.poll() is None and time.monotonic() < give_up:
        # A commit between deaths, because three failures in a row without one end a job.
        said = len(job.lines)
        job.wait_until(lambda: any(">:at step" in line for line in job.lines[said:]))
        for pause in (chance.uniform(0, 0.05), *[chance.choice((0, 0.002, 0.02))] * (chance.random() < 0.3)):
            time.sleep(pause)
            # Mostly those that have done steps: a slot whose processes die three times before they have is not used again.
            victims = [pid for pid in job.living() if pid not in killed]
            seasoned = [pid for pid in job.who_said("at step") if pid not in killed]
            victim = chance.choice(seasoned if seasoned and chance.random() < 0.8 else victims or [None])
            if victim and set(job.who_said("begins at step")) - killed - {victim}:
                with contextlib.suppress(ProcessLookupError):  # the job is about to end
                    os.kill(victim, signal.SIGKILL)
                    killed.add(victim)
    text, code = job.end()
    return _judge(job, text, code, expected(flavour, steps, environment)), len(killed), _times(text)


_expected = {}


def expected(flavour, steps=STEPS, environment=None):
    """What a job without kills comes to."""
    if (flavour, steps) not in _expected:
        text, code = Job(1, flavour, environment=environment, steps=steps).end()
        assert code == 0 and len(results(text)) == 1, text
        _expected[flavour, steps] = results(text)[0]
    return _expected[flavour, steps]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--deaths", type=int, help="jobs that lose rank after rank, until so many were killed")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--flavour", choices=FLAVOURS, default="numpy")
    parser.add_argument("--steps", type=int, default=STEPS, help="of a job, for a ledger epochs")
    options = parser.parse_args()
    if options.deaths and options.flavour in LEAVING:
        parser.error(f"--deaths is not for the flavour {options.flavour}, whose steps are epochs")
    began = time.monotonic()
    if options.deaths:
        wrong, killed, times = many_deaths(options.seed, options.flavour, options.deaths)
    else:
        wrong, killed, times = {}, 0, []
        for seed in range(options.seed, options.seed + options.runs):
            why, count, took = one_run(seed, options.flavour, options.steps)
            killed, times = killed + count, times + took
            if why:
                wrong[seed] = why
    for seed, why in wrong.items():
        print(f"seed {seed}: {why}", flush=True)
    print(f"{killed} killed, {len(wrong)} jobs wrong, {len(times)} changes of members, "
          f"median {statistics.median(times or [0]):.3f} s, longest {max(times, default=0):.3f} s; {time.monotonic() - began:.0f} s in all")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
