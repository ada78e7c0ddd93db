# SPDX-License-Identifier: Apache-2.0
"""The lowest layer of the package: ``libhvd`` behind one small interface with two implementations.

``HVD_PYTHON_NATIVE=ctypes`` chooses :mod:`horovod._native.ctypes_native` (pure Python, works wherever the library loads),
``HVD_PYTHON_NATIVE=pybind11`` the extension ``horovod._hvd`` (the same with the hot path in C++). Without the variable
the extension is used if it can be imported. Nothing above this package knows which one is at work.

A native layer is a module (or extension) with:

``NAME``
    ``"ctypes"`` or ``"pybind11"``.
``version_string()``, ``has_feature(name)``, ``option_table()``, ``metric_help(name)``
    What the library says about itself. ``option_table()`` is a list of ``(name, default, help)``.
``sweep()``
    Lets go of what dropped operations kept, if they have ended; returns how many have not. Submitting does it too.
``make_describe(dtypes)``
    A function that takes any object and returns ``(address, dtype number, shape)`` if it is a NumPy array which the
    library can use as it is, else None. ``dtypes`` maps NumPy dtypes to the library's numbers.
``Context(rank, size, rendezvous, timeout_ns, options, log)``
    ``hvd_init``. ``options`` is a list of pairs of strings; ``log`` is None or ``(level, show_time)``: lines up to that
    level go to standard error. Its methods are the header's functions of that name; process sets are plain addresses,
    0 for "all ranks". ``address`` is the hvd_context's own.
``Context.submit(kind, grouped, inputs, outputs, name, set, reduce_op, root, prescale, postscale, splits, keep)``
    Starts an operation. ``inputs`` and ``outputs`` are tuples of ``(address, dtype number, shape tuple)``, on a CUDA
    device ``(address, dtype number, shape tuple, device id, stream's address)``; ``outputs`` may be None. ``keep`` is any object: it stays referenced until the operation has ended, also when the
    returned Operation is dropped earlier. All arguments are positional.
``read_arrays_of(type, how)``, ``Context.submit_array(kind, array, out, name, set, reduce_op, root, prescale, postscale)``
    The short way for one array and its result, which may be the array itself: both are read without a description and kept.
    Returns None, having done nothing, if the native layer does not read them, or the library cannot use them as they are. It reads
    objects of exactly the types it was told of; ``how`` is a dict as that of ``make_describe`` for NumPy's arrays, else the
    capsule of DLPack's C exchange interface.
``Context.prepare(name, tensors, set, reduce_op, prescale, postscale)``
    An allreduce in place that will be started many times, as an opaque object. ``tensors``: a list of ``(dtype number,
    shape tuple)``; several are one operation. One thread at a time may start it.
``Context.start(prepared, addresses, keep)``
    Starts a list of prepared allreduces, on the tensors at these addresses, one after the other. Returns a Burst, whose
    ``wait()`` returns when all have ended, or raises the error of the first that failed. ``keep`` as above.
``Operation``
    ``wait(timeout_s or None) -> bool`` (False: still running; raises the operation's error; can be interrupted by
    Ctrl-C), ``poll() -> bool`` (ended, with success or not), ``output_count()``, ``output(index)`` as a tuple like
    above, but without the stream, ``received_splits()``, ``last_joined_rank()``, ``key`` (the handle's address),
    ``queued`` (it was submitted after ``completions_fd()``, so ``completions_pop()`` will give out its key).

Errors are raised with :func:`horovod.common.exceptions.from_status`.
"""

import importlib
import os

_native = None


def native():
    """The native layer module of this process; loads the library on first use."""
    global _native
    if _native is None:
        _native = _load(os.environ.get("HVD_PYTHON_NATIVE", ""))
    return _native


def _load(choice):
    if choice not in ("", "ctypes", "pybind11"):
        raise ValueError(f"HVD_PYTHON_NATIVE: {choice!r} is not one of ctypes, pybind11")
    # The extension names libhvd.so.1 as a dependency. Loading the library first makes the dynamic linker take this
    # copy, so that both native layers find it by the same rules.
    from horovod._native import library

    library.load()
    if choice == "ctypes":
        return importlib.import_module("horovod._native.ctypes_native")
    try:
        return importlib.import_module("horovod._hvd")
    except ImportError:
        if choice == "pybind11":
            raise
        return importlib.import_module("horovod._native.ctypes_native")
