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
    """Reduces gradients over the ranks before ``optimizer`` sees them; everything else is the optimizer's."""

    def __init__(self, optimizer, gradient_predivide_factor=1.0, num_groups=0, process_set=global_process_set):
        self._optimizer = optimizer
        self._process_set = checked(process_set, "DistributedOptimizer")
        self._num_groups = num_groups
        self._factors = _factors(gradient_predivide_factor)

    def __getattr__(self, item):
        if item == "_optimizer":  # not there yet, as while it is copied
            raise AttributeError(item)
        return getattr(self._optimizer, item)

    def create_state(self, index, weight):
        return self._optimizer.create_state(index, weight)

    def create_state_multi_precision(self, index, weight):
        return self._optimizer.create_state_multi_precision(index, weight)

    def update(self, index, weight, grad, state):
        self._reduce(index, grad)
        self._optimizer.update(index, weight, grad, state)

    def update_multi_precision(self, index, weight, grad, state):
        self._reduce(index, grad)
        self._optimizer.update_multi_precision(index, weight, grad, state)

    def set_learning_rate(self, lr):
        self._optimizer.set_learning_rate(lr)

    def set_lr_mult(self, args_lr_mult):
        self._optimizer.set_lr_mult(args_lr_mult)

    def set_wd_mult(self, args_wd_mult):
        self._optimizer.set_wd_mult(args_wd_mult)

    def _reduce(self, index, grad):
        if not self._process_set.included():
            return
        settings = {"process_set": self._process_set, **self._factors}
        if not isinstance(index, (tuple, list)):
            mpi_ops.allreduce_(grad, name=str(index), **settings)
        elif self._num_groups > 0:
            pairs = split_list(list(zip(index, grad)), self._num_groups)
            for place, part in enumerate(part for part in pairs if part):
                name = f"{part[0][0]}:{part[-1][0]}"
                mpi_ops.grouped_allreduce_([one for _index, one in part], name=name, priority=-place, **settings)
        else:
            for place, (number, one) in enumerate(zip(index, grad)):
                mpi_ops.allreduce_(one, name=str(number), priority=-place, **settings)


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
            warnings.warn("DistributedTrainer: takes the optimizer inside of the DistributedOptimizer", stacklevel=2)
            optimizer = optimizer._optimizer
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
