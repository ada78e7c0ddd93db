# SPDX-License-Identifier: Apache-2.0
"""A residual network with batch statistics over all ranks (SyncBatchNorm), on images that are shifted at random.

    horovodrun -np 2 python examples/python/resnet_torch.py

The images are the handwritten digits of scikit-learn, 8 x 8, because they come with a package; shifts by up to a pixel
make them more. Before it trains, the script shows that ranks with a part of a batch each make the same steps as one
process with ordinary BatchNorm on the whole batch.
"""

import argparse
import copy

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import nn

import horovod.torch as hvd

TEST_IMAGES = 360


class Block(nn.Module):
    """Two convolutions beside a shortcut."""

    def __init__(self, before, after, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(before, after, 3, stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(after)
        self.conv2 = nn.Conv2d(after, after, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(after)
        self.shortcut = nn.Sequential()
        if stride != 1 or before != after:
            self.shortcut = nn.Sequential(nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after))

    def forward(self, x):
        y = F.relu(self.norm1(self.conv1(x)))
        return F.relu(self.norm2(self.conv2(y)) + self.shortcut(x))


def resnet(width=12):
    return nn.Sequential(
        nn.Conv2d(1, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
        Block(width, width, 1), Block(width, 2 * width, 2), Block(2 * width, 4 * width, 2),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4 * width, 10),
    )


def my_part(tensor):
    """This rank's rows: parts differ by at most one row."""
    return tensor[hvd.rank() * len(tensor) // hvd.size() : (hvd.rank() + 1) * len(tensor) // hvd.size()]


def shifted(images, generator):
    """Each image moved by -1, 0 or 1 pixels in both directions."""
    padded = F.pad(images, (1, 1, 1, 1))
    moves = torch.randint(3, (len(images), 2), generator=generator).tolist()
    return torch.stack([image[:, y : y + 8, x : x + 8] for image, (y, x) in zip(padded, moves)])


def step(model, optimizer, images, labels, count):
    """One step; the losses of all ranks together are the mean over `count` images, also if parts differ."""
    optimizer.zero_grad()
    loss = F.cross_entropy(model(images), labels, reduction="sum") / count
    loss.backward()
    optimizer.step()
    return loss.detach()


def distributed(model, lr):
    """The model with synchronized batch statistics, and its optimizer. Sum, as each rank has its part of the mean."""
    model = hvd.SyncBatchNorm.convert_sync_batchnorm(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9, weight_decay=5e-4)
    optimizer = hvd.DistributedOptimizer(optimizer, model.named_parameters(), op=hvd.Sum)
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    return model, optimizer


def equals_one_process(images, labels, steps=3):
    """The largest difference between parameters and statistics trained on parts, and on the whole in one process."""
    torch.manual_seed(0)
    one = resnet().double().to(images.device)
    many, optimizer = distributed(copy.deepcopy(one), lr=0.05)
    plain = torch.optim.SGD(one.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4)
    for number in range(steps):
        x, y = images[33 * number : 33 * (number + 1)].double(), labels[33 * number : 33 * (number + 1)]
        step(many, optimizer, my_part(x), my_part(y), len(y))
        step(one, plain, x, y, len(y))
    pairs = zip(many.state_dict().values(), one.state_dict().values())
    return max((a - b).abs().max().item() for a, b in pairs)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--batch", type=int, default=64, help="images per step, all ranks together")
    options = parser.parse_args()

    hvd.init()
    device = torch.device("cuda", hvd.local_rank()) if torch.cuda.is_available() else torch.device("cpu")
    if device.type == "cuda":
        torch.cuda.set_device(device)
    torch.set_num_threads(1)
    digits = load_digits()
    generator = torch.Generator().manual_seed(1)  # the same on every rank: they agree about order and shifts
    order = torch.randperm(len(digits.target), generator=generator)
    images = torch.tensor(digits.images, dtype=torch.float32, device=device).unsqueeze(1)[order] / 16
    labels = torch.tensor(digits.target, device=device)[order]
    test, training = slice(None, TEST_IMAGES), slice(TEST_IMAGES, None)

    difference = equals_one_process(images, labels)
    assert difference < 1e-9, f"{hvd.size()} ranks differ from one process by {difference}"

    torch.manual_seed(1 + hvd.rank())
    model, optimizer = distributed(resnet().to(device), lr=0.05)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, options.epochs)
    for epoch in range(options.epochs):
        model.train()
        loss = torch.zeros((), device=device)
        for batch in torch.randperm(len(labels) - TEST_IMAGES, generator=generator).split(options.batch):
            x, y = shifted(images[training][batch], generator), labels[training][batch]
            loss += step(model, optimizer, my_part(x), my_part(y), len(y)) * len(y)
        scheduler.step()
        model.eval()
        with torch.no_grad():
            correct = (model(my_part(images[test])).argmax(1) == my_part(labels[test])).sum()
        accuracy = hvd.allreduce(correct, op=hvd.Sum, name="correct").item() / TEST_IMAGES
        loss = hvd.allreduce(loss, op=hvd.Sum, name="loss") / (len(labels) - TEST_IMAGES)
        if hvd.rank() == 0:
            print(f"epoch {epoch + 1}: loss {loss:.3f}, accuracy {accuracy:.2%}", flush=True)
    if hvd.rank() == 0:
        print(f"{hvd.size()} ranks and one process differ by {difference:.1e} after 3 steps")
    assert options.epochs < 3 or accuracy > 0.9, accuracy


if __name__ == "__main__":
    main()
