#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures training steps of TensorFlow with gradients averaged by hvd, against MultiWorkerMirroredStrategy on its ring.

Each way has a job of its own, all of which are started first. They take turns of some steps, in which the others sleep; every
round has one turn of each, and ratios are taken within a round, since a machine's speed may vary. All compute the same:
variables, loss, and a step of gradient descent, in one tf.function.

    python benchmarks/tensorflow_training/run.py               # 2 ranks, three minutes
    python benchmarks/tensorflow_training/run.py --quick       # that everything works; the numbers say little

The package horovod must be importable, from an installation or by PYTHONPATH with HVD_LIBRARY and HVD_TENSORFLOW_LIBRARY.

What the columns are:
  step ms     median over the rounds of the median step of a round. cnn is of the size for MNIST, and most of its step is computing;
              resnet18 makes a third as many steps.
  x faster    step of the strategy divided by that of hvd, in each round; the median, and all of them between the smallest and
              the largest; and the same for steps without communication, which nobody can be faster than
  adds ms     step less a step without communication in the same round, median
  us/tensor   what one of 200 small tensors takes in a tf.function, less what it takes when the engine is called from Python
              with arrays: as one grouped operation, and as 200 operations
"""
from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import machine  # noqa: E402

MODELS = ("cnn", "layers200", "resnet18")
WAYS = ("alone", "horovod", "strategy")
FASTER_GOAL, OVERHEAD_GOAL_US = 1.5, 20.0
LONGEST_S = 300  # for a start or a turn


def free_ports(count: int) -> list[int]:
    listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [listener.getsockname()[1] for listener in listeners]
    for listener in listeners:
        listener.close()
    return ports


class Job:
    """Ranks that make steps in one of the ways when they are told to, and sleep otherwise."""

    def __init__(self, way: str, options: argparse.Namespace, folder: Path):
        self.way = way
        self.output = folder / f"{way}.txt"
        with socket.create_server(("127.0.0.1", 0)) as listener, self.output.open("w") as output:
            command = [sys.executable, "-m", "horovod.runner.launch", "-np", str(options.np), sys.executable, str(HERE / "rank.py")]
            command += ["--way", way, "--models", *MODELS, "--driver", str(listener.getsockname()[1])]
            command += ["--ports", *map(str, free_ports(options.np))]
            environment = {"OMP_NUM_THREADS": "1", "TF_CPP_MIN_LOG_LEVEL": "2", **os.environ}
            self.process = subprocess.Popen(command, env=environment, stdout=output, stderr=subprocess.STDOUT)
            ranks = dict(self._next_rank(listener) for _ in range(options.np))
        self.ranks = [ranks[rank] for rank in range(options.np)]

    def _next_rank(self, listener: socket.socket):
        listener.settimeout(1)
        for _ in range(LONGEST_S):
            try:
                connection = listener.accept()[0]
            except TimeoutError:
                if self.process.poll() is not None:
                    break
                continue
            connection.settimeout(LONGEST_S)
            lines = connection.makefile("rw", encoding="utf-8")
            connection.close()  # when its lines are
            return self._answer(lines), lines
        self.fail()

    def _answer(self, lines):
        try:
            line = lines.readline()
        except OSError:
            line = ""
        return json.loads(line) if line else self.fail()

    def tell(self, what: str, count: int):
        """What rank 0 answers to an order of all ranks, once all of them have done it."""
        for lines in self.ranks:
            print(json.dumps([what, count]), file=lines, flush=True)
        return [self._answer(lines) for lines in self.ranks][0]

    def end(self) -> None:
        for lines in self.ranks:
            lines.close()
        if self.process.wait(LONGEST_S) != 0:
            self.fail()

    def fail(self):
        self.process.terminate()
        code = self.process.wait(LONGEST_S)
        sys.exit(f"{self.output.read_text()}\nthe job with {self.way} ended with exit code {code}")


def measure(options: argparse.Namespace) -> list[dict]:
    """Of each round, the median step of each way and model on rank 0, and the overhead; SystemExit if a job fails."""
    jobs = {}
    with tempfile.TemporaryDirectory() as folder:
        try:
            for way in WAYS:
                jobs[way] = Job(way, options, Path(folder))
            rounds = in_turns(jobs, options)
            for job in jobs.values():
                job.end()
            return rounds
        finally:
            for job in jobs.values():
                if job.process.poll() is None:
                    job.process.terminate()


def in_turns(jobs: dict[str, Job], options: argparse.Namespace) -> list[dict]:
    for job in jobs.values():
        for name in MODELS:
            job.tell(name, 0)
    rounds = []
    for number in range(options.rounds):
        first = number % len(WAYS)
        one = {way: {} for way in WAYS}
        for name in MODELS:
            for way in WAYS[first:] + WAYS[:first]:
                taken = jobs[way].tell(name, options.steps)
                one[way][name] = statistics.median(taken[len(taken) // 10 :])  # after sleep, memory is cold
        one["horovod"]["overhead"] = jobs["horovod"].tell("overhead", options.steps)
        rounds.append(one)
    return rounds


def verdict(met: bool) -> str:
    return "met" if met else "NOT MET"


def show(rounds: list[dict], options: argparse.Namespace) -> None:
    print(machine.line(machine.facts()))
    print(f"{options.np} ranks, {options.rounds} rounds of {options.steps} steps\n")
    for name in MODELS:
        for way in WAYS:
            print(f"{name:10} {way:9} {statistics.median(one[way][name] for one in rounds):8.2f} ms a step")
        ratios = [one["strategy"][name] / one["horovod"][name] for one in rounds]
        faster = statistics.median(ratios)
        limit = statistics.median(one["strategy"][name] / one["alone"][name] for one in rounds)
        ours, theirs = (statistics.median(one[way][name] - one["alone"][name] for one in rounds) for way in ("horovod", "strategy"))
        print(f"{name:10} {faster:.2f} x faster ({min(ratios):.2f} to {max(ratios):.2f}), goal {FASTER_GOAL}: "
              f"{verdict(faster >= FASTER_GOAL)}; without communication {limit:.2f}; "
              f"averaging adds {ours:.2f} ms, the strategy's {theirs:.2f}\n")
    costs = {key: statistics.median(one["horovod"]["overhead"][key] for one in rounds) for key in rounds[0]["horovod"]["overhead"]}
    for kind in ("grouped", "single"):
        in_graph, engine = costs[f"{kind} graph"], costs[f"{kind} engine"]
        print(f"{kind:8} {in_graph:.1f} us/tensor in a graph, {engine:.1f} by the engine's arrays: {in_graph - engine:.1f} more, "
              f"goal {OVERHEAD_GOAL_US:g}: {verdict(in_graph - engine <= OVERHEAD_GOAL_US)}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--np", type=int, default=2, help="ranks; default: 2, for which the goals are")
    parser.add_argument("--rounds", type=int, help="turns of all ways; default: 12, with --quick 1")
    parser.add_argument("--steps", type=int, help="steps of a way in its turn; default: 60, with --quick 10")
    parser.add_argument("--quick", action="store_true", help="few steps")
    parser.add_argument("--json", type=Path, help="write all numbers there")
    options = parser.parse_args()
    options.rounds = options.rounds or (1 if options.quick else 12)
    options.steps = options.steps or (10 if options.quick else 60)
    rounds = measure(options)
    show(rounds, options)
    if options.json:
        options.json.write_text(json.dumps({"machine": machine.facts(), "np": options.np, "rounds": rounds}, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
