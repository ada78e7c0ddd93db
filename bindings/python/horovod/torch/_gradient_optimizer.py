# SPDX-License-Identifier: Apache-2.0
"""The optimizer for op=Average and op=Sum, which reduces gradients while backward runs."""

import contextlib

import torch

from horovod._objects import broadcast_object
from horovod.common.util import split_list
from horovod.torch import mpi_ops
from horovod.torch._flight import Way
from horovod.torch._members import has_others
from horovod.torch._parameter_names import distinct, position_name
from horovod.torch._reducer import Reducer


class GradientOptimizer:
    """Mixed in before an optimizer class; see ``DistributedOptimizer``.

    All state is in one object, ``_hvd``: wrappers that copy the attributes of an optimizer then share it.
    """

    def _hvd_start(
        self,
        names,
        compression,
        backward_passes_per_step,
        op,
        gradient_predivide_factor,
        groups,
        sparse_as_dense,
        process_set,
    ):
        way = Way(compression, op, gradient_predivide_factor, sparse_as_dense, process_set)
        # Alone there is nothing to reduce, and a rank outside the set takes no part.
        active = has_others(process_set, "DistributedOptimizer")
        lists = _lists(groups, names, process_set, active)
        if way.coded and lists:
            raise ValueError("DistributedOptimizer: groups cannot be compressed by a codec")
        if active:
            names = {parameter: distinct(name, parameter, process_set) for parameter, name in names.items()}
        self._hvd = Reducer(names, backward_passes_per_step, way, active)
        self._hvd.set_groups(lists)
        return self

    @property
    def param_groups(self):
        """As the optimizer's own. Gradients on their way arrive first: who asks may want to read or scale them."""
        reducer = self.__dict__.get("_hvd")
        if reducer is not None:
            reducer.settle()
        return self.__dict__["param_groups"]

    @param_groups.setter
    def param_groups(self, groups):
        self.__dict__["param_groups"] = groups

    def synchronize(self):
        """Waits until every gradient is reduced. ``step()`` does it, unless that has happened already."""
        self._hvd.synchronize()

    @contextlib.contextmanager
    def skip_synchronize(self):
        """Inside this block ``step()`` reduces nothing that backward has not started to reduce."""
        self._hvd.skipping = True
        try:
            yield
        finally:
            self._hvd.skipping = False

    @contextlib.contextmanager
    def no_sync(self):
        """Inside this block backward passes only add to the local gradients, and are not counted."""
        line = self._hvd.line
        before, line.paused = line.paused, True
        try:
            yield
        finally:
            line.paused = before

    def step(self, closure=None):
        """Reduces the gradients, unless ``synchronize()`` did, then steps. A closure's gradients are reduced, too."""
        reducer = self._hvd
        if reducer.skipping:
            reducer.settle()
            reducer.line.done = False
            return super().step() if closure is None else super().step(closure)
        if closure is not None:
            return super().step(self._hvd_reducing(closure))
        reducer.synchronize()
        reducer.line.done = False
        return super().step()

    # PyTorch wraps step() of classes it has not seen, to run hooks; those run inside super().step(), after reduction.
    step.hooked = True

    def _hvd_reducing(self, closure):
        reducer = self._hvd

        def evaluate():
            loss = closure()
            reducer.synchronize()
            reducer.line.done = False
            if isinstance(self, torch.optim.LBFGS) and reducer.active:
                # It decides by the loss how far to go, so all ranks must see the same.
                options = {"op": reducer.way.op, "process_set": reducer.way.process_set}
                options["name"] = f"loss.{reducer.slots[0].name}"
                loss = mpi_ops.allreduce(torch.as_tensor(loss).detach(), **options)
            return loss

        return evaluate

    def zero_grad(self, *args, **kwargs):
        """As the optimizer's own. Gradients on their way arrive first, and are dropped then."""
        self._hvd.settle()
        self._hvd.reset()
        return super().zero_grad(*args, **kwargs)

    def add_param_group(self, param_group):
        """As the optimizer's own; the new parameters are reduced, too."""
        super().add_param_group(param_group)
        number = len(self.param_groups) - 1
        for index, parameter in enumerate(self.param_groups[-1]["params"]):
            name = position_name(number, index)
            self._hvd.add(parameter, distinct(name, parameter, self._hvd.way.process_set))

    def set_backward_passes_per_step(self, passes):
        """Changes how many backward passes are summed locally; counting starts again."""
        if passes <= 0:
            raise ValueError(f"set_backward_passes_per_step: {passes} is not above 0")
        self._hvd.settle()
        self._hvd.passes = passes
        self._hvd.reset()


def _lists(groups, names, process_set, active):
    """Lists of parameters to be reduced together."""
    if groups is None:
        return []
    if isinstance(groups, int) and not isinstance(groups, bool) and groups > 0:
        parameters = [p for p in names if p.requires_grad]
        if active:
            # The order of the root decides, should ranks list their parameters in different orders.
            by_name = {names[p]: p for p in parameters}
            order = broadcast_object(list(by_name), process_set.ranks[0], process_set=process_set)
            parameters = [by_name[name] for name in order]
        return [part for part in split_list(parameters, groups) if part]
    if not (isinstance(groups, list) and all(isinstance(part, (list, tuple)) for part in groups)):
        raise ValueError("groups: neither a number above 0 nor a list of lists of parameters")
    seen = set()
    for number, members in enumerate(groups):
        for member in members:
            if not isinstance(member, torch.Tensor):
                raise ValueError(f"groups[{number}]: {type(member).__name__} is not a tensor")
            if member in seen:
                raise ValueError(f"groups[{number}]: a parameter is in two groups")
            if member not in names:
                raise ValueError(f"groups[{number}]: a tensor is no parameter of the optimizer")
            seen.add(member)
    return [members for members in groups if members]
