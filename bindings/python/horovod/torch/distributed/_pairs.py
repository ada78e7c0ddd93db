# SPDX-License-Identifier: Apache-2.0
"""send and recv. The engine has collectives only, so two ranks that exchange messages make a job of two.

It is opened by the first message between them, in a thread, so that ``isend`` and ``irecv`` return at once. A message
is a broadcast in that job, named after its direction, its tag and its number.
"""

import collections
import queue
import threading

from torch.distributed import PrefixStore

from horovod._native import constants
from horovod.common.session import SHUTDOWN_NS
from horovod.torch.distributed._buffers import Flat
from horovod.torch.distributed._groups import open_context
from horovod.torch.distributed._older import own_connection
from horovod.torch.distributed._work import EngineWork


class _Deferred:
    """An operation that starts when the pair has met; looks like an Operation of the native layer to those who wait."""

    def __init__(self):
        self._started = threading.Event()
        self._operation = self._error = None

    def start(self, begin):
        try:
            self._operation = begin()
        except Exception as error:  # noqa: BLE001 - raised where somebody waits
            self._error = error
        self._started.set()

    def wait(self, seconds=None):
        if not self._started.wait(seconds):
            return False
        if self._error is not None:
            raise self._error
        return self._operation.wait(seconds)

    def poll(self):
        return self._started.is_set() and (self._error is not None or self._operation.poll())


class _Pair:
    """The job of two ranks, and the messages that wait until it is open."""

    def __init__(self, store, place, timeout):
        self._store, self._place, self._timeout = store, place, timeout
        self._numbers = collections.Counter()
        self._waiting = queue.SimpleQueue()
        self.context = None
        self._thread = threading.Thread(target=self._run, name="hvd-torch-pair", daemon=True)
        self._thread.start()

    def message(self, flat, sender, tag):
        number = self._numbers[sender, tag]
        self._numbers[sender, tag] += 1
        deferred = _Deferred()
        self._waiting.put((deferred, flat, sender, f"message.{sender}.{tag}.{number}"))
        return deferred

    def _run(self):
        try:
            self.context = open_context(own_connection(self._store, self._timeout), self._place, 2, self._timeout)
            problem = None
        except Exception as error:  # noqa: BLE001 - every message gets it
            problem = error
        while True:
            entry = self._waiting.get()
            if entry is None:
                return
            deferred, flat, sender, name = entry
            deferred.start(lambda: self._begin(problem, flat, sender, name))

    def _begin(self, problem, flat, sender, name):
        if problem is not None:
            raise problem
        described = (flat.described,)
        return self.context.submit(
            constants.BROADCAST, False, described, described, name, 0, constants.SUM, sender, 1.0, 1.0, None, flat
        )

    def close(self):
        self._waiting.put(None)
        self._thread.join()
        if self.context is not None:
            self.context.shutdown(SHUTDOWN_NS)


class Pairs:
    """The messages of one rank of a group."""

    def __init__(self, store, rank, size, timeout, completer):
        self._store, self._rank, self._size, self._timeout, self._completer = store, rank, size, timeout, completer
        self._pairs = {}
        self._lock = threading.Lock()

    def send(self, tensor, destination, tag):
        """A work that ends when the tensor may be changed again."""
        return self._message("send", tensor, destination, tag, self._rank)

    def receive(self, tensor, source, tag):
        """A work that ends when the tensor holds the message, which must have as many bytes."""
        return self._message("recv", tensor, source, tag, source)

    def _message(self, kind, tensor, peer, tag, sender):
        if peer == self._rank or not 0 <= peer < self._size:
            raise ValueError(f"{kind}: rank {peer} is not another of the group's {self._size} ranks")
        low, high = sorted((self._rank, peer))
        flat = Flat(tensor, kind)
        with self._lock:
            pair = self._pairs.get(peer)
            if pair is None:
                store = PrefixStore(f"pair/{low}/{high}/", self._store)
                pair = self._pairs[peer] = _Pair(store, 0 if self._rank == low else 1, self._timeout)
            deferred = pair.message(flat, 0 if sender == low else 1, tag)
        write_back = flat.write_back if kind == "recv" else None
        return EngineWork(
            self._completer, deferred, lambda _ended: write_back() if write_back is not None else None, [tensor]
        )

    def close(self):
        """Ends the jobs of all pairs."""
        with self._lock:
            pairs, self._pairs = list(self._pairs.values()), {}
        for pair in pairs:
            pair.close()
