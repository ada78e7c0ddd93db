# SPDX-License-Identifier: Apache-2.0
"""Errors as TensorFlow's exceptions: ranks that disagree, after which they go on, and a rank that is killed."""

import contextlib
import os
import signal

import tensorflow as tf
from errors import raises

import horovod.tensorflow as hvd
from horovod.tensorflow import _library

hvd.init()
rank, size = hvd.rank(), hvd.size()


def check_mismatch():
    wrong = tf.ones([2 + (rank == 1)])
    error = raises(tf.errors.FailedPreconditionError, "shape differs", hvd.allreduce, wrong, name="wrong")
    assert "rank 0 [2]" in str(error) and "rank 1 [3]" in str(error), error
    in_graph = tf.function(lambda x: hvd.allreduce(x, name="wrong_in_graph"), input_signature=[tf.TensorSpec(None)])
    kind = tf.errors.FailedPreconditionError
    if not _library.native:
        kind = tf.errors.InvalidArgumentError
        print("tensorflow_failures: InvalidArgumentError in the graph: py_function has no way to FailedPreconditionError")
    raises(kind, "shape differs", in_graph, wrong)
    raises(tf.errors.InvalidArgumentError, "root", hvd.broadcast, tf.ones(1), size)
    assert float(in_graph(tf.ones([]))) == 1.0  # the ranks go on


def check_killed():
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # so that a slow machine has time to speak, see the guardian
    step = tf.function(lambda x: hvd.grouped_allreduce([x, x * 2], name="left"))
    step(tf.ones(2))
    with contextlib.suppress(tf.errors.UnknownError):  # where it has not ended yet when the other dies
        hvd.barrier()
    if rank == size - 1:
        os.kill(os.getpid(), signal.SIGKILL)
    error = raises(tf.errors.UnknownError, f"rank {size - 1}", lambda: [step(tf.ones(2)) for _ in range(1000)])
    assert "killed by signal 9" in str(error), error


check_mismatch()
check_killed()
hvd.shutdown()
print("tensorflow_failures: ok", flush=True)
