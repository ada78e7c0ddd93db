# SPDX-License-Identifier: Apache-2.0
"""The operations of the library in Python, for a TensorFlow on which it does not load: the same results, more slowly.

In a graph each is the nodes of ``_waiting``.
"""

import numpy as np
import tensorflow as tf

from horovod import _ops
from horovod.common import basics
from horovod.common.exceptions import HorovodInternalError, HorovodMismatchError, HorovodTimeoutError
from horovod.common.process_sets import set_with_number
from horovod.tensorflow import _waiting
from horovod.tensorflow._rules import gradient_of

# For what is called from a tf.function: its functions would run as AutoGraph has written them anew, which takes longer.
_as_written = tf.autograph.experimental.do_not_convert

_ERRORS = (
    (HorovodMismatchError, tf.errors.FailedPreconditionError),
    (HorovodTimeoutError, tf.errors.DeadlineExceededError),
    (HorovodInternalError, tf.errors.UnknownError),
    (NotImplementedError, tf.errors.UnimplementedError),
    (ValueError, tf.errors.InvalidArgumentError),
)


def _framework_error(error):
    """The exception that the library would cause."""
    if not basics.is_initialized():
        return tf.errors.FailedPreconditionError(None, None, str(error))
    for kind, wanted in _ERRORS:
        if isinstance(error, kind):
            return wanted(None, None, str(error))
    return error


def _error_in_graph(error):
    """What py_function makes the nearest exception of: InvalidArgumentError of ValueError, UnknownError of most others.

    Elastic programs take the latter for a lost rank.
    """
    wanted = _framework_error(error)
    wrong = isinstance(wanted, (tf.errors.FailedPreconditionError, tf.errors.InvalidArgumentError))
    return ValueError(str(error)) if wrong else error


def _tensors(function, types, error_of):
    """What ``function`` returns, as tensors."""
    try:
        results = function()
    except Exception as error:
        raise error_of(error) from error
    if not isinstance(results, (list, tuple)):
        results = [0 if results is None else results]
    return [tf.convert_to_tensor(np.asarray(result), dtype) for result, dtype in zip(results, types)]


def _call(begin, called, inputs, types, shapes, in_order=False):
    """Calls ``begin`` with arrays, which returns a handle, now or whenever the graph runs; the results of the operation.

    ``called``: what tells operations apart, which is kind, name and process set.
    ``in_order``: in a tf.function it keeps its place among all that has side effects, as in the order of the program.
    """
    if tf.executing_eagerly():
        return _tensors(lambda: begin(*[tensor.numpy() for tensor in inputs]).wait(), types, _framework_error)

    def tensors_of(function):
        return _tensors(function, types, _error_in_graph)

    results = _waiting.nodes(begin, called, tensors_of, list(inputs), types, in_order)
    for result, shape in zip(results, shapes):
        result.set_shape(shape)
    return results


def _unknown_rows(tensors):
    ranks = [tensor.shape.rank for tensor in tensors]
    return [None if rank is None else [None, *tensor.shape[1:]] for rank, tensor in zip(ranks, tensors)]


def _named(attributes, kind):
    """The name for the engine: the one given, or what the node would be called."""
    if not attributes.get("use_node_name", True):
        return attributes.get("tensor_name") or None
    name = tf.compat.v1.get_default_graph().unique_name(attributes.get("name") or kind)
    return name.rpartition("/")[2] if attributes.get("ignore_name_scope") else name


def _factors(attributes):
    exact = [float.fromhex(part) for part in attributes.get("exact_factors", "").split()]
    before, after = exact or (attributes["prescale_factor"], attributes["postscale_factor"])
    return {"op": attributes["reduce_op"], "prescale_factor": before, "postscale_factor": after}


def _operation(kind, start, shapes_of, gradient, reduces=False):
    """A function like the library's for one list of tensors, with its gradient."""

    @_as_written
    def run(tensors, **attributes):
        tensors = [tf.convert_to_tensor(tensor) for tensor in tensors]
        name = _named(attributes, kind)
        options = _factors(attributes) if reduces else {}

        def on_arrays(*arrays):
            # py_function may run it after this rank has got another context, so the set is looked up then.
            process_set = set_with_number(attributes["process_set_id"])
            return start(list(arrays), name, process_set, attributes, options)

        @tf.custom_gradient
        def forward(*inputs):
            called = kind, name, attributes["process_set_id"]
            results = _call(on_arrays, called, inputs, [tensor.dtype for tensor in inputs], shapes_of(inputs))

            def backward(*upstream):
                known = {"exact_factors": "", **attributes}
                return gradient(known, list(inputs), list(upstream))

            return results, backward

        results = forward(*tensors)
        return list(results) if isinstance(results, (list, tuple)) else [results]

    return run


def _same_shapes(tensors):
    return [tensor.shape for tensor in tensors]


_allreduce = _operation(
    "HorovodAllreduce",
    lambda arrays, name, process_set, _a, options: _ops.grouped_allreduce_async(arrays, None, name, process_set=process_set, **options),
    _same_shapes,
    gradient_of("allreduce"),
    reduces=True,
)
_allgather = _operation(
    "HorovodAllgather",
    lambda arrays, name, process_set, _a, _o: _ops.grouped_allgather_async(arrays, name, process_set),
    _unknown_rows,
    gradient_of("allgather"),
)
_reducescatter = _operation(
    "HorovodReducescatter",
    lambda arrays, name, process_set, _a, options: _ops.grouped_reducescatter_async(arrays, name, process_set=process_set, **options),
    _unknown_rows,
    gradient_of("reducescatter"),
    reduces=True,
)
_broadcast = _operation(
    "HorovodBroadcast",
    lambda arrays, name, process_set, given, _o: _ops.broadcast_async(arrays[0], given["root_rank"], name, process_set),
    _same_shapes,
    gradient_of("broadcast"),
)
_gather = _operation(
    "HorovodGather",
    lambda arrays, name, process_set, given, _o: _ops.gather_async(arrays[0], given["root_rank"], name, process_set),
    _unknown_rows,
    gradient_of("gather"),
)


def horovod_allreduce(tensor, **attributes):
    """As the library's operation of this name; so are all functions below."""
    return _allreduce([tensor], **attributes)[0]


def horovod_allgather(tensor, **attributes):
    return _allgather([tensor], **attributes)[0]


def horovod_reducescatter(tensor, **attributes):
    return _reducescatter([tensor], **attributes)[0]


def horovod_broadcast(tensor, **attributes):
    return _broadcast([tensor], **attributes)[0]


def horovod_gather(tensor, **attributes):
    return _gather([tensor], **attributes)[0]


horovod_grouped_allreduce = _allreduce
horovod_grouped_allgather = _allgather
horovod_grouped_reducescatter = _reducescatter


def horovod_grouped_results(tensors):
    """The tensors: what the last node of an operation returns need not be handed on."""
    return tensors


@_as_written
def horovod_alltoall(tensor, splits, **attributes):
    name = _named(attributes, "HorovodAlltoall")

    def on_arrays(array, rows):
        process_set = set_with_number(attributes["process_set_id"])
        count = len(process_set.ranks)
        if rows.size or array.ndim == 0 or array.shape[0] % count:
            # If equal parts are wanted and there are none, the engine says what is wrong.
            return _ops.alltoall_async(array, rows if rows.size else None, name, process_set)
        return _ops.alltoall_async(array, [array.shape[0] // count] * count, name, process_set)

    @tf.custom_gradient
    def forward(tensor, splits):
        shapes = [_unknown_rows([tensor])[0], [None]]
        called = "HorovodAlltoall", name, attributes["process_set_id"]
        output, received = _call(on_arrays, called, [tensor, splits], [tensor.dtype, tf.int32], shapes)

        def backward(upstream, _of_splits):
            return gradient_of("alltoall")(attributes, [tensor, splits], [upstream], received)

        return (output, received), backward

    return forward(tf.convert_to_tensor(tensor), splits)


@_as_written
def horovod_join():
    return _call(_ops.join_async, ("HorovodJoin", None, 0), [], [tf.int32], [[]], in_order=True)[0]


@_as_written
def horovod_barrier(**attributes):
    name = _named(attributes, "HorovodBarrier")

    def begin():
        return _ops.barrier_async(set_with_number(attributes["process_set_id"]), name)

    called = "HorovodBarrier", name, attributes["process_set_id"]
    (waited,) = _call(begin, called, [], [tf.int32], [[]], in_order=True)
    return None if tf.executing_eagerly() else waited.op


def _fact(function):
    @_as_written
    def fact(process_set_id=0, name=None):
        if tf.executing_eagerly():
            return _tensors(lambda: function(process_set_id), [tf.int32], _framework_error)[0]
        found = tf.py_function(lambda: _tensors(lambda: function(process_set_id), [tf.int32], _error_in_graph)[0], [], tf.int32)
        found.set_shape([])
        _waiting.leave_unordered(found.op)
        return found

    return fact


horovod_size = _fact(lambda number: basics.size() if number == 0 else len(set_with_number(number).ranks))
horovod_process_set_included = _fact(lambda number: int(number == 0 or basics.rank() in set_with_number(number).ranks))
horovod_rank = _fact(lambda _number: basics.rank())
horovod_local_rank = _fact(lambda _number: basics.local_rank())
horovod_local_size = _fact(lambda _number: basics.local_size())
