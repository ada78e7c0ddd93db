# SPDX-License-Identifier: Apache-2.0
"""What PyTorch of today does for a backend in Python, and earlier ones did not. Nothing here acts where it is not needed."""

import functools
import sys
import time

import torch
import torch.distributed as dist


def make_group(group, store, rank, size):
    """ProcessGroup's own ``__init__``; PyTorch 2.1's groups in Python know no store."""
    try:
        dist.ProcessGroup.__init__(group, store, rank, size)
    except TypeError:
        dist.ProcessGroup.__init__(group, rank, size)


class KeptWorks:
    """Works that C++ may still wait for, such as those of DDP's reducer.

    Before PyTorch 2.7 C++ keeps only its own half of a work that it gets from Python: where the Python object is gone, its
    ``wait`` never returns. So a work stays here until somebody has asked for its end. One that nobody asks for stays as
    long as its group, without its tensors from the time when its name is used again.
    """

    needed = torch.__version__ < (2, 7)

    def __init__(self):
        self._works = {}
        self._latest = {}

    def add(self, name, work):
        """Keeps the work of the operation with this name; the one before it of that name has ended by now."""
        before = self._works.get(self._latest.get(name))
        if before is not None:
            before.loosen()
        key = self._latest[name] = object()
        self._works[key] = work
        work.on_asked = functools.partial(self._works.pop, key, None)

    def __len__(self):
        return len(self._works)

    def clear(self):
        self._works.clear()


class PolledStore:
    """A store whose connection is free for other threads while one waits for a key. For stores that cannot be cloned.

    Beside each key is a number that says whether it is set. (``compare_set`` could tell that too, but PyTorch 2.1 makes the
    bytes that it returns without the interpreter's lock, and corrupts the memory of other threads.)
    """

    def __init__(self, store, seconds):
        self._store, self._seconds = store, seconds

    def set(self, key, value):
        self._store.set(key, value)
        self._store.add(f"{key}/set", 1)

    def get(self, key):
        deadline = time.monotonic() + self._seconds
        pause = 0.001
        while self._store.add(f"{key}/set", 0) == 0:
            if time.monotonic() > deadline:
                raise dist.DistBackendError(f"store: no rank has set {key} within {self._seconds:g} s")
            time.sleep(pause)
            pause = min(2 * pause, 0.05)
        return self._store.get(key)

    def wait(self, keys):
        for key in keys:
            self.get(key)


def own_connection(store, seconds):
    """The same store over a connection of its own, in which ``get`` waits at most ``seconds``.

    One connection does one thing at a time: while a thread waits in it for the other rank, another thread could not
    answer a third one, and three ranks could wait in a circle.
    """
    return store.clone() if hasattr(store, "clone") else PolledStore(store, seconds)


def end_destroyed_groups(kind):
    """Lets ``destroy_process_group`` end groups of this class; PyTorch 2.1 only forgets them."""
    module = sys.modules["torch.distributed.distributed_c10d"]
    own = module.destroy_process_group
    if "shutdown" in own.__code__.co_names:
        return

    @functools.wraps(own)
    def destroy_process_group(group=None):
        known = list(module._world.pg_map)
        own(group)
        for one in reversed(known):
            if isinstance(one, kind) and one not in module._world.pg_map:
                one.shutdown()

    module.destroy_process_group = dist.destroy_process_group = destroy_process_group
