# SPDX-License-Identifier: Apache-2.0
"""The floor in pure Python. Every call releases the GIL, because the library may be waiting for its log function."""

import ctypes
import threading
import time
from ctypes import byref, c_int32, c_int64, c_size_t, c_void_p

from horovod._floor import abi, constants, library
from horovod._floor.logging import line_writer
from horovod.common.exceptions import from_status

NAME = "ctypes"

_lib = abi.declare(library.load())
_op_options_size = ctypes.sizeof(abi.OpOptions)
# Operations whose owner is gone before they ended: their buffers must stay, because other ranks need the operation.
_orphans = []
# The header asks that calls on one handle, other than wait and test, do not overlap.
_results = threading.Lock()

_SINGLE = {
    constants.ALLREDUCE: _lib.hvd_allreduce_async,
    constants.ALLGATHER: _lib.hvd_allgatherv_async,
    constants.BROADCAST: _lib.hvd_broadcast_async,
    constants.REDUCESCATTER: _lib.hvd_reducescatter_async,
}
_GROUPED = {
    constants.ALLREDUCE: _lib.hvd_grouped_allreduce_async,
    constants.ALLGATHER: _lib.hvd_grouped_allgatherv_async,
    constants.REDUCESCATTER: _lib.hvd_grouped_reducescatter_async,
}
_WITHOUT_TENSOR = {constants.BARRIER: _lib.hvd_barrier_async, constants.JOIN: _lib.hvd_join_async}


def version_string():
    """The library's version."""
    return _lib.hvd_version_string().decode()


def has_feature(name):
    """Whether this build of the library has the feature."""
    return bool(_lib.hvd_has_feature(name.encode()))


def option_table():
    """All options as ``(name, default, help)``."""
    table = []
    while True:
        name = _lib.hvd_option_name(len(table))
        if name is None:
            return table
        index = len(table)
        table.append((name.decode(), _lib.hvd_option_default(index).decode(), _lib.hvd_option_help(index).decode()))


def make_describe(dtypes):
    """A function that gives (address, dtype number, shape) of an array the library can use as it is, else None."""
    import numpy as np

    codes = dict(dtypes)

    def describe(value):
        if type(value) is not np.ndarray or not value.flags.c_contiguous:
            return None
        code = codes.get(value.dtype)
        return None if code is None else (value.__array_interface__["data"][0], code, value.shape)

    return describe


def sweep():
    """Lets go of the buffers of dropped operations that have ended meanwhile; the number of those that have not."""
    if _orphans:
        waiting, _orphans[:] = _orphans[:], []
        for handle, kept in waiting:
            if _lib.hvd_test(handle, None) == constants.PENDING:
                _orphans.append((handle, kept))
            else:
                _lib.hvd_handle_free(handle)
    return len(_orphans)


def _fail(status, error, operation=None):
    message = error.message.decode("utf-8", "replace")
    raise from_status(status, error.rank, error.sys_errno, message, operation)


def _check(function, *arguments):
    error = abi.Error()
    status = function(*arguments, byref(error))
    if status != constants.OK:
        _fail(status, error)


def _sized_list(element, function, subject):
    """Calls a function with the header's two-call size protocol until the answer fits."""
    count = c_size_t(0)
    _check(function, subject, None, byref(count))
    while True:
        room = max(count.value, 1)
        values = (element * room)()
        count.value = room
        error = abi.Error()
        status = function(subject, values, byref(count), byref(error))
        if status == constants.OK:
            return values[: count.value]
        if status != -1 or count.value <= room:
            _fail(status, error)


class Context:
    """One hvd_context."""

    def __init__(self, rank, size, rendezvous, timeout_ns, options, log):
        self._pointer = None
        self._queueing = False
        pairs = (abi.Option * max(len(options), 1))()
        for pair, (name, value) in zip(pairs, options):
            pair.name, pair.value = name.encode(), value.encode()
        settings = abi.InitOptions(
            struct_size=ctypes.sizeof(abi.InitOptions),
            rank=rank,
            size=size,
            rendezvous=None if rendezvous is None else rendezvous.encode(),
            timeout_ns=timeout_ns,
            options=pairs if options else None,
            option_count=len(options),
        )
        # The callback object must live as long as the context may call it.
        self._log = None if log is None else abi.LogFn(line_writer(*log))
        if self._log is not None:
            settings.log_fn = self._log
        context = c_void_p()
        _check(_lib.hvd_init, byref(settings), byref(context))
        self._pointer = context.value

    def free(self, release=_lib.hvd_context_free):
        """hvd_context_free; a second call does nothing."""
        address, self._pointer = self._pointer, None
        if address is not None:
            release(address)

    __del__ = free

    def shutdown(self, timeout_ns):
        """hvd_shutdown."""
        _check(_lib.hvd_shutdown, self._pointer, timeout_ns)
        sweep()

    def status(self):
        """Raises the reason why the context does not work, if it does not."""
        _check(_lib.hvd_context_status, self._pointer)

    def topology(self):
        """(rank, size, local_rank, local_size, cross_rank, cross_size, homogeneous)"""
        t = abi.Topology(struct_size=ctypes.sizeof(abi.Topology))
        _check(_lib.hvd_topology_get, self._pointer, byref(t))
        return (t.rank, t.size, t.local_rank, t.local_size, t.cross_rank, t.cross_size, bool(t.homogeneous))

    def set_create(self, ranks):
        """hvd_process_set_create"""
        out = c_void_p()
        _check(_lib.hvd_process_set_create, self._pointer, (c_int32 * len(ranks))(*ranks), len(ranks), byref(out))
        return out.value

    def set_find(self, identity):
        """hvd_process_set_find"""
        out = c_void_p()
        _check(_lib.hvd_process_set_find, self._pointer, identity, byref(out))
        return out.value

    def set_ids(self):
        """hvd_process_set_ids"""
        return _sized_list(c_int32, _lib.hvd_process_set_ids, self._pointer)

    def set_ranks(self, process_set):
        """hvd_process_set_ranks; 0 is the set of all ranks"""
        address = process_set or _lib.hvd_process_set_world(self._pointer)
        return _sized_list(c_int32, _lib.hvd_process_set_ranks, address)

    def set_destroy(self, process_set):
        """hvd_process_set_destroy"""
        _check(_lib.hvd_process_set_destroy, process_set)

    def set_free(self, process_set):
        """hvd_process_set_free"""
        _lib.hvd_process_set_free(process_set)

    def set_id(self, process_set):
        """hvd_process_set_id"""
        return _lib.hvd_process_set_id(process_set)

    def option_get(self, name):
        """hvd_option_get"""
        size = c_size_t(256)
        while True:
            room = size.value
            value = ctypes.create_string_buffer(room)
            error = abi.Error()
            status = _lib.hvd_option_get(self._pointer, name.encode(), value, byref(size), byref(error))
            if status == constants.OK:
                return value.value.decode()
            if status != -1 or size.value <= room:
                _fail(status, error)

    def option_set(self, name, value):
        """hvd_option_set"""
        _check(_lib.hvd_option_set, self._pointer, name.encode(), value.encode())

    def metrics(self):
        """hvd_metrics_snapshot as a list of (name, unit, value)"""
        metrics = _sized_list(abi.Metric, _lib.hvd_metrics_snapshot, self._pointer)
        return [(m.name.decode(), m.unit.decode(), m.value) for m in metrics]

    def completions_fd(self):
        """hvd_completions_fd"""
        fd = c_int32(-1)
        _check(_lib.hvd_completions_fd, self._pointer, byref(fd))
        self._queueing = True
        return fd.value

    def completions_pop(self):
        """The key of the next completed operation, or 0. Its extra reference is given back here."""
        if self._pointer is None:
            return 0
        handle = _lib.hvd_completions_pop(self._pointer)
        if not handle:
            return 0
        _lib.hvd_handle_free(handle)
        return handle

    def submit(
        self, kind, grouped, inputs, outputs, name, set_, reduce_op, root, prescale, postscale, splits, keep
    ):  # noqa: D102 - described in the package
        if _orphans:
            sweep()
        queued = self._queueing
        options = abi.OpOptions(
            _op_options_size, 0, None if name is None else name.encode(), set_ or None, 0, reduce_op, root, prescale, postscale
        )
        keep = [keep]
        error = abi.Error()
        handle = c_void_p()
        tail = (byref(options), byref(handle), byref(error))
        if kind in _WITHOUT_TENSOR:
            status = _WITHOUT_TENSOR[kind](self._pointer, *tail)
        else:
            given = _tensors(inputs, keep)
            wanted = None if outputs is None else _tensors(outputs, keep)
            if grouped:
                status = _GROUPED[kind](self._pointer, given, wanted, len(inputs), *tail)
            elif kind == constants.ALLTOALL:
                rows = None if splits is None else (c_int64 * max(len(splits), 1))(*splits)
                keep.append(rows)
                status = _lib.hvd_alltoallv_async(self._pointer, given, rows, wanted, *tail)
            else:
                status = _SINGLE[kind](self._pointer, given, wanted, *tail)
        if status != constants.OK:
            _fail(status, error, name or constants.KIND_NAMES[kind])
        return Operation(self, handle.value, name or constants.KIND_NAMES[kind], keep, queued)


def _tensors(described, keep):
    array = (abi.Tensor * max(len(described), 1))()
    for tensor, (address, dtype, shape) in zip(array, described):
        sizes = (c_int64 * max(len(shape), 1))(*shape)
        keep.append(sizes)
        tensor.data, tensor.shape, tensor.ndim = address, sizes, len(shape)
        tensor.dtype, tensor.device_type = dtype, 1
    return array


class Operation:
    """One hvd_handle."""

    __slots__ = ("_context", "_keep", "_label", "key", "queued")

    def __init__(self, context, handle, label, keep, queued):
        self._context = context
        self._label = label
        self._keep = keep
        self.key = handle
        self.queued = queued

    # The functions are arguments because at interpreter exit the module's names may already be gone.
    def __del__(self, test=_lib.hvd_test, free=_lib.hvd_handle_free, adopt=_orphans.append):
        if self._keep is None or test(self.key, None) != 1:
            free(self.key)
        else:
            adopt((self.key, (self._context, self._keep)))

    def wait(self, timeout=None):
        """False if the operation still runs after ``timeout`` seconds; raises its error if it failed."""
        deadline = None if timeout is None else time.monotonic_ns() + int(timeout * 1e9)
        slice_ns = constants.FIRST_SLICE_NS
        error = abi.Error()
        while True:
            left = slice_ns if deadline is None else max(0, min(slice_ns, deadline - time.monotonic_ns()))
            # Between two slices Python runs its signal handlers, so Ctrl-C raises here.
            status = _lib.hvd_wait(self.key, left, byref(error))
            if status == constants.OK:
                self._keep = None
                return True
            if status != constants.PENDING:
                self._keep = None
                _fail(status, error, self._label)
            if deadline is not None and time.monotonic_ns() >= deadline:
                return False
            slice_ns = constants.SLICE_NS

    def poll(self):
        """Whether the operation has ended, with success or not."""
        return _lib.hvd_test(self.key, None) != constants.PENDING

    def output_count(self):
        """Number of results."""
        return _lib.hvd_handle_output_count(self.key)

    def output(self, index):
        """(address, dtype number, shape) of a result."""
        tensor = abi.Tensor()
        with _results:
            _check(_lib.hvd_handle_output, self.key, index, byref(tensor))
        return (tensor.data or 0, tensor.dtype, tuple(tensor.shape[: tensor.ndim]) if tensor.ndim else ())

    def received_splits(self):
        """Rows received from each rank of the set."""
        with _results:
            return _sized_list(c_int64, _lib.hvd_handle_received_splits, self.key)

    def last_joined_rank(self):
        """The rank that joined last."""
        rank = c_int32(-1)
        with _results:
            _check(_lib.hvd_handle_last_joined_rank, self.key, byref(rank))
        return rank.value
