# SPDX-License-Identifier: Apache-2.0
"""Training that goes on after a failure: states that are committed and restored, and the loop that does so.

Every flavour has these names in its module ``elastic``, bound to its own way of sending objects.
"""

import contextlib
import copy
import enum
import functools
import signal
import threading

from horovod._native import constants
from horovod.common import basics
from horovod.common.exceptions import (
    HorovodDismissedError,
    HorovodInternalError,
    HorovodPeerLostError,
    HorovodTimeoutError,
    HostsUpdatedInterrupt,
)

# Gives all ranks the largest of their numbers; from horovod.elastic, which has operations.
_largest_of = None
# So often a job may fail without a commit in between: then it fails at the same place every time.
_MOST_FAILURES = 3


def agree_by(largest_of):
    """Gives this module ``largest_of(number)``, a collective that gives all ranks the largest of their numbers."""
    global _largest_of
    _largest_of = largest_of
    return largest_of


class HostUpdateResult(enum.IntFlag):
    """What has become of the hosts of an elastic job, for ``State.on_hosts_updated``."""

    no_update = 0
    removed = constants.MEMBERS_REMOVED
    added = constants.MEMBERS_ADDED
    mixed = removed | added


class State:
    """What a program needs in order to go on: it is committed now and then, and restored after a failure.

    Derived classes have ``save``, ``restore`` and ``sync``. ``bcast_object(obj)``: a function that gives every rank the object of
    rank 0. ``get_rank()``: this process's rank.
    """

    def __init__(self, bcast_object, get_rank):
        self._bcast_object = bcast_object
        self._rank = get_rank
        self._reset_callbacks = []
        self._commits = -1  # of the whole job; -1 until this process has a state of it
        self._updates = HostUpdateResult.no_update  # that on_hosts_updated was told of

    def register_reset_callbacks(self, callbacks):
        """Adds functions without arguments that are called in this order when the job has been joined again.

        A learning rate that depends on ``hvd.size()``, for example, is set there.
        """
        self._reset_callbacks.extend(callbacks)

    def on_reset(self):
        """The job has been joined again."""
        self._updates = HostUpdateResult.no_update
        self.reset()
        for callback in self._reset_callbacks:
            callback()

    def commit(self):
        """Saves the state, to which a failure from now on goes back. All ranks commit after the same steps."""
        self.save()
        self._commits += 1
        self.check_host_updates()

    def on_hosts_updated(self, timestamp, update_res):
        """Lets the next ``check_host_updates`` interrupt as if the launcher had told of this change, a ``HostUpdateResult``.

        For programs with a source of changes of their own: in an elastic job any rank calls it, in another one all ranks do.
        ``timestamp``: seconds, which count for nothing here.
        """
        self._updates |= HostUpdateResult(update_res)

    def check_host_updates(self):
        """HostsUpdatedInterrupt on all ranks, where ranks are about to come or go. In a job of fixed members none are.

        Collective: all ranks call it equally often.
        """
        changes = int(self._updates)
        if basics.session().epoch:
            changes = _largest_of(basics.membership()[0] | changes)
        if changes:
            raise HostsUpdatedInterrupt(skip_sync=changes == HostUpdateResult.removed)

    def _take_over(self):
        """Gives this process the state of the job."""
        self.sync()
        self._commits = self._bcast_object(max(0, self._commits))

    def save(self):
        """Keeps a copy of the state in memory."""
        raise NotImplementedError(f"{type(self).__name__}.save")

    def restore(self):
        """Goes back to the copy that ``save`` has kept."""
        raise NotImplementedError(f"{type(self).__name__}.restore")

    def sync(self):
        """Gives every rank the state of rank 0, and saves it."""
        raise NotImplementedError(f"{type(self).__name__}.sync")

    def reset(self):
        """What a derived class must do when the job has been joined again, before the callbacks."""


class ObjectState(State):
    """Objects by name, which are attributes: ``ObjectState(bcast_object, get_rank, epoch=0, batch=0)`` has ``state.epoch``.

    What is saved of an object is a deep copy, so that what the program changes in it does not change the committed one.
    """

    def __init__(self, bcast_object, get_rank, **kwargs):
        super().__init__(bcast_object, get_rank)
        self._names = sorted(kwargs)
        for name, value in kwargs.items():
            if hasattr(type(self), name) or name in vars(self):
                raise ValueError(f"{type(self).__name__}: {name} is not a name for an object; the state has an attribute of this name")
            setattr(self, name, value)
        self._saved = {}
        self._keep()

    def save(self):
        self._keep()

    def _keep(self):
        self._saved = {name: copy.deepcopy(getattr(self, name)) for name in self._names}

    def restore(self):
        for name, value in self._saved.items():
            setattr(self, name, copy.deepcopy(value))

    def sync(self):
        if self._names:
            received = self._bcast_object({name: getattr(self, name) for name in self._names})
            for name, value in received.items():
                setattr(self, name, value)
            self._keep()


def run_fn(func, reset):
    """A function that calls ``func(state, ...)``, and calls it again with the state of the latest commit when it has failed.

    ``reset(position)``: joins the job again, with a state that has come so far. HorovodInternalError of ``func`` restores the state,
    HostsUpdatedInterrupt does not; every other error is the caller's. So is the loss of a rank where nobody can replace it, and a
    failure that comes again and again.
    """

    @functools.wraps(func)
    def wrapper(state, *args, **kwargs):
        with _LeavingOnTerm() as leaving:
            return _keep_on(lambda: func(state, *args, **kwargs), reset, state, leaving)

    return wrapper


def _keep_on(train, reset, state, leaving):
    """Calls ``train()`` until it returns, or raises what nobody can go on after."""
    basics.session().catch_up()
    skip_sync, failures, commits = False, 0, state._commits
    while True:
        try:
            if not skip_sync:
                state._take_over()
            return train()
        except HorovodInternalError as error:
            lost = isinstance(error, HorovodPeerLostError)
            if state._commits != commits:
                failures, commits = 0, state._commits
            failures += not (lost and basics.is_elastic())  # the launcher counts the ranks that it replaces
            if failures >= _MOST_FAILURES or (lost and not basics.is_elastic()):
                raise
            state.restore()
            skip_sync = False
        except HostsUpdatedInterrupt as error:
            skip_sync = error.skip_sync
        _join_again(reset, state)
        leaving.announce()
        _changes, epoch, synchronize = basics.membership()
        skip_sync = not synchronize if epoch else skip_sync
        state.on_reset()


class _LeavingOnTerm:
    """While ranks of an elastic job train, SIGTERM lets this one leave at the next commit, unless the program has a handler for it."""

    def __init__(self):
        self._wanted = self._installed = False

    def __enter__(self):
        if basics.is_elastic() and threading.current_thread() is threading.main_thread():
            if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
                signal.signal(signal.SIGTERM, self._ask)
                self._installed = True
        return self

    def __exit__(self, *_):
        if self._installed:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def _ask(self, *_):
        self._wanted = True
        self.announce()

    def announce(self):
        """Tells the launcher. Between two epochs it cannot be told: then this is called again."""
        if self._wanted and basics.is_initialized():
            with contextlib.suppress(HorovodInternalError):  # this epoch is over
                basics.leave()


def _join_again(reset, state):
    """Joins the next epoch. A process that has no place in it any more ends here, and the others go on."""
    while True:
        try:
            return reset(state._commits)
        except HorovodDismissedError as error:
            if error.sys_errno:  # expelled, which it does not know yet
                raise
            raise SystemExit(0) from error
        except HorovodTimeoutError:
            if not basics.is_elastic():
                raise
            # A member did not come to where the others met: the launcher waits for it, or knows better by now.


def telling(kinds, cause):
    """A decorator for functions that raise what a framework makes of Horovod's errors: Horovod's own are raised instead.

    ``kinds``: the framework's errors. ``cause(error)``: the HorovodInternalError behind one, or None where something else failed.
    """

    def decorate(func):
        @functools.wraps(func)
        def wrapper(*args, **kwargs):
            try:
                return func(*args, **kwargs)
            except kinds as error:
                internal = cause(error)
                if internal is None:
                    raise
                raise internal from error

        return wrapper

    return decorate


def leave():
    """Asks the launcher of an elastic job to let this rank go at its next commit: the process ends there, and the others go on.

    SIGTERM does that while ``run`` trains. HorovodInternalError in a job of fixed members.
    """
    basics.leave()


def run(func):
    """Decorates ``func(state, ...)``, which trains from where ``state`` is. Call it with a ``State`` as the first argument.

    The state of rank 0 is given to all ranks first. When an operation has failed the ranks join the job again, the state of the
    latest commit is restored, and ``func`` begins again. Docs/elastic.md says what a job can go on after.
    """
    return run_fn(func, basics.restart)
