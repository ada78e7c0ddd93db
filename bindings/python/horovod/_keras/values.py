# SPDX-License-Identifier: Apache-2.0
"""Operations on single values, as Keras programs use them: numbers, arrays, and tensors of Keras' backend."""

import numpy as np

from horovod import _ops
from horovod._keras.versions import backend_of, is_keras_3
from horovod.common import basics
from horovod.common.util import reduce_op_of


def _is_symbolic(value):
    return hasattr(value, "graph") and not hasattr(value, "numpy")


def _array(keras, value):
    if is_keras_3(keras) and keras.ops.is_tensor(value):
        return keras.ops.convert_to_numpy(value)
    return value.numpy() if hasattr(value, "numpy") else np.asarray(value)


def _tensor(keras, array):
    if is_keras_3(keras):
        return keras.ops.convert_to_tensor(array)
    import tensorflow as tf

    return tf.constant(array)


def _applied(keras, value, name, in_graph, on_array):
    if backend_of(keras) == "tensorflow":
        import tensorflow as tf

        if _is_symbolic(value):
            return in_graph(value)
        if not tf.executing_eagerly():  # TensorFlow 1's sessions give arrays
            return on_array(np.asarray(value), name)
    return _tensor(keras, on_array(_array(keras, value), name))


def allreduce(keras, value, name, op, average, prescale_factor, postscale_factor, compression):
    """allreduce of a value."""
    op = reduce_op_of(op, average)
    if op not in (basics.Average, basics.Sum):
        raise ValueError(f"allreduce: op {op} is not Average or Sum")
    factors = {"prescale_factor": prescale_factor, "postscale_factor": postscale_factor}

    def in_graph(tensor):
        from horovod.tensorflow._collectives import allreduce as in_tensorflow

        return in_tensorflow(tensor, op=op, name=name, compression=compression, **factors)

    return _applied(
        keras, value, name, in_graph, lambda array, its_name: _ops.allreduce(array, name=its_name, op=op, **factors)
    )


def allgather(keras, value, name):
    """allgather of a value."""

    def in_graph(tensor):
        from horovod.tensorflow.mpi_ops import allgather as in_tensorflow

        return in_tensorflow(tensor, name=name)

    return _applied(keras, value, name, in_graph, _ops.allgather)


def broadcast(keras, value, root_rank, name):
    """broadcast of a value."""

    def in_graph(tensor):
        from horovod.tensorflow.mpi_ops import broadcast as in_tensorflow

        return in_tensorflow(tensor, root_rank, name=name)

    return _applied(
        keras, value, name, in_graph, lambda array, its_name: _ops.broadcast(array, root_rank, name=its_name)
    )


def reducescatter(keras, value, name, op):
    """reducescatter of a value."""
    if op not in (basics.Average, basics.Sum):
        raise ValueError(f"reducescatter: op {op} is not Average or Sum")

    def in_graph(tensor):
        from horovod.tensorflow._collectives import reducescatter as in_tensorflow

        return in_tensorflow(tensor, name=name, op=op)

    return _applied(keras, value, name, in_graph, lambda array, its_name: _ops.reducescatter(array, name=its_name, op=op))
