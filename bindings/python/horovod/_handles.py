# SPDX-License-Identifier: Apache-2.0
"""Handles of operations that were started and may still run."""

import itertools
import threading
import weakref

_numbers = itertools.count(1)
_finishing = threading.RLock()
_by_number = weakref.WeakValueDictionary()


class Handle:
    """An operation in flight.

    ``wait()`` returns its result or raises its error, every time it is called; ``poll()`` says whether it has ended;
    ``await handle`` does the same as ``wait()`` inside asyncio without blocking the loop. A handle may be dropped at
    any time: the operation goes on, and the arrays it uses stay alive until it has ended. Handles are hashable and
    convert to ``int``; numbers are unique in the process.
    """

    __slots__ = ("_operation", "_finish", "_result", "_error", "_number", "__weakref__")

    def __init__(self, operation, finish):
        self._operation = operation
        self._finish = finish
        self._result = self._error = None
        self._number = next(_numbers)

    def wait(self, timeout=None):
        """The result. TimeoutError if the operation still runs after ``timeout`` seconds; it goes on then."""
        operation = self._operation
        if operation is not None:
            try:
                if not operation.wait(timeout):
                    raise TimeoutError(f"handle {self._number}: still running after {timeout} s")
            except BaseException as error:
                if self._operation_failed(error):
                    self._error = error
                    self._finish = self._operation = None
                raise
            self._complete(operation)
        if self._error is not None:
            raise self._error
        return self._result

    def poll(self):
        """Whether the operation has ended, with success or not."""
        operation = self._operation
        return operation is None or operation.poll()

    def __await__(self):
        operation = self._operation
        if operation is not None and not operation.poll():
            from horovod import _completions

            yield from _completions.wait_in_loop(operation).__await__()
        return self.wait()

    def __int__(self):
        return self._number

    __index__ = __int__

    def __hash__(self):
        return hash(self._number)

    def __eq__(self, other):
        if isinstance(other, (Handle, int)):
            return self._number == int(other)
        return NotImplemented

    def __repr__(self):
        state = "failed" if self._error is not None else "ended" if self.poll() else "running"
        return f"<Handle {self._number} {state}>"

    @staticmethod
    def _operation_failed(error):
        # Errors of the engine carry a status; KeyboardInterrupt and our TimeoutError leave the operation running.
        return hasattr(error, "status_name")

    def _complete(self, operation):
        with _finishing:  # two threads may wait for one handle
            if self._finish is not None:
                self._result = self._finish(operation)
                self._finish = self._operation = None


def numbered(handle):
    """Makes the handle findable by its number as long as it lives."""
    _by_number[handle._number] = handle
    return handle


def find(handle):
    """The handle with this number, or the handle itself, unless it was forgotten; else None."""
    return _by_number.get(int(handle))


def forget(handle):
    """The number is not known any more."""
    _by_number.pop(int(handle), None)


def poll(handle):
    """Whether the operation has ended. ValueError if the handle is unknown or was synchronized."""
    found = find(handle)
    if found is None:
        raise ValueError(f"poll: handle {int(handle)} is unknown or was synchronized")
    return found.poll()


def synchronize(handle):
    """The result of the operation, once: a second call, or an unknown handle, returns None."""
    found = find(handle)
    if found is None:
        return None
    try:
        return found.wait()
    finally:
        forget(found)
