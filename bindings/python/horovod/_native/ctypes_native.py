# SPDX-License-Identifier: Apache-2.0
"""The native layer in pure Python. Every call releases the GIL, because the library may be waiting for its log function."""

import ctypes
from ctypes import byref, c_int32, c_int64, c_size_t, c_void_p

from horovod._native import abi, constants
from horovod._native.ctypes_operation import Burst, Operation, Prepared, sweep
from horovod._native.ctypes_operation import blank_error, check, fail, lib, orphans, sized_list
from horovod._native.logging import line_writer

NAME = "ctypes"

_op_options_size = ctypes.sizeof(abi.OpOptions)
# Arguments as the library reads them, by what they say: a training step submits the same ones again and again, and making them
# takes most of a call. The library copies what it needs before a call returns, so they are shared between calls and threads.
_prepared = {}
_MOST_PREPARED = 4096
_ON_CUDA = 5  # fields of a tensor there
_blank_errors = []  # by reference; not written to, so they are used again: making one takes half a microsecond
# Without prototypes ctypes passes on what it gets, which has the right types already.
_SINGLE = {kind: lib[function] for kind, function in constants.SINGLE.items()}
_GROUPED = {kind: lib[function] for kind, function in constants.GROUPED.items()}
_PLAIN = {kind: lib[function] for kind, function in constants.PLAIN.items()}


def version_string():
    """The library's version."""
    return lib.hvd_version_string().decode()


def has_feature(name):
    """Whether this build of the library has the feature."""
    return bool(lib.hvd_has_feature(name.encode()))


def option_table():
    """All options as ``(name, default, help)``."""
    table = []
    while True:
        name = lib.hvd_option_name(len(table))
        if name is None:
            return table
        index = len(table)
        table.append((name.decode(), lib.hvd_option_default(index).decode(), lib.hvd_option_help(index).decode()))


def metric_help(name):
    """What the metric or histogram tells, in a line; None for an unknown name."""
    text = lib.hvd_metric_help(name.encode())
    return None if text is None else text.decode()


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


def read_arrays_of(_type, _how):
    """Nothing: this native layer has no short way from an array to the library, see submit_array."""


def _python_value(value):
    """A field of a struct as text, number or tuple."""
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return value if isinstance(value, int) else tuple(value)


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
        check(lib.hvd_init, byref(settings), byref(context))
        self._pointer = context

    @property
    def address(self):
        """Where the hvd_context is; None after free()."""
        return self._pointer and self._pointer.value

    def free(self, release=lib.hvd_context_free):
        """hvd_context_free; a second call does nothing."""
        address, self._pointer = self._pointer, None
        if address is not None:
            release(address)

    __del__ = free

    def shutdown(self, timeout_ns):
        """hvd_shutdown."""
        check(lib.hvd_shutdown, self._pointer, timeout_ns)
        sweep()

    def status(self):
        """Raises the reason why the context does not work, if it does not."""
        check(lib.hvd_context_status, self._pointer)

    def topology(self):
        """(rank, size, local_rank, local_size, cross_rank, cross_size, homogeneous)"""
        t = abi.Topology(struct_size=ctypes.sizeof(abi.Topology))
        check(lib.hvd_topology_get, self._pointer, byref(t))
        return (t.rank, t.size, t.local_rank, t.local_size, t.cross_rank, t.cross_size, bool(t.homogeneous))

    def membership(self):
        """(changes, epoch, synchronize)"""
        m = abi.Membership(struct_size=ctypes.sizeof(abi.Membership))
        check(lib.hvd_membership_get, self._pointer, byref(m))
        return m.changes, m.epoch, bool(m.synchronize)

    def leave(self):
        """hvd_membership_leave"""
        check(lib.hvd_membership_leave, self._pointer)

    def set_create(self, ranks):
        """hvd_process_set_create"""
        out = c_void_p()
        check(lib.hvd_process_set_create, self._pointer, (c_int32 * len(ranks))(*ranks), len(ranks), byref(out))
        return out.value

    def set_find(self, identity):
        """hvd_process_set_find"""
        out = c_void_p()
        check(lib.hvd_process_set_find, self._pointer, identity, byref(out))
        return out.value

    def set_ids(self):
        """hvd_process_set_ids"""
        return sized_list(c_int32, lib.hvd_process_set_ids, self._pointer)

    def set_ranks(self, process_set):
        """hvd_process_set_ranks; 0 is the set of all ranks"""
        address = process_set or lib.hvd_process_set_world(self._pointer)
        return sized_list(c_int32, lib.hvd_process_set_ranks, address)

    def set_destroy(self, process_set):
        """hvd_process_set_destroy"""
        check(lib.hvd_process_set_destroy, process_set)

    def set_free(self, process_set):
        """hvd_process_set_free"""
        lib.hvd_process_set_free(process_set)

    def set_id(self, process_set):
        """hvd_process_set_id"""
        return lib.hvd_process_set_id(process_set)

    def option_get(self, name):
        """hvd_option_get"""
        size = c_size_t(256)
        while True:
            room = size.value
            value = ctypes.create_string_buffer(room)
            error = abi.Error()
            status = lib.hvd_option_get(self._pointer, name.encode(), value, byref(size), byref(error))
            if status == constants.OK:
                return value.value.decode()
            if status != -1 or size.value <= room:
                fail(status, error)

    def option_set(self, name, value):
        """hvd_option_set"""
        check(lib.hvd_option_set, self._pointer, name.encode(), value.encode())

    def metrics(self):
        """hvd_metrics_snapshot as a list of (name, unit, value)"""
        metrics = sized_list(abi.Metric, lib.hvd_metrics_snapshot, self._pointer)
        return [(m.name.decode(), m.unit.decode(), m.value) for m in metrics]

    def histograms(self):
        """hvd_histograms_snapshot as a list of (name, unit, number of values, sum, buckets)"""
        histograms = sized_list(abi.Histogram, lib.hvd_histograms_snapshot, self._pointer)
        return [(h.name.decode(), h.unit.decode(), h.value_count, h.sum, list(h.buckets)) for h in histograms]

    def records(self, after):
        """hvd_records_snapshot as a list of tuples in the order of the struct's fields"""
        records = sized_list(abi.Record, lib.hvd_records_snapshot, self._pointer, after)
        fields = [name for name, _type in abi.Record._fields_]
        return [tuple(_python_value(getattr(record, field)) for field in fields) for record in records]

    def record_arrivals(self, process_set, use):
        """hvd_record_arrivals"""
        which = process_set or lib.hvd_process_set_world(self._pointer)
        return list(sized_list(c_int64, lib.hvd_record_arrivals, which, use))

    def timeline_start(self, path, mark_cycles):
        """hvd_timeline_start"""
        check(lib.hvd_timeline_start, self._pointer, path, mark_cycles)

    def timeline_stop(self):
        """hvd_timeline_stop"""
        check(lib.hvd_timeline_stop, self._pointer)

    def completions_fd(self):
        """hvd_completions_fd"""
        fd = c_int32(-1)
        check(lib.hvd_completions_fd, self._pointer, byref(fd))
        self._queueing = True
        return fd.value

    def completions_pop(self):
        """The key of the next completed operation, or 0. Its extra reference is given back here."""
        if self._pointer is None:
            return 0
        handle = lib.hvd_completions_pop(self._pointer)
        if not handle:
            return 0
        lib.hvd_handle_free(handle)
        return handle

    def submit(
        self, kind, grouped, inputs, outputs, name, set_, reduce_op, root, prescale, postscale, splits, keep
    ):  # noqa: D102 - described in the package
        if orphans:
            sweep()
        operation = Operation()
        operation._context, operation._keep, operation._label, operation.queued = self, (keep,), name, self._queueing
        try:
            error = _blank_errors.pop()
        except IndexError:
            error = byref(abi.Error.from_buffer_copy(blank_error))
        stream = inputs[0][4] if inputs and len(inputs[0]) == _ON_CUDA else None
        tail = (_options(name, set_, reduce_op, root, prescale, postscale, stream), byref(operation), error)
        if kind in _PLAIN:
            status = _PLAIN[kind](self._pointer, *tail)
        else:
            given = _tensors(inputs)
            wanted = given if outputs is inputs else None if outputs is None else _tensors(outputs)
            if grouped:
                status = _GROUPED[kind](self._pointer, given, wanted, len(inputs), *tail)
            elif kind == constants.ALLTOALL:
                rows = None if splits is None else (c_int64 * max(len(splits), 1))(*splits)
                status = lib.hvd_alltoallv_async(self._pointer, given, rows, wanted, *tail)
            else:
                status = _SINGLE[kind](self._pointer, given, wanted, *tail)
        if name is None:
            operation._label = constants.KIND_NAMES[kind]
        if status != constants.OK:
            fail(status, error._obj, operation._label)
        _blank_errors.append(error)
        return operation

    def submit_array(self, *_arguments):
        """None: every array has to be described, and goes through submit."""
        return None

    def prepare(self, name, tensors, set_, reduce_op, prescale, postscale):  # noqa: D102 - described in the package
        return Prepared(self._pointer, name, tensors, _options(name, set_, reduce_op, 0, prescale, postscale, None))

    def start(self, prepared, addresses, keep):  # noqa: D102 - described in the package
        if orphans:
            sweep()
        return Burst(self, prepared, addresses, keep)


def _remember(key, made):
    if len(_prepared) >= _MOST_PREPARED:
        _prepared.clear()
    _prepared[key] = made
    return made


def _encoded(name):
    if "\0" in name:
        raise ValueError(f"the name {name!r} has a null character")
    return name.encode()


def _options(name, set_, reduce_op, root, prescale, postscale, stream):
    key = (name, set_, reduce_op, root, prescale, postscale, stream)
    found = _prepared.get(key)
    if found is not None:
        return found
    made = byref(abi.OpOptions(
        _op_options_size, 0, None if name is None else _encoded(name), set_ or None, 0, reduce_op, root, prescale, postscale,
        stream
    ))
    # 0.0 and -0.0 would be one key.
    return _remember(key, made) if prescale and postscale else made


def _tensors(described):
    found = _prepared.get(described)
    if found is not None:
        return found
    array = (abi.Tensor * max(len(described), 1))()
    for tensor, (address, dtype, shape, *place) in zip(array, described):
        # The field keeps the sizes alive.
        tensor.data, tensor.shape, tensor.ndim = address, (c_int64 * max(len(shape), 1))(*shape), len(shape)
        tensor.dtype, tensor.device_type = dtype, constants.CUDA if place else constants.CPU
        if place:
            tensor.device_id = place[0]
    return _remember(described, array)
