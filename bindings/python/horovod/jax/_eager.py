# SPDX-License-Identifier: Apache-2.0
"""Operations on arrays that have values: they go to the engine from where they lie, and results come back as arrays."""

import contextlib
import itertools
import threading

import jax
import numpy as np

from horovod import _handles
from horovod._arrays import Input, library_result
from horovod._native import constants
from horovod._submit import checked_splits, submit

_tickets = itertools.count(1)
_in_flight = {}
_guard = threading.Lock()


def traced(*values):
    """Whether one of these has no value yet, because a function is being traced."""
    return any(isinstance(value, jax.core.Tracer) for value in values)


def host_array(value, kind):
    """The value as a NumPy array, without a copy where it is on the CPU; dtypes as JAX has them."""
    if not isinstance(value, jax.Array):
        try:
            value = jax.numpy.asarray(value)
        except (TypeError, ValueError) as error:
            raise TypeError(f"{kind}: {type(value).__name__} is not an array, and cannot be made one: {error}") from None
    if not value.is_fully_addressable:
        raise ValueError(f"{kind}: an array over several processes of JAX cannot be sent; pass its local part")
    return np.asarray(value)


def on_device_of(result, source):
    """A NumPy array where the source is, if that is one device."""
    devices = source.devices() if isinstance(source, jax.Array) else ()
    return jax.device_put(result, next(iter(devices)) if len(devices) == 1 else None)


def start(call, values, splits=None):
    """Starts an operation; ``(operation, finish)``, where ``finish(operation)`` is a list of NumPy arrays."""
    label = constants.KIND_NAMES[call.kind]
    given = [Input(host_array(value, label), label) for value in values]
    in_place = call.kind in constants.SAME_SHAPE
    out = [one.fresh() for one in given] if in_place else None
    operation = submit(
        call.kind,
        tuple(one.described for one in given),
        None if out is None else tuple(one.described for one in out),
        (given, out),
        call.name,
        call.process_set,
        splits=checked_splits(splits, call.process_set),
        **call.options(),
    )

    def finish(ended):
        if out is not None:
            return [one.array for one in out]
        # A copy, because the library's memory goes with the operation.
        return [np.array(library_result(ended, index)) for index in range(len(given))]

    return operation, finish


def run(call, values):
    """Results of an operation, on the devices of its inputs."""
    operation, finish = start(call, values)
    operation.wait()
    return [on_device_of(result, value) for result, value in zip(finish(operation), values)]


def handle(call, values, finish=list, splits=None):
    """Starts an operation; the result of the Handle is ``finish(arrays)``, for alltoall with the rows received."""
    operation, begun = start(call, values, splits)

    def results(ended):
        arrays = [on_device_of(result, value) for result, value in zip(begun(ended), values)]
        if splits is not None:
            arrays.append(jax.numpy.asarray(np.array(ended.received_splits(), dtype=np.int32)))
        return finish(arrays)

    return _handles.numbered(operation, results)


@contextlib.contextmanager
def _told_to_xla(call):
    """XLA keeps the text of an exception only; it gets what compiled handlers would say."""
    try:
        yield
    except Exception as error:
        if not hasattr(error, "status_name"):
            raise
        raise RuntimeError(f"{error.status_name}: {call.label}: {error}") from None


def ticket(call, values):
    """Starts an operation for a compiled program, which may give its memory back any time: so from a copy."""
    with _told_to_xla(call):
        started = start(call, [np.array(value) for value in values])
    number = next(_tickets)
    with _guard:
        _in_flight[number] = started
    return np.array([number & 0xFFFFFFFF, number >> 32], dtype=np.uint32)


def redeem(call, numbers):
    """Waits for the operation of a ticket."""
    low, high = np.asarray(numbers).tolist()
    with _guard:
        operation, finish = _in_flight.pop(low | high << 32)
    with _told_to_xla(call):
        operation.wait()
    return finish(operation)
