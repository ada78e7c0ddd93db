# SPDX-License-Identifier: Apache-2.0
"""How an operation in Python waits for its end in a session: in a loop that holds a thread of TensorFlow for moments only.

Each turn of the loop takes a mutex of TensorFlow, asks whether the operation has ended and gives the mutex back. TensorFlow's
kernel for taking one is asynchronous, and a thread of the mutex's own goes on with the graph. So whoever has asked stands behind
all else that is ready, as an operation that has to be started, even where TensorFlow has one thread; without it a thread would
take up its own loop again and again. Of all operations in the session, which have one mutex, one at a time asks.
"""

import threading
import time

import tensorflow as tf

# How long one that asks waits for news. What is ready meanwhile stands behind it if there is one thread.
_MOMENT = 0.002
# For so long after the end of an operation nobody waits, since another one in the line may be the one that has ended.
_AFTER_AN_END = 0.02

_news = threading.Condition()
_last_end = 0.0


def tell(_future):
    """Says that an operation has ended."""
    global _last_end
    with _news:
        _last_end = time.monotonic()
        _news.notify_all()


def goes_on(future):
    """Whether it has not ended after a moment."""
    with _news:
        if not future.done() and time.monotonic() - _last_end > _AFTER_AN_END:
            _news.wait(_MOMENT)
    return not future.done()


def ended(number, asked):
    """The tensor ``number``, when ``asked`` returns False for it."""

    def ask(number, _still):
        # Not before the operation has been started, which may need the result of one behind it in the line.
        with tf.control_dependencies([number]):
            lock = tf.raw_ops.MutexLock(mutex=tf.raw_ops.MutexV2(shared_name="horovod"))
        with tf.control_dependencies([lock]):
            still = tf.numpy_function(asked, [number], tf.bool)
        with tf.control_dependencies([still]):
            given_back = tf.raw_ops.ConsumeMutexLock(mutex_lock=lock)
        with tf.control_dependencies([given_back]):
            return number, tf.ensure_shape(still, [])

    number.set_shape([])
    return tf.while_loop(lambda _number, still: still, ask, [number, tf.constant(True)], parallel_iterations=1)[0]
