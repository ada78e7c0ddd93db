# SPDX-License-Identifier: Apache-2.0
"""The context of a process between init and shutdown, and the process sets that are registered with it."""

import operator

from horovod.common.exceptions import HorovodInternalError
from horovod.common.process_sets import global_process_set

# How long shutdown lets operations finish that are already moving data.
SHUTDOWN_NS = 5_000_000_000


class _SetsOfOthers:
    """Process sets that the other ranks made before this process joined their job.

    The program of this process is theirs, so it makes its sets in the order in which they did: the first one has id 1. To make
    one again needs no collective operation, in which the others would not take part.
    """

    def __init__(self):
        self._ids = {}  # by the ranks that the program gives

    def id_of(self, ranks):
        """The id that the others' set has."""
        return self._ids.setdefault(tuple(ranks), len(self._ids) + 1)


class Session:
    """The context of this process between init and shutdown."""

    def __init__(self, context, comm):
        self.context = context
        self.comm = comm  # the MPI communicator of the job, if init was given one
        self.submit, self.submit_array = context.submit, context.submit_array
        self.endpoint = None  # where Prometheus finds the metrics, if somebody asked for it
        self.drain = None  # set by horovod._completions when the engine queues what it completes
        (self.rank, self.size, self.local_rank, self.local_size, self.cross_rank, self.cross_size, self.homogeneous) = (
            context.topology()
        )
        self.epoch = context.membership()[1]  # 0 in a job of fixed members
        self._registered = []
        self._inherited = set(context.set_ids()) - {0}  # sets of the epoch before that nobody has asked for yet
        self._others = _SetsOfOthers() if self.epoch > 1 else None  # until the training of this process begins
        global_process_set.ranks = list(range(self.size))

    def place_in_environment(self):
        """What Horovod's programs find in the environment of a process whose rank may change."""
        names = ("RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE", "CROSS_RANK", "CROSS_SIZE")
        values = (self.rank, self.size, self.local_rank, self.local_size, self.cross_rank, self.cross_size)
        return {f"HOROVOD_{name}": str(value) for name, value in zip(names, values)}

    def register(self, process_set):
        """Creates the set in the engine, if it is not one of the epoch before, and binds the object to it."""
        if self._others is not None and self._bind_to(process_set, self._others.id_of(process_set.ranks)):
            return
        identity = self._id_of(process_set.ranks) if self._inherited else None
        if identity in self._inherited:
            self._inherited.discard(identity)
            self._bind_to(process_set, identity)
            return
        for ranks in process_set._to_create(self.comm):
            address = self.context.set_create(ranks)
            if ranks == process_set.ranks:
                process_set._bind(self.context.set_id(address), address, self.context.set_ranks(address))
            else:
                process_set._siblings.append(address)
        self._registered.append(process_set)

    def rebind(self, process_set):
        """Binds the object to the engine's set of the same ranks; False if there is none."""
        if process_set in self._registered:
            return True
        identity = None if self.joins_others else self._id_of(process_set.ranks)
        return identity is not None and self._bind_to(process_set, identity)

    def bind_again(self, process_set, identity):
        """Binds an object that was bound to the set ``identity`` of the session before. Collective in a job of fixed members."""
        if self.epoch:
            self._bind_to(process_set, identity)
        elif not self.rebind(process_set):
            self.register(process_set)

    @property
    def joins_others(self):
        """Whether this process is new in a job that others have begun, and its training has not begun yet."""
        return self._others is not None

    def catch_up(self):
        """The training of this process begins: from now on it does what the others do."""
        self._others = None

    def _id_of(self, ranks):
        """The id of the engine's set of these ranks; None if there is none."""
        for identity in self.context.set_ids():
            address = self.context.set_find(identity)
            found = self.context.set_ranks(address)
            self.context.set_free(address)
            if identity != 0 and found == ranks:
                return identity
        return None

    def _bind_to(self, process_set, identity):
        """Binds the object to this set of the engine, or says in the object that the set is gone; False if there never was one."""
        try:
            address = self.context.set_find(identity)
        except ValueError:
            return False
        except HorovodInternalError as error:
            if error.status_name != "HVD_ERR_INVALID_STATE":
                raise
            process_set._is_gone(identity)
            return True
        like = next((other for other in self._registered if other.process_set_id == identity), None)
        process_set._bind(identity, address, self.context.set_ranks(address), like=like)
        self._registered.append(process_set)
        return True

    def unregister(self, process_set):
        """Ends the set in the engine; every object bound to it becomes an unregistered one."""
        if self.joins_others:
            raise ValueError(
                f"remove_process_set: {process_set} belongs to a job that this process has just joined; the ranks remove it together, once "
                "training has begun"
            )
        identity, address, siblings = process_set.process_set_id, process_set._address, list(process_set._siblings)
        self._inherited.discard(identity)  # a later set may have the id
        for other in self._registered:
            if other.process_set_id == identity:
                if other is not process_set:
                    self.context.set_free(other._address)
                other._unbind()
        self._registered = [other for other in self._registered if other.process_set_id is not None]
        for ranks in process_set._to_create(self.comm):
            self.context.set_destroy(address if ranks == process_set.ranks else siblings.pop(0))

    def registered_sets(self):
        """The registered process sets, in the order of their ids."""
        return sorted(self._registered, key=operator.attrgetter("process_set_id"))

    def close(self):
        """Leaves the job."""
        try:
            self.context.shutdown(SHUTDOWN_NS)
        finally:
            for process_set in self._registered:
                for address in [process_set._address, *process_set._siblings]:
                    self.context.set_free(address)
                process_set._unbind()
            self._registered = []
