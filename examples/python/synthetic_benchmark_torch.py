# SPDX-License-Identifier: Apache-2.0
"""Images per second of a convolutional network on random data, with the usual options.

    horovodrun -np 2 python examples/python/synthetic_benchmark_torch.py --batch-size 16 --num-iters 5

`--model` is the name of a torchvision model where torchvision is installed; `small` needs nothing.
"""

import argparse
import statistics
import time

import torch
import torch.nn.functional as F

import horovod.torch as hvd


def small():
    """A residual-free network of 1.2 million parameters for images of any size."""
    layers, before = [], 3
    for channels in (32, 64, 128, 256):
        layers += [
            torch.nn.Conv2d(before, channels, 3, stride=2, padding=1),
            torch.nn.ReLU(),
            torch.nn.Conv2d(channels, channels, 3, padding=1),
            torch.nn.ReLU(),
        ]
        before = channels
    layers += [torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(before, 1000)]
    return torch.nn.Sequential(*layers)


def network(name):
    if name == "small":
        return small()
    try:
        from torchvision import models
    except ImportError as error:
        raise SystemExit(f"--model {name}: torchvision cannot be imported ({error})") from error
    return getattr(models, name)()


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fp16-allreduce", action="store_true", help="gradients travel as float16")
    parser.add_argument("--model", default="small", help="small, or a model of torchvision such as resnet50")
    parser.add_argument("--batch-size", type=int, default=32, help="images per step and rank")
    parser.add_argument("--image-size", type=int, default=64, help="width and height")
    parser.add_argument("--num-warmup-batches", type=int, default=10)
    parser.add_argument("--num-batches-per-iter", type=int, default=10)
    parser.add_argument("--num-iters", type=int, default=10)
    parser.add_argument("--no-cuda", action="store_true", help="use the CPU though there is a GPU")
    parser.add_argument("--use-adasum", action="store_true")
    return parser.parse_args()


def main():
    options = arguments()
    hvd.init()
    on_gpu = torch.cuda.is_available() and not options.no_cuda
    device = torch.device("cuda", hvd.local_rank()) if on_gpu else torch.device("cpu")
    if on_gpu:
        torch.cuda.set_device(device)
    model = network(options.model).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01 * (1 if options.use_adasum else hvd.size()))
    optimizer = hvd.DistributedOptimizer(
        optimizer,
        named_parameters=model.named_parameters(),
        compression=hvd.Compression.fp16 if options.fp16_allreduce else hvd.Compression.none,
        op=hvd.Adasum if options.use_adasum else hvd.Average,
    )
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    images = torch.randn(options.batch_size, 3, options.image_size, options.image_size, device=device)
    labels = torch.randint(1000, (options.batch_size,), device=device)

    def step():
        optimizer.zero_grad()
        F.cross_entropy(model(images), labels).backward()
        optimizer.step()

    def say(text):
        if hvd.rank() == 0:
            print(text, flush=True)

    say(f"Model: {options.model}")
    say(f"Batch size: {options.batch_size}")
    kind = "GPU" if on_gpu else "CPU"
    say(f"Number of {kind}s: {hvd.size()}")
    for _batch in range(options.num_warmup_batches):
        step()
    speeds = []
    for iteration in range(options.num_iters):
        began = time.perf_counter()
        for _batch in range(options.num_batches_per_iter):
            step()
        if on_gpu:
            torch.cuda.synchronize()
        speeds.append(options.batch_size * options.num_batches_per_iter / (time.perf_counter() - began))
        say(f"Iter #{iteration}: {speeds[-1]:.1f} img/sec per {kind}")
    mean, spread = statistics.mean(speeds), 1.96 * statistics.pstdev(speeds)
    say(f"Img/sec per {kind}: {mean:.1f} +-{spread:.1f}")
    say(f"Total img/sec on {hvd.size()} {kind}(s): {mean * hvd.size():.1f} +-{spread * hvd.size():.1f}")


if __name__ == "__main__":
    main()
