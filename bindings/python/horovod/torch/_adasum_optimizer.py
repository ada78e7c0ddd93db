# SPDX-License-Identifier: Apache-2.0
"""The optimizer for op=Adasum, which combines the changes that each rank's own step makes."""

import contextlib

import torch

from horovod.common import basics
from horovod.torch import mpi_ops
from horovod.torch._parameter_names import distinct, position_name


class AdasumOptimizer:
    """Mixed in before an optimizer class; see ``DistributedOptimizer``."""

    # GradScaler then leaves it to step() whether to step: it sets grad_scale and found_inf and calls it in any case.
    _step_supports_amp_scaling = True

    @staticmethod
    def _hvd_prepare(_optimizer, names, compression, process_set, **_options):
        """The attributes that make the optimizer a DistributedOptimizer."""
        return {
            "_hvd_names": {parameter: distinct(name, parameter, process_set) for parameter, name in names.items()},
            "_hvd_compression": compression,
            "_hvd_set": process_set,
        }, None

    def step(self, closure=None):
        """Steps with this rank's gradients, then replaces each parameter's change by the Adasum of all ranks' ones."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        if not self._hvd_unscale():
            return loss
        with torch.no_grad():
            starts = {p: p.detach().clone() for p in self._hvd_names if p.requires_grad}
            super().step()
            pending = []
            for parameter, start in starts.items():
                delta, context = self._hvd_compression.compress(parameter.detach() - start)
                options = {"name": self._hvd_names[parameter], "op": basics.Adasum, "process_set": self._hvd_set}
                pending.append((parameter, start, delta, context, mpi_ops.allreduce_async_(delta, **options)))
            for parameter, start, delta, context, handle in pending:
                handle.wait()
                parameter.copy_(start + self._hvd_compression.decompress(delta, context))
        return loss

    step.hooked = True  # hooks run inside super().step()

    def _hvd_unscale(self):
        """Whether to step: not if a GradScaler found a gradient that is not finite on any rank of the set."""
        found = self.__dict__.get("found_inf")
        if found is None:
            return True
        name = f"found_inf.{next(iter(self._hvd_names.values()), '')}"
        if mpi_ops.allreduce(found, name=name, op=basics.Max, process_set=self._hvd_set).item():
            return False
        if self.grad_scale is not None:
            for parameter in self._hvd_names:
                if parameter.grad is not None:
                    parameter.grad.div_(self.grad_scale)
        self.found_inf = self.grad_scale = None  # a fused optimizer would divide again
        return True

    def synchronize(self):
        """Nothing to do: gradients stay local."""

    @contextlib.contextmanager
    def skip_synchronize(self):
        """AssertionError: there is nothing to skip."""
        raise AssertionError("skip_synchronize: an Adasum optimizer does not synchronize gradients")
        yield

    def no_sync(self):
        """A block in which gradients stay local, as they always do here."""
        return contextlib.nullcontext()

    def add_param_group(self, param_group):
        """As the optimizer's own; the changes of the new parameters are combined, too."""
        super().add_param_group(param_group)
        number = len(self.param_groups) - 1
        for index, parameter in enumerate(self.param_groups[-1]["params"]):
            self._hvd_names[parameter] = distinct(position_name(number, index), parameter, self._hvd_set)

    def set_backward_passes_per_step(self, passes):
        """Nothing to count: gradients of any number of backward passes are summed locally until step()."""
