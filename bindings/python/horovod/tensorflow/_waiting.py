# SPDX-License-Identifier: Apache-2.0
"""Operations in Python inside graphs, of which none holds a thread of TensorFlow until other ranks have come.

In a ``tf.function`` each is three nodes. The first one starts the operation and returns a queue. The second one takes a number from
the queue, which is an asynchronous kernel of TensorFlow's own. The third one has the results of the run with this number. A thread of
this process, with an event loop, starts the operations and puts the numbers into the queues when they have ended. In a session, which
does not see such queues, a loop is in the second one's place; see ``_line``.

Queues are used again, because TensorFlow keeps a kernel for each that was ever made. If another node fails, TensorFlow cancels
the second one, and the third one never runs. Nothing tells Python so; see ``_Node._number``.
"""

import asyncio
import collections
import itertools
import threading
import weakref

import tensorflow as tf

from horovod import _completions
from horovod.common import basics
from horovod.tensorflow import _line

# How often a node may be started again while a run of it that has ended is believed to be about to get its results.
_RUNS_KEPT = 64

_guard = threading.Lock()
_thread = None
_free_queues = collections.deque()
_under_way = weakref.WeakValueDictionary()  # (kind, name, process set) -> task


class _Thread:
    """Where operations are started and waited for, from the first one to the next shutdown."""

    def __init__(self):
        self.loop = asyncio.new_event_loop()
        self.ending = self.loop.create_future()
        self.thread = threading.Thread(target=self._work, name="hvd-tensorflow", daemon=True)
        self.thread.start()

    def _work(self):
        self.loop.run_until_complete(self._until_shutdown())
        self.loop.close()

    async def _until_shutdown(self):
        await self.ending
        others = asyncio.all_tasks() - {asyncio.current_task()}
        if others:
            await asyncio.wait(others)  # shutdown has ended their operations


def _in_background(coroutine):
    """Begins the coroutine in the thread; its concurrent.futures.Future."""
    global _thread
    with _guard:
        if _thread is None:
            _thread = _Thread()
        return asyncio.run_coroutine_threadsafe(coroutine, _thread.loop)


@basics.at_shutdown
def _end_thread(_session):
    global _thread
    with _guard:
        last, _thread = _thread, None
    if last is not None:
        last.loop.call_soon_threadsafe(last.ending.set_result, None)
        last.thread.join(5.0)


class _Node:
    """One operation of a graph, and its runs."""

    def __init__(self, begin, called):
        self.begin = begin  # from arrays to a Handle
        self.called = called  # what the engine tells it from others by
        self.runs = {}  # number -> (future, queue or None), until the results are fetched
        self.numbers = itertools.count()

    def start(self, *tensors):
        """Starts a run in a tf.function; the queue that gets its number when it has ended."""
        queue = _queue()
        number, future = self._begin(tensors, queue)
        future.add_done_callback(lambda _future: queue.enqueue(number))
        return queue.queue_ref

    def start_in_session(self, *tensors):
        """Starts a run; its number."""
        number, future = self._begin(tensors, None)
        future.add_done_callback(_line.tell)
        return number

    def goes_on(self, number):
        """Whether the run with this number goes on after a short wait for its end."""
        with _guard:
            future, _none = self.runs[int(number)]
        return _line.goes_on(future)

    def _begin(self, tensors, queue):
        _completions.activate(basics.session())
        future = _in_background(self._operate([tensor.numpy() for tensor in tensors]))
        return self._number(future, queue), future

    async def _operate(self, arrays):
        earlier, _under_way[self.called] = _under_way.get(self.called), asyncio.current_task()
        if earlier is not None and not earlier.done():
            # Of a run that was cancelled. The engine refuses a second operation of this name beside it.
            await asyncio.wait([earlier])
        return await self.begin(*arrays)

    def _number(self, future, queue):
        """A number for the run. Forgets the oldest one if that has ended long ago and nobody came for its results."""
        with _guard:
            number = next(self.numbers)
            oldest = next(iter(self.runs), number)
            if number - oldest > _RUNS_KEPT and self.runs[oldest][0].done():
                del self.runs[oldest]
            self.runs[number] = future, queue
        return number

    def result(self, number):
        """What a run that has ended returned; its error is raised."""
        with _guard:
            future, queue = self.runs.pop(number)
        if queue is not None:
            _free_queues.append(queue)  # the second node has emptied it
        return future.result()


def _queue():
    try:
        return _free_queues.pop()
    except IndexError:
        with tf.device("CPU:0"):
            return tf.queue.FIFOQueue(1, [tf.int64], [[]])


def leave_unordered(operation):
    """Keeps tf.function from running the node before or after others that have side effects, in the order of the program."""
    manager = getattr(operation.graph, "experimental_acd_manager", None)
    if manager is not None:
        manager.run_independently(operation)


def nodes(begin, called, tensors_of, inputs, types, in_order):
    """The outputs of an operation. ``tensors_of`` makes them of a function that returns results or raises the error."""
    node = _Node(begin, called)

    def finish(number):
        return tensors_of(lambda: node.result(int(number)))

    with tf.device("CPU:0"):
        if not tf.compat.v1.executing_eagerly_outside_functions():  # a session will run the graph
            number = tf.py_function(node.start_in_session, inputs, tf.int64)
            return tf.py_function(finish, [_line.ended(number, node.goes_on)], types)
        queue = tf.py_function(node.start, inputs, tf.resource)
        (number,) = tf.raw_ops.QueueDequeueV2(handle=queue, component_types=[tf.int64])
        outputs = tf.py_function(finish, [number], types)
    if not in_order:
        # Nobody may wait for another one's end before it is started, since other ranks may have another order.
        leave_unordered(queue.op)
        leave_unordered(outputs[0].op)
    return outputs
