# SPDX-License-Identifier: Apache-2.0
"""An optimizer and a Gluon trainer that see the gradients of all ranks."""

import warnings
from collections import defaultdict

import mxnet as mx

from horovod.common.basics import Average
from horovod.common.process_sets import checked, global_process_set
from horovod.common.util import split_list
from horovod.mxnet import mpi_ops
from horovod.mxnet.compression import Compression


def _factors(gradient_predivide_factor):
    return {
        "op": Average,
        "prescale_factor": 1.0 / gradient_predivide_factor,
        "postscale_factor": gradient_predivide_factor,
    }


class DistributedOptimizer(mx.optimizer.Optimizer):
    """Reduces gradients over the ranks before ``optimizer`` sees them; everything else is the optimizer's.

    It is the optimizer itself, which reduces from then on: so no other object would train without the ranks, and what a trainer
    sets, as ``rescale_grad``, is what counts. Copies and what is unpickled reduce, too.
    """

    def __new__(cls, optimizer=None, *_args, **_kwargs):
        if cls is not DistributedOptimizer:  # a copy
            return super().__new__(cls)
        if isinstance(optimizer, DistributedOptimizer):
            raise ValueError("DistributedOptimizer: the optimizer is a DistributedOptimizer already")
        if not isinstance(optimizer, mx.optimizer.Optimizer):
            raise TypeError(f"DistributedOptimizer: {optimizer!r} is not an mxnet.optimizer.Optimizer")
        optimizer.__class__ = _distributed(type(optimizer))
        return optimizer

    def __init__(self, optimizer, gradient_predivide_factor=1.0, num_groups=0, process_set=global_process_set):
        try:
            checked(process_set, "DistributedOptimizer")
        except (TypeError, ValueError):
            self._hvd_undo()
            raise
        self._hvd_process_set = process_set
        self._hvd_num_groups = num_groups
        self._hvd_factors = _factors(gradient_predivide_factor)
        self._hvd_reduced = False  # gradients that update is called with by update_multi_precision

    def __reduce__(self):
        return _unpickled, (self._hvd_base,), self.__getstate__()

    def update(self, index, weight, grad, state):
        if not self._hvd_reduced:
            self._hvd_reduce(index, grad)
        super().update(index, weight, grad, state)

    def update_multi_precision(self, index, weight, grad, state):
        self._hvd_reduce(index, grad)
        self._hvd_reduced = True
        try:
            super().update_multi_precision(index, weight, grad, state)
        finally:
            self._hvd_reduced = False

    def _hvd_undo(self):
        """Makes it what it was before."""
        self.__class__ = self._hvd_base
        return self

    def _hvd_reduce(self, index, grad):
        if not self._hvd_process_set.included():
            return
        settings = {"process_set": self._hvd_process_set, **self._hvd_factors}
        if not isinstance(index, (tuple, list)):
            mpi_ops.allreduce_(grad, name=str(index), **settings)
        elif self._hvd_num_groups > 0:
            pairs = split_list(list(zip(index, grad)), self._hvd_num_groups)
            for place, part in enumerate(part for part in pairs if part):
                name = f"{part[0][0]}:{part[-1][0]}"
                mpi_ops.grouped_allreduce_([one for _index, one in part], name=name, priority=-place, **settings)
        else:
            for place, (number, one) in enumerate(zip(index, grad)):
                mpi_ops.allreduce_(one, name=str(number), priority=-place, **settings)


def _distributed(base):
    return type(base.__name__, (DistributedOptimizer, base), {"__module__": base.__module__, "__doc__": base.__doc__, "_hvd_base": base})


def _unpickled(base):
    """What pickling and copying make first: the state follows."""
    cls = _distributed(base)
    return cls.__new__(cls)


class DistributedTrainer(mx.gluon.Trainer):
    """A Gluon trainer whose ``step`` reduces the gradients over the ranks first.

    ``prefix`` goes before the names of gradients, for jobs with several trainers. ``num_groups`` makes as many operations of
    all gradients, where every gradient is one otherwise.
    """

    def __init__(
        self,
        params,
        optimizer,
        optimizer_params=None,
        compression=Compression.none,
        gradient_predivide_factor=1.0,
        prefix=None,
        num_groups=0,
        process_set=global_process_set,
    ):
        if isinstance(optimizer, DistributedOptimizer):
            warnings.warn("DistributedTrainer: reduces gradients itself; the DistributedOptimizer is a plain one again", stacklevel=2)
            optimizer = optimizer._hvd_undo()
        # Ranks may have made their parameters in different orders.
        if isinstance(params, (dict, mx.gluon.parameter.ParameterDict)):
            params = [params[key] for key in sorted(params.keys())]
        elif isinstance(params, (list, tuple)):
            params = sorted(params, key=lambda parameter: parameter.name)
        super().__init__(params, optimizer, optimizer_params=optimizer_params, kvstore=None)
        self._compression = compression
        self._factors = _factors(gradient_predivide_factor)
        self._prefix = prefix or ""
        self._num_groups = num_groups
        self._process_set = checked(process_set, "DistributedTrainer")

    def _allreduce_grads(self):
        if not self._process_set.included():
            return
        trained = [(place, one.list_grad()[0]) for place, one in enumerate(self._params) if one.grad_req != "null"]
        sent = [(place, gradient, *self._compression.compress(gradient)) for place, gradient in trained]
        settings = {"process_set": self._process_set, **self._factors}
        if self._num_groups > 0:
            self._reduce_groups(sent, settings)
        else:
            for order, (place, _gradient, tensor, _context) in enumerate(sent):
                mpi_ops.allreduce_(tensor, name=f"{self._prefix}{place}", priority=-order, **settings)
        for _place, gradient, tensor, context in sent:
            if tensor is not gradient:
                gradient[:] = self._compression.decompress(tensor, context)

    def _reduce_groups(self, sent, settings):
        order = 0
        for group in split_list(sent, self._num_groups):
            by_dtype = defaultdict(list)
            for place, _gradient, tensor, _context in group:
                by_dtype[str(tensor.dtype)].append((place, tensor))
            for entries in by_dtype.values():
                name = f"{self._prefix}{entries[0][0]}:{self._prefix}{entries[-1][0]}"
                mpi_ops.grouped_allreduce_([one for _place, one in entries], name=name, priority=-order, **settings)
                order += 1
