# SPDX-License-Identifier: Apache-2.0
"""Arguments that are no tensors, sets or handles: each form of each operation says so, and nothing has started on any rank."""

import errors
import numpy
import torch
from errors import operations, raises

import horovod as plain
import horovod.torch as hvd

hvd.init()


def check_no_tensor():
    values = {
        "float is not a tensor; pass torch.tensor(3.0)": 3.0,
        "list is not a tensor; pass torch.tensor([1.0])": [1.0],
        "ndarray is not a tensor; pass torch.from_numpy(array)": numpy.ones(2),
        "NoneType is not a tensor": None,
        "str is not a tensor": "x",
    }
    for operation in operations(hvd):
        for text, value in values.items():
            raises(TypeError, text, operation, value)
    for value in (None, [1.0], "x", {}):
        for operation in operations(plain):
            raises(TypeError, f"{type(value).__name__} is not a NumPy array", operation, value)
    for compression in (hvd.Compression.none, hvd.Compression.fp16):
        raises(TypeError, "allreduce: float is not a tensor", hvd.allreduce, 3.0, compression=compression)
    for grouped in (plain.grouped_allreduce, hvd.grouped_allreduce, hvd.grouped_allgather, hvd.grouped_reducescatter_async):
        raises(TypeError, "float is not a list of tensors", grouped, 3.0)


def check_no_set():
    for module, value in ((hvd, torch.ones(4)), (plain, numpy.ones(4))):
        errors.check_no_set(module, value)
        raises(TypeError, "not a ProcessSet", module.alltoall, value, splits=[4], process_set=0)
    sparse = torch.ones(2).to_sparse()
    raises(TypeError, "not a ProcessSet", hvd.sparse_allreduce_async, sparse, "sparse", hvd.Average, process_set=0)
    raises(TypeError, "not a ProcessSet", hvd.SyncBatchNorm, 2, process_set=None)
    raises(TypeError, "3 is not a list of ranks", hvd.add_process_set, 3)
    weight = torch.nn.Parameter(torch.ones(1))
    sgd = torch.optim.SGD([weight], lr=1.0)
    raises(TypeError, "not a ProcessSet", hvd.DistributedOptimizer, sgd, process_set=0)


def check_no_handle():
    errors.check_no_handle(hvd)
    errors.check_no_handle(plain)
    assert hvd.synchronize(1 << 60) is None  # as in Horovod: a number that was a handle once


for check in (check_no_tensor, check_no_set, check_no_handle):
    check()
    assert hvd.allreduce(torch.ones(1), op=hvd.Sum).item() == hvd.size()
print("wrong_arguments: ok")
