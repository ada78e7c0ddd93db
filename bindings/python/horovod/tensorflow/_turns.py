# SPDX-License-Identifier: Apache-2.0
"""An order for operations in Python, of which each holds a thread of TensorFlow while it waits for other ranks.

Nothing orders the nodes of TensorFlow 1's graphs. If all threads of two ranks wait in different operations, they do so for ever.
So what one call of Horovod makes runs in turn, in the same order on all ranks.
"""

import contextlib
import threading

import tensorflow as tf


class _Turns(threading.local):
    open = False
    last = None  # the operation that was added last


_turns = _Turns()


@contextlib.contextmanager
def in_turn():
    """Operations in Python that are added to a graph meanwhile run one after another. Also a decorator: ``@in_turn()``."""
    if _turns.open:
        yield
        return
    _turns.open, _turns.last = True, None
    try:
        yield
    finally:
        _turns.open, _turns.last = False, None


def add(function):
    """What ``function`` returns, a list of tensors of one new operation that runs when it is its turn."""
    last = _turns.last
    if last is not None and last.graph is not tf.compat.v1.get_default_graph():
        last = None
    with tf.control_dependencies([] if last is None else [last]):
        results = function()
    if _turns.open:
        _turns.last = results[0].op
    return results
