# SPDX-License-Identifier: Apache-2.0
"""What ``horovod.keras`` and ``horovod.tensorflow.keras`` offer alike, for the Keras that each of them works with."""

from horovod._keras import state, values
from horovod._keras.layers import layer_weights
from horovod._keras.optimizer import wrap
from horovod._keras.reduction import checked_groups
from horovod._keras.versions import backend_of
from horovod.common import basics
from horovod.common.compression import NoneCompressor
from horovod.common.documentation import explain
from horovod.common.process_sets import global_process_set


class Interface:
    """Its methods are the functions of a module; ``keras`` is the Keras of that module."""

    def __init__(self, keras):
        self._keras = keras

    def distributed(
        self,
        optimizer,
        name,
        backward_passes_per_step,
        average_aggregated_gradients,
        *,
        compression,
        op,
        gradient_predivide_factor,
        num_groups,
        groups,
        **arguments,
    ):
        """The optimizer that reduces gradients; ValueError where the arguments contradict each other."""
        if op not in (basics.Average, basics.Sum):
            raise ValueError(f"DistributedOptimizer: op {op} is not Average or Sum, which Keras optimizers can use")
        if gradient_predivide_factor != 1.0 and op != basics.Average:
            raise ValueError("DistributedOptimizer: gradient_predivide_factor needs op=Average")
        return wrap(
            self._keras,
            optimizer,
            name,
            backward_passes_per_step,
            average_aggregated_gradients,
            compression=compression,
            op=op,
            gradient_predivide_factor=gradient_predivide_factor,
            groups=checked_groups(backend_of(self._keras), groups, num_groups),
            **arguments,
        )

    def PartialDistributedOptimizer(  # noqa: N802 - Horovod's name
        self,
        optimizer,
        name=None,
        device_dense="",
        device_sparse="",
        compression=NoneCompressor,
        sparse_as_dense=False,
        gradient_predivide_factor=1.0,
        op=basics.Average,
        backward_passes_per_step=1,
        average_aggregated_gradients=False,
        groups=None,
        process_set=global_process_set,
        local_layers=None,
        scale_local_gradients=True,
    ):
        """A DistributedOptimizer that leaves the gradients of the weights of ``local_layers`` to this rank.

        ``local_layers``: a layer of Keras or a collection of them, anything else is a ValueError.
        """
        weights = layer_weights(self._keras, "PartialDistributedOptimizer", local_layers)
        wrapped = self.distributed(
            optimizer,
            name,
            backward_passes_per_step,
            average_aggregated_gradients,
            compression=compression,
            sparse_as_dense=sparse_as_dense,
            op=op,
            gradient_predivide_factor=gradient_predivide_factor,
            num_groups=0,
            groups=groups,
            process_set=process_set,
            scale_local_gradients=scale_local_gradients,
        )
        for variable in weights:
            wrapped.register_local_var(variable)
        return wrapped

    def allreduce(
        self, value, name=None, average=None, prescale_factor=1.0, postscale_factor=1.0, op=None, compression=NoneCompressor
    ):
        """allreduce of a tensor, array or number; ``op`` is Average or Sum, Average if not given."""
        return values.allreduce(self._keras, value, name, op, average, prescale_factor, postscale_factor, compression)

    def allgather(self, value, name=None):
        """The values of all ranks one after another along the first dimension."""
        return values.allgather(self._keras, value, name)

    def broadcast(self, value, root_rank, name=None):
        """The value that ``root_rank`` has."""
        return values.broadcast(self._keras, value, root_rank, name)

    def reducescatter(self, value, name=None, op=basics.Average):
        """The reduction of allreduce, of which every rank gets its part of the rows."""
        return values.reducescatter(self._keras, value, name, op)

    def load_model(self, filepath, custom_optimizers=None, custom_objects=None, compression=NoneCompressor, legacy_opts=False):
        """The model of a file, with its optimizer, and the optimizer's state, as a DistributedOptimizer.

        ``legacy_opts`` is accepted for Horovod's sake: optimizers of either kind are wrapped.
        """
        return state.load_model(self._keras, filepath, custom_optimizers, custom_objects, compression)


explain(vars(Interface), "a tensor, array or number", "np.ones(hvd.size())")
