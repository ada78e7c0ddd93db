# SPDX-License-Identifier: Apache-2.0
"""What every rank of the job of run.py does: checks that all ways train alike, then times them in turns."""
from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path

import torch
import torch.distributed as dist

import horovod.torch as hvd
import overhead
import ways
from horovod._native import native
from least import Least
from models import CASES

CHECKED_STEPS = 2
BATCHES = 4  # different batches, taken in turns
# Rounding: sums in another order, amplified by two steps of training.
RELATIVE, ABSOLUTE = 1e-3, 2e-5


def check(case, name, trainer):
    """The largest difference from training in one process on all ranks' batches; AssertionError if not rounding."""
    steps = [[case.batch(number, rank) for rank in range(hvd.size())] for number in range(CHECKED_STEPS)]
    for of_ranks in steps:
        trainer.step(of_ranks[hvd.rank()])
    wanted = ways.train_alone_on_all(case, steps)
    largest = 0.0
    for index, (found, expected) in enumerate(zip(trainer.parameters(), wanted)):
        torch.testing.assert_close(
            found, expected, rtol=RELATIVE, atol=ABSOLUTE, msg=lambda text: f"{name}: parameter {index}: {text}"
        )
        largest = max(largest, float((found - expected).abs().max()))
    return largest


def batch_of_steps(trainer, batches, steps):
    """Median time of a step in ms."""
    dist.barrier()
    times = []
    for number in range(steps):
        began = time.perf_counter_ns()
        trainer.step(batches[number % BATCHES])
        times.append((time.perf_counter_ns() - began) / 1e6)
    return statistics.median(times)


def rounds(trainers, batches, options):
    """Step time in ms of every way in every round. The ways take turns, and another one begins each round."""
    names = list(trainers)
    taken = {name: [] for name in names}
    for number in range(1 + options.rounds):  # the first is for warming up
        first = number % len(names)
        for name in names[first:] + names[:first]:
            taken[name].append(batch_of_steps(trainers[name], batches, options.steps))
    return {name: times[1:] for name, times in taken.items()}


def measure(name, groups, options):
    """All numbers of one model, of this rank."""
    case = CASES[name]
    trainers = {way: ways.trainer(way, case, groups, options.bucket_view) for way in ways.WAYS}
    result = {
        "tensors": len(trainers["alone"].parameters()),
        "numbers": sum(parameter.numel() for parameter in trainers["alone"].parameters()),
        "difference": {way: check(case, way, one) for way, one in trainers.items() if way not in ways.LIMITS},
    }
    batches = [case.batch(number, hvd.rank()) for number in range(BATCHES)]
    result["step_ms"] = rounds(trainers, batches, options)
    alone, ours = trainers["alone"], trainers["hvd_optimizer"]
    least = _least(case, batches[0], name)
    for key, one in (("overhead_us", ours), ("least_us", least)):
        result[key] = overhead.per_tensor(alone, one, batches[0], options.pairs)
    return result


def _least(case, batch, name):
    trainer = ways.trainer("alone", case, {}, False)
    return Least(trainer, [parameter for parameter, _gradient in overhead.ready_order(trainer, batch)], name)


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    for name in ("rounds", "steps", "pairs"):
        arguments.add_argument(f"--{name}", type=int, required=True)
    arguments.add_argument("--models", required=True)
    arguments.add_argument("--bucket-view", action="store_true")
    arguments.add_argument("--out", type=Path, required=True)
    options = arguments.parse_args()
    torch.set_num_threads(1)
    hvd.init()
    groups = ways.groups()
    results = {}
    for name in options.models.split(","):
        of_ranks = hvd.allgather_object(measure(name, groups, options))
        results[name] = of_ranks
        if hvd.rank() == 0:
            print(f"{name}: measured", flush=True)
    if hvd.rank() == 0:
        options.out.write_text(json.dumps({"np": hvd.size(), "native": native().NAME, "models": results}))
    dist.destroy_process_group()
    hvd.shutdown()


if __name__ == "__main__":
    main()
