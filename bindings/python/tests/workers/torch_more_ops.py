# SPDX-License-Identifier: Apache-2.0
"""Operations on PyTorch tensors beyond the plain ones: sparse sums, gradients of Min, Max, Product, layouts, bool."""

import inspect
import re
import warnings
from pathlib import Path

import torch
from errors import raises

import horovod.torch as hvd
from horovod.torch._sparse import start_sums

PS = "process_set"
FACTORS = ["prescale_factor=1.0", "postscale_factor=1.0", PS]
ALLREDUCE = ["average=None", "name=None", "op=None", *FACTORS]
COMPRESSED = ["average=None", "name=None", "compression=NoneCompressor", "op=None", *FACTORS]
SCATTER = ["name=None", "op=0", PS, "prescale_factor=1.0", "postscale_factor=1.0"]
SCATTER_COMPRESSED = ["name=None", "compression=NoneCompressor", *SCATTER[1:]]
NAMED = ["name=None", PS]
SIGNATURES = {
    "allreduce": ["tensor", *COMPRESSED],
    "grouped_allreduce": ["tensors", *COMPRESSED],
    **{name: ["tensor", *ALLREDUCE] for name in ("allreduce_async", "allreduce_", "allreduce_async_")},
    **{f"grouped_{name}": ["tensors", *ALLREDUCE] for name in ("allreduce_async", "allreduce_", "allreduce_async_")},
    "sparse_allreduce_async": ["tensor", "name", "op", PS],
    **{name: ["tensor", *NAMED] for name in ("allgather", "allgather_async")},
    **{name: ["tensors", *NAMED] for name in ("grouped_allgather", "grouped_allgather_async")},
    **{
        name: ["tensor", "root_rank", *NAMED]
        for name in ("broadcast", "broadcast_async", "broadcast_", "broadcast_async_")
    },
    **{name: ["tensor", "root_rank", *NAMED] for name in ("gather", "gather_async")},
    **{name: ["tensor", "splits=None", *NAMED] for name in ("alltoall", "alltoall_async")},
    "reducescatter": ["tensor", *SCATTER_COMPRESSED],
    "reducescatter_async": ["tensor", *SCATTER],
    "grouped_reducescatter": ["tensors", *SCATTER_COMPRESSED],
    "grouped_reducescatter_async": ["tensors", *SCATTER],
    "join": ["device=-1"],
    "poll": ["handle"],
    "synchronize": ["handle"],
}


def described(parameter):
    default = parameter.default
    if default is inspect.Parameter.empty:
        return parameter.name
    if default is hvd.global_process_set:
        return PS
    return f"{parameter.name}={getattr(default, '__name__', default)}"


def check_signatures():
    for name, wanted in SIGNATURES.items():
        found = [described(p) for p in inspect.signature(getattr(hvd, name)).parameters.values()]
        assert found == wanted, (name, found, wanted)


def check_bool():
    rank, size = hvd.rank(), hvd.size()
    flags = torch.tensor([True, rank == 0, False])
    for op, second in ((hvd.Max, True), (hvd.Min, size == 1), (hvd.Sum, True), (hvd.Product, size == 1)):
        assert hvd.allreduce(flags, op=op).tolist() == [True, second, False], op
    raises(Exception, "bool", hvd.allreduce, flags, op=hvd.Average)
    assert hvd.allreduce_(flags, op=hvd.Max) is flags and flags.tolist() == [True, True, False]


def check_layouts():
    rank, size = hvd.rank(), hvd.size()
    images = torch.arange(2.0 * 3 * 4 * 5).reshape(2, 3, 4, 5).to(memory_format=torch.channels_last) + rank
    wanted = images.double() * size - rank * size + sum(range(size))
    assert torch.equal(hvd.allreduce(images, op=hvd.Sum).double(), wanted)
    assert hvd.allreduce_(images, op=hvd.Sum).is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(images.double(), wanted)
    # A negative view has other bits in memory than it shows.
    negative = torch._neg_view(torch.tensor([1.0, 2.0]))
    assert torch.equal(hvd.allreduce(negative), torch.tensor([-1.0, -2.0]))
    hvd.allreduce_(negative, op=hvd.Sum)
    assert torch.equal(negative, torch.tensor([-1.0, -2.0]) * size)
    expanded = torch.ones(1).expand(3)
    assert torch.equal(hvd.allreduce(expanded), torch.ones(3))
    for call in (hvd.allreduce_, lambda t: hvd.broadcast_(t, 0), lambda t: hvd.grouped_allreduce_([torch.ones(1), t])):
        raises(ValueError, "share memory", call, expanded)
    raises(NotImplementedError, "sparse_allreduce_async", hvd.allreduce, torch.ones(2, 2).to_sparse())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch warns of CSR as such
        raises(NotImplementedError, "sparse_csr", hvd.allreduce, torch.ones(2, 2).to_sparse_csr())
    assert hvd.allreduce(torch.ones(1)).item() == 1  # the next operation works


def check_sparse():
    rank, size = hvd.rank(), hvd.size()
    for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64):
        # Rank r has entries r and, twice, 0; rank 1 has none.
        indices, values = [[0, rank, 0]], [[1, 2], [3, 4], [1, 0]]
        if rank == 1:
            indices, values = [[]], torch.zeros(0, 2)
        own = torch.sparse_coo_tensor(indices, torch.as_tensor(values, dtype=dtype), (5, 2), check_invariants=True)
        wanted = torch.zeros(5, 2)
        for r in range(size):
            if r != 1:
                wanted[0] += torch.tensor([2.0, 2.0])
                wanted[r] += torch.tensor([3.0, 4.0])
        finish = hvd.sparse_allreduce_async(own, "s", hvd.Sum)
        found = finish()
        assert found.is_coalesced() and found.dtype == dtype and torch.equal(found.to_dense().float(), wanted), found
        if dtype.is_floating_point:
            found = hvd.sparse_allreduce_async(own, name="s", op=hvd.Average)().to_dense()
            torch.testing.assert_close(found, (wanted / size).to(dtype))
    for name, said in (("s", 'tensors "s": sparse'), (None, "tensors: sparse")):
        other = torch.sparse_coo_tensor([[0]], torch.ones(1, 2), (5 + rank, 2), check_invariants=True)
        finish = hvd.sparse_allreduce_async(other, name, hvd.Sum)
        if size > 1:  # every rank hears it, also one in whose tensor all entries have a place
            raises(hvd.HorovodMismatchError, said + " dimensions differ: rank 0 [5], rank 1 [6]", finish)
        else:
            assert finish().shape == (5, 2)
    sums = start_sums([own, other], "s", hvd.Sum, hvd.global_process_set)
    if size > 1:
        text = 'tensors "s", number 2 of 2: sparse dimensions differ: rank 0 [5], rank 1 [6]'
        raises(hvd.HorovodMismatchError, text, sums.wait)
    else:
        assert torch.equal(sums.wait()[0].to_dense(), own.to_dense())
    raises(ValueError, "not Average or Sum", hvd.sparse_allreduce_async, own, "s", hvd.Max)
    raises(TypeError, "sparse COO", hvd.sparse_allreduce_async, torch.ones(2), "s", hvd.Sum)


def asks_for_huge_pages(tensor):
    """Whether the memory in which a tensor begins is flagged so."""
    address, inside = tensor.data_ptr(), False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        place = re.match(r"([0-9a-f]+)-([0-9a-f]+) ", line)
        if place:
            inside = int(place[1], 16) <= address < int(place[2], 16)
        elif inside and line.startswith("VmFlags:"):
            return " hg" in line
    raise AssertionError(f"no mapping at {address:x}")


def check_large_results():
    """New memory of 32 MB comes in huge pages, whoever allocates it."""
    size = hvd.size()
    ones = torch.ones(8 << 20)
    summed, gathered = hvd.allreduce(ones, op=hvd.Sum), hvd.allgather(ones)
    assert torch.equal(summed, ones * size) and torch.equal(gathered, torch.ones(size * len(ones)))
    if Path("/sys/kernel/mm/transparent_hugepage").is_dir():
        assert asks_for_huge_pages(summed) and asks_for_huge_pages(gathered)
    else:
        print("this kernel has no huge pages for whoever asks: that results do is not checked")


def gradient_of(function, tensor, upstream):
    tensor = tensor.clone().requires_grad_()
    function(tensor).backward(upstream)
    return tensor.grad


def values(rank):
    return torch.tensor([rank + 1.0, -1.0 - rank, 2.0, 0.0 if rank == 0 else 3.0, 0.0], dtype=torch.float64)


def check_gradients_of_scattered_choice(op, combine, scales):
    """The same for reducescatter: every rank's loss weighs its own two rows."""
    rank, size = hvd.rank(), hvd.size()
    rows = [torch.stack([values(r) + row for row in range(2 * size)]) for r in range(size)]
    weights = torch.arange(1.0, 10 * size + 1, dtype=torch.float64).view(2 * size, 5)
    everything = torch.stack(rows).requires_grad_()
    (combine(everything * scales["prescale_factor"]) * scales["postscale_factor"]).backward(weights)
    own = weights[2 * rank : 2 * rank + 2]
    found = gradient_of(lambda t: hvd.reducescatter(t, op=op, **scales), rows[rank], own)
    torch.testing.assert_close(found, everything.grad[rank])
    pair = [rows[rank].clone().requires_grad_(), rows[rank].clone().requires_grad_()]
    torch.autograd.backward(hvd.grouped_reducescatter(pair, op=op, **scales), [own, 3 * own])
    torch.testing.assert_close(pair[0].grad, everything.grad[rank])
    torch.testing.assert_close(pair[1].grad, 3 * everything.grad[rank])


def check_gradients_of_choice():
    """Against autograd on the tensors of all ranks in one process."""
    rank, size = hvd.rank(), hvd.size()
    upstream = torch.arange(1.0, 6.0, dtype=torch.float64)
    total = upstream * (size * (size + 1) / 2)
    for prescale, postscale in ((1.0, 1.0), (-2.0, 0.5)):
        scales = {"prescale_factor": prescale, "postscale_factor": postscale}
        for op, combine in (
            (hvd.Max, lambda t: t.amax(0)),
            (hvd.Min, lambda t: t.amin(0)),
            (hvd.Product, lambda t: t.prod(0)),
        ):
            everything = torch.stack([values(r) for r in range(size)]).requires_grad_()
            (combine(everything * prescale) * postscale).backward(total)
            wanted = everything.grad[rank]
            own = upstream * (rank + 1)
            found = gradient_of(lambda t, op=op, s=scales: hvd.allreduce(t, op=op, **s), values(rank), own)
            torch.testing.assert_close(found, wanted)
            pair = [values(rank).requires_grad_(), values(rank).requires_grad_()]
            outputs = hvd.grouped_allreduce(pair, op=op, **scales)
            torch.autograd.backward(outputs, [own, 3 * own])
            torch.testing.assert_close(pair[0].grad, wanted)
            torch.testing.assert_close(pair[1].grad, 3 * wanted)
            check_gradients_of_scattered_choice(op, combine, scales)
    half = gradient_of(lambda t: hvd.allreduce(t, op=hvd.Max), torch.ones(2).bfloat16(), torch.ones(2).bfloat16())
    assert half.dtype == torch.bfloat16 and torch.equal(half, torch.ones(2).bfloat16())


def check_grouped_gradients():
    """A group member that the loss does not use has a gradient of zeros; other ranks do not wait."""
    rank, size = hvd.rank(), hvd.size()
    pair = [torch.ones(3).requires_grad_(), torch.ones(2).requires_grad_()]
    hvd.grouped_allreduce(pair, op=hvd.Sum)[0].sum().backward()
    assert torch.equal(pair[0].grad, torch.full((3,), float(size))) and torch.equal(pair[1].grad, torch.zeros(2))
    rows = [torch.ones(size, 2).requires_grad_(), torch.ones(2 * size).requires_grad_()]
    scattered = hvd.grouped_reducescatter(rows, op=hvd.Sum)
    assert isinstance(scattered, tuple) and scattered[1].shape == (2,)
    torch.autograd.backward(scattered, [torch.full((1, 2), rank + 1.0), torch.full((2,), rank + 1.0)])
    wanted = torch.arange(1.0, size + 1) * size
    assert torch.equal(rows[0].grad, wanted[:, None].expand(size, 2))
    assert torch.equal(rows[1].grad, wanted.repeat_interleave(2))


def check_results():
    """Which forms give lists and which tuples."""
    tensors = [torch.ones(1), torch.ones(2)]
    assert type(hvd.grouped_allreduce(tensors)) is list
    assert type(hvd.synchronize(hvd.grouped_allreduce_async(tensors))) is tuple
    assert type(hvd.grouped_allreduce_(tensors)) is tuple
    assert type(hvd.grouped_allgather(tensors)) is tuple
    assert type(hvd.synchronize(hvd.alltoall_async(torch.ones(hvd.size())))) is tuple


hvd.init()
for check in (
    check_signatures,
    check_bool,
    check_layouts,
    check_sparse,
    check_large_results,
    check_gradients_of_choice,
    check_grouped_gradients,
    check_results,
):
    check()
print("torch_more_ops: ok")
