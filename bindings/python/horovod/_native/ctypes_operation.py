# SPDX-License-Identifier: Apache-2.0
"""Operations in flight on the native layer in pure Python: one alone, and bursts of prepared allreduces."""

import threading
import time
from ctypes import byref, c_int32, c_int64, c_size_t, c_void_p

from horovod._native import abi, constants, library
from horovod.common.exceptions import from_status

lib = abi.declare(library.load())
# Operations whose owner is gone before they ended: their buffers must stay, because other ranks need the operation.
orphans = []
blank_error = bytes(abi.Error())
# The header asks that calls on one handle, other than wait and test, do not overlap.
_results = threading.Lock()
# Without prototypes ctypes passes on what it gets, which has the right types already.
_start_group = lib["hvd_grouped_allreduce_async"]
_wait, _test, _free = lib["hvd_wait"], lib["hvd_test"], lib["hvd_handle_free"]
_free.restype = None
_FIRST_SLICE = c_int64(constants.FIRST_SLICE_NS)


def sweep():
    """Lets go of the buffers of dropped operations that have ended meanwhile; the number of those that have not."""
    if orphans:
        waiting, orphans[:] = orphans[:], []
        for handle, kept in waiting:
            if lib.hvd_test(handle, None) == constants.PENDING:
                orphans.append((handle, kept))
            else:
                lib.hvd_handle_free(handle)
    return len(orphans)


def fail(status, error, operation=None):
    message = error.message.decode("utf-8", "replace")
    raise from_status(status, error.rank, error.sys_errno, message, operation)


def check(function, *arguments):
    error = abi.Error()
    status = function(*arguments, byref(error))
    if status != constants.OK:
        fail(status, error)


def sized_list(element, function, subject, *more):
    """Calls a function with the header's two-call size protocol until the answer fits."""
    count = c_size_t(0)
    check(function, subject, *more, None, byref(count))
    while True:
        room = max(count.value, 1)
        values = (element * room)()
        count.value = room
        error = abi.Error()
        status = function(subject, *more, values, byref(count), byref(error))
        if status == constants.OK:
            return values[: count.value]
        if status != -1 or count.value <= room:
            fail(status, error)


def wait(handle, timeout=None):
    """The status of the operation when it has ended, or PENDING after ``timeout`` seconds."""
    deadline = None if timeout is None else time.monotonic_ns() + int(timeout * 1e9)
    slice_ns = constants.FIRST_SLICE_NS
    while True:
        left = slice_ns if deadline is None else max(0, min(slice_ns, deadline - time.monotonic_ns()))
        # Between two slices Python runs its signal handlers, so Ctrl-C raises here.
        status = lib.hvd_wait(handle, left, None)
        if status != constants.PENDING or (deadline is not None and time.monotonic_ns() >= deadline):
            return status
        slice_ns = constants.SLICE_NS


def fail_of(handle, label):
    """Raises the error of an operation that has ended with one."""
    error = abi.Error()
    fail(lib.hvd_wait(handle, 0, byref(error)), error, label)


class Operation(c_void_p):
    """One hvd_handle: the library writes its address here, and calls get it from here without a conversion."""

    # Set before the handle is, so that an operation that exists has all of them.
    __slots__ = ("_context", "_keep", "_label", "queued")

    # The functions are arguments because at interpreter exit the module's names may already be gone.
    def __del__(self, test=_test, free=_free, adopt=orphans.append):
        if not self:
            return  # nothing was started
        if self._keep is None or test(self, None) != 1:
            free(self)
        else:
            adopt((self.value, (self._context, self._keep)))

    @property
    def key(self):
        """The handle's address."""
        return self.value

    def wait(self, timeout=None):
        """False if the operation still runs after ``timeout`` seconds; raises its error if it failed."""
        status = _wait(self, _FIRST_SLICE, None) if timeout is None else constants.PENDING
        if status == constants.PENDING:
            status = wait(self, timeout)
            if status == constants.PENDING:
                return False
        self._keep = None
        if status != constants.OK:
            fail_of(self, self._label)
        return True

    def poll(self):
        """Whether the operation has ended, with success or not."""
        return _test(self, None) != constants.PENDING

    def output_count(self):
        """Number of results."""
        return lib.hvd_handle_output_count(self)

    def output(self, index):
        """(address, dtype number, shape) of a result."""
        tensor = abi.Tensor()
        with _results:
            check(lib.hvd_handle_output, self, index, byref(tensor))
        result = (tensor.data or 0, tensor.dtype, tuple(tensor.shape[: tensor.ndim]) if tensor.ndim else ())
        return result if tensor.device_type == constants.CPU else (*result, tensor.device_id)

    def received_splits(self):
        """Rows received from each rank of the set."""
        with _results:
            return sized_list(c_int64, lib.hvd_handle_received_splits, self)

    def last_joined_rank(self):
        """The rank that joined last."""
        rank = c_int32(-1)
        with _results:
            check(lib.hvd_handle_last_joined_rank, self, byref(rank))
        return rank.value


class Prepared:
    """An allreduce in place of tensors that is started again and again, wherever they lie then.

    One thread at a time may start it.
    """

    __slots__ = ("tensors", "handle", "label", "arguments")

    def __init__(self, context, name, tensors, options):
        self.tensors = (abi.Tensor * len(tensors))()
        for tensor, (dtype, shape) in zip(self.tensors, tensors):
            # The field keeps the sizes alive.
            tensor.shape, tensor.ndim = (c_int64 * max(len(shape), 1))(*shape), len(shape)
            tensor.dtype, tensor.device_type = dtype, constants.CPU
        self.handle = c_void_p()
        self.label = name
        count = c_size_t(len(tensors))
        self.arguments = (context, self.tensors, self.tensors, count, options, byref(self.handle))


class Burst:
    """Allreduces that were started together."""

    __slots__ = ("_context", "_keep", "_prepared", "_handles", "_ended")

    def __init__(self, context, prepared, addresses, keep):
        self._context, self._keep, self._prepared = context, keep, prepared
        self._handles = handles = []
        self._ended = 0  # as many of the first are known to have ended
        error = abi.Error.from_buffer_copy(blank_error)
        where = byref(error)
        try:
            lib.hvd_burst_begin(context._pointer, None)
            place = iter(addresses)
            for one in prepared:
                for tensor in one.tensors:
                    tensor.data = next(place)
                status = _start_group(*one.arguments, where)
                if status != constants.OK:
                    fail(status, error, one.label)
                handles.append(one.handle.value)
        finally:
            lib.hvd_burst_end(context._pointer, None)

    # The functions are arguments because at interpreter exit the module's names may already be gone.
    def __del__(self, test=lib.hvd_test, free=lib.hvd_handle_free, adopt=orphans.append):
        if not hasattr(self, "_ended"):
            return  # torch.compile makes objects without __init__ while it looks ahead
        for place, handle in enumerate(self._handles):
            if place < self._ended or test(handle, None) != 1:
                free(handle)
            else:
                adopt((handle, (self._context, self._keep)))

    def wait(self):
        """Returns when all have ended; raises the error of the first that failed."""
        handles, first_wait = self._handles, lib.hvd_wait
        while self._ended < len(handles):
            place = self._ended
            status = first_wait(handles[place], constants.FIRST_SLICE_NS, None)
            if status == constants.PENDING:
                status = wait(handles[place])
            if status != constants.OK:
                fail_of(handles[place], self._prepared[place].label)
            self._ended = place + 1
        self._keep = None
