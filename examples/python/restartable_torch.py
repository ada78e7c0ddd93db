# SPDX-License-Identifier: Apache-2.0
"""A job that can be stopped at any time, and started again with any number of ranks: it goes on where it was.

    horovodrun -np 2 python examples/python/restartable_torch.py --folder checkpoints

All that changes in training is in one object, which is committed to a file every few batches and restored from it at
the start. The position counts global batches, which have the same rows for any number of ranks. Without --folder the
script shows that it works: it stops in the middle of an epoch, goes on with fresh objects, and compares the result
with that of a training that was never stopped.
"""

import argparse
import os
import tempfile

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits

import horovod.torch as hvd

BATCH, COMMIT_EVERY = 96, 5


class Training:
    """Model, optimizer and position. After `restore` all ranks have the same, and `commit` writes it down."""

    def __init__(self, folder, device):
        self.file = os.path.join(folder, "training.pt")
        torch.manual_seed(1)
        model = torch.nn.Sequential(torch.nn.Linear(64, 48), torch.nn.ReLU(), torch.nn.Linear(48, 10))
        self.model = model.to(device)
        optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-2)
        # Sum: each rank's loss is its part of the mean over the global batch.
        self.optimizer = hvd.DistributedOptimizer(optimizer, self.model.named_parameters(), op=hvd.Sum)
        self.epoch = self.batch = 0

    def commit(self):
        """Rank 0 writes; a file that is half written never has the name that `restore` looks for."""
        if hvd.rank() == 0:
            state = {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}
            torch.save({**state, "position": (self.epoch, self.batch)}, self.file + ".new")
            os.replace(self.file + ".new", self.file)
        hvd.barrier()

    def restore(self):
        """From the file, if rank 0 has one; the others need not see it."""
        if hvd.rank() == 0 and os.path.exists(self.file):
            saved = torch.load(self.file, map_location="cpu", weights_only=True)
            self.model.load_state_dict(saved["model"])
            self.optimizer.load_state_dict(saved["optimizer"])
            self.epoch, self.batch = saved["position"]
        hvd.broadcast_parameters(self.model.state_dict(), root_rank=0)
        hvd.broadcast_optimizer_state(self.optimizer, root_rank=0)
        self.epoch, self.batch = hvd.broadcast_object((self.epoch, self.batch), root_rank=0)


def train(folder, images, labels, epochs, stop_after=None):
    """Trains to the end, or leaves after some batches as a job does that is killed: without a word to the file."""
    training = Training(folder, images.device)
    training.restore()
    if hvd.rank() == 0:
        print(f"starting at epoch {training.epoch}, batch {training.batch}", flush=True)
    done = 0
    while training.epoch < epochs:
        order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(training.epoch))
        batches = order.split(BATCH)
        while training.batch < len(batches):
            rows = batches[training.batch]
            mine = rows[hvd.rank() :: hvd.size()]
            training.optimizer.zero_grad()
            (F.cross_entropy(training.model(images[mine]), labels[mine], reduction="sum") / len(rows)).backward()
            training.optimizer.step()
            training.batch, done = training.batch + 1, done + 1
            if done == stop_after:
                return training.model
            if training.batch % COMMIT_EVERY == 0:
                training.commit()
        training.epoch, training.batch = training.epoch + 1, 0
        training.commit()
    return training.model


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--folder", help="where the checkpoint is; without it the script tries itself out")
    options = parser.parse_args()

    hvd.init()
    device = torch.device("cuda", hvd.local_rank()) if torch.cuda.is_available() else torch.device("cpu")
    if device.type == "cuda":
        torch.cuda.set_device(device)
    torch.set_num_threads(1)
    digits = load_digits()
    images = torch.tensor(digits.data, dtype=torch.float32, device=device) / 16
    labels = torch.tensor(digits.target, device=device)
    if options.folder:
        os.makedirs(options.folder, exist_ok=True)
        model = train(options.folder, images, labels, options.epochs)
    else:
        with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second:
            train(first, images, labels, options.epochs, stop_after=33)  # 33 is in the second epoch, 3 after a commit
            model = train(first, images, labels, options.epochs)
            never_stopped = train(second, images, labels, options.epochs)
        for found, wanted in zip(model.parameters(), never_stopped.parameters()):
            assert torch.equal(found, wanted), "a restarted training ends elsewhere"
    with torch.no_grad():
        accuracy = (model(images).argmax(1) == labels).float().mean().item()
    if hvd.rank() == 0:
        print(f"accuracy {accuracy:.2%}")
    assert options.epochs < 4 or accuracy > 0.9, accuracy


if __name__ == "__main__":
    main()
