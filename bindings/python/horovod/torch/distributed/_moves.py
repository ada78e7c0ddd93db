# SPDX-License-Identifier: Apache-2.0
"""The collectives that move numbers as they are: broadcast, the gathers, scatter and the all-to-alls."""

import torch

from horovod._native import constants
from horovod.torch.distributed._buffers import Flat, one, packed, unpack


class Moves:
    """Mixed into the backend, which has ``_start``, ``rank`` and ``size``."""

    def broadcast(self, tensors, opts):
        """In place, from rank ``opts.rootRank`` of the group."""
        flat = Flat(one(tensors, "broadcast"), "broadcast")
        described = (flat.described,)
        return self._start(
            constants.BROADCAST, described, described, flat, tensors, lambda _ended: flat.write_back(), root=opts.rootRank
        )

    def all_gather_single(self, output, tensor, opts=None):
        """``output``: the elements of ``tensor`` of all ranks, one after another."""
        return self._gathered([output], [tensor])

    def all_gather_single_coalesced(self, outputs, tensors, opts=None):
        """all_gather_single of several tensors as one operation."""
        return self._gathered(outputs, tensors)

    def _gathered(self, outputs, tensors):
        given = [Flat(tensor, "allgather") for tensor in tensors]
        wanted = [Flat(output, "allgather") for output in outputs]
        for part, whole in zip(given, wanted):
            if part.source.dtype is not whole.source.dtype:
                raise ValueError(f"allgather: input is {part.source.dtype}, output {whole.source.dtype}")
            if part.count * self.size() != whole.count:
                raise ValueError(
                    f"allgather: output has {whole.source.numel()} elements, "
                    f"{self.size()} ranks give {part.source.numel()} each"
                )
        keep = [_apart(part, whole) for part, whole in zip(given, wanted)]
        return self._start(
            constants.ALLGATHER,
            tuple(part.described for part in given),
            tuple(whole.described for whole in wanted),
            (given, wanted, keep),
            outputs,
            lambda _ended: [whole.write_back() for whole in wanted],
            grouped=len(tensors) > 1,
        )

    def allgather(self, outputs, tensors, opts=None):
        """``outputs[0][i]`` becomes ``tensors[0]`` of rank i; lengths may differ between ranks."""
        parts, given = one(outputs, "allgather"), Flat(one(tensors, "allgather"), "allgather")
        if len(parts) != self.size():
            raise ValueError(f"allgather: {len(parts)} output tensors for {self.size()} ranks")
        whole = given.source.new_empty(sum(part.numel() for part in parts))
        wanted = Flat(whole, "allgather")
        return self._start(
            constants.ALLGATHER, (given.described,), (wanted.described,), (given, wanted), outputs[0],
            lambda _ended: unpack(whole, parts),
        )

    def allgather_coalesced(self, output_lists, tensors, opts=None):
        """``output_lists[r][i]`` becomes ``tensors[i]`` of rank r."""
        given = [Flat(tensor, "allgather_coalesced") for tensor in tensors]
        wholes = [tensor.new_empty(tensor.numel() * self.size()) for tensor in tensors]
        wanted = [Flat(whole, "allgather_coalesced") for whole in wholes]

        def finish(_ended):
            for index, whole in enumerate(wholes):
                unpack(whole, [of_rank[index] for of_rank in output_lists])

        return self._start(
            constants.ALLGATHER,
            tuple(part.described for part in given),
            tuple(whole.described for whole in wanted),
            (given, wanted),
            [tensor for of_rank in output_lists for tensor in of_rank],
            finish,
            grouped=True,
        )

    def gather(self, outputs, tensors, opts):
        """``outputs[0][i]`` on rank ``opts.rootRank`` becomes ``tensors[0]`` of rank i. Other ranks pass no outputs."""
        tensor = one(tensors, "gather")
        parts = one(outputs, "gather") if self.rank() == opts.rootRank else []
        splits = [tensor.numel() if rank == opts.rootRank else 0 for rank in range(self.size())]
        return self._exchange("gather", tensor, splits, parts)

    def scatter(self, outputs, inputs, opts):
        """``outputs[0]`` of rank i becomes ``inputs[0][i]`` of rank ``opts.rootRank``. Other ranks pass no inputs."""
        output, splits, given = one(outputs, "scatter"), [0] * self.size(), None
        if self.rank() == opts.rootRank:
            parts = one(inputs, "scatter")
            if len(parts) != self.size():
                raise ValueError(f"scatter: {len(parts)} tensors for {self.size()} ranks")
            splits, given = [part.numel() for part in parts], packed(parts)
        return self._exchange("scatter", output.new_empty(0) if given is None else given, splits, [output])

    def alltoall(self, outputs, inputs, opts=None):
        """``outputs[i]`` becomes ``inputs[own rank]`` of rank i; every tensor may have a length of its own."""
        for name, tensors in (("input", inputs), ("output", outputs)):
            if len(tensors) != self.size():
                raise ValueError(f"alltoall: {len(tensors)} {name} tensors for {self.size()} ranks")
        return self._exchange("alltoall", packed(inputs), [tensor.numel() for tensor in inputs], outputs)

    def all_to_all_single(self, output, tensor, output_splits, input_splits, opts=None):
        """Rows of ``tensor`` go to the ranks; the splits count rows, and empty ones mean equal parts."""
        self._check_splits("output", output_splits, output)
        splits = self._check_splits("input", input_splits, tensor)
        row = tensor[0].numel() if tensor.dim() and tensor.shape[0] else 1
        return self._exchange("alltoall", tensor, [count * row for count in splits], [output])

    def _check_splits(self, name, splits, tensor):
        rows = tensor.shape[0] if tensor.dim() else 1
        if not splits:
            if rows % self.size():
                raise ValueError(f"alltoall: {rows} {name} rows do not divide by {self.size()} ranks")
            return [rows // self.size()] * self.size()
        if len(splits) != self.size():
            raise ValueError(f"alltoall: {len(splits)} {name} splits for {self.size()} ranks")
        if sum(splits) != rows:
            raise ValueError(f"alltoall: {name} splits are {sum(splits)} rows together, the tensor has {rows}")
        return splits

    def _exchange(self, kind, tensor, splits, outputs):
        """An alltoall of elements: ``splits[i]`` of the tensor go to rank i, what arrives to ``outputs`` in order."""
        given = Flat(tensor, kind)
        for output in outputs:
            if output.dtype is not tensor.dtype:
                raise ValueError(f"{kind}: input is {tensor.dtype}, output {output.dtype}")
        direct = len(outputs) == 1 and outputs[0].is_contiguous() and outputs[0].data_ptr() != given.tensor.data_ptr()
        whole = outputs[0] if direct else tensor.new_empty(sum(output.numel() for output in outputs))
        wanted = Flat(whole, kind)
        return self._start(
            constants.ALLTOALL,
            (given.described,),
            (wanted.described,),
            (given, wanted),
            list(outputs),
            None if direct else lambda _ended: unpack(whole, outputs),
            splits=tuple(count * given.unit for count in splits),
        )

    _allgather_base = all_gather_single
    allgather_into_tensor_coalesced = all_gather_single_coalesced
    alltoall_base = all_to_all_single


def _apart(part, whole):
    """Copies an input that overlaps the output, which the engine allows at the rank's own place only."""
    start, end = whole.tensor.data_ptr(), whole.tensor.data_ptr() + whole.tensor.numel() * whole.tensor.element_size()
    if start <= part.tensor.data_ptr() < end and isinstance(part.tensor, torch.Tensor):
        part.tensor = part.tensor.detach().clone()
    return part
