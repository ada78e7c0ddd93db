# SPDX-License-Identifier: Apache-2.0
"""Gradient accumulation and mixed precision together, on the handwritten digits of scikit-learn.

    horovodrun -np 2 python examples/python/accumulate_amp_torch.py --accumulate 4

Each optimizer step sums the gradients of several small batches on the rank, then reduces once. Forward runs in bfloat16
where that is safe; on a GPU a GradScaler keeps small float16 gradients from becoming zero.
"""

import argparse

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits

import horovod.torch as hvd


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=16, help="images per backward pass and rank")
    parser.add_argument("--accumulate", type=int, default=4, help="backward passes per optimizer step")
    options = parser.parse_args()

    hvd.init()
    torch.manual_seed(1)
    device = torch.device("cuda", hvd.local_rank()) if torch.cuda.is_available() else torch.device("cpu")
    if device.type == "cuda":
        torch.cuda.set_device(device)
    half = torch.float16 if device.type == "cuda" else torch.bfloat16
    digits = load_digits()
    images = torch.tensor(digits.data, dtype=torch.float32, device=device) / 16
    labels = torch.tensor(digits.target, device=device)

    model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    optimizer = hvd.DistributedOptimizer(
        optimizer,
        model.named_parameters(),
        backward_passes_per_step=options.accumulate,
        compression=hvd.Compression.bf16,
    )
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    scaler = torch.amp.GradScaler(device.type, enabled=half is torch.float16)

    rows = options.batch_size * hvd.size()
    steps = len(labels) // (rows * options.accumulate)  # as many on each rank; what is left over waits for the next epoch
    for epoch in range(options.epochs):
        order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(epoch))
        used = order[: steps * options.accumulate * rows]
        batches = iter(used.view(-1, hvd.size(), options.batch_size)[:, hvd.rank()])
        for _step in range(steps):
            optimizer.zero_grad()
            for _pass in range(options.accumulate):
                mine = next(batches)
                with torch.autocast(device.type, dtype=half):
                    loss = F.cross_entropy(model(images[mine]), labels[mine]) / options.accumulate
                scaler.scale(loss).backward()
            optimizer.synchronize()  # the gradients of all ranks, before anything is decided by their size
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            with optimizer.skip_synchronize():
                scaler.step(optimizer)
            scaler.update()
        with torch.no_grad():
            correct = (model(images).argmax(1) == labels).float().mean()
        if hvd.rank() == 0:
            print(f"epoch {epoch + 1}: accuracy {correct:.2%}", flush=True)
    assert options.epochs < 3 or correct > 0.8, correct


if __name__ == "__main__":
    main()
