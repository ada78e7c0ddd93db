# SPDX-License-Identifier: Apache-2.0
"""Starts operations on tensors. Every function returns what a :class:`horovod._handles.Handle` is made of."""

import torch

from horovod._native import constants
from horovod._submit import checked_splits, reads, scattered_rows, submit, submit_array
from horovod.common.util import listed
from horovod.torch._tensors import Work, check_tensor, empty, library_tensor, library_tensors, on_device_of


# Plain tensors, which the native layer reads itself where PyTorch says how.
_exchange = getattr(torch.Tensor, "__dlpack_c_exchange_api__", None)
if _exchange is not None:
    for _type in (torch.Tensor, torch.nn.Parameter):
        reads(_type, _exchange)


def out_of_place(kind, tensor, name, process_set, reduce_op=1, root=0, prescale=1.0, postscale=1.0):
    """allreduce and broadcast into a new tensor."""
    if type(tensor) is torch.Tensor and tensor.is_cpu:
        fresh = empty(tensor.shape, tensor.dtype)
        operation = submit_array(kind, tensor, fresh, name, process_set, reduce_op, root, prescale, postscale)
        if operation is not None:
            return operation, None, fresh
    options = {"reduce_op": reduce_op, "root": root, "prescale": prescale, "postscale": postscale}
    work = Work(tensor, constants.KIND_NAMES[kind])
    # A copy that had to be made anyway is as good a place for the result as a new tensor.
    out = work if work.copied else Work(work.fresh(tensor.shape), "result")
    operation = submit(
        kind, (work.described,), (out.described,), (work.tensor, out.tensor), name, process_set, **options
    )
    return operation, lambda _operation: on_device_of(out.tensor, work)


def in_place(kind, tensor, name, process_set, reduce_op=1, root=0, prescale=1.0, postscale=1.0):
    """allreduce and broadcast into the tensor itself."""
    if not isinstance(tensor, torch.Tensor):
        check_tensor(tensor, constants.KIND_NAMES[kind])
    operation = submit_array(kind, tensor, tensor, name, process_set, reduce_op, root, prescale, postscale)
    if operation is not None:
        return operation, None, tensor
    options = {"reduce_op": reduce_op, "root": root, "prescale": prescale, "postscale": postscale}
    work = Work(tensor, constants.KIND_NAMES[kind])
    work.check_writable(constants.KIND_NAMES[kind])
    operation = submit(kind, (work.described,), (work.described,), work.tensor, name, process_set, **options)

    def finish(_operation):
        work.write_back()
        return tensor

    return operation, finish


def _works(tensors, kind):
    works = [Work(tensor, kind) for tensor in listed(tensors, kind)]
    devices = {work.source.device for work in works}
    if len(devices) > 1:
        raise ValueError(f"{kind}: tensors are on several devices: {', '.join(sorted(map(str, devices)))}")
    return works


def grouped_allreduce(tensors, name, process_set, **options):
    """allreduce of several tensors into new ones."""
    works = _works(tensors, "grouped_allreduce")
    outs = [work if work.copied else Work(work.fresh(work.source.shape), "result") for work in works]
    operation = submit(
        constants.ALLREDUCE,
        tuple(work.described for work in works),
        tuple(out.described for out in outs),
        ([work.tensor for work in works], [out.tensor for out in outs]),
        name,
        process_set,
        grouped=True,
        **options,
    )
    return operation, lambda _operation: tuple(on_device_of(o.tensor, w) for o, w in zip(outs, works))


def grouped_allreduce_in_place(tensors, name, process_set, **options):
    """allreduce of several tensors into themselves."""
    works = _works(tensors, "grouped_allreduce")
    for work in works:
        work.check_writable("grouped_allreduce")
    described = tuple(work.described for work in works)
    operation = submit(
        constants.ALLREDUCE,
        described,
        described,
        [work.tensor for work in works],
        name,
        process_set,
        grouped=True,
        **options,
    )

    def finish(_operation):
        for work in works:
            work.write_back()
        return tuple(work.source for work in works)

    return operation, finish


def allgather(tensor, name, process_set):
    """Tensors of all ranks one after another."""
    work = Work(tensor, "allgather")
    operation = submit(constants.ALLGATHER, (work.described,), None, work.tensor, name, process_set)
    return operation, lambda ended: library_tensor(ended, 0, work)


def grouped_allgather(tensors, name, process_set):
    """allgather of several tensors."""
    works = _works(tensors, "grouped_allgather")
    described = tuple(work.described for work in works)
    keep = [work.tensor for work in works]
    operation = submit(constants.ALLGATHER, described, None, keep, name, process_set, grouped=True)
    return operation, lambda ended: library_tensors(ended, works)


def gather(tensor, root, name, process_set):
    """Tensors of all ranks on the root; the result is (output, rows received from each rank)."""
    work = Work(tensor, "gather")
    operation = submit(constants.GATHER, (work.described,), None, work.tensor, name, process_set, root=root)

    def finish(ended):
        return library_tensor(ended, 0, work), torch.tensor(ended.received_splits(), dtype=torch.int32)

    return operation, finish


def alltoall(tensor, splits, name, process_set):
    """Rows to every rank; the result is always (output, received splits)."""
    work = Work(tensor, "alltoall")
    numbers = checked_splits(splits, process_set)
    operation = submit(constants.ALLTOALL, (work.described,), None, work.tensor, name, process_set, splits=numbers)
    device = splits.device if isinstance(splits, torch.Tensor) else "cpu"

    def finish(ended):
        received = torch.tensor(ended.received_splits(), dtype=torch.int32, device=device)
        return library_tensor(ended, 0, work), received

    return operation, finish


def _scattered(work, process_set):
    """The tensor for this rank's rows, or None where the engine will say what is wrong."""
    shape = work.source.shape
    rows = scattered_rows(shape[0], process_set) if shape else None
    return None if rows is None else Work(work.fresh((rows, *shape[1:])), "result")


def reducescatter(tensor, name, process_set, **options):
    """A reduction of which every rank gets its rows."""
    work = Work(tensor, "reducescatter")
    out = _scattered(work, process_set)
    wanted = None if out is None else (out.described,)
    operation = submit(
        constants.REDUCESCATTER, (work.described,), wanted, (work.tensor, out), name, process_set, **options
    )
    if out is None:
        return operation, lambda ended: library_tensor(ended, 0, work)
    return operation, lambda _operation: on_device_of(out.tensor, work)


def grouped_reducescatter(tensors, name, process_set, **options):
    """reducescatter of several tensors."""
    works = _works(tensors, "grouped_reducescatter")
    outs = [_scattered(work, process_set) for work in works]
    wanted = None if None in outs else tuple(out.described for out in outs)
    operation = submit(
        constants.REDUCESCATTER,
        tuple(work.described for work in works),
        wanted,
        ([work.tensor for work in works], outs),
        name,
        process_set,
        grouped=True,
        **options,
    )
    if wanted is None:
        return operation, lambda ended: library_tensors(ended, works)
    return operation, lambda _operation: tuple(on_device_of(o.tensor, w) for o, w in zip(outs, works))
