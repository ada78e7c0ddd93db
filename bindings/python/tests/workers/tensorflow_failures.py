# SPDX-License-Identifier: Apache-2.0
"""Errors as TensorFlow's exceptions: ranks that disagree and a node that fails, after which they go on, and a rank that is killed."""

import contextlib
import os
import signal
import time

import numpy as np
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


def fail():
    raise ValueError("this node fails")


def waits_and_fails(x, fails):
    """The sum of two operations; with ``fails`` a node fails when the second has ended."""
    waiting = hvd.allreduce(x, op=hvd.Sum, name="waiting", ignore_name_scope=True)
    reached = hvd.allreduce(x, op=hvd.Sum, name="reached", ignore_name_scope=True)
    with tf.control_dependencies([reached]):
        failed = [tf.py_function(fail, [], [])] if fails else []
    with tf.control_dependencies(failed):
        return waiting + reached


def check_failed_node(step):
    """Another node of rank 0's graph fails while an operation of it waits for the other ranks; the next calls work."""
    for again in range(3):
        x = np.full(4, again + rank, np.float32)
        hvd.barrier()
        if rank == 0:
            raises(tf.errors.InvalidArgumentError, "this node fails", step, x, True)
        else:
            time.sleep(0.5)  # rank 0 has started both by then
            hvd.allreduce(x, op=hvd.Sum, name="reached")
            time.sleep(0.5)
            # On rank 0 this one is still under way when the graph runs again.
            hvd.allreduce(x, op=hvd.Sum, name="waiting")
        total = sum(again + other for other in range(size))
        assert np.asarray(step(x, False)).tolist() == [2.0 * total] * 4


def check_failed_node_of_function():
    step = tf.function(waits_and_fails)
    step.get_concrete_function(tf.zeros(4), True)  # so that the calls take no time for that
    check_failed_node(lambda x, fails: step(tf.constant(x), fails))


def check_failed_node_of_session():
    with tf.Graph().as_default() as graph:
        x = tf.compat.v1.placeholder(tf.float32, [4])
        with tf.name_scope("right"):
            right = waits_and_fails(x, False)
        with tf.name_scope("wrong"):
            wrong = waits_and_fails(x, True)
    session = tf.compat.v1.Session(graph=graph)
    check_failed_node(lambda value, fails: session.run(wrong if fails else right, {x: value}))
    session.close()


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
check_failed_node_of_function()
check_failed_node_of_session()
check_killed()
hvd.shutdown()
print("tensorflow_failures: ok", flush=True)
