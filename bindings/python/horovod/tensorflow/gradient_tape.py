# SPDX-License-Identifier: Apache-2.0
"""DistributedGradientTape: a tape whose gradients are reduced over all ranks."""

import tensorflow as tf

from horovod._keras.layers import layer_weights
from horovod.common import basics
from horovod.common.dropped import use_of
from horovod.common.process_sets import global_process_set
from horovod.tensorflow._reduction import Reduction, check_op, checked_groups
from horovod.tensorflow.compression import Compression


_DROPPED = (
    "DistributedGradientTape: its result was dropped before it was asked for a gradient: the tape that it was given does not reduce "
    "gradients; write tape = hvd.DistributedGradientTape(tape)"
)


class _ReducedGradients:
    """Mixed in before a tape class; see :func:`DistributedGradientTape`."""

    def register_local_source(self, source):
        """The gradient of this source is not reduced."""
        self._hvd_reduction.add_local(source)

    def gradient(self, target, sources, output_gradients=None, use_generic_names=False, **kwargs):
        """As the tape's own, reduced over the ranks.

        ``use_generic_names``: operations are called by number instead of by the name of the tape, outside of name scopes.
        """
        self._hvd_used()
        gradients = super().gradient(target, sources, output_gradients, **kwargs)
        if not tf.nest.is_nested(sources):
            return self._hvd_reduced([gradients], [sources], use_generic_names)[0]
        flat_sources = tf.nest.flatten(sources)
        flat_gradients = [gradients] if gradients is None else _flat(gradients)
        return tf.nest.pack_sequence_as(sources, self._hvd_reduced(flat_gradients, flat_sources, use_generic_names))

    def get_local_and_global_gradients(self, target, sources, output_gradients=None, use_generic_names=False):
        """Pairs ``(source, gradient)`` in two lists: of local sources, and of those whose gradients were reduced."""
        sources = tf.nest.flatten(sources)
        pairs = list(zip(sources, self.gradient(target, sources, output_gradients, use_generic_names)))
        is_local = self._hvd_reduction.is_local
        return [pair for pair in pairs if is_local(pair[0])], [pair for pair in pairs if not is_local(pair[0])]

    def _hvd_reduced(self, gradients, sources, use_generic_names):
        return self._hvd_reduction(gradients, sources, prefix="grad" if use_generic_names else None)


def _flat(gradients):
    # IndexedSlices are a composite that flatten would take apart only if asked to.
    return tf.nest.flatten(gradients)


def DistributedGradientTape(  # noqa: N802 - Horovod's name
    gradtape,
    device_dense="",
    device_sparse="",
    compression=Compression.none,
    sparse_as_dense=False,
    op=basics.Average,
    gradient_predivide_factor=1.0,
    num_groups=0,
    groups=None,
    process_set=global_process_set,
    scale_local_gradients=True,
):
    """A tape that shares all state with ``gradtape`` and whose ``gradient()`` is reduced over the ranks.

    ``groups``: how many groups, or lists of variables, are reduced as one operation each; without it small gradients that follow
    one another travel together. ``sparse_as_dense``: IndexedSlices are made dense before. ``gradient_predivide_factor`` f:
    gradients are divided by f before and by size/f after the sum. ``scale_local_gradients``: gradients of sources given to
    ``register_local_source`` are divided by the number of ranks.
    """
    check_op("DistributedGradientTape", op, gradient_predivide_factor)
    base = type(gradtape)
    if issubclass(base, _ReducedGradients):
        raise ValueError("DistributedGradientTape: the tape is a DistributedGradientTape already")
    cls = type(base.__name__, (_ReducedGradients, base), {"__module__": base.__module__})
    tape = cls.__new__(cls)
    tape.__dict__ = gradtape.__dict__
    tape._hvd_reduction = Reduction(
        "DistributedGradientTape",
        compression,
        sparse_as_dense,
        op,
        gradient_predivide_factor,
        checked_groups("DistributedGradientTape", groups, num_groups),
        process_set,
        scale_local_gradients,
    )
    tape._hvd_used = use_of(tape, _DROPPED)
    return tape


def PartialDistributedGradientTape(  # noqa: N802 - Horovod's name
    gradtape,
    device_dense="",
    device_sparse="",
    compression=Compression.none,
    sparse_as_dense=False,
    op=basics.Average,
    gradient_predivide_factor=1.0,
    num_groups=0,
    groups=None,
    process_set=global_process_set,
    local_layers=None,
    scale_local_gradients=True,
):
    """A :func:`DistributedGradientTape` that leaves the gradients of the weights of ``local_layers`` to this rank."""
    weights = layer_weights(tf.keras, "PartialDistributedGradientTape", local_layers)
    tape = DistributedGradientTape(
        gradtape,
        device_dense,
        device_sparse,
        compression,
        sparse_as_dense,
        op,
        gradient_predivide_factor,
        num_groups,
        groups,
        process_set,
        scale_local_gradients,
    )
    for variable in weights:
        tape.register_local_source(variable)
    return tape
