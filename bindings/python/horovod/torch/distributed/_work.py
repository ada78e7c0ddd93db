# SPDX-License-Identifier: Apache-2.0
"""Work objects: operations of the engine as torch.distributed sees them."""

import threading
import weakref

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d

from horovod.torch.distributed import _chains


class EngineWork(dist._Work):
    """One operation in flight. ``results``: the tensors that hold the result afterwards.

    ``name`` is that of a collective, None of a message between two ranks. Collectives of a group end in the order in which they
    were started, but for messages and what is chained to futures, which is known here by its being started on that thread.
    """

    def __init__(self, completer, operation, finish, results, name=None):
        super().__init__()
        self._name, self._ordered = name, name is not None and _chains.current() is None
        self._completer, self._operation, self._finish, self._results = completer, operation, finish, results
        self._error = self._future = self._trigger = self._places = None
        self._ended = False
        self.on_asked = _nothing
        self._waiting = threading.Lock()  # held while waiting: one thread waits, others wait for it
        self._state = threading.RLock()  # guards _ended and the futures

    def wait(self, timeout=None):
        """Returns True when the operation has ended; its error, or DistBackendError after ``timeout`` (0: no limit)."""
        seconds = timeout.total_seconds() if timeout else 0
        self._complete(seconds if seconds > 0 else None)
        self.on_asked()
        if self._error is not None:
            raise self._error
        return True

    synchronize = wait

    def is_completed(self):
        """Whether the operation has ended, with success or not."""
        operation = self._operation
        completed = operation is None or operation.poll()
        if completed:
            self.on_asked()
        return completed

    def is_success(self):
        """Whether the operation has ended with success."""
        if self.is_completed():
            self.complete_quietly()
        return self._ended and self._error is None

    def exception(self):
        """The error of an operation that has failed, else None."""
        return self._error

    def result(self):
        """The tensors that hold the result."""
        if self._places is not None:
            return [tensor for tensor in (place() for place in self._places) if tensor is not None]
        return self._results

    def loosen(self):
        """Waits; from now on ``result`` has the tensors as long as somebody else holds them, too."""
        self.complete_quietly()
        if self._places is None:
            self._places, self._results = [weakref.ref(tensor) for tensor in self._results], None

    def get_future(self):
        """A torch.futures.Future of the result, completed by a thread of the completer's; so what is chained to it may wait."""
        with self._state:
            if self._future is None:
                # set_exception() of a Python future is not seen in C++: DDP would go on with what is in its buckets.
                # What a callback raises is.
                self._trigger = torch.futures.Future()
                self._future = self._trigger.then(self._outcome)
                if self._name is not None:
                    _chains.follow(self._future, self._name)
                if self._ended:
                    self._trigger.set_result(None)
                else:
                    self._completer.add(self, self._ordered)
            self.on_asked()
            return self._future

    def complete_quietly(self):
        """Waits; errors are kept for ``wait`` and the future."""
        self._complete(None)

    def _complete(self, seconds):
        with self._waiting:
            if self._ended:
                return
            try:
                if not self._operation.wait(seconds):
                    raise dist.DistBackendError(f"operation still runs after {seconds:g} s")
                self._finish(self._operation)
            except dist.DistBackendError:
                raise
            except Exception as error:  # noqa: BLE001 - kept for everybody who asks
                self._error = error
            with self._state:
                self._ended = True
                self._operation = self._finish = None

    def tell_followers(self):
        """Completes the future of a work that has ended, on the thread that is to run what is chained to it."""
        self._trigger.set_result(None)

    def _outcome(self, _trigger):
        if self._error is not None:
            raise self._error
        return self.result()


class Together(dist._Work):
    """Several works as one."""

    def __init__(self, works):
        super().__init__()
        self._works = works

    def wait(self, timeout=None):
        """Returns True when all have ended; waits for all before it raises the first error."""
        first = None
        for work in self._works:
            try:
                work.wait(timeout)
            except Exception as error:  # noqa: BLE001 - raised below
                first = first or error
        if first is not None:
            raise first
        return True

    synchronize = wait

    def is_completed(self):
        """Whether all have ended, with success or not."""
        return all(work.is_completed() for work in self._works)

    def is_success(self):
        """Whether all have ended with success."""
        return all(work.is_success() for work in self._works)

    def exception(self):
        """The error of the first that has failed, else None."""
        return next((work.exception() for work in self._works if work.exception() is not None), None)

    def result(self):
        """The tensors that hold the results."""
        return [tensor for work in self._works for tensor in work.result()]

    def get_future(self):
        """A torch.futures.Future of all results."""
        futures = [work.get_future() for work in self._works]
        return torch.futures.collect_all(futures).then(lambda _all: [part for one in futures for part in one.value()])


def _nothing():
    pass


def teach_reducer():
    """Lets DDP's join have our works.

    There, and only there, DDP hands a work to C++ and drops the Python object, of which nothing but an empty C++ work
    is left then. A work of PyTorch's own around our future lives on.
    """
    reducer = _distributed_c10d.Reducer
    own = getattr(reducer, "_set_forward_pass_work_handle", None)
    if own is None:
        return

    def set_handle(self, work, *args):
        if isinstance(work, EngineWork):
            work = _distributed_c10d._create_work_from_future(work.get_future())
        return own(self, work, *args)

    reducer._set_forward_pass_work_handle = set_handle
