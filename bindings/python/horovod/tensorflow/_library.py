# SPDX-License-Identifier: Apache-2.0
"""The operations as TensorFlow knows them: from the library beside this file, or in Python where it does not load."""

import ctypes
import logging
import os
from pathlib import Path

import tensorflow as tf

from horovod._native import constants
from horovod._native import library as engine
from horovod.common import basics

FILE = "libhvd_tensorflow.so"
_log = logging.getLogger("horovod")


def _path():
    return os.environ.get("HVD_TENSORFLOW_LIBRARY") or str(Path(__file__).resolve().parent / FILE)


def _load():
    """(module with one function per operation, True), or (the same in Python, False)."""
    if os.environ.get("HVD_TENSORFLOW_OPS", "native") == "python":
        from horovod.tensorflow import _python_ops

        return _python_ops, False
    try:
        engine.load()  # the copy of libhvd that Python uses serves the operations, too
        path = _path()
        operations = tf.load_op_library(path)
        native = ctypes.CDLL(path)
        native.hvd_tensorflow_problem.restype = ctypes.c_char_p
        problem = native.hvd_tensorflow_problem().decode()
        if problem:
            raise OSError(problem)
    except (OSError, tf.errors.OpError) as error:
        from horovod.tensorflow import _python_ops

        _log.warning(
            "horovod.tensorflow: operations in graphs run in Python, which is slower, because the library does not load: %s "
            "(HVD_TENSORFLOW_OPS=python says that this is wanted)",
            error,
        )
        return _python_ops, False
    native.hvd_tensorflow_publish.argtypes = [ctypes.c_void_p]
    native.hvd_tensorflow_publish.restype = None

    def publish(session):
        native.hvd_tensorflow_publish(session.context.address)

    basics.at_init(publish)
    basics.at_shutdown(lambda _session: native.hvd_tensorflow_publish(None))
    if basics.is_initialized():
        publish(basics.session())
    return operations, True


def _leave_unordered():
    """Keeps tf.function from running the operations one after another, as it does with all that have side effects.

    They would wait for one another in the order of this rank's program, and for ever if another rank has another order.
    """
    from tensorflow.python.framework import auto_control_deps

    kinds = [f"HorovodGrouped{constants.KIND_NAMES[kind].title()}" for kind in constants.GROUPED]
    kinds += [f"Horovod{name.title()}" for kind, name in enumerate(constants.KIND_NAMES) if kind not in constants.PLAIN]
    kinds += [f"Horovod{fact}" for fact in ("Size", "ProcessSetIncluded", "LocalSize", "Rank", "LocalRank")]
    before = getattr(auto_control_deps, "MUST_RUN_ORDER_INSENSITIVE_STATEFUL_OPS", None)
    if before is None:
        _log.info("horovod.tensorflow: operations inside one tf.function run in the order of the program")
    else:
        auto_control_deps.MUST_RUN_ORDER_INSENSITIVE_STATEFUL_OPS = before | frozenset(kinds)


operations, native = _load()
if native:
    _leave_unordered()
