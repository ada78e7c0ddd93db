# SPDX-License-Identifier: Apache-2.0
"""Process sets: groups of ranks that run operations among themselves."""

import itertools
import weakref

from horovod.common import communicators

__all__ = ["ProcessSet", "add_process_set", "global_process_set", "remove_process_set"]


class _Job:
    """How sets find the job of this process. basics, which needs this module, fills it in."""

    session = None  # a function: the current Session, ValueError before init
    communicator = None  # a function: the MPI communicator that init was given, else None


def found_by(session, communicator):
    """Tells sets how to find the job of this process."""
    _Job.session, _Job.communicator = session, communicator


_registrations = itertools.count(1)
# Every ByRegistration there is.
_kept = weakref.WeakSet()


class ByRegistration:
    """A value for each registration of a process set: made when first asked for, forgotten when the set is removed.

    Not an attribute of the set, because programs pickle sets with their models, and not kept by its id, which a later set
    with other members can have again.
    """

    def __init__(self, make):
        self._make, self._values = make, {}
        _kept.add(self)

    def __getitem__(self, process_set):
        registration = process_set._registration
        if registration not in self._values:
            self._values[registration] = self._make()
        return self._values[registration]

    def clear(self):
        self._values.clear()

    def _forget(self, process_set):
        self._values.pop(process_set._registration, None)


class Joins:
    """How often this rank has joined."""

    def __init__(self):
        self.count = 0


joins = ByRegistration(Joins)


class ProcessSet:
    """A group of ranks: a list of them, or a communicator of mpi4py with the members.

    ``ProcessSet([0, 2])`` is only a description; ``hvd.init(process_sets=[...])`` or :func:`add_process_set` registers
    it. ``process_set_id`` is None before that and after :func:`remove_process_set` or ``hvd.shutdown()``.
    """

    def __init__(self, ranks):
        self.mpi_comm = None
        if communicators.is_communicator(ranks):
            self.mpi_comm = ranks
            ranks = communicators.ranks_in(ranks, _Job.communicator())
        if not hasattr(ranks, "__iter__"):
            raise TypeError(f"ProcessSet: {ranks!r} is not a list of ranks")
        ranks = list(ranks)
        for rank in ranks:
            if isinstance(rank, bool) or not hasattr(rank, "__index__"):
                raise ValueError(f"ProcessSet: rank {rank!r} is not an integer")
        self.ranks = sorted(rank.__index__() for rank in ranks)
        self.process_set_id = None
        # The sets of the other ranks, where each rank gave its own communicator of one Split: addresses in their order.
        self._siblings = []
        # For submit calls: the address of the hvd_process_set, 0 for all ranks, None while not registered.
        self._address = None
        # Tells registrations apart, of which a later one can have the same id and other members. Of this process only.
        self._registration = None
        self._why_not = "is not registered"

    def size(self):
        """Number of ranks; None while not registered."""
        return None if self.process_set_id is None else len(self.ranks)

    def rank(self):
        """This process's place in the set; None while not registered, ValueError if it is no member."""
        if self.process_set_id is None:
            return None
        own = _Job.session().rank
        if own not in self.ranks:
            raise ValueError(f"process set {self.process_set_id}: rank {own} is not one of its ranks {self.ranks}")
        return self.ranks.index(own)

    def included(self):
        """Whether this process is a member; None while the ranks are unknown."""
        if self.process_set_id is None or not self.ranks:
            return None
        return _Job.session().rank in self.ranks

    def __reduce__(self):
        """Copied or unpickled, a registered set is the one that is registered with its number there; else a description."""
        return (ProcessSet, (self.ranks,)) if self.process_set_id is None else (set_with_number, (self.process_set_id,))

    def __str__(self):
        return f"ProcessSet(process_set_id={self.process_set_id}, ranks={self.ranks}, mpi_comm={self.mpi_comm})"

    __repr__ = __str__

    def _to_create(self, base):
        """The lists of ranks to create sets for, the same on every rank; one of them is this set's.

        Ranks that give the communicators of one Split describe a different set each, and all ranks take part in the
        creation of each. ``base`` is the communicator of the job, None for MPI.COMM_WORLD. Collective over it.
        """
        if self.mpi_comm is None:
            return [self.ranks]
        from mpi4py import MPI

        self.ranks = sorted(communicators.ranks_in(self.mpi_comm, base))
        everywhere = (MPI.COMM_WORLD if base is None else base).allgather(self.ranks)
        return [list(ranks) for ranks in sorted({tuple(ranks) for ranks in everywhere})]

    def _bind(self, identity, address, ranks=None, like=None):
        """``like``: an object that is bound to the same set of the engine."""
        self.process_set_id = identity
        self._address = address
        self._registration = like._registration if like else next(_registrations)
        self._why_not = "is not registered"
        if ranks is not None:
            self.ranks = ranks

    def _unbind(self):
        for kept in _kept:
            kept._forget(self)
        self.process_set_id = None
        self._address = None
        self._siblings = []

    def _is_gone(self, identity):
        """The set that this object was bound to has not come into the present epoch."""
        self._why_not = (
            f"is gone: set {identity} had members that are not in the job any more; make another one with hvd.add_process_set, with ranks "
            "of the present epoch"
        )


def checked_kind(process_set, who):
    """The set, registered or not. TypeError, said by ``who``, if it is none."""
    if not isinstance(process_set, ProcessSet):
        raise TypeError(
            f"{who}: process_set is {process_set!r}, which is not a ProcessSet; leave the argument out for all ranks, or pass what "
            "hvd.add_process_set(ranks) returns"
        )
    return process_set


def checked(process_set, who):
    """The set, which is registered. TypeError or ValueError, said by ``who``, if it is none or is not."""
    if checked_kind(process_set, who)._address is None:
        raise ValueError(f"{who}: {process_set} {process_set._why_not}")
    return process_set


global_process_set = ProcessSet([])
global_process_set.process_set_id = 0
global_process_set._address = global_process_set._registration = 0


def set_with_number(number):
    """The registered process set with this id; ValueError if there is none."""
    if number == 0:
        return global_process_set
    for process_set in _Job.session()._registered:
        if process_set.process_set_id == number:
            return process_set
    raise ValueError(f"process set {number}: not registered")


def add_process_set(process_set):
    """Registers ``process_set``, a ProcessSet, or makes one of a list of ranks. Collective: every rank of the job calls it alike.

    Works at any time after ``init``; unlike Horovod it needs no ``process_sets="dynamic"``. A set with the same ranks,
    or one of all ranks, is a ValueError.
    """
    if not isinstance(process_set, ProcessSet):
        process_set = ProcessSet(process_set)
    if process_set.process_set_id is not None:
        raise ValueError(f"process set {process_set.process_set_id}: already registered")
    _Job.session().register(process_set)
    return process_set


def remove_process_set(process_set):
    """Ends ``process_set``; True on success, False if it was not registered or is the global one. Collective like adding."""
    if process_set is global_process_set or checked_kind(process_set, "remove_process_set").process_set_id is None:
        return False
    _Job.session().unregister(process_set)
    return True


def listed_sets(process_sets):
    """The argument ``process_sets`` of ``init`` as a list of sets."""
    if process_sets is None:
        return []
    if isinstance(process_sets, str):
        if process_sets.lower() != "dynamic":
            raise ValueError(f'init: process_sets is {process_sets!r}, neither a list nor "dynamic"')
        return []
    return [ps if isinstance(ps, ProcessSet) else ProcessSet(ps) for ps in process_sets]


def bind_sets(session, sets):
    """Registers those sets of ``init`` that the session has no set of the same ranks for, and binds all of them."""
    # Where others have begun the job, the numbers of a set's ranks are those of the first epoch.
    seen = {} if session.joins_others else {tuple(global_process_set.ranks): "all ranks"}
    for index, process_set in enumerate(sets):
        twin = seen.get(tuple(process_set.ranks))
        if twin is not None:
            process_set._unbind()
            raise ValueError(f"init: process_sets[{index}] has the same ranks {process_set.ranks} as {twin}")
        seen[tuple(process_set.ranks)] = f"process_sets[{index}]"
        if not session.rebind(process_set):
            session.register(process_set)
