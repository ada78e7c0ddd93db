# SPDX-License-Identifier: Apache-2.0
"""Trains on handwritten digits while ranks come and go.

    python examples/python/elastic_torch.py
    horovodrun -np 3 --min-np 2 python examples/python/elastic_torch.py --fail

With --fail worker 1 is killed in the middle: the others go back to the latest commit and go on at once, and a new process takes
the place of worker 1. Each image of an epoch is used once in committed steps, however many ranks there are. The images are the
1,797 digits that come with scikit-learn.
"""

import argparse
import os
import signal

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits

import horovod.torch as hvd

LEARNING_RATE, BATCH = 0.02, 32


def load_images():
    digits = load_digits()
    images = torch.tensor(digits.images, dtype=torch.float32).flatten(1) / 16
    return torch.utils.data.TensorDataset(images, torch.tensor(digits.target))


def make_state(images):
    """All that changes in training."""
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(64, 48), torch.nn.ReLU(), torch.nn.Linear(48, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE * hvd.size(), momentum=0.9)
    optimizer = hvd.DistributedOptimizer(optimizer, model.named_parameters())
    state = hvd.elastic.TorchState(model=model, optimizer=optimizer, sampler=hvd.elastic.ElasticSampler(images), epoch=0, batch=0)

    def scale_learning_rate():
        """The global batch is BATCH images for each rank, so the learning rate follows the number of ranks."""
        for group in optimizer.param_groups:
            group["lr"] = LEARNING_RATE * hvd.size()

    state.register_reset_callbacks([scale_learning_rate])
    return state


@hvd.elastic.run
def train(state, images, arguments):
    loader = torch.utils.data.DataLoader(images, BATCH, sampler=state.sampler)
    while state.epoch < arguments.epochs:
        for rows, labels in loader:
            if arguments.fail and (state.epoch, state.batch) == (1, 5) and os.environ.get("HOROVOD_WORKER") == "1":
                os.kill(os.getpid(), signal.SIGKILL)
            state.optimizer.zero_grad()
            loss = F.cross_entropy(state.model(rows), labels)
            loss.backward()
            state.optimizer.step()
            state.sampler.record_batch(state.batch, BATCH)
            state.batch += 1
            state.commit()  # so often only because a step is short here
        state.epoch, state.batch = state.epoch + 1, 0
        state.sampler.set_epoch(state.epoch)
        state.commit()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--fail", action="store_true", help="worker 1 of an elastic job is killed")
    arguments = parser.parse_args()
    images = load_images()  # before hvd.init(), because from there on the other ranks wait for a process that is new
    hvd.init()
    torch.set_num_threads(1)
    state = make_state(images)
    train(state, images, arguments)
    with torch.no_grad():
        rows, labels = images.tensors
        right = (state.model(rows).argmax(1) == labels).float().mean().item()
    if hvd.rank() == 0:
        print(f"{100 * right:.1f} % of the images are recognized; {hvd.size()} ranks at the end")
    assert right > 0.95, right


if __name__ == "__main__":
    main()
