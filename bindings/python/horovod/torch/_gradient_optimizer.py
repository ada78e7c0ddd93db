# SPDX-License-Identifier: Apache-2.0
"""The optimizer for op=Average and op=Sum, which reduces gradients while backward runs."""

import contextlib
import warnings

import torch

from horovod._objects import broadcast_object
from horovod.common.util import split_list
from horovod.torch import mpi_ops


class _Reduction:
    """The reduction of one gradient in flight."""

    __slots__ = ("handle", "sent", "context", "sparse")

    def __init__(self, handle, sent, context, sparse):
        self.handle, self.sent, self.context, self.sparse = handle, sent, context, sparse


class GradientOptimizer:
    """Mixed in before an optimizer class; see ``DistributedOptimizer``."""

    def _hvd_start(
        self, names, compression, backward_passes_per_step, op, predivide, groups, sparse_as_dense, process_set
    ):
        self._hvd_names = names
        self._hvd_compression = compression
        self._hvd_passes = backward_passes_per_step
        self._hvd_options = {"op": op, "process_set": process_set}
        if predivide != 1.0:
            self._hvd_options.update(prescale_factor=1.0 / predivide, postscale_factor=predivide)
        self._hvd_sparse_as_dense = sparse_as_dense
        self._hvd_skip = False
        self._hvd_synchronized = False
        self._hvd_left = {}  # parameter -> backward passes until its gradient is reduced
        self._hvd_pending = {}  # parameter -> _Reduction
        self._hvd_group_of = {}  # parameter -> (number, members)
        self._hvd_ready = {}  # group number -> its parameters whose gradient is ready
        self._hvd_hooks = []
        # Alone there is nothing to reduce, and a rank outside the set takes no part.
        self._hvd_active = process_set.included() and process_set.size() > 1
        self._hvd_set_groups(groups, process_set)
        if self._hvd_active:
            for parameter in names:
                self._hvd_watch(parameter)
        return self

    def _hvd_set_groups(self, groups, process_set):
        if groups is None:
            return
        parameters = [p for p in self._hvd_names if p.requires_grad]
        if isinstance(groups, int) and not isinstance(groups, bool) and groups > 0:
            if self._hvd_active:
                # The order of the root decides, should ranks list their parameters in different orders.
                by_name = {self._hvd_names[p]: p for p in parameters}
                order = broadcast_object(list(by_name), process_set.ranks[0], process_set=process_set)
                parameters = [by_name[name] for name in order]
            lists = [part for part in split_list(parameters, groups) if part]
        elif isinstance(groups, list) and all(isinstance(part, (list, tuple)) for part in groups):
            lists = groups
        else:
            raise ValueError("groups: neither a number above 0 nor a list of lists of parameters")
        for number, members in enumerate(lists):
            for member in members:
                if not isinstance(member, torch.Tensor):
                    raise ValueError(f"groups[{number}]: {type(member).__name__} is not a tensor")
                if member in self._hvd_group_of:
                    raise ValueError(f"groups[{number}]: a parameter is in two groups")
                if member not in self._hvd_names:
                    raise ValueError(f"groups[{number}]: a tensor is no parameter of the optimizer")
                self._hvd_group_of[member] = (number, members)

    def _hvd_watch(self, parameter):
        """Calls _hvd_on_gradient whenever backward has finished the parameter's gradient."""
        if not parameter.requires_grad:
            return
        self._hvd_left[parameter] = self._hvd_passes
        if hasattr(parameter, "register_post_accumulate_grad_hook"):
            self._hvd_hooks.append(parameter.register_post_accumulate_grad_hook(self._hvd_on_gradient))
        else:  # PyTorch before 2.1
            accumulate = parameter.expand_as(parameter).grad_fn.next_functions[0][0]
            accumulate.register_hook(lambda *_unused: self._hvd_on_gradient(parameter))
            self._hvd_hooks.append(accumulate)

    def _hvd_on_gradient(self, parameter):
        if parameter in self._hvd_pending or self._hvd_left[parameter] <= 0:
            raise AssertionError(
                f"gradient of {self._hvd_names[parameter]}: more backward passes than backward_passes_per_step "
                f"({self._hvd_passes}) before step() or synchronize()"
            )
        self._hvd_left[parameter] -= 1
        if self._hvd_left[parameter] == 0:
            self._hvd_gradient_ready(parameter)

    def _hvd_gradient_ready(self, parameter):
        group = self._hvd_group_of.get(parameter)
        if group is None:
            self._hvd_reduce(parameter)
            return
        number, members = group
        ready = self._hvd_ready.setdefault(number, [])
        ready.append(parameter)
        if len(ready) == sum(member in self._hvd_left for member in members):
            del self._hvd_ready[number]
            self._hvd_reduce_group(number, [member for member in members if member in self._hvd_left])

    def _hvd_outgoing(self, parameter):
        """(tensor to send, compression context, was the gradient sparse)"""
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
        gradient = parameter.grad
        sparse = gradient.is_sparse
        if sparse:
            if not self._hvd_sparse_as_dense:
                raise NotImplementedError(
                    f"gradient of {self._hvd_names[parameter]}: sparse gradients need sparse_as_dense=True in this version"
                )
            gradient = gradient.to_dense()
        return (*self._hvd_compression.compress(gradient.detach()), sparse)

    def _hvd_reduce(self, parameter):
        sent, context, sparse = self._hvd_outgoing(parameter)
        handle = mpi_ops.allreduce_async_(sent, name=self._hvd_names[parameter], **self._hvd_options)
        self._hvd_pending[parameter] = _Reduction(handle, sent, context, sparse)

    def _hvd_reduce_group(self, number, members):
        parts = [self._hvd_outgoing(member) for member in members]
        tensors = [sent for sent, _context, _sparse in parts]
        handle = mpi_ops.grouped_allreduce_async_(tensors, name=f"group.{number}", **self._hvd_options)
        for member, (sent, context, sparse) in zip(members, parts):
            self._hvd_pending[member] = _Reduction(handle, sent, context, sparse)

    def synchronize(self):
        """Waits until every gradient is reduced. ``step()`` does it, unless inside ``skip_synchronize()``."""
        self._hvd_synchronized = True
        if not self._hvd_active:
            return
        waiting_in_group = {parameter for ready in self._hvd_ready.values() for parameter in ready}
        for parameter in self._hvd_left:
            # Other ranks may have a gradient where this one has none, so it takes part with zeros. A parameter that
            # was frozen later is frozen everywhere; only a group waits for all its members.
            frozen = not parameter.requires_grad and parameter not in self._hvd_group_of
            if not frozen and parameter not in self._hvd_pending and parameter not in waiting_in_group:
                self._hvd_gradient_ready(parameter)
        try:
            for parameter, reduction in self._hvd_pending.items():
                reduction.handle.wait()
                self._hvd_take(parameter, reduction)
        except Exception:
            self._hvd_reset()
            raise
        self._hvd_reset()

    def _hvd_take(self, parameter, reduction):
        result = self._hvd_compression.decompress(reduction.sent, reduction.context)
        if reduction.sparse:
            parameter.grad = result.to_sparse()
        elif result.data_ptr() != parameter.grad.data_ptr():
            with torch.no_grad():
                parameter.grad.set_(result)

    def _hvd_reset(self):
        self._hvd_pending.clear()
        self._hvd_ready.clear()
        for parameter in self._hvd_left:
            self._hvd_left[parameter] = self._hvd_passes

    @contextlib.contextmanager
    def skip_synchronize(self):
        """Inside this block ``step()`` does not reduce: ``synchronize()`` was called before, to clip gradients say."""
        self._hvd_skip = True
        try:
            yield
        finally:
            self._hvd_skip = False

    def step(self, closure=None):
        """Reduces the gradients, then steps. The gradients that a closure makes are reduced, too."""
        if self._hvd_skip:
            self._hvd_synchronized = False
            return super().step(closure)
        if closure is not None:
            return super().step(self._hvd_reducing(closure))
        if self._hvd_synchronized:
            warnings.warn(
                "step() reduces gradients again after synchronize(); call it inside optimizer.skip_synchronize()",
                stacklevel=2,
            )
        self.synchronize()
        self._hvd_synchronized = False
        return super().step()

    def _hvd_reducing(self, closure):
        def evaluate():
            loss = closure()
            self.synchronize()
            self._hvd_synchronized = False
            return loss

        return evaluate

    def zero_grad(self, *args, **kwargs):
        """As the optimizer's own. AssertionError between backward and step: gradients are on their way then."""
        if self._hvd_pending:
            raise AssertionError("zero_grad: called after backward() but before step() or synchronize()")
        return super().zero_grad(*args, **kwargs)

    def load_state_dict(self, *args, **kwargs):
        """As the optimizer's own; gradients on their way are forgotten."""
        self._hvd_reset()
        return super().load_state_dict(*args, **kwargs)

    def add_param_group(self, param_group):
        """As the optimizer's own; the new parameters are reduced, too."""
        super().add_param_group(param_group)
        number = len(self.param_groups) - 1
        for index, parameter in enumerate(self.param_groups[-1]["params"]):
            self._hvd_names.setdefault(parameter, f"allreduce.noname.{number}.{index}")
            if self._hvd_active:
                self._hvd_watch(parameter)

    def set_backward_passes_per_step(self, passes):
        """Changes how many backward passes are summed locally; counting starts again."""
        if passes <= 0:
            raise ValueError(f"set_backward_passes_per_step: {passes} is not above 0")
        self._hvd_passes = passes
        for parameter in self._hvd_left:
            self._hvd_left[parameter] = passes
