# SPDX-License-Identifier: Apache-2.0
"""What the optimizer of hvd costs one rank on one GPU, beside plain PyTorch: a ratio of medians over blocks of steps in turns.

    python benchmarks/gpu/train_one_rank.py --batch-sizes 64 512 4096

Three copies of one network train on the same images: `plain` with PyTorch's optimizer, `alone` with a DistributedOptimizer, which
has nobody to reduce with, and `reducing` with one that reduces every gradient nevertheless, as it would with others: on a GPU
by NCCL, unless HOROVOD_GPU_OPERATIONS=native; a line of the log says which. The goal is 1.02 for both, of the largest batch: with
small ones it is the host, not the GPU, that is never idle. The exit code is 1 if it is missed.
"""

import argparse
import copy
import os
import statistics
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn

import horovod.torch as hvd
from horovod.torch import _gradient_optimizer

def network():
    """A small convolutional network of 1.2 million parameters in 18 tensors."""
    layers, before = [], 3
    for channels in (32, 64, 128, 256):
        layers += [nn.Conv2d(before, channels, 3, stride=2, padding=1), nn.ReLU()]
        layers += [nn.Conv2d(channels, channels, 3, padding=1), nn.ReLU()]
        before = channels
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, 100))


def distributed(model, optimizer, reduces):
    """The optimizer with hvd's around it."""
    has_others = _gradient_optimizer.has_others
    if reduces:
        _gradient_optimizer.has_others = lambda process_set, who: True
    try:
        return hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    finally:
        _gradient_optimizer.has_others = has_others


class Way:
    """A model that trains, and how long its blocks took."""

    def __init__(self, model, wrap):
        self.model, self.times = model, []
        self.optimizer = wrap(model, torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9))

    def block(self, images, labels, steps, finish):
        """Milliseconds per step, the device's work included."""
        finish()
        began = time.perf_counter()
        for _step in range(steps):
            self.optimizer.zero_grad()
            F.cross_entropy(self.model(images), labels).backward()
            self.optimizer.step()
        finish()
        return (time.perf_counter() - began) / steps * 1000


def measure(device, batch_size, options):
    """The larger ratio of both to `plain`."""
    finish = torch.cuda.synchronize if device.type == "cuda" else lambda: None
    images = torch.randn(batch_size, 3, 64, 64, device=device)
    labels = torch.randint(100, (batch_size,), device=device)
    first = network().to(device)
    ways = {
        "plain": Way(copy.deepcopy(first), lambda _model, optimizer: optimizer),
        "alone": Way(copy.deepcopy(first), lambda model, optimizer: distributed(model, optimizer, reduces=False)),
        "reducing": Way(first, lambda model, optimizer: distributed(model, optimizer, reduces=True)),
    }
    for way in ways.values():
        way.block(images, labels, 2 * options.steps, finish)
    order = list(ways.values())
    for _block in range(options.blocks):
        for way in order:
            way.times.append(way.block(images, labels, options.steps, finish))
        order.append(order.pop(0))  # nobody is always the first
    plain = statistics.median(ways["plain"].times)
    ratios = {}
    for name, way in ways.items():
        ratios[name] = statistics.median(way.times) / plain
        spread = f"{min(way.times):.3f} to {max(way.times):.3f}"
        print(f"batch {batch_size:5d}  {name:9s} {ratios[name] * plain:8.3f} ms per step, {spread}  ratio {ratios[name]:.4f}", flush=True)
        assert all(bool(parameter.isfinite().all()) for parameter in way.model.parameters())
    return max(ratios["alone"], ratios["reducing"])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch-sizes", type=int, nargs="+", default=[64, 512, 4096], help="images of 64 x 64 per step")
    parser.add_argument("--blocks", type=int, default=15, help="blocks of each way")
    parser.add_argument("--steps", type=int, default=40, help="steps per block")
    parser.add_argument("--goal", type=float, default=1.02, help="the greatest ratio of the largest batch; 0: none")
    options = parser.parse_args()
    os.environ.setdefault("HOROVOD_GPU_OPERATIONS", "nccl")
    os.environ.setdefault("HOROVOD_LOG_LEVEL", "info")
    hvd.init()
    if hvd.size() != 1:
        raise SystemExit("this is about one rank: start it without a launcher")
    device = torch.device("cuda", 0) if torch.cuda.is_available() else torch.device("cpu")
    print(f"on {torch.cuda.get_device_name(device) if device.type == 'cuda' else 'the CPU'}, PyTorch {torch.__version__}")
    for batch_size in sorted(options.batch_sizes):
        ratio = measure(device, batch_size, options)
    hvd.shutdown()
    if options.goal > 0:
        met = ratio <= options.goal
        print(f"ratio {ratio:.4f} of the largest batch (goal {options.goal}: {'met' if met else 'missed'})")
        sys.exit(not met)


if __name__ == "__main__":
    main()
