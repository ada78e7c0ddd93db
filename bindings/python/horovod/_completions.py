# SPDX-License-Identifier: Apache-2.0
"""``await handle``: the engine's completion descriptor, watched by every event loop that waits for something.

The engine queues what ends only for operations submitted after the descriptor was asked for. That is done at the first
submit inside a running loop. An operation started before is waited for in a thread.
"""

import asyncio
import threading
import weakref

from horovod.common import basics

_lock = threading.Lock()
_queues = weakref.WeakKeyDictionary()  # Context of the native layer -> _Queue


class _Queue:
    """The completion queue of one context and who waits for what is in it."""

    def __init__(self, context):
        self._context = weakref.ref(context)
        self.fd = context.completions_fd()
        self.waiters = {}  # operation key -> [(loop, future)]
        self.loops = {}  # loop -> number of its waiters

    def drain(self):
        """Takes everything out of the queue and wakes those who wait for it."""
        context = self._context()
        ready = []
        with _lock:
            while context is not None:
                key = context.completions_pop()
                if key == 0:
                    break
                ready.extend(self.waiters.pop(key, ()))
        for loop, future in ready:
            _wake(loop, future)

    def add(self, key, loop, future):
        with _lock:
            self.waiters.setdefault(key, []).append((loop, future))
            first = self.loops.get(loop, 0) == 0
            self.loops[loop] = self.loops.get(loop, 0) + 1
        if first:
            loop.add_reader(self.fd, self.drain)

    def remove(self, key, loop, future):
        with _lock:
            left = [entry for entry in self.waiters.get(key, ()) if entry[1] is not future]
            if left:
                self.waiters[key] = left
            else:
                self.waiters.pop(key, None)
            self.loops[loop] -= 1
            last = self.loops[loop] == 0
            if last:
                del self.loops[loop]
        if last:
            loop.remove_reader(self.fd)

    def wake_all(self):
        with _lock:
            everybody = [entry for entries in self.waiters.values() for entry in entries]
        for loop, future in everybody:
            _wake(loop, future)


def _wake(loop, future):
    def finish():
        if not future.done():
            future.set_result(None)

    try:
        loop.call_soon_threadsafe(finish)
    except RuntimeError:
        return  # the loop was closed: nobody waits any more


def activate(session):
    """Makes the engine queue what it completes from now on, and takes out what nobody waits for."""
    queue = _queues.get(session.context)
    if queue is None:
        with _lock:
            queue = _queues.get(session.context)
            if queue is None:
                queue = _queues[session.context] = _Queue(session.context)
                session.drain = queue.drain
    return queue


async def wait_in_loop(operation):
    """Returns when the operation has ended."""
    loop = asyncio.get_running_loop()
    session = basics.session()
    queue = _queues.get(session.context)
    if queue is None or not operation.queued:
        await loop.run_in_executor(None, _wait_quietly, operation)
        return
    future = loop.create_future()
    queue.add(operation.key, loop, future)
    try:
        # It may have ended, and been taken out of the queue, before there was anybody to wake.
        if not operation.poll():
            await future
    finally:
        queue.remove(operation.key, loop, future)


def _wait_quietly(operation):
    try:
        operation.wait()
    except Exception:  # noqa: BLE001 - the awaiting task asks the operation again and gets the error there
        return


@basics.at_shutdown
def _wake_at_shutdown(session):
    queue = _queues.get(session.context)
    if queue is not None:
        queue.drain()
        queue.wake_all()
