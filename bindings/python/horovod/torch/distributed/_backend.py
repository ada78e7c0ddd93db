# SPDX-License-Identifier: Apache-2.0
"""The backend ``hvd`` of torch.distributed: collectives of one group of ranks.

The methods have the names and arguments that PyTorch's C++ side calls (those of 2.15, and their older names). They
return at once; the work that they return ends when the tensors hold the result.
"""

import torch
import torch.distributed as dist

from horovod._native import constants
from horovod.torch._sparse import Entries
from horovod.torch._tensors import Work, library_tensors
from horovod.torch.distributed import _buffers
from horovod.torch.distributed._answers import Answers
from horovod.torch.distributed._buffers import Flat, one
from horovod.torch.distributed._futures import Completer
from horovod.torch.distributed._groups import EngineGroup
from horovod.torch.distributed._moves import Moves
from horovod.torch.distributed._older import KeptWorks, make_group
from horovod.torch.distributed._pairs import Pairs
from horovod.torch.distributed._work import EngineWork


def create_backend(options, backend_options=None):
    """Called by ``init_process_group`` and ``new_group`` on every member; returns when all members have."""
    return EngineProcessGroup(
        options.group_id,
        options.store,
        options.group_rank,
        options.group_size,
        list(options.global_ranks_in_group),
        options.timeout,
    )


class EngineProcessGroup(Moves, Answers, dist.ProcessGroup):
    """One group. ``ranks``: its members as ranks of the default group, empty for that group itself.

    A ProcessGroup and not a Backend inside PyTorch's own group: that can be derived from in every PyTorch since 2.0,
    and callers in Python get works as they are, not behind a C++ object that does not know ``is_completed``.
    """

    def __init__(self, name, store, rank, size, ranks, timeout):
        make_group(self, store, rank, size)
        self._name, self._description = name, "undefined"
        self._ranks, self._timeout = ranks or list(range(size)), timeout
        self._store, self._monitored = store, 0
        self._engine = EngineGroup.open(name, store, rank, size, ranks, timeout.total_seconds())
        self._completer = Completer()
        self._kept = KeptWorks() if KeptWorks.needed else None
        self._pairs = Pairs(store, rank, size, timeout.total_seconds(), self._completer)

    def getBackendName(self):  # noqa: N802 - PyTorch's name
        return "hvd"

    def getGroupName(self):  # noqa: N802 - PyTorch's name
        return self._name

    def setGroupName(self, name):  # noqa: N802 - PyTorch's name
        self._name = name

    _set_group_name = setGroupName

    def getGroupDesc(self):  # noqa: N802 - PyTorch's name
        return self._description

    def setGroupDesc(self, description):  # noqa: N802 - PyTorch's name
        self._description = description

    _set_group_desc = setGroupDesc
    group_name = property(getGroupName)
    group_desc = property(getGroupDesc)

    def name(self):
        return "hvd"

    def _set_sequence_number_for_group(self):
        """Nothing to agree on: every rank counts from 0."""

    def _get_sequence_number_for_group(self):
        return self._engine.calls

    def _start(self, kind, inputs, outputs, keep, results, finish=None, **options):
        """``finish(operation)`` is called when the operation has ended."""
        engine = self._engine
        if engine is None:
            raise RuntimeError(f"{constants.KIND_NAMES[kind]}: the process group {self._name} was destroyed")
        operation, name = engine.submit(kind, inputs, outputs, keep, **options)

        def ended(of):
            engine.done(of, name)
            if finish is not None:
                finish(of)

        work = EngineWork(self._completer, operation, ended, results, name)
        if self._kept is not None:
            self._kept.add(name, work)
        return self._note(work)

    def allreduce(self, tensors, opts=None):
        """In place. SUM, AVG, MIN, MAX, PRODUCT; BAND and BOR of bool; complex numbers and sparse tensors are added only."""
        opts = opts or dist.AllreduceOptions()
        tensor = one(tensors, "allreduce")
        number, factor = _buffers.reduction("allreduce", opts.reduceOp, tensors)
        if tensor.layout is torch.sparse_coo:
            return self._sum_of_sparse(tensor, number, factor)
        _buffers.check_complex("allreduce", number, tensors)
        flat = Flat(tensor, "allreduce", reduced=True)
        described = (flat.described,)
        return self._start(
            constants.ALLREDUCE, described, described, flat, tensors, lambda _ended: flat.write_back(), reduce_op=number,
            prescale=factor,
        )

    def _sum_of_sparse(self, tensor, number, factor):
        """The tensor becomes the sum or the average of those of all ranks, coalesced."""
        if number not in (constants.SUM, constants.AVERAGE) or factor != 1.0:
            raise NotImplementedError("allreduce: only SUM and AVG are defined for sparse tensors")
        _buffers.check_on_cpu(tensor, "allreduce")
        divisor = self.size() if number == constants.AVERAGE else 1
        entries = Entries([tensor], f"torch.distributed.{self._name}", divisor)
        works = [Work(part, "allreduce") for part in entries.tensors]

        def finish(operation):
            (total,) = entries.totals(library_tensors(operation, works), range(self.size()))
            with torch.no_grad():
                tensor.copy_(total.coalesce())

        described = tuple(work.described for work in works)
        return self._start(constants.ALLGATHER, described, None, works, [tensor], finish, grouped=True)

    def allreduce_coalesced(self, tensors, opts=None):
        """allreduce of several tensors as one operation."""
        opts = opts or dist.AllreduceCoalescedOptions()
        number, factor = _buffers.reduction("allreduce_coalesced", opts.reduceOp, tensors)
        _buffers.check_complex("allreduce_coalesced", number, tensors)
        flats = [Flat(tensor, "allreduce_coalesced", reduced=True) for tensor in tensors]
        described = tuple(flat.described for flat in flats)
        return self._start(
            constants.ALLREDUCE, described, described, flats, tensors, lambda _ended: _write_back(flats), grouped=True,
            reduce_op=number, prescale=factor,
        )

    def reduce(self, tensors, opts):
        """allreduce whose result only the root keeps."""
        tensor = one(tensors, "reduce")
        number, factor = _buffers.reduction("reduce", opts.reduceOp, tensors)
        _buffers.check_complex("reduce", number, tensors)
        flat = Flat(tensor, "reduce", reduced=True)
        is_root = self.rank() == opts.rootRank
        if not is_root and flat.tensor is flat.source:
            flat.tensor = tensor.detach().clone()
        described = (flat.described,)
        return self._start(
            constants.ALLREDUCE, described, described, flat, tensors,
            (lambda _ended: flat.write_back()) if is_root else None, reduce_op=number, prescale=factor,
        )

    def reduce_scatter_single(self, output, tensor, opts=None):
        """``output`` becomes this rank's part of the reduction of ``tensor``, which is size times as long."""
        return self._scattered("reduce_scatter", [output], [tensor], opts)

    def reduce_scatter_single_coalesced(self, outputs, tensors, opts=None):
        """reduce_scatter_single of several tensors as one operation."""
        return self._scattered("reduce_scatter", outputs, tensors, opts)

    def _scattered(self, kind, outputs, tensors, opts):
        opts = opts or dist.ReduceScatterOptions()
        number, factor = _buffers.reduction(kind, opts.reduceOp, tensors)
        _buffers.check_complex(kind, number, tensors)
        given = [Flat(tensor, kind, reduced=True) for tensor in tensors]
        wanted = [Flat(output, kind, reduced=True) for output in outputs]
        _check_parts(kind, self.size(), wanted, given)
        return self._start(
            constants.REDUCESCATTER, *_described(given, wanted), (given, wanted), outputs, lambda _ended: _write_back(wanted),
            grouped=len(tensors) > 1, reduce_op=number, prescale=factor,
        )

    def reduce_scatter(self, outputs, inputs, opts=None):
        """``inputs[0][i]`` of all ranks is reduced to ``outputs[0]`` of rank i. The tensors may differ in length."""
        opts = opts or dist.ReduceScatterOptions()
        output, parts = one(outputs, "reduce_scatter"), one(inputs, "reduce_scatter")
        if len(parts) != self.size():
            raise ValueError(f"reduce_scatter: {len(parts)} tensors for {self.size()} ranks")
        if len({part.numel() for part in parts}) == 1:
            return self._scattered("reduce_scatter", [output], [_buffers.packed(parts)], opts)
        # The engine deals rows out evenly; other lengths take an allreduce, of which each rank keeps its part.
        number, factor = _buffers.reduction("reduce_scatter", opts.reduceOp, parts)
        _buffers.check_complex("reduce_scatter", number, parts)
        flat = Flat(_buffers.packed(parts), "reduce_scatter", reduced=True)
        start = sum(part.numel() for part in parts[: self.rank()])
        described = (flat.described,)
        return self._start(
            constants.ALLREDUCE, described, described, flat, [output],
            lambda _ended: _buffers.unpack(flat.tensor[start : start + output.numel()], [output]),
            reduce_op=number, prescale=factor,
        )

    def barrier(self, opts=None):
        """A work that ends when every rank of the group has called it."""
        return self._start(constants.BARRIER, None, None, None, [])

    def monitored_barrier(self, timeout=None, wait_all_ranks=False):
        """barrier that waits, at most ``timeout``; the error names all ranks that are missing."""
        self._monitored += 1
        self._store.set(f"monitored/{self._monitored}/{self.rank()}", "1")
        try:
            self.barrier().wait(timeout)
        except dist.DistBackendError as error:
            keys = {rank: f"monitored/{self._monitored}/{rank}" for rank in range(self.size())}
            missing = [self._ranks[rank] for rank, key in keys.items() if not self._store.check([key])]
            raise RuntimeError(
                f"monitored_barrier: rank {self._ranks[self.rank()]} waits for ranks {missing}, which have not called it: {error}"
            ) from None

    def send(self, tensors, destination, tag=0):
        """Sends a tensor to a rank of the group. The two ranks meet at the first message between them."""
        return self._note(self._pairs.send(one(tensors, "send"), destination, tag))

    def recv(self, tensors, source, tag=0):
        """Receives the next tensor that this rank sends with this tag."""
        return self._note(self._pairs.receive(one(tensors, "recv"), source, tag))

    def recv_anysource(self, tensors, tag=0):
        """NotImplementedError: the engine has no message without a sender's name."""
        raise NotImplementedError("recv: the source must be named, the backend hvd cannot receive from any rank")

    def shutdown(self):
        """Ends the group's threads, and the jobs that were opened for it."""
        engine, self._engine = self._engine, None
        if engine is not None:
            self._pairs.close()
            engine.close()
            self._completer.close()
            if self._kept is not None:
                self._kept.clear()

    abort = shutdown

    _reduce_scatter_base = reduce_scatter_single
    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced


def _described(given, wanted):
    return tuple(one.described for one in given), tuple(one.described for one in wanted)


def _write_back(flats):
    for flat in flats:
        flat.write_back()


def _check_parts(kind, size, parts, wholes):
    for part, whole in zip(parts, wholes):
        if part.source.dtype is not whole.source.dtype:
            raise ValueError(f"{kind}: input is {whole.source.dtype}, output {part.source.dtype}")
        if part.count * size != whole.count:
            raise ValueError(
                f"{kind}: {whole.source.numel()} elements are not {size} times the {part.source.numel()} of one rank"
            )
