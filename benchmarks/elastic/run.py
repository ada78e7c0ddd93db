#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures how long an elastic job stands still when a rank is killed, and what being elastic costs.

    python benchmarks/elastic/run.py                      # 4 ranks on this machine, beside torchrun
    python benchmarks/elastic/run.py --np 16 --only numpy
    python benchmarks/elastic/run.py --only addresses     # 4 ranks on two hosts, which are addresses of this machine
    python benchmarks/elastic/run.py --only hosts,torch-hosts   # on two hosts that are network namespaces; needs root

What the rows are, in seconds, each the median and the worst of `--kills` deaths by kill -9 of a random rank:
  next step     from the kill to the first step of the new membership that all survivors have completed; for torchrun, which ends the
                survivors and starts all processes anew (--max-restarts), to the first step of all new processes
  replaced      from the moment at which the new process has imported what it needs to its first step; in brackets, the same of the
                processes at the start of a job of fixed members
Then the median step of a job without deaths, elastic and of fixed members in turns, with a commit in every step; and how often
per second the threads of an idle rank wake up.
"""
from __future__ import annotations

import argparse
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parents[1] / "tests" / "hosts")]

import machine  # noqa: E402
from network import Network, available  # noqa: E402

LIMIT = 90.0  # seconds for anything that is waited for
WORKER = str(HERE / "worker.py")
# Each with its title and the flavour of its program.
WAYS = {
    "numpy": ("NumPy, one host", "numpy"),
    "torch": ("PyTorch, one host", "torch"),
    "addresses": ("NumPy, two addresses", "numpy"),
    "torch-addresses": ("PyTorch, two addresses", "torch"),
    "hosts": ("NumPy, two namespaces", "numpy"),
    "torch-hosts": ("PyTorch, two namespaces", "torch"),
    "gloo": ("torchrun --max-restarts, Gloo", "gloo"),
}


def parse() -> argparse.Namespace:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--np", type=int, default=4, help="ranks; default: 4")
    arguments.add_argument("--kills", type=int, default=50, help="deaths of each way; default: 50")
    arguments.add_argument("--only", default=",".join(WAYS), help=f"default: {','.join(WAYS)}")
    arguments.add_argument("--rounds", type=int, default=5, help="turns of the comparison of steps; 0 leaves it out; default: 5")
    arguments.add_argument("--seed", type=int, default=1)
    options = arguments.parse_args()
    unknown = set(options.only.split(",")) - set(WAYS)
    if unknown:
        arguments.error(f"--only: {', '.join(sorted(unknown))} is none of {', '.join(WAYS)}")
    return options


class StandsStill(Exception):
    """A job did not go on after a death, or ended; the text is the last that it said."""


class Job:
    """A running job whose ranks write the times of their steps into a folder."""

    def __init__(self, launcher: list[str], flavour: str, pause: float, start=subprocess.Popen) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="hvd-elastic-")
        self.folder = Path(self._folder.name)
        self._name_of: dict[int, str] = {}
        self._said = open(self.folder / "said", "wb")
        command = [*launcher, sys.executable, WORKER] if flavour != "gloo" else [*launcher, WORKER]
        self.process = start([*command, str(self.folder), flavour, str(pause)], stdout=self._said, stderr=subprocess.STDOUT)

    def living(self) -> list[int]:
        """The processes whose file has begun, on whatever host."""
        for name, pid in _names().items():
            if (self.folder / name).exists():
                self._name_of[pid] = name
        return [pid for pid, name in self._name_of.items() if _lives(pid) and (self.folder / name).stat().st_size]

    def ready(self, pid: int) -> float:
        """When the rank was about to join."""
        return float((self.folder / self._name_of[pid]).read_text().split("\n", 1)[0].split()[1])

    def steps(self, pid: int) -> list[tuple[int, int, float]]:
        """(epoch, step, seconds) of the rank."""
        lines = (self.folder / self._name_of[pid]).read_text().split("\n")[1:-1]
        return [(int(epoch), int(step), float(at)) for epoch, step, at in (line.split() for line in lines)]

    def newest(self, pids: list[int]) -> list[int]:
        """The epoch of the latest step of each rank, -1 for one that has none."""
        return [(self.steps(pid) or [(-1, 0, 0.0)])[-1][0] for pid in pids]

    def wait_for(self, condition) -> None:
        give_up = time.monotonic() + LIMIT
        while not condition():
            if self.process.poll() is not None or time.monotonic() > give_up:
                raise StandsStill(self.said())
            time.sleep(0.02)

    def is_whole(self, size: int) -> bool:
        """Whether so many ranks live and train in the same epoch."""
        pids = self.living()
        return len(pids) == size and len(set(self.newest(pids))) == 1 and -1 not in self.newest(pids)

    def said(self) -> str:
        """The last line that looks like the reason of an error."""
        lines = (self.folder / "said").read_text(errors="replace").splitlines()
        return next((line.strip() for line in reversed(lines) if "Error" in line), lines[-1] if lines else "nothing")[:200]

    def end(self) -> None:
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._said.close()
        self._folder.cleanup()


def _names() -> dict[str, int]:
    """Processes by the names that they have given themselves."""
    found = {}
    for path in Path("/proc").glob("[0-9]*/comm"):
        try:
            found[path.read_text().strip()] = int(path.parent.name)
        except OSError:
            continue  # it has ended
    return found


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def horovodrun(np: int, *flags: str) -> list[str]:
    return [sys.executable, "-m", "horovod.runner.launch", "-np", str(np), *flags]


def measure(job: Job, np: int, kills: int, chance: random.Random, restarts_all: bool) -> tuple[list[float], list[float], str]:
    """Seconds to the next step, and of new processes from ready to their first step; why the job did not survive all deaths."""
    still, joining = [], []
    try:
        for _ in range(kills):
            seconds, joined = one_death(job, np, chance, restarts_all)
            still.append(seconds)
            joining += joined
    except StandsStill as why:
        return still, joining, f"the job survived {len(still)} of {kills} deaths: {why}"
    return still, joining, ""


def one_death(job: Job, np: int, chance: random.Random, restarts_all: bool) -> tuple[float, list[float]]:
    """Kills a rank of a whole job, and waits until the job is whole again."""
    job.wait_for(lambda: job.is_whole(np))
    time.sleep(chance.uniform(0.1, 0.4))
    before = job.living()
    epoch, victim = max(job.newest(before)), chance.choice(before)
    killed_at = time.monotonic()
    os.kill(victim, signal.SIGKILL)
    survivors = [pid for pid in before if pid != victim]

    def ranks():
        return [pid for pid in job.living() if pid not in before] if restarts_all else survivors

    job.wait_for(lambda: len(ranks()) == np - (not restarts_all) and min(job.newest(ranks())) > epoch)
    still = max(first_of(job, pid, epoch) for pid in ranks()) - killed_at
    job.wait_for(lambda: job.is_whole(np))
    return still, [job.steps(pid)[0][2] - job.ready(pid) for pid in job.living() if pid not in before]


def first_of(job: Job, pid: int, epoch: int) -> float:
    """When the rank completed its first step after the epoch."""
    return next(at for number, _step, at in job.steps(pid) if number > epoch)


def start_of_fixed(launcher: list[str], np: int, flavour: str) -> float:
    """From ready to the first step, of the slowest rank of a job of fixed members."""
    job = Job(launcher, flavour, 0.01)
    job.wait_for(lambda: job.is_whole(np))
    seconds = max(job.steps(pid)[0][2] - job.ready(pid) for pid in job.living())
    job.end()
    return seconds


def row(title: str, measured: tuple[list[float], list[float], str], fixed: float) -> str:
    still, joining, failure = measured
    text = f"{title:32}"
    if joining:
        told = f"{statistics.median(joining):8.3f} {max(joining):8.3f}  [{fixed:.3f}]"
        text += f" {statistics.median(still):8.3f} {max(still):8.3f}   {told}"
    return f"{text}  {failure}".rstrip()


def measure_way(way: str, options: argparse.Namespace) -> str:
    np, (title, flavour) = options.np, WAYS[way]
    if way == "gloo":
        torchrun = [sys.executable, "-m", "torch.distributed.run", f"--nproc-per-node={np}", "--monitor-interval=0.1"]
        fixed, launcher = start_of_fixed(torchrun, np, flavour), [*torchrun, f"--max-restarts={options.kills + 1}"]
    else:
        fixed, launcher = start_of_fixed(horovodrun(np), np, flavour), horovodrun(np, "--min-np", "1")

    def measured(job: Job) -> str:
        times = measure(job, np, options.kills, random.Random(options.seed), way == "gloo")
        job.end()
        return row(title, times, fixed)

    half = np // 2
    if way.endswith("addresses"):
        return measured(Job([*launcher, "-H", f"127.0.0.2:{np - half},127.0.0.3:{half}"], flavour, 0.01))
    if not way.endswith("hosts"):
        return measured(Job(launcher, flavour, 0.01))
    reason = available()
    if reason:
        return f"{title}: {reason}"
    with Network(hosts=2) as net:
        environment = {"HOROVOD_SSH_ARGS": f"-F {net.ssh_config}", "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
        return measured(Job([*launcher, "-H", f"h0:{np - half},h1:{half}"], flavour, 0.01,
                            lambda command, **streams: net.popen(0, command, environment, **streams)))


def step_times(launcher: list[str], np: int) -> float:
    """The median step in microseconds over all ranks, with a commit in each, after the first ones."""
    job = Job(launcher, "numpy", 0)
    job.wait_for(lambda: job.is_whole(np))
    time.sleep(1.0)
    pids = job.living()
    times = [[at for _epoch, _step, at in job.steps(pid)][200:] for pid in pids]
    job.end()
    return max(statistics.median(later - at for at, later in zip(one, one[1:])) for one in times) * 1e6


def wakes_when_idle(launcher: list[str], np: int) -> float:
    """How often a second the threads of a rank that sleeps wake up."""
    job = Job(launcher, "numpy", 1000.0)
    job.wait_for(lambda: job.is_whole(np))
    time.sleep(0.5)
    pids = job.living()
    before = sum(map(_wakes, pids))
    time.sleep(3.0)
    after = sum(map(_wakes, pids))
    job.end()
    return (after - before) / 3.0 / len(pids)


def _wakes(pid: int) -> int:
    count = 0
    for status in Path(f"/proc/{pid}/task").glob("*/status"):
        count += sum(int(line.split()[1]) for line in status.read_text().splitlines() if "ctxt_switches" in line)
    return count


def main() -> int:
    options = parse()
    print(machine.line(machine.facts()))
    print(f"{options.np} ranks, {options.kills} deaths of each way; seconds\n")
    print(f"{'':32} {'next step':>8} {'worst':>7}   {'replaced':>8} {'worst':>8}  [fixed]")
    for way in options.only.split(","):
        print(measure_way(way, options), flush=True)
    if options.rounds:
        elastic, fixed = horovodrun(2, "--min-np", "1"), horovodrun(2)
        pairs = [(step_times(elastic, 2), step_times(fixed, 2)) for _ in range(options.rounds)]
        ours, theirs = (statistics.median(times) for times in zip(*pairs))
        print(f"\na step with a commit, 2 ranks: {ours:.1f} us elastic, {theirs:.1f} us of fixed members; "
              f"wakes a second when idle: {wakes_when_idle(elastic, 2):.1f} and {wakes_when_idle(fixed, 2):.1f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
