#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures training steps of PyTorch models whose gradients hvd averages, against DistributedDataParallel on Gloo.

Three ways train the same model on the same data, in the same processes and in turns: hvd.DistributedOptimizer, DDP on the
backend hvd, and DDP on Gloo. Before anything is timed, each of them must have the parameters that one process gets from the
batches of all ranks. Two more show what would be left if averaging cost nothing: a step without communication, and DDP whose
ranks only wait for each other, once for each of its buckets, which DDP on no backend can be faster than.

    python benchmarks/torch_training/run.py               # all models, 2 ranks, some minutes
    python benchmarks/torch_training/run.py --quick       # that everything works; the numbers say little
    python benchmarks/torch_training/run.py --models mlp300,transformer --rounds 20 --json numbers.json

The package horovod must be importable, from an installation or by PYTHONPATH with HVD_LIBRARY; HVD_PYTHON_NATIVE chooses
the native layer.

What the columns are:
  step ms     median over the rounds of the median step of a round, of the slowest rank
  x faster    step of DDP on Gloo divided by this one, taken in each round; the median over the rounds, and all of them
              between the smallest and the largest
  us/tensor   CPU time that DistributedOptimizer takes on the thread that trains, for each parameter tensor: its hooks,
              starting, agreeing and ending (overhead.py), without waiting. Backward hands over gradients that training
              gave and displaces the caches before each, with it and without it in turns. The median over the pairs, of
              the slowest rank, and the quarters of the pairs below and above.
  least       what us/tensor is for the least that such an optimizer has to do (least.py), measured likewise
"""
from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import goals  # noqa: E402
import machine  # noqa: E402
import report  # noqa: E402

# In the order of models.py, which needs torch and is only for the ranks.
MODELS = ("resnet18", "transformer", "mlp300", "recommender", "recommender_dense")
TITLES = {
    "alone": "no communication",
    "hvd_optimizer": "DistributedOptimizer",
    "ddp_waits": "DDP that only waits",
    "ddp_hvd": "DDP on hvd",
    "ddp_gloo": "DDP on Gloo",
}


def parse() -> argparse.Namespace:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--np", type=int, default=2, help="ranks; default: 2, for which the goals are")
    arguments.add_argument("--models", default=",".join(MODELS), help=f"default: {','.join(MODELS)}")
    arguments.add_argument("--rounds", type=int, help="turns of all ways; default: 24, with --quick 2")
    arguments.add_argument("--steps", type=int, help="steps of a way in its turn; default: 3, with --quick 2")
    arguments.add_argument("--pairs", type=int, help="pairs of backward passes for us/tensor; default: 30, with --quick 4")
    arguments.add_argument("--quick", action="store_true", help="few steps")
    arguments.add_argument("--bucket-view", action="store_true", help="DDP with gradient_as_bucket_view: one copy less")
    arguments.add_argument("--json", type=Path, help="write all numbers there")
    arguments.add_argument("--markdown", action="store_true", help="print the table as Markdown")
    options = arguments.parse_args()
    for name, usual, quick in (("rounds", 24, 2), ("steps", 3, 2), ("pairs", 30, 4)):
        if getattr(options, name) is None:
            setattr(options, name, quick if options.quick else usual)
        if getattr(options, name) < 1:
            arguments.error(f"--{name}: {getattr(options, name)} is below 1")
    if options.np < 2:
        arguments.error(f"--np: {options.np} is below 2")
    unknown = set(options.models.split(",")) - set(MODELS)
    if unknown:
        arguments.error(f"--models: {', '.join(sorted(unknown))} is none of {', '.join(MODELS)}")
    return options


def run_ranks(options: argparse.Namespace) -> dict:
    """Everything that the ranks measured; SystemExit if the job fails."""
    with tempfile.TemporaryDirectory() as directory:
        out = Path(directory) / "numbers.json"
        launcher = [sys.executable, "-m", "horovod.runner.launch", "-np", str(options.np)]
        command = [*launcher, sys.executable, str(HERE / "rank.py"), "--models", options.models, "--out", str(out)]
        for name in ("rounds", "steps", "pairs"):
            command += [f"--{name}", str(getattr(options, name))]
        command += ["--bucket-view"] if options.bucket_view else []
        environment = {"GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore", **os.environ}
        code = subprocess.run(command, env=environment, stdout=sys.stderr).returncode
        if code != 0:
            sys.exit(f"the job of {options.np} ranks ended with exit code {code}")
        return json.loads(out.read_text(encoding="utf-8"))


class Model:
    """The numbers of one model, from those of its ranks."""

    def __init__(self, name: str, ranks: list[dict]) -> None:
        self.name = name
        self.tensors, self.numbers = ranks[0]["tensors"], ranks[0]["numbers"]
        self.difference = max(value for rank in ranks for value in rank["difference"].values())
        # A step is as long as that of the slowest rank.
        self.steps = {
            way: [max(times) for times in zip(*(rank["step_ms"][way] for rank in ranks))] for way in ranks[0]["step_ms"]
        }
        self.overhead = max((rank["overhead_us"] for rank in ranks), key=statistics.median)
        self.least = max(statistics.median(rank["least_us"]) for rank in ranks)

    def ratios(self, way: str, beside: str) -> list[float]:
        """beside / way, round by round."""
        return [other / own for own, other in zip(self.steps[way], self.steps[beside])]

    def verdicts(self, np: int, way: str) -> list[str]:
        texts = []
        for goal in goals.goals_for(np, way, f"step/{self.name}"):
            texts.append(report.verdict(goal.text(), 1 / statistics.median(self.ratios(way, goal.beside)), goal.factor))
        for goal in goals.goals_for(np, way, f"overhead/{self.name}"):
            texts.append(report.verdict(goal.text(), statistics.median(self.overhead), goal.plus))
        return texts


def table(np: int, models: list[Model]) -> list[list[str]]:
    rows = [["model, way", "step ms", "x faster", "of", "us/tensor", "of", "least", "goal"]]
    for model in models:
        rows.append([f"{model.name}: {model.numbers / 1e6:.1f} M in {model.tensors} tensors"] + [""] * 7)
        for way, times in model.steps.items():
            ratios, overhead = model.ratios(way, "ddp_gloo"), ["", "", ""]
            if way == "hvd_optimizer":
                low, _middle, high = statistics.quantiles(model.overhead, n=4)
                of = f"{low:.1f} to {high:.1f}"
                overhead = [f"{statistics.median(model.overhead):.1f}", of, f"{model.least:.1f}"]
            rows.append(
                [f"- {TITLES[way]}", f"{statistics.median(times):.2f}", f"{statistics.median(ratios):.2f}"]
                + [f"{min(ratios):.2f} to {max(ratios):.2f}", *overhead, "; ".join(model.verdicts(np, way))]
            )
    return rows


def main() -> int:
    options = parse()
    result = {"machine": machine.facts(), **run_ranks(options)}
    models = [Model(name, ranks) for name, ranks in result["models"].items()]
    print(machine.line(result["machine"]))
    largest = max(model.difference for model in models)
    rounds = f"{options.rounds} rounds of {options.steps} steps, {options.pairs} pairs"
    print(f"{result['np']} ranks, native layer {result['native']}, {rounds}")
    print(f"largest difference of a parameter from training in one process: {largest:.2g}\n")
    print(report.render(table(result["np"], models), options.markdown))
    if options.json:
        options.json.write_text(json.dumps(result), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
