# SPDX-License-Identifier: Apache-2.0
"""Batch normalisation over the batches of all ranks."""

import tensorflow as tf

from horovod._keras.versions import is_keras_3, tf_keras
from horovod.common import basics
from horovod.common.process_sets import checked_kind, global_process_set
from horovod.tensorflow import mpi_ops
from horovod.tensorflow._reduction import takes_part

_keras = tf_keras()


class _AskedByKeras3:
    """Where Keras 3 asks for mean and variance."""

    def _moments(self, inputs, mask=None, *args, **kwargs):
        if not takes_part(self._hvd_process_set):
            return super()._moments(inputs, mask, *args, **kwargs)
        return self._hvd_moments(inputs, self._reduction_axes, mask, keep_dims=False)


class _AskedByKeras2:
    """Where Keras 2 does, whose _moments is another function."""

    def _calculate_mean_and_var(self, inputs, reduction_axes, keep_dims, mask=None):
        if not takes_part(self._hvd_process_set):
            arguments = () if mask is None else (mask,)
            return super()._calculate_mean_and_var(inputs, reduction_axes, keep_dims, *arguments)
        return self._hvd_moments(inputs, reduction_axes, mask, keep_dims)


_Asked = _AskedByKeras3 if is_keras_3(_keras) else _AskedByKeras2


class SyncBatchNormalization(_Asked, _keras.layers.BatchNormalization):
    """BatchNormalization whose statistics are those of the batches of all ranks of ``process_set`` together.

    The ranks may have different numbers of rows. ``fused`` must be false: the fused kernel knows one rank only.
    """

    def __init__(self, fused=False, process_set=global_process_set, **kwargs):
        if fused in (True, None):
            raise ValueError(f"SyncBatchNormalization: fused is {fused}, only False is possible")
        if not is_keras_3(_keras):
            kwargs["fused"] = False
        super().__init__(**kwargs)
        self._hvd_process_set = checked_kind(process_set, "SyncBatchNormalization")
        self.supports_jit = False

    def _hvd_moments(self, inputs, axes, mask, keep_dims):
        inputs = tf.convert_to_tensor(inputs)
        wide = tf.cast(inputs, tf.float32) if inputs.dtype in (tf.float16, tf.bfloat16) else inputs
        weights = tf.ones_like(wide) if mask is None else _weights(mask, wide)
        count = tf.reduce_sum(weights, axes)
        numbers = [count, tf.reduce_sum(wide * weights, axes), tf.reduce_sum(wide * wide * weights, axes)]
        name = f"{self.name}_moments".replace("/", "_")
        count, total, squares = tf.unstack(
            mpi_ops._allreduce(tf.stack(numbers), name, basics.Sum, process_set=self._hvd_process_set)
        )
        mean = tf.math.divide_no_nan(total, count)
        variance = tf.maximum(tf.math.divide_no_nan(squares, count) - mean * mean, 0)
        if keep_dims:
            for axis in sorted(axes):
                mean, variance = tf.expand_dims(mean, axis), tf.expand_dims(variance, axis)
        return tf.cast(mean, inputs.dtype), tf.cast(variance, inputs.dtype)


def _weights(mask, wide):
    weights = tf.cast(mask, wide.dtype)
    while weights.shape.rank < wide.shape.rank:
        weights = tf.expand_dims(weights, -1)
    return weights * tf.ones_like(wide)
