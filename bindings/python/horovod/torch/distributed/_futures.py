# SPDX-License-Identifier: Apache-2.0
"""The threads that end works whose future somebody holds.

What is chained to a future runs on the thread that ends the work, and may itself wait for another work, as the hooks of
DistributedDataParallel do. So a thread that is about to run it first lets another one wait for the remaining works.
"""

import collections
import queue
import threading


class _Threads:
    """Runs functions, each on a thread of its own: an idle one if there is one, else a new one."""

    _IDLE_SECONDS = 10

    def __init__(self):
        self._lock = threading.Lock()
        self._idle = []

    def run(self, function):
        with self._lock:
            if self._idle:
                self._idle.pop().put(function)
                return
        threading.Thread(target=self._run, args=(function,), name="hvd-torch-futures", daemon=True).start()

    def _run(self, function):
        inbox = queue.SimpleQueue()
        while function is not None:
            function()
            del function  # it may hold tensors
            with self._lock:
                self._idle.append(inbox)
            function = self._next(inbox)

    def _next(self, inbox):
        try:
            return inbox.get(timeout=self._IDLE_SECONDS)
        except queue.Empty:
            with self._lock:
                if inbox in self._idle:
                    self._idle.remove(inbox)
                    return None
            return inbox.get()  # it was given a function meanwhile


_threads = _Threads()


class Completer:
    """Ends the collectives of one group, in the order in which they were added, which is the order in which they run.

    Messages between two ranks may end in any order, so each has a thread to itself.
    """

    _CLOSE_SECONDS = 10

    def __init__(self):
        self._works = collections.deque()
        self._waits = False  # whether a thread waits for the first collective
        self._busy = set()  # the threads that wait, or run what is chained to a work
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)

    def add(self, work, ordered=True):
        """Has a thread end the work."""
        if not ordered:
            _threads.run(lambda: self._end(work))
            return
        with self._lock:
            self._works.append(work)
            self._begin_to_wait()

    def _begin_to_wait(self):
        if self._works and not self._waits:
            self._waits = True
            _threads.run(self._end_first)

    def _end_first(self):
        with self._lock:
            work = self._works.popleft()
        self._end(work, self._let_others_wait)

    def _let_others_wait(self):
        with self._lock:
            self._waits = False
            self._begin_to_wait()

    def _end(self, work, before_followers=None):
        own = threading.get_ident()
        with self._lock:
            self._busy.add(own)
        try:
            work.complete_quietly()
            if before_followers is not None:
                before_followers()
            work.tell_followers()
        finally:
            with self._lock:
                self._busy.discard(own)
                self._changed.notify_all()

    def close(self):
        """Returns when what was added has ended, and what is chained to it.

        That of the calling thread is not waited for, nor the others' longer than 10 s.
        """
        own = threading.get_ident()
        with self._lock:
            self._changed.wait_for(lambda: not self._works and self._busy <= {own}, self._CLOSE_SECONDS)
