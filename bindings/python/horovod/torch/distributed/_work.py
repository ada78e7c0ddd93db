# SPDX-License-Identifier: Apache-2.0
"""Work objects: operations of the engine as torch.distributed sees them."""

import queue
import threading
import weakref

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d


class Completer:
    """A thread that waits for the operations whose future somebody holds; it starts with the first of them."""

    def __init__(self):
        self._queue = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._thread = None

    def add(self, work):
        with self._lock:
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name="hvd-torch-futures", daemon=True)
                self._thread.start()
            self._queue.put(work)

    def _run(self):
        while True:
            work = self._queue.get()
            if work is None:
                return
            work.complete_quietly()

    def close(self):
        """Ends the thread after what was added before."""
        with self._lock:
            thread, self._thread = self._thread, None
            if thread is not None:
                self._queue.put(None)
        if thread is not None and thread is not threading.current_thread():
            thread.join()


class EngineWork(dist._Work):
    """One operation in flight. ``results``: the tensors that hold the result afterwards."""

    def __init__(self, completer, operation, finish, results):
        super().__init__()
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
        """A torch.futures.Future of the result, completed by a thread of this backend."""
        with self._state:
            if self._future is None:
                # set_exception() of a Python future is not seen in C++: DDP would go on with what is in its buckets.
                # What a callback raises is.
                self._trigger = torch.futures.Future()
                self._future = self._trigger.then(self._outcome)
                if self._ended:
                    self._trigger.set_result(None)
                else:
                    self._completer.add(self)
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
                if self._trigger is not None:
                    self._trigger.set_result(None)

    def _outcome(self, _trigger):
        if self._error is not None:
            raise self._error
        return self.result()


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
