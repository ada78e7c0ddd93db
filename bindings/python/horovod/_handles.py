# SPDX-License-Identifier: Apache-2.0
"""Handles of operations that were started and may still run."""

import itertools
import threading
import weakref

_numbers = itertools.count(1)
_finishing = threading.RLock()  # also while one gets its number
# Handles that were asked for their number, before which nobody can know it: keeping all here takes longer than a small operation.
_by_number = weakref.WeakValueDictionary()


class Handle:
    """An operation in flight.

    ``wait()`` returns its result or raises its error, every time it is called; ``poll()`` says whether it has ended;
    ``await handle`` does the same as ``wait()`` inside asyncio without blocking the loop. A handle may be dropped at
    any time: the operation goes on, and the arrays it uses stay alive until it has ended. Handles are hashable and
    convert to ``int``; numbers are unique in the process.
    """

    __slots__ = ("_operation", "_finish", "_result", "_error", "_number", "_known", "__weakref__")

    def __init__(self, operation, finish, result=None, known=False):
        """``finish(operation)`` makes the result; None if it is ``result``, as soon as the operation has ended.

        ``known``: whether :func:`find` finds the handle, also by its number, as long as it lives.
        """
        self._operation = operation
        self._finish = finish
        self._result = result
        self._error = self._number = None
        self._known = known

    def wait(self, timeout=None):
        """The result. TimeoutError if the operation still runs after ``timeout`` seconds; it goes on then."""
        operation = self._operation
        if operation is not None:
            try:
                if not operation.wait(timeout):
                    raise TimeoutError(f"handle {int(self)}: still running after {timeout} s")
            except BaseException as error:
                if self._operation_failed(error):
                    self._error = error
                    self._finish = self._operation = self._result = None
                raise
            if self._finish is None:
                self._operation = None
            else:
                self._complete(operation)
        elif self._error is not None:
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
        if self._number is None:
            with _finishing:
                if self._number is None:
                    number = next(_numbers)
                    if self._known:
                        _by_number[number] = self
                    self._number = number
        return self._number

    __index__ = __int__

    def __hash__(self):
        return hash(int(self))

    def __eq__(self, other):
        if isinstance(other, Handle):
            return self is other
        return int(self) == other if isinstance(other, int) else NotImplemented

    def __repr__(self):
        state = "failed" if self._error is not None else "ended" if self.poll() else "running"
        return f"<Handle {int(self)} {state}>"

    @staticmethod
    def _operation_failed(error):
        # Errors of the engine carry a status; KeyboardInterrupt and our TimeoutError leave the operation running.
        return hasattr(error, "status_name")

    def _complete(self, operation):
        with _finishing:  # two threads may wait for one handle
            if self._finish is not None:
                self._result = self._finish(operation)
                self._finish = self._operation = None


def result(operation, finish, result=None):
    """Waits for an operation and returns its result; the arguments are those of :class:`Handle`."""
    operation.wait()
    return result if finish is None else finish(operation)


def numbered(operation, finish, result=None):
    """A handle that :func:`find` finds."""
    return Handle(operation, finish, result, True)


def checked(handle, who):
    """The handle; TypeError, said by ``who``, if it is none."""
    if not isinstance(handle, Handle):
        raise TypeError(f"{who}: {handle!r} is not a handle; pass what an operation with _async in its name has returned")
    return handle


def find(handle, who):
    """The handle with this number, or the handle itself, unless it was forgotten; else None."""
    found = None
    if type(handle) is Handle:
        found = handle
    elif hasattr(handle, "__index__") and not isinstance(handle, bool):
        found = _by_number.get(int(handle))
    else:
        checked(handle, who)
    return found if found is not None and found._known else None


def poll(handle):
    """Whether the operation of ``handle`` has ended. ValueError if the handle is unknown or was synchronized."""
    found = find(handle, "poll")
    if found is None:
        raise ValueError(f"poll: handle {int(handle)} is unknown or was synchronized")
    return found.poll()


def synchronize(handle):
    """The result of the operation of ``handle``, once: a second call, or an unknown handle, returns None."""
    found = find(handle, "synchronize")
    if found is None:
        return None
    try:
        return found.wait()
    finally:
        found._known = False
