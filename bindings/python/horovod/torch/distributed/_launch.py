# SPDX-License-Identifier: Apache-2.0
"""How ``init_process_group`` without an init_method finds the others under horovodrun.

PyTorch's ``env://`` wants RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT. Where one of them is missing but the process
is a rank of a job of this library, the job itself tells them.
"""

import datetime
import os
import socket
import sys

import torch.distributed as dist

from horovod._objects import allgather_object, broadcast_object
from horovod.common import basics
from horovod.torch.distributed._groups import open_job_for_store

_NEEDED = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


def install():
    """Puts the job's answer behind PyTorch's own handler of ``env://``."""
    # By its full name: torch.distributed has a function called like the module.
    handlers = sys.modules["torch.distributed.rendezvous"]._rendezvous_handlers
    own = handlers["env"]

    def handler(url, **kwargs):
        in_job = basics.is_initialized() or "HOROVOD_RANK" in os.environ
        told = all(os.environ.get(name) for name in _NEEDED)
        if not in_job or (told and not _told_by_horovodrun()):
            return own(url, **kwargs)
        return _from_job(**kwargs)

    handlers["env"] = handler


def _told_by_horovodrun():
    """Whether horovodrun has set the address, one of several; the job itself knows one that all ranks reach."""
    master = f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
    return os.environ.get("HVD_LAUNCHER_MASTER") == master


def _from_job(timeout=datetime.timedelta(minutes=30), **_unused):
    """Yields (store, rank, size). The store listens on a port that the system chooses on rank 0's host."""
    open_job_for_store()
    rank, size = basics.rank(), basics.size()
    # One word for all: whether every rank is on this host decides the address.
    host = "127.0.0.1" if basics.local_size() == size else socket.gethostname()
    store = problem = None
    if rank == 0:
        store, problem = _open_store(host, 0, size, True, timeout)
    told = (host, None if store is None else store.port, problem)
    host, port, problem = broadcast_object(told, 0, name="torch.distributed.store")
    if problem is not None:
        raise RuntimeError(f"init_process_group: rank 0 can open no store: {problem}")
    if store is None:
        store, problem = _open_store(host, port, size, False, timeout)
    # The store lives as long as rank 0's process: a short program on rank 0 must not end before all have reached the store.
    problems = allgather_object(problem, name="torch.distributed.store.reached")
    for other, problem in enumerate(problems):
        if problem is not None:
            raise RuntimeError(f"init_process_group: rank {other} cannot reach rank 0's store at {host}:{port}: {problem}")
    yield store, rank, size
    raise RuntimeError("init_process_group: the job cannot meet again")


def _open_store(host, port, size, is_master, timeout):
    """(store, None), or (None, what went wrong): the other ranks wait for an answer in either case."""
    try:
        return dist.TCPStore(host, port, size, is_master=is_master, timeout=timeout, wait_for_workers=False), None
    except (OSError, RuntimeError) as error:
        return None, str(error)
