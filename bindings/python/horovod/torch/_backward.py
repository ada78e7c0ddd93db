# SPDX-License-Identifier: Apache-2.0
"""Backward passes: which optimizers' gradients they touch, and what happens when they end."""

import sys
import threading

import torch

_ENTRIES = {torch.autograd.backward.__code__, torch.autograd.grad.__code__}
_FUNCTION = torch.autograd.function.BackwardCFunction.apply.__code__
# The passes that run, by number: the thread, and the reducers whose gradients they have touched so far.
_running = {}
# The number of the backward pass that runs in this thread, -1 if none does.
running = torch._C._current_graph_task_id


def enter(task, reducer, end):
    """The pass touches a gradient of the reducer. ``end(reducers)`` is called when it has ended, with all that it has touched."""
    known = _running.get(task)
    if known is None:
        if not _nested():
            abandon_failed()
        known = _running[task] = threading.get_ident(), []
        torch.autograd.Variable._execution_engine.queue_callback(lambda: _ended(task, end))
    if reducer not in known[1]:
        known[1].append(reducer)


def _ended(task, end):
    _thread, touched = _running.pop(task)
    # A pass in another one, as reentrant checkpoints run them, waits for the outer one's end, unless nothing can come any more.
    if not _nested() or all(reducer.is_complete() for reducer in touched):
        end(touched)


def abandon_failed():
    """Passes that ended with an error never called ``end``. To be called where this thread runs no pass."""
    if not _running:
        return
    own = threading.get_ident()
    for task in [task for task, (thread, _touched) in _running.items() if thread == own]:
        for reducer in _running.pop(task)[1]:
            reducer.abandon()


def _nested():
    """Whether the pass runs in the backward of a function or in a hook of another pass."""
    frame, entries = sys._getframe(1), 0
    while frame is not None:
        code = frame.f_code
        if code is _FUNCTION:
            return True
        entries += code in _ENTRIES
        if entries > 1:
            return True
        frame = frame.f_back
    return False
