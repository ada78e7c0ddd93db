# SPDX-License-Identifier: Apache-2.0
"""The optimizer for op=Average and op=Sum, which reduces gradients while backward runs."""

import contextlib

import torch

from horovod._objects import broadcast_object
from horovod.common.util import split_list
from horovod.torch import _agreement, mpi_ops
from horovod.torch._members import has_others
from horovod.torch._reducer import Lifetime, Reducer
from horovod.torch._reductions import ReductionMethod


class GradientOptimizer:
    """What the class of a wrapped optimizer is made of besides its own class; see ``DistributedOptimizer``.

    All state is in one object, ``_hvd``: wrappers that copy the attributes of an optimizer then share it.
    """

    @staticmethod
    def _hvd_prepare(
        optimizer,
        names,
        compression,
        backward_passes_per_step,
        op,
        gradient_predivide_factor,
        groups,
        sparse_as_dense,
        process_set,
    ):
        """The attributes that make the optimizer a DistributedOptimizer. Whatever can fail does so here."""
        method = ReductionMethod(compression, op, gradient_predivide_factor, sparse_as_dense, process_set)
        # Alone there is nothing to reduce, and a rank outside the set takes no part.
        active = has_others(process_set, "DistributedOptimizer")
        lists = _lists(groups, names, process_set, active)
        if method.coded and lists:
            raise ValueError("DistributedOptimizer: groups cannot be compressed by a codec")
        reducer = Reducer(optimizer, names, backward_passes_per_step, method, lists, active)
        return {"_hvd": reducer, "_hvd_lifetime": Lifetime(reducer)}, lists

    def synchronize(self):
        """Reduces what backward has left local, inside ``no_sync()`` say. ``step()`` does it, too."""
        self._hvd.meet(_agreement.SYNCHRONIZE)

    @contextlib.contextmanager
    def skip_synchronize(self):
        """Horovod's, for ``step()`` after ``synchronize()``: here ``step()`` reduces nothing twice anyway."""
        yield

    @contextlib.contextmanager
    def no_sync(self):
        """Inside this block backward passes only add to the local gradients, and are not counted."""
        reducer = self._hvd
        before, reducer.paused = reducer.paused, True
        try:
            yield
        finally:
            reducer.paused = before

    def step(self, *args, **kwargs):
        """Reduces what is not reduced yet, then steps. A closure's gradients are reduced, too."""
        reducer = self._hvd
        self._opt_called = True  # as schedulers would notice it that had wrapped this method
        self._step_count = getattr(self, "_step_count", 0) + 1
        closure = kwargs.get("closure", args[0] if args else None)
        if callable(closure):
            if "closure" in kwargs:
                kwargs["closure"] = self._hvd_reducing(closure)
            else:
                args = (self._hvd_reducing(closure), *args[1:])
            return self._hvd_inner(*args, **kwargs)
        if reducer.local and vars(self).pop("found_inf", None) is not None:
            vars(self).pop("grad_scale", None)
            reducer.trouble = reducer.trouble or (
                "a GradScaler looks at gradients that are not reduced yet; call optimizer.synchronize() before unscale_() and step() "
                "of the scaler"
            )
        reducer.meet(_agreement.STEP)
        result = self._hvd_inner(*args, **kwargs)
        reducer.finish_step()
        return result

    # PyTorch wraps step() of classes it has not seen, to run hooks; those run inside super().step(), after reduction. Schedulers wrap
    # it, unless it seems to be wrapped already, by an attribute of the object that would keep the class from being changed.
    step.hooked = step._wrapped_by_lr_sched = step._with_counter = True

    @property
    def _step_supports_amp_scaling(self):
        """Whether a GradScaler lets ``step()`` decide. Not by the gradients of one rank: then ``step()`` is called on all ranks."""
        own = vars(self).get("_step_supports_amp_scaling")
        return self._hvd.local > 0 or (getattr(super(), "_step_supports_amp_scaling", False) if own is None else own)

    def _hvd_inner(self, *args, **kwargs):
        own = self.__dict__.get("_hvd_step")
        return super().step(*args, **kwargs) if own is None else own(*args, **kwargs)

    def _hvd_reducing(self, closure):
        reducer = self._hvd

        def evaluate():
            loss = closure()
            reducer.meet(_agreement.STEP)
            reducer.finish_step()
            if isinstance(self, torch.optim.LBFGS) and reducer.active:
                # It decides by the loss how far to go, so all ranks must see the same.
                options = {"op": reducer.method.op, "process_set": reducer.method.process_set}
                options["name"] = f"loss.{reducer.name}"
                loss = mpi_ops.allreduce(torch.as_tensor(loss).detach(), **options)
            return loss

        return evaluate

    def forget_step(self):
        """Throws away all gradients, reduced or not, and what is on its way: the program goes back to an earlier state."""
        self._hvd.start_over()

    def zero_grad(self, *args, **kwargs):
        """As the optimizer's own."""
        super().zero_grad(*args, **kwargs)
        self._hvd.discard(zeroed=True)

    def add_param_group(self, param_group):
        """As the optimizer's own; the new parameters are reduced, too."""
        super().add_param_group(param_group)
        reducer = self.__dict__.get("_hvd")
        if reducer is not None:
            reducer.check_parameters()

    def set_backward_passes_per_step(self, passes):
        """Changes how many backward passes are summed locally; counting starts again."""
        if passes <= 0:
            raise ValueError(f"set_backward_passes_per_step: {passes} is not above 0")
        self._hvd.set_passes(passes)


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
