# SPDX-License-Identifier: Apache-2.0
"""The least that an optimizer like DistributedOptimizer has to do on the thread that trains, right or not: its limit.

Two hooks for each gradient that do nothing. When the last one is ready, one operation starts for all dense gradients and one
for the entries of all sparse ones, as they are; synchronize() waits for a small allreduce and for these. Nothing is checked,
nothing overlaps with backward, and what the model is was known before.
"""
from __future__ import annotations

import torch

import horovod.torch as hvd
from horovod import _submit
from horovod.common import basics
from horovod.torch import _start
from horovod.torch._tensors import CODES

TOLD = 64  # bytes that ranks tell each other at the end of a step


class Least:
    """``ready``: the parameters in the order in which their gradients get ready. Has the part of a Trainer that overhead.py uses."""

    def __init__(self, trainer, ready, name):
        self.model, self.optimizer, self.name = trainer.model, self, f"least.{name}"
        self.sparse = [parameter for parameter in ready if parameter.grad.is_sparse]
        self.dense = [parameter for parameter in ready if not parameter.grad.is_sparse]
        self.gathering = self.reducing = None
        self.told = torch.zeros(TOLD, dtype=torch.uint8)
        self.address = self.told.data_ptr()
        described = [(CODES[parameter.dtype], tuple(parameter.shape)) for parameter in self.dense]
        self.all_dense = self._prepared("dense", described, basics.Average, grouped=True)
        self.telling = self._prepared("told", [(CODES[torch.uint8], (TOLD,))], basics.Max)
        for parameter in ready:
            parameter.register_hook(_nothing)
            parameter.register_post_accumulate_grad_hook(self._start if parameter is ready[-1] else _nothing)

    def _prepared(self, part, described, op, grouped=False):
        name, everybody = f"{self.name}.{part}", hvd.global_process_set
        return _submit.prepare(name, described, everybody, op, 1.0, 1.0, grouped=grouped)

    def _start(self, _parameter):
        if self.sparse:
            gradients = [parameter.grad for parameter in self.sparse]
            entries = [part for one in gradients for part in (one._indices().t().contiguous(), one._values())]
            self.gathering = _start.grouped_allgather(entries, f"{self.name}.sparse", hvd.global_process_set)
        gradients = [parameter.grad for parameter in self.dense]
        self.reducing = _submit.start([self.all_dense], [one.data_ptr() for one in gradients], gradients)

    def synchronize(self):
        _submit.start([self.telling], [self.address], self.told).wait()
        self.reducing.wait()
        if self.sparse:
            operation, gathered = self.gathering
            operation.wait()
            parts = gathered(operation)
            for parameter, indices, values in zip(self.sparse, parts[::2], parts[1::2]):
                values /= hvd.size()
                parameter.grad = torch.sparse_coo_tensor(indices.t(), values, parameter.shape, check_invariants=False)


def _nothing(_gradient):
    return None
