# SPDX-License-Identifier: Apache-2.0
"""init, shutdown, and what a process can ask about its job."""

import atexit
import functools
import os
import threading
import weakref
from typing import Callable, NamedTuple

from horovod._native import constants, native
from horovod._native.logging import settings as log_settings
from horovod.common import communicators, environment_names, faults, stacks, waiting
from horovod.common.exceptions import HorovodInternalError, HorovodPeerLostError, HorovodShutDownError
from horovod.common.process_sets import bind_sets, found_by, listed_sets
from horovod.common.session import SHUTDOWN_NS, Session

Average = constants.AVERAGE
Sum = constants.SUM
Adasum = constants.ADASUM
Min = constants.MIN
Max = constants.MAX
Product = constants.PRODUCT

_session = None
_latest = None  # a Membership: how the session was made that is or was the last one
_changing = threading.RLock()
_forked_from = None
_at_init = []
_before_shutdown = []
_at_shutdown = []
# Contexts that may still call the log function: a handle nobody waited for keeps its context after shutdown.
_contexts = weakref.WeakSet()


class Membership(NamedTuple):
    """How this process joined the job: what it takes to join it again."""

    opening: Callable[[list], object]  # opens a context, with further options
    comm: object
    sets: list  # (process set, its id) of those that were registered when the job was left


def session():
    """The current Session; ValueError before init."""
    if _session is None:
        raise ValueError(_not_initialized())
    return _session


def _communicator():
    return None if _session is None else _session.comm


found_by(session, _communicator)


def _not_initialized():
    text = "Horovod has not been initialized; use hvd.init()."
    if _forked_from is not None:
        text = (
            f"Horovod has not been initialized in process {os.getpid()}: it was initialized in process {_forked_from}, "
            "and a child made by fork cannot use it"
        )
    return text


def unless_in_environment(name, value):
    """An option for :func:`init` as a dict, which is empty where the environment sets the option: what init is given would win."""
    return {} if f"HOROVOD_{name.upper()}" in os.environ else {name: value}


def init(comm=None, process_sets=None, *, rank=None, size=None, rendezvous=None, timeout=None, **options):
    """Joins the job. Collective over all ranks; a second call only registers and binds ``process_sets``.

    ``comm``: None or an empty list for all launched ranks; a list of those that form this job, renumbered in ascending
    order (the others must not call init with it); or a communicator of mpi4py, whose ranks form a job of their own.
    ``process_sets``: a list of ProcessSet or of lists of ranks, the same on every rank, or "dynamic" (accepted for
    Horovod's sake; sets can always be added later). ``rank``, ``size`` and ``rendezvous`` override HOROVOD_RANK,
    HOROVOD_SIZE and HOROVOD_RENDEZVOUS; ``timeout`` is in seconds. Other keywords are options of the engine, see
    ``hvd.options()``; they win over the environment.
    """
    global _session
    own = comm if communicators.is_communicator(comm) else None
    ranks = communicators.rank_list(comm) if own is None and comm is not None else []
    if own is not None and (rank is not None or size is not None or rendezvous is not None):
        raise ValueError("init: comm is a communicator, which tells rank, size and rendezvous already")
    faults.watch()
    stacks.arm()
    sets = listed_sets(process_sets)
    # As in Horovod, operations of different kinds may be in flight under one name, unless somebody wants that refused.
    options = {**unless_in_environment("names_by_kind", True), **options}
    pairs = [(name, _option_text(value)) for name, value in options.items()]
    if ranks:
        place = communicators.place_in_part(ranks) if (rank, size, rendezvous) == (None, None, None) else None
        if place is None:
            pairs.append(("ranks", ",".join(map(str, ranks))))
        else:
            rank, size, rendezvous = place
    with _changing:
        if _session is None:
            nanoseconds = 0 if timeout is None else max(1, int(timeout * 1e9))
            if own is None:
                opening = functools.partial(_open, -1 if rank is None else rank, size or 0, rendezvous, nanoseconds, pairs)
            else:
                opening = functools.partial(_open_among, own, nanoseconds, pairs)
            _begin(opening, own)
        bind_sets(_session, sets)


def _begin(opening, comm, position=-1):
    global _session, _latest
    # Settings that are wrong are an error here, before the other ranks have met this one.
    endpoint = _metrics_endpoint()
    with waiting.SayWhy():
        context = _opened(opening, [] if position < 0 else [("membership_position", str(position))])
    _contexts.add(context)
    _session, _latest = Session(context, comm), Membership(opening, comm, [])
    _register_exit()
    environment_names.tell(_session.rank)
    if _session.epoch:
        os.environ.update(_session.place_in_environment())
    for callback in _at_init:
        callback(_session)
    if endpoint is not None:
        _session.endpoint = endpoint
        endpoint.start(_session)


def _metrics_endpoint():
    """Where Prometheus finds the metrics of this rank; None unless somebody asked for it."""
    if not os.environ.get("HOROVOD_METRICS_PORT"):
        return None
    from horovod._metrics.endpoint import of_environment

    return of_environment()


def _opened(opening, options):
    """A context. In an elastic job another member may end on its way here: the launcher knows that, and decides anew who meets."""
    while True:
        try:
            return opening(options)
        except (HorovodPeerLostError, HorovodShutDownError):
            if not is_elastic():
                raise


def restart(position=-1):
    """Leaves the job and joins it again as the last ``init`` did, with the process sets that there were. Collective over all ranks.

    In an elastic job this waits for the next epoch, whose members may be others; process sets whose members all go on keep
    their ids, and the others are gone. ``position``: how far the state of this process
    has come, in commits; -1 if it has none.
    """
    shutdown()
    with _changing:
        if _latest is None:
            raise ValueError(_not_initialized())
        opening, comm, sets = _latest
        _begin(opening, comm, position)
        _session.catch_up()
        for process_set, identity in sets:
            _session.bind_again(process_set, identity)


def _open(rank_, size_, rendezvous, nanoseconds, pairs, more=()):
    return native().Context(rank_, size_, rendezvous, nanoseconds, [*pairs, *more], log_settings())


def _open_among(comm, nanoseconds, pairs, more):
    """A context of the ranks of an MPI communicator."""
    communicators.check_span("init: comm", comm)
    place = communicators.CommunicatorRendezvous(comm, {name for name, _default, _help in native().option_table()})
    try:
        return _open(place.rank, place.size, place.rendezvous, nanoseconds, place.options + pairs, more)
    finally:
        place.close()


def _option_text(value):
    return str(int(value)) if isinstance(value, bool) else str(value)


def shutdown():
    """Leaves the job. Operations in flight end with HorovodShutDownError. A second call does nothing."""
    global _session
    if _session is not None:
        for callback in _before_shutdown:
            callback(SHUTDOWN_NS / 1e9)
    with _changing:
        current, _session = _session, None
        if current is None:
            return
        _latest.sets[:] = [(process_set, process_set.process_set_id) for process_set in current.registered_sets()]
        try:
            if current.endpoint is not None:
                current.endpoint.stop()
            current.close()
        finally:
            for callback in _at_shutdown:
                callback(current)


def at_init(callback):
    """Calls ``callback(session)`` whenever a process has joined a job."""
    _at_init.append(callback)
    return callback


def before_shutdown(callback):
    """Calls ``callback(seconds)`` before every shutdown: what a framework still has to do may take at most that long."""
    _before_shutdown.append(callback)
    return callback


def at_shutdown(callback):
    """Calls ``callback(session)`` at the end of every shutdown."""
    _at_shutdown.append(callback)
    return callback


_exit_registered = False


def _register_exit():
    global _exit_registered
    if not _exit_registered:
        _exit_registered = True
        atexit.register(_exit)


def _exit():
    # Contexts end here, while Python still runs, so that no thread of theirs calls the log function later.
    try:
        shutdown()
    finally:
        for context in list(_contexts):
            context.free()


def _after_fork_in_child():
    global _session, _latest, _forked_from, _changing
    _changing = threading.RLock()
    if _session is not None:
        # The context belongs to the parent. It is kept, because freeing it is the parent's business too.
        _forked_from = os.getppid()
        _abandoned.extend(_contexts)
        _contexts.clear()
        _session = _latest = None


_abandoned = []
os.register_at_fork(after_in_child=_after_fork_in_child)


def is_initialized():
    """Whether init was called, and shutdown was not since."""
    return _session is not None


def membership():
    """(changes, epoch, synchronize) of an elastic job, as ``hvd_membership`` of the C interface has them; the epoch is 0 in others."""
    return session().context.membership()


def leave():
    """Asks the launcher of an elastic job to let this rank go when all ranks next commit. HorovodInternalError in another job."""
    session().context.leave()


def is_elastic():
    """Whether the launcher of this process lets ranks come and go."""
    return bool(os.environ.get("HOROVOD_MEMBERSHIP"))


def failure():
    """Why the job cannot go on: a HorovodInternalError, the same on all survivors. None while it can, and without a job."""
    if _session is not None:
        try:
            _session.context.status()
        except HorovodInternalError as error:
            return error
    return None


def rank():
    """This process's number in the job, from 0."""
    return session().rank


def size():
    """Number of processes in the job."""
    return session().size


def local_rank():
    """This process's number on its host."""
    return session().local_rank


def local_size():
    """Number of processes of the job on this host."""
    return session().local_size


def cross_rank():
    """This host's number among the hosts that have a process with this local rank."""
    return session().cross_rank


def cross_size():
    """Number of hosts that have a process with this local rank."""
    return session().cross_size


def is_homogeneous():
    """Whether every host has the same number of processes."""
    return session().homogeneous


def metrics():
    """Counters and histograms of this rank since init, as a dict by name.

    A counter is a number: of operations, of bytes, or, if its name ends with ``_time``, of nanoseconds. A histogram is a dict
    with ``unit`` ("1", "bytes" or "ns"), ``count`` (of values), ``sum`` (of values) and ``buckets``: from each upper bound,
    a power of two, to the number of values up to it and above the bound before; bounds without values are left out.

    May be called by any thread at any time.
    """
    context = session().context
    found = {name: value for name, _unit, value in context.metrics()}
    for name, unit, count, total, buckets in context.histograms():
        filled = {1 << power: number for power, number in enumerate(buckets) if number}
        found[name] = {"unit": unit, "count": count, "sum": total, "buckets": filled}
    return found


_RECORD_FIELDS = (
    "number use kind name process_set status dtype reduce_op tensors ndim last_rank waited_for shape bytes group group_bytes "
    "group_operations spread submitted agreed begun ended waited moved reduced copied"
).split()


def records(after=0):
    """The last operations of this rank: what ran when, and where the time went.

    A list of dicts, oldest first: up to 4,096 operations that have ended, from the number ``after`` + 1 on, then those in flight,
    whose ``number`` is 0. Times are nanoseconds of ``time.monotonic_ns()``, 0 where the operation has not come so far:

    ``submitted``, ``agreed`` (this rank learned that all ranks are there), ``begun``, ``ended``. From begun to ended the time of the
    group with which the operation ran is divided into ``waited`` (for other ranks), ``reduced``, ``copied`` and ``moved``, nanoseconds
    each; ``group_operations`` and ``group_bytes`` say how large the group was. ``last_rank`` is the rank that announced the operation
    last, ``spread`` the nanoseconds after the first one; -1 where only rank 0 of the set knows. ``use`` is the same on all ranks for
    the same operation. ``waited_for`` is the rank for which the group waited longest, or -1. ``status`` is "HVD_OK", "HVD_PENDING" or
    the name of an error; ``dtype`` a name, or None without tensors; ``reduce_op`` "Sum" and the like, or None; ``shape`` has the first
    four of the first tensor's ``ndim`` dimensions.

    May be called by any thread at any time. RuntimeError if the option ``flight_recorder`` is 0.
    """
    result = []
    for row in session().context.records(after):
        record = dict(zip(_RECORD_FIELDS, row))
        record["status"] = constants.STATUS_NAMES.get(record["status"])
        record["dtype"] = constants.DTYPE_NAMES.get(record["dtype"])
        record["reduce_op"] = constants.REDUCE_OP_NAMES.get(record["reduce_op"])
        record["shape"] = record["shape"][: record["ndim"]]
        result.append(record)
    return result


def start_timeline(file_path, mark_cycles=False):
    """Writes the operations that this rank submits from now on to a file in Chrome's trace format, for ui.perfetto.dev.

    Rank 0 writes ``file_path``, and rank 1 of "folder/name.json" writes "folder/name.rank1.json"; all ranks that are to be seen call
    this. An existing file is emptied; a timeline that is being written ends, unless the file is the same. ``mark_cycles`` adds an
    event for each group of operations that run together. ValueError before init, or where HOROVOD_TIMELINE was not set at init
    (``DYNAMIC`` writes nothing until this call), or if the file cannot be written.
    """
    context = session().context
    if not context.option_get("timeline"):
        raise ValueError(
            f"start_timeline: HOROVOD_TIMELINE was not set when rank {rank()} called hvd.init(), so the clocks of hosts have not been "
            "compared; set it to DYNAMIC on all ranks, or call hvd.init(timeline='DYNAMIC')"
        )
    context.timeline_start(os.fsencode(file_path), bool(mark_cycles))


def stop_timeline():
    """Ends the file of :func:`start_timeline` or HOROVOD_TIMELINE; nothing if there is none. ValueError before init."""
    session().context.timeline_stop()


def options():
    """All options of the engine with the value in force (before init: the default), as a dict from name to text."""
    current = _session
    table = native().option_table()
    if current is None:
        return {name: default for name, default, _help in table}
    return {name: current.context.option_get(name) for name, _default, _help in table}


def set_option(name, value):
    """Gives the option ``name`` the value ``value``, if it may change at run time; on this rank only.

    The names are those of ``hvd.options()``; docs/tuning.md tells of each.
    """
    session().context.option_set(name, _option_text(value))
