# SPDX-License-Identifier: Apache-2.0
"""What PyTorch asks a group about its backend. A group of this backend is its own backend: nothing stands between them."""

import sys

import torch
from torch.distributed import PrefixStore

from horovod.torch.distributed._work import Together

_CPU = torch.device("cpu")


def leave_unrecorded(name):
    """PyTorch's flight recorder listens to C++ between a group and its backend, where these groups have nothing."""
    # By its full name: torch.distributed has a function called like the module.
    without_hook = getattr(sys.modules["torch.distributed.distributed_c10d"], "_FR_SELF_RECORDING_BACKENDS", None)
    if isinstance(without_hook, set):
        without_hook.add(name)


class Answers:
    """Mixed into the backend."""

    supports_coalescing = False  # a batch of messages needs no common start: each of them returns at once
    supports_splitting = True
    supports_shrinking = False
    supports_reconfigure = False
    supports_window = False
    _supports_time_estimate = False
    _started_together = None

    @property
    def _device_types(self):
        return [_CPU]

    def _get_backend(self, device):
        device = torch.device(device)
        if device.type != "cpu":
            raise RuntimeError(f"the backend hvd works on CPU tensors, it has nothing for {device}")
        return self

    get_backend = _get_backend

    def supports_tensor_alloc(self, _device):
        """No memory is better than other memory."""
        return False

    def eager_connect_single_device(self, _device):
        """A group is connected from the start."""

    def perform_nocolor_split(self, _device):
        """Who is not in the new group has nothing to do for it."""

    def _start_coalescing(self, _device):
        if self._started_together is not None:
            raise RuntimeError(f"process group {self.group_name}: operations are being coalesced already")
        self._started_together = []

    def _end_coalescing(self, _device):
        """One work for all that were started since ``_start_coalescing``."""
        works, self._started_together = self._started_together, None
        if works is None:
            raise RuntimeError(f"process group {self.group_name}: no operations are being coalesced")
        return Together(works)

    def _note(self, work):
        """Every work that is started passes here."""
        if self._started_together is not None:
            self._started_together.append(work)
        return work

    def split_group(self, new_ranks, timeout=None, opts=None, group_name=None, group_desc=None, device_types=None):
        """The group of those members whose ranks in this group are ``new_ranks``; None on others."""
        if opts is not None:
            raise NotImplementedError("split_group: the backend hvd has no options, pg_options must be None")
        if self.rank() not in new_ranks:
            return None
        ranks = [self._ranks[rank] for rank in new_ranks]
        store = PrefixStore(f"{group_name}/", self._store)
        rank = list(new_ranks).index(self.rank())
        group = type(self)(group_name, store, rank, len(ranks), ranks, self._timeout if timeout is None else timeout)
        group.setGroupDesc(group_desc or "undefined")
        return group

    def merge_remote_group(self, *_args, **_kwargs):
        """NotImplementedError: the ranks of a group are known when it is made."""
        raise NotImplementedError("merge_remote_group: the backend hvd cannot join groups, make one with new_group")

    def set_timeout(self, timeout):
        """NotImplementedError: all members must have the same limit, so it is a matter of the group's making."""
        raise NotImplementedError(
            "set_timeout: the backend hvd takes the timeout of init_process_group or new_group, and cannot change it later"
        )

    _set_default_timeout = set_timeout

    def _add_ephemeral_timeout(self, timeout):
        """Ignored, as PyTorch allows: Inductor asks on a rank that found compiled code in its cache, and so waits for the others longer."""
