# SPDX-License-Identifier: Apache-2.0
"""Groups of torch.distributed in terms of the engine: which context runs their operations, and under which names.

The default group is the job itself. PyTorch tells only the members of another group about it, while a process set of
the engine is made by all ranks; so such a group is a job of its own in the same process, whose ranks meet through
PyTorch's store. A group of all ranks with the same timeout shares the job of the default group.
"""

import json
import os
import threading

from horovod._native import constants, native
from horovod.common import basics, communicators
from horovod.common.session import SHUTDOWN_NS
from horovod.torch.distributed import _chains

RING = 256


class StoreCommunicator:
    """The part of an MPI communicator that CommunicatorRendezvous needs, over a store of torch.distributed."""

    def __init__(self, store, rank, size):
        self._store, self._rank, self._size, self._calls = store, rank, size, 0

    def Get_rank(self):  # noqa: N802 - MPI's name
        return self._rank

    def Get_size(self):  # noqa: N802 - MPI's name
        return self._size

    def bcast(self, value, root=0):
        self._calls += 1
        key = f"hvd/{self._calls}/{root}"
        if self._rank == root:
            self._store.set(key, json.dumps(value))
        return json.loads(self._store.get(key))

    def allgather(self, value):
        self._calls += 1
        self._store.set(f"hvd/{self._calls}/{self._rank}", json.dumps(value))
        values = [json.loads(self._store.get(f"hvd/{self._calls}/{rank}")) for rank in range(self._size)]
        return [tuple(one) if isinstance(one, list) else one for one in values]


class _Place:
    """Where the ranks of a store meet: ``rank``, ``size``, ``rendezvous`` and ``options`` for the engine."""

    def __init__(self, store, rank, size):
        self._place = None
        self._store = store
        self.rank, self.size, self.options = rank, size, []
        if size == 1:
            self.rendezvous = f"mem://torch.{os.getpid()}.{os.urandom(8).hex()}"
            return
        known = {name for name, _default, _help in native().option_table()}
        self._place = communicators.CommunicatorRendezvous(StoreCommunicator(store, rank, size), known)
        self.rendezvous = self._place.rendezvous
        self.options = [pair for pair in self._place.options if pair[0] != "controller"]

    def __enter__(self):
        return self

    def __exit__(self, *_error):
        if self._place is None:
            return
        # What rank 0 has made for the rendezvous stays until nobody needs it, come what may.
        self._store.set(f"hvd/left/{self.rank}", "1")
        try:
            if self.rank == 0:
                self._store.wait([f"hvd/left/{rank}" for rank in range(self.size)])
        finally:
            self._place.close()


# The operations of torch.distributed are matched by their order. Where it opens the job, ranks that call different ones at one
# place are told so at once; a job that the program has opened may have two kinds of operation in flight under one name.
def _names():
    return basics.unless_in_environment("names_by_kind", False)


_opened_for_store = False


def open_job_for_store():
    """Joins the launcher's job, so that its ranks can agree on a store; ``init_process_group`` stays in that job."""
    global _opened_for_store
    _opened_for_store = not basics.is_initialized()
    basics.init(**_names())


def _open_job(store, rank, size, timeout):
    """Makes sure that this process is ``rank`` of a job of ``size``; whether ``init_process_group`` opened the job."""
    global _opened_for_store
    opened_before, _opened_for_store = _opened_for_store, False
    if basics.is_initialized():
        if (basics.rank(), basics.size()) != (rank, size):
            raise ValueError(
                f"init_process_group: rank {rank} of {size}, "
                f"but hvd.init() has made this rank {basics.rank()} of {basics.size()}"
            )
        if opened_before:
            _limit_operations(basics.session().context, timeout)
        return opened_before
    if os.environ.get("HOROVOD_RANK") == str(rank) and os.environ.get("HOROVOD_SIZE") == str(size):
        basics.init(timeout=timeout, **_names())
    else:
        with _Place(store, rank, size) as place:
            options = {**_names(), **dict(place.options)}
            basics.init(rank=rank, size=size, rendezvous=place.rendezvous, timeout=timeout, **options)
    _limit_operations(basics.session().context, timeout)
    return True


def _limit_operations(context, timeout):
    """Operations of the group's own job fail after the group's ``timeout`` in seconds, unless HOROVOD_OP_TIMEOUT says more."""
    if float(context.option_get("op_timeout")) == 0:
        context.option_set("op_timeout", str(timeout))


def open_context(store, rank, size, timeout):
    """A context of the engine for the ranks that share ``store``. Collective over them."""
    with _Place(store, rank, size) as place:
        context = basics._open(place.rank, place.size, place.rendezvous, max(1, int(timeout * 1e9)), place.options)
    basics._contexts.add(context)
    _limit_operations(context, timeout)
    return context


class EngineGroup:
    """Submits the operations of one group.

    Calls are matched by their order, as torch.distributed requires it: the n-th call on every rank has the same name.
    The names come from a ring, so that the engine's response cache knows them the next time round. Calls of what is chained to
    futures are matched by what they follow (``_chains``).
    """

    def __init__(self, name, context, close):
        self._context, self._close = context, close
        self._prefix = f"torch.distributed.{name}"
        self._names = [f"{self._prefix}.{place}" for place in range(RING)]
        self._in_flight = {}
        self._next = 0
        self._lock = threading.Lock()

    _default_timeout = None  # of the default group, in seconds

    @classmethod
    def open(cls, name, store, rank, size, ranks, timeout):
        """The group ``name``; ``ranks`` are its members as ranks of the default group, empty for that group itself."""
        if not ranks:
            EngineGroup._default_timeout = timeout
            opened_here = _open_job(store, rank, size, timeout)
            return cls(name, basics.session().context, basics.shutdown if opened_here else None)
        alike = timeout == EngineGroup._default_timeout
        if alike and basics.is_initialized() and list(ranks) == list(range(basics.size())):
            return cls(name, basics.session().context, None)
        context = open_context(store, rank, size, timeout)
        return cls(name, context, lambda: context.shutdown(SHUTDOWN_NS))

    @property
    def calls(self):
        """How many operations were submitted, but for those of what is chained to futures."""
        return self._next

    def submit(
        self, kind, inputs, outputs, keep, *, grouped=False, reduce_op=constants.SUM, root=0, prescale=1.0, splits=None
    ):
        """Starts an operation and returns it with its name; ``done`` with both is to be called when it has ended."""
        session = basics._session
        if session is not None and session.drain is not None:
            session.drain()
        link = _chains.current()
        with self._lock:
            name = self._names[self._next % RING] if link is None else link.next_name(self._prefix)
            before = self._in_flight.get(name)
            if before is not None:
                _wait_quietly(before)
            operation = self._context.submit(
                kind, grouped, inputs, outputs, name, 0, reduce_op, root, prescale, 1.0, splits, keep
            )
            self._in_flight[name] = operation
            self._next += link is None
        return operation, name

    def done(self, operation, name):
        """Forgets the operation that was submitted with this name."""
        with self._lock:
            if self._in_flight.get(name) is operation:
                del self._in_flight[name]

    def close(self):
        """Ends the group's job, if it has one of its own."""
        close, self._close = self._close, None
        if close is not None:
            close()


def _wait_quietly(operation):
    try:
        operation.wait()
    except Exception as error:  # whoever waits for that operation gets its error
        if not hasattr(error, "status_name"):
            raise
