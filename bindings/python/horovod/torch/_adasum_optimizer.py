# SPDX-License-Identifier: Apache-2.0
"""The optimizer for op=Adasum, which combines the changes that each rank's own step makes."""

import contextlib

import torch

from horovod.common import basics
from horovod.torch import mpi_ops


class AdasumOptimizer:
    """Mixed in before an optimizer class; see ``DistributedOptimizer``."""

    def _hvd_start(self, names, compression):
        self._hvd_names = names
        self._hvd_compression = compression
        return self

    def step(self, closure=None):
        """Steps with this rank's gradients, then replaces each parameter's change by the Adasum of all ranks' ones."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        with torch.no_grad():
            starts = {parameter: parameter.detach().clone() for parameter in self._hvd_names}
            super().step()
            pending = []
            for parameter, start in starts.items():
                delta, context = self._hvd_compression.compress(parameter.detach() - start)
                name = self._hvd_names[parameter]
                pending.append((parameter, start, delta, context, mpi_ops.allreduce_async_(delta, name=name, op=basics.Adasum)))
            for parameter, start, delta, context, handle in pending:
                handle.wait()
                parameter.copy_(start + self._hvd_compression.decompress(delta, context))
        return loss

    def synchronize(self):
        """Nothing to do: gradients stay local."""

    @contextlib.contextmanager
    def skip_synchronize(self):
        """AssertionError: there is nothing to skip."""
        raise AssertionError("skip_synchronize: an Adasum optimizer does not synchronize gradients")
        yield

    def set_backward_passes_per_step(self, passes):
        """Nothing to count: gradients of any number of backward passes are summed locally until step()."""
