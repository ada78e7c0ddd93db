# SPDX-License-Identifier: Apache-2.0
"""What ``hvd.init(comm=...)`` and ``ProcessSet(comm)`` may be given instead of ranks: a communicator of mpi4py."""

import ctypes
import os
import socket
import sys


def is_communicator(value):
    """Whether it is one, or can be used like one."""
    return all(callable(getattr(value, name, None)) for name in ("Get_rank", "Get_size", "bcast", "allgather"))


def rank_list(value):
    """The ranks of ``comm=[...]`` as a sorted list; ValueError for anything else."""
    kind = type(value).__name__
    if isinstance(value, (str, bytes)):
        raise ValueError(f"init: comm is a {kind}; a list of ranks or an MPI communicator of mpi4py is needed")
    try:
        ranks = list(value)
    except TypeError:
        raise ValueError(f"init: comm is a {kind}; a list of ranks or an MPI communicator of mpi4py is needed") from None
    for rank in ranks:
        if isinstance(rank, bool) or not hasattr(rank, "__index__") or rank.__index__() < 0:
            raise ValueError(f"init: comm lists {rank!r}, which is no rank")
    ranks = sorted(rank.__index__() for rank in ranks)
    for lower, higher in zip(ranks, ranks[1:]):
        if lower == higher:
            raise ValueError(f"init: comm lists rank {lower} twice")
    return ranks


def place_in_part(ranks):
    """(rank, size, rendezvous) of this process among those listed ranks, which meet at their lowest one's.

    None if horovodrun has said nothing about that: on one host ranks meet in a folder, elsewhere through the launcher.
    ValueError if this process is not listed, or a listed one does not exist.
    """
    import hashlib
    import json

    try:
        with open(os.environ["HOROVOD_PARTS_FILE"], encoding="utf-8") as file:
            told = json.load(file)
        launched = int(os.environ["HOROVOD_RANK"])
    except (KeyError, OSError, ValueError):
        return None
    places = told["places"]
    if os.environ.get("HOROVOD_RENDEZVOUS") != told["rendezvous"] or ranks == list(range(len(places))):
        return None
    listed = ",".join(map(str, ranks))
    if ranks[-1] >= len(places):
        raise ValueError(f"init: comm: rank {ranks[-1]} was not launched; there are 0 to {len(places) - 1}")
    if launched not in ranks:
        raise ValueError(f"init: comm: this is rank {launched}, which {listed} does not list")
    if not places[ranks[0]]:
        return None
    job = hashlib.sha256(f"{told['rendezvous']} {listed}".encode()).hexdigest()[:16]
    return ranks.index(launched), len(ranks), f"tcp://{','.join(places[ranks[0]])}/{job}"


# Variables in which a launcher says how many processes it has started: of horovodrun, of MPI's own, of others.
_MPI_SIZES = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE")
_OTHER_SIZES = ("WORLD_SIZE", "SLURM_STEP_NUM_TASKS")


def why_not_all(processes):
    """Why these processes, which are all that MPI knows of, are not those that were launched, or None.

    MPI that was not started by a launcher of its own takes each process for a job of one.
    """
    sizes = {name: int(os.environ[name]) for name in ("HOROVOD_SIZE", *_MPI_SIZES, *_OTHER_SIZES)
             if os.environ.get(name, "").isdigit()}
    if "HOROVOD_RANK" in os.environ and "HOROVOD_SIZE" in sizes:
        launched = sizes["HOROVOD_SIZE"]
    elif processes > 1 or any(name in sizes for name in _MPI_SIZES):
        return None
    else:
        launched = next((sizes[name] for name in _OTHER_SIZES if name in sizes), processes)
    if launched == processes:
        return None
    return (f"MPI knows of {processes} {'process' if processes == 1 else 'processes'} here, and {launched} were started, "
            "each of which would train alone; start them with horovodrun --mpi, or with mpirun")


def check_span(what, comm=None):
    """ValueError if the MPI that mpi4py has started, to which ``comm`` belongs, does not know all launched processes."""
    MPI = sys.modules.get("mpi4py.MPI")  # noqa: N806
    if MPI is not None and (comm is None or isinstance(comm, MPI.Comm)):
        why = why_not_all(MPI.COMM_WORLD.Get_size())
        if why is not None:
            raise ValueError(f"{what}: {why}")


class CommunicatorRendezvous:
    """A place for the ranks of a communicator only: its rank 0 makes it and tells the others. Collective over them.

    ``rank``, ``size``, ``rendezvous`` and ``options`` are for the engine; close() once the context is open, or not to be.
    """

    def __init__(self, comm, known_options):
        self.rank, self.size = comm.Get_rank(), comm.Get_size()
        self._folder = self._secret = None
        hosts = comm.allgather(_machine())
        told = None
        if self.rank == 0:
            try:
                told = self._make(len(set(hosts)) == 1), None
            except OSError as error:  # the others wait for an answer
                told = None, f"init: rank 0 of the communicator can make no meeting: {error}"
        made, problem = comm.bcast(told, root=0)
        if problem is not None:
            raise OSError(problem)
        self.rendezvous, secret = made
        self.options = [("controller", "mpi")]
        handle = _handle(comm)
        if handle:
            self.options.append(("mpi_communicator", str(handle)))
        if secret is not None and "secret_fd" in known_options:
            self._secret, writer = os.pipe()
            os.write(writer, secret.encode())
            os.close(writer)
            self.options.append(("secret_fd", str(self._secret)))

    def _make(self, one_host):
        """(url, secret)"""
        if one_host:
            from horovod.runner.on_host.private_dir import PrivateDir

            self._folder = PrivateDir()
            return self._folder.rendezvous(), None
        # Free now; if somebody takes it first, init fails and says so.
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            probe.bind(("", 0))
            port = probe.getsockname()[1]
        return f"tcp://{socket.gethostname()}:{port}/{os.urandom(8).hex()}", os.urandom(32).hex()

    def close(self):
        """Removes what rank 0 has made."""
        if self._folder is not None:
            self._folder.remove()
        if self._secret is not None:
            os.close(self._secret)
        self._folder = self._secret = None


def _machine():
    """Equal on processes that share a file system's temporary folder and a kernel."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            boot = file.read().strip()
        return boot, os.stat("/proc/self/ns/mnt").st_ino, os.stat("/proc/self/ns/net").st_ino
    except OSError:
        return (socket.gethostname(),)


def _handle(comm):
    """Open MPI's handle behind an mpi4py communicator as a number; 0 where handles are no pointers."""
    MPI = sys.modules.get("mpi4py.MPI")  # noqa: N806 - importing it would start MPI where the program does not use it
    try:
        if MPI is None or not isinstance(comm, MPI.Comm) or MPI._sizeof(MPI.Comm) != ctypes.sizeof(ctypes.c_void_p):
            return 0
        return ctypes.c_void_p.from_address(MPI._addressof(comm)).value or 0
    except AttributeError:
        return 0


def ranks_in(comm, base):
    """The members of ``comm`` as ranks of ``base``, which is MPI.COMM_WORLD if None. ValueError if one is outside."""
    from mpi4py import MPI

    if base is None:
        check_span("ProcessSet")
    outer = (MPI.COMM_WORLD if base is None else base).Get_group()
    inner = comm.Get_group()
    ranks = MPI.Group.Translate_ranks(inner, list(range(inner.Get_size())), outer)
    if MPI.UNDEFINED in ranks:
        raise ValueError("ProcessSet: the communicator has members outside the one that init was given")
    return list(ranks)
