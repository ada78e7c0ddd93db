# SPDX-License-Identifier: Apache-2.0
"""What the native layer reads by itself, and that everything else takes the other way with the same result; handles by their number."""

import sys

import numpy as np
from errors import raises

import horovod as hvd
from horovod._native import constants, native
from horovod.common import basics

COMPILED = native().NAME == "pybind11"
torch = None


def taken(array, out=None, kind=constants.ALLREDUCE):
    """Whether the native layer takes the array, and its result in ``out``, as they are."""
    out = array if out is None else out
    operation = basics.session().submit_array(kind, array, out, "probe", 0, constants.SUM, 0, 1.0, 1.0)
    assert COMPILED or operation is None
    return operation is not None and operation.wait()


def check_numpy():
    hvd.allreduce(np.ones(1), name="first")  # from here on the native layer knows NumPy's arrays
    numbers = (np.uint8, np.int8, np.uint16, np.int16, np.uint32, np.int32, np.uint64, np.int64)
    for dtype in (*numbers, np.float16, np.float32, np.float64, np.complex64, np.complex128, np.bool_):
        assert taken(np.ones((2, 3), dtype)) == COMPILED
    assert taken(np.array(2.0)) == COMPILED and taken(np.ones(3), np.empty(3)) == COMPILED
    fixed = np.ones(2)
    fixed.setflags(write=False)
    assert taken(fixed, np.empty(2)) == COMPILED
    others = [
        np.ones((2, 3), order="F"), np.ones(4)[::2], np.ones(3)[::-1], np.ones(0), np.ones((2, 0)), np.ones(2, ">f4"),
        np.array([None]), np.array(["a"]), np.array([b"a"]), np.ones(2).view(np.recarray), np.ma.ones(2), fixed, [1.0], 1.0, None, b"a", np.float32(1),
    ]
    assert not any(taken(other) for other in others)
    assert not taken(np.ones(2), fixed)  # not written to
    np.testing.assert_array_equal(fixed, 1)


def check_results(full, same):
    """Both ways give the same, in place and not."""
    for shape in ((5,), (2, 3), (), (1, 1)):
        for source in (full(shape), full((*shape, 2))[..., 0]):
            expected = source * hvd.size()
            assert same(hvd.allreduce(source, op=hvd.Sum, name="total"), expected)
            assert same(hvd.allreduce(source, op=hvd.Sum, name="scaled", prescale_factor=2.0, postscale_factor=0.5), expected)
            assert same(hvd.broadcast(source, 0, name="sent"), source)
            assert hvd.allreduce_(source, op=hvd.Sum, name="total") is source and same(source, expected)


def check_torch():
    own = torch.ones(3)
    hvd.allreduce_(own, name="first tensor")
    quick = COMPILED and hasattr(torch.Tensor, "__dlpack_c_exchange_api__")
    assert taken(own) == quick and taken(torch.nn.Parameter(torch.ones(2, 2))) == quick
    assert taken(torch.ones(2, requires_grad=True)) == quick and taken(torch.ones(4)[1:3]) == quick
    for dtype in (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16, torch.float64, torch.bool):
        assert taken(torch.ones(2, dtype=dtype)) == quick
    negated = torch._neg_view(torch.ones(2))
    others = [
        torch.ones(2, 3).t(), torch.ones(1).expand(3), torch.ones(0), negated, torch.ones(2).to_sparse(), torch.ones(2, device="meta"),
        torch.ones(2, dtype=torch.complex64), torch.ones(2, dtype=torch.complex64).conj().imag,
    ]
    assert not any(taken(other) for other in others)
    assert hvd.allreduce_(negated, op=hvd.Sum, name="negated") is negated and negated.tolist() == [-1.0 * hvd.size()] * 2
    raises(TypeError, "list is not a tensor; pass torch.tensor([1.0])", hvd.allreduce_, [1.0])
    channels = torch.arange(24.0).view(1, 2, 3, 4).to(memory_format=torch.channels_last)
    assert torch.equal(hvd.allreduce(channels, op=hvd.Sum, name="channels"), channels * hvd.size())


def check_numbers():
    """A handle is found by its number as long as it lives and was not synchronized; numbers are unique."""
    handles = [hvd.allreduce_async_(torch.ones(2), name=f"numbered {i}") for i in range(3)]
    numbers = [int(handle) for handle in handles]
    assert len(set(numbers)) == 3 and handles[0] == numbers[0] and handles[0] != handles[1] and hash(handles[2]) == numbers[2]
    assert hvd.synchronize(numbers[1]) is not None and hvd.synchronize(handles[1]) is None and hvd.synchronize(numbers[1]) is None
    raises(ValueError, f"handle {numbers[1]} is unknown", hvd.poll, numbers[1])
    assert hvd.synchronize(handles[0]) is not None and hvd.synchronize(numbers[0]) is None
    del handles
    raises(ValueError, f"handle {numbers[2]} is unknown", hvd.poll, numbers[2])


if sys.argv[1] == "torch":
    import torch

    import horovod.torch as hvd  # noqa: F811 - the same functions, of tensors

hvd.init()
if torch is None:
    check_numpy()
    check_results(lambda shape: np.full(shape, 3.0), np.array_equal)
else:
    check_torch()
    check_results(lambda shape: torch.full(shape, 3.0), torch.equal)
    check_numbers()
print("own_arrays: ok")
