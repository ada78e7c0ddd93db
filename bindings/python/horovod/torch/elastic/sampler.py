# SPDX-License-Identifier: Apache-2.0
"""ElasticSampler: what is left of an epoch, dealt out to the ranks there are."""

import math
import random

from torch.utils.data import Sampler

from horovod.common import basics


class ElasticSampler(Sampler):
    """Gives each rank its part of a data set, without what has been used in this epoch.

    The order is a function of ``seed`` and the epoch, the same on all ranks, and a position in it says how much has been used. As a
    part of a TorchState the position is committed and restored with the model. So each sample of an epoch counts once, however
    often ranks fail, come or go. Only to fill the last batch of an epoch some samples come twice where ranks are left without.

    ``dataset``: has a length. Call ``record_batch`` after each batch, and ``set_epoch`` at the end of an epoch.
    """

    def __init__(self, dataset, shuffle=True, seed=0):
        self.dataset = dataset
        self.shuffle = shuffle
        self.seed = seed
        self.epoch = 0
        self.processed_num = 0
        self.reset()

    def set_epoch(self, epoch):
        """An epoch begins, of which nothing has been used."""
        self.epoch = epoch
        self.processed_num = 0
        self.reset()

    def record_batch(self, batch_idx, batch_size):
        """All ranks have used a batch of so many samples each. ``batch_idx`` is accepted for Horovod's sake."""
        self.processed_num = min(self.processed_num + batch_size * self.num_replicas, len(self.dataset))

    def state_dict(self):
        """The epoch, and how many of its samples all ranks together have used."""
        return {"epoch": self.epoch, "processed_num": self.processed_num}

    def load_state_dict(self, state_dict):
        """Goes to where ``state_dict`` was."""
        self.epoch = state_dict["epoch"]
        self.processed_num = state_dict["processed_num"]
        self.reset()

    def reset(self):
        """Deals out what is left among the ranks that there are now."""
        self.num_replicas, self.rank = basics.size(), basics.rank()
        indices = list(range(len(self.dataset)))
        if self.shuffle:
            random.Random(self.seed + self.epoch).shuffle(indices)
        self.remaining_indices = indices[self.processed_num :]
        self.num_samples = math.ceil(len(self.remaining_indices) / self.num_replicas)
        self.total_size = self.num_samples * self.num_replicas

    def __iter__(self):
        left = self.remaining_indices
        padded = [left[place % len(left)] for place in range(self.total_size)] if left else []
        return iter(padded[self.rank :: self.num_replicas])

    def __len__(self):
        return self.num_samples
