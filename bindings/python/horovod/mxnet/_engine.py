# SPDX-License-Identifier: Apache-2.0
"""Operations as work of MXNet's engine: they start when their arrays are ready, and what reads a result waits for it.

All of it goes through MXNet's C API, by ctypes; nothing is compiled. MXNet calls ``_begin`` on a thread of its own, which
hands the operation to our engine and returns; when that is done, ``_end`` calls MXNet back. No thread waits meanwhile.
How MXNet is told of an error is not in its C API: see ``_OnComplete`` and ``_exception``, which are as MXNet 1.9's headers.
"""

import collections
import contextlib
import ctypes
import itertools
import os
import threading

import mxnet as mx
import numpy as np
from mxnet.base import _LIB, check_call

from horovod._arrays import dtype_code
from horovod._native import abi, constants, library
from horovod._submit import submit
from horovod.common import basics

_Begin = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
_Completed = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
_CPU = 1

_numbers = itertools.count(1)
_works = {}
_guard = threading.Lock()
# Operations by kind, name and set, in the order of the program. MXNet may have them ready in another one, and our engine takes
# a name once at a time: the first of a line is the one that other ranks mean.
_lines = {}
_changed = threading.Condition()
_lib = abi.declare(library.load())


class _OnComplete(ctypes.Structure):
    """MXNet's ``engine::CallbackOnComplete``: a function and its first two arguments; the third is an error or NULL."""

    _fields_ = [("function", ctypes.c_void_p), ("engine", ctypes.c_void_p), ("parameter", ctypes.c_void_p)]


class _Context(ctypes.Structure):
    _fields_ = [("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32)]


class Operation:
    """An operation on pairs of arrays: what is sent, and where the result goes, which may be the same array."""

    def __init__(self, kind, pairs, name, process_set, priority, **options):
        self.kind, self.pairs, self.name, self.process_set, self.options = kind, pairs, name, process_set, options
        self.completion = self.running = self.error = None
        self.ready = False
        self.key = kind, options.get("grouped"), name, process_set.process_set_id
        with _changed:
            _lines.setdefault(self.key, collections.deque()).append(self)
        try:
            self._push(priority)
        except BaseException:
            with _changed:
                _lines[self.key].remove(self)
            raise
        # That engine has ended the operation by now, and forgets errors.
        if self.error is not None and os.environ.get("MXNET_ENGINE_TYPE") == "NaiveEngine":
            raise mx.base.MXNetError(f"{type(self.error).__name__}: {self.error}")

    def _push(self, priority):
        # The sources are kept until the end; MXNet keeps what is behind their handles only until it has begun.
        read = [source for source, target in self.pairs if source is not target]
        written = [target for _source, target in self.pairs]
        context = _Context(_CPU, 0)
        check_call(
            _LIB.MXEnginePushAsyncND(
                _begin,
                ctypes.c_void_p(_enter(self)),
                None,
                ctypes.byref(context),
                _handles(read),
                ctypes.c_int(len(read)),
                _handles(written),
                ctypes.c_int(len(written)),
                None,
                ctypes.c_int(priority),
                ctypes.c_char_p(self.name.encode()),
                ctypes.c_bool(False),
            )
        )

    def may_start(self):
        """The arrays may be used now; starts when it is the first of its line."""
        with _changed:
            self.ready = True
            first = _lines[self.key][0] is self
        if first:
            self.start()

    def start(self):
        """Hands the operation to our engine."""
        try:
            self._submit()
        except Exception as error:  # noqa: BLE001 - raised where an array is read
            self.complete(error)

    def _submit(self):
        described = []
        for source, target in self.pairs:
            code = code_of(source)
            described.append(((_address(source), code, source.shape), (_address(target), code, target.shape)))
        given, wanted = zip(*described)
        self.running = submit(self.kind, given, wanted, self, self.name, self.process_set, **self.options)
        error = abi.Error()
        if _lib.hvd_handle_then(self.running.key, _end, _enter(self), ctypes.byref(error)) != constants.OK:
            raise RuntimeError(error.message.decode("utf-8", "replace"))

    def complete(self, error):
        """Tells MXNet, with the error that it is to raise where a result is read."""
        self.error = error
        with _exception(error) as cause:
            _Completed(self.completion.function)(self.completion.engine, self.completion.parameter, cause)
        self.pairs = self.running = None
        with _changed:
            line = _lines[self.key]
            line.popleft()
            following = line[0] if line and line[0].ready else None
            if not line:
                del _lines[self.key]
            _changed.notify_all()
        if following is not None:
            following.start()


@basics.before_shutdown
def _finish(seconds):
    """Other ranks may need what the program has asked for without reading the result, as the exchange of the last step."""
    with _changed:
        _changed.wait_for(lambda: not any(_lines.values()), seconds)


def _enter(operation):
    number = next(_numbers)
    with _guard:
        _works[number] = operation
    return number


def _leave(number):
    with _guard:
        return _works.pop(number)


def _handles(arrays):
    return (ctypes.c_void_p * max(len(arrays), 1))(*(array.handle for array in arrays))


def _address(array):
    pointer = ctypes.c_void_p()
    check_call(_LIB.MXNDArrayGetData(array.handle, ctypes.byref(pointer)))
    return pointer.value or 0


@_Begin
def _begin(_run_context, on_complete, number):
    operation = _leave(number)
    # MXNet's object is gone when this returns.
    operation.completion = _OnComplete.from_buffer_copy(ctypes.string_at(on_complete, ctypes.sizeof(_OnComplete)))
    operation.may_start()


@abi.CompletionFn
def _end(number, _handle, _status):
    operation = _leave(number)
    try:
        operation.running.wait()
    except Exception as error:  # noqa: BLE001 - raised where an array is read
        operation.complete(error)
    else:
        operation.complete(None)


_runtime = ctypes.CDLL("libstdc++.so.6")


@contextlib.contextmanager
def _exception(error):
    """The address of a ``std::runtime_error``, which is all that MXNet's ``dmlc::Error`` consists of; None for no error."""
    if error is None:
        yield None
        return
    place = ctypes.create_string_buffer(64)
    text = f"{type(error).__name__}: {error}"
    _runtime["_ZNSt13runtime_errorC1EPKc"](place, ctypes.c_char_p(text.encode()))
    try:
        yield ctypes.addressof(place)  # MXNet makes a copy
    finally:
        _runtime["_ZNSt13runtime_errorD1Ev"](place)


def on_host(array, kind):
    """Checks an array that MXNet's engine is to hand over."""
    if not isinstance(array, mx.nd.NDArray):
        raise TypeError(f"{kind}: {type(array).__name__} is not an mxnet.nd.NDArray")
    if array.stype != "default":
        raise NotImplementedError(f"{kind}: storage type {array.stype} is not supported, only dense arrays are")
    if array.context.device_type not in ("cpu", "cpu_pinned", "cpu_shared"):
        raise NotImplementedError(f"{kind}: the array is on {array.context}, only CPU arrays are supported")
    code_of(array)
    return array


def code_of(array):
    """The library's number for the elements of an NDArray. MXNet's bfloat16 is a structure of one field, which has its name."""
    dtype = np.dtype(array.dtype)
    return constants.DTYPES["bfloat16"] if dtype.names == ("bfloat16",) else dtype_code(dtype)
