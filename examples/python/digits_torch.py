# SPDX-License-Identifier: Apache-2.0
"""Trains a small convolutional network on handwritten digits, alone or with several ranks, to the same model.

    python examples/python/digits_torch.py
    horovodrun -np 2 python examples/python/digits_torch.py

The images are the 1,797 digits that come with scikit-learn. The global batch is the same for any number of ranks: each
takes its share of it, so one rank and several train the same model step by step.
"""

import argparse
import json
import sys
import time

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits

import horovod.torch as hvd

TEST_IMAGES = 360


class Net(torch.nn.Module):
    """Two convolutions and two linear layers for 8 x 8 grey images."""

    def __init__(self):
        super().__init__()
        self.conv1 = torch.nn.Conv2d(1, 16, 3, padding=1)
        self.conv2 = torch.nn.Conv2d(16, 32, 3, padding=1)
        self.linear1 = torch.nn.Linear(32 * 4 * 4, 64)
        self.linear2 = torch.nn.Linear(64, 10)

    def forward(self, images):
        features = F.relu(self.conv1(images))
        features = F.max_pool2d(F.relu(self.conv2(features)), 2)
        return self.linear2(F.relu(self.linear1(features.flatten(1))))


def load_images(seed, device):
    """Training and test images with labels, shuffled alike on every rank."""
    digits = load_digits()
    images = torch.tensor(digits.images, dtype=torch.float32, device=device).unsqueeze(1) / 16
    labels = torch.tensor(digits.target, device=device)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed))
    images, labels = images[order], labels[order]
    return (images[TEST_IMAGES:], labels[TEST_IMAGES:]), (images[:TEST_IMAGES], labels[:TEST_IMAGES])


def my_share(count):
    """This rank's part of `count` images: slices that differ by at most one image."""
    return slice(hvd.rank() * count // hvd.size(), (hvd.rank() + 1) * count // hvd.size())


def train_epoch(model, optimizer, data, batch, epoch, epochs):
    """One pass over all images; returns the mean loss and the steps made."""
    images, labels = data
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(1000 + epoch))
    batches = order.split(batch)
    loss_sum = 0.0
    model.train()
    for step, indices in enumerate(batches, 1):
        mine = indices[my_share(len(indices))]
        optimizer.zero_grad()
        # The sum of my losses, scaled so that the average over the ranks is the mean over the global batch: right also
        # when the shares differ, or when one is empty.
        loss = F.cross_entropy(model(images[mine]), labels[mine], reduction="sum") * (hvd.size() / len(indices))
        loss.backward()
        optimizer.step()
        loss_sum += loss.item()
        progress(f"epoch {epoch:2d}/{epochs}", step, len(batches))
    mean = hvd.allreduce(torch.tensor(loss_sum / len(batches)), name="epoch_loss").item()
    return mean, len(batches)


def accuracy(model, data):
    """Share of correctly named images; each rank looks at its part, and the counts are summed."""
    model.eval()
    images, labels = (part[my_share(len(data[1]))] for part in data)
    with torch.no_grad():
        correct = (model(images).argmax(1) == labels).sum()
    return hvd.allreduce(correct, name="correct", op=hvd.Sum).item() / len(data[1])


def progress(title, done, total):
    """A bar on one line, by rank 0 only."""
    if hvd.rank() == 0 and (done == total or done % 5 == 0):
        filled = 20 * done // total
        sys.stdout.write(f"\r{title} [{'#' * filled}{'.' * (20 - filled)}] {done:3d}/{total} steps")
        sys.stdout.flush()


def communication_ms(model, repeats=30):
    """Milliseconds for one exchange of gradients of this size with nothing to hide behind."""
    gradients = [torch.zeros_like(parameter) for parameter in model.parameters()]
    hvd.grouped_allreduce(gradients, name="warm_up")
    began = time.perf_counter()
    for repeat in range(repeats):
        hvd.grouped_allreduce(gradients, name="timed")
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return (time.perf_counter() - began) / repeats * 1000


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch", type=int, default=64, help="images per step, all ranks together")
    parser.add_argument("--threads", type=int, default=1, help="threads of PyTorch per rank")
    parser.add_argument("--result", help="also write the final numbers to this file as JSON")
    options = parser.parse_args()

    hvd.init()
    device = torch.device("cuda", hvd.local_rank()) if torch.cuda.is_available() else torch.device("cpu")
    if device.type == "cuda":
        torch.cuda.set_device(device)
    torch.set_num_threads(options.threads)
    torch.manual_seed(42 + hvd.rank())  # different on purpose: the broadcast makes the ranks alike
    training, test = load_images(seed=7, device=device)
    model = Net().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)

    steps, seconds = 0, 0.0
    for epoch in range(1, options.epochs + 1):
        began = time.perf_counter()
        loss, made = train_epoch(model, optimizer, training, options.batch, epoch, options.epochs)
        seconds += time.perf_counter() - began
        steps += made
        share = accuracy(model, test)
        if hvd.rank() == 0:
            print(f"  loss {loss:.4f}  accuracy {share:.2%}", flush=True)

    step_ms, exchange_ms = seconds / steps * 1000, communication_ms(model) if hvd.size() > 1 else 0.0
    if hvd.rank() == 0:
        print(f"{hvd.size()} rank{'s' if hvd.size() > 1 else ''}: accuracy {share:.2%}, {step_ms:.2f} ms per step"
              + (f", of which an exchange of the gradients alone takes {exchange_ms:.2f} ms" if exchange_ms else ""))
        if options.result:
            with open(options.result, "w") as file:
                json.dump({"ranks": hvd.size(), "accuracy": share, "loss": loss, "step_ms": step_ms,
                           "exchange_ms": exchange_ms, "seconds": seconds}, file)


if __name__ == "__main__":
    main()
