# SPDX-License-Identifier: Apache-2.0
"""Arrays that have DLPack alone, and PyTorch's, through `import horovod`, on a stream of PyTorch's."""

import torch
from common import DEVICE, numbers, same, start, tensor

import horovod as hvd

rank, size = start()


class Lent:
    """A tensor of which nothing but DLPack is to be seen."""

    def __init__(self, own):
        self.own = own

    def __dlpack__(self, **options):
        return self.own.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.own.__dlpack_device__()


def check(dtype):
    shape = (1000, 3)
    wanted = sum(numbers(of, shape) for of in range(size))
    own = tensor(numbers(rank, shape), dtype)
    same(torch.from_dlpack(hvd.allreduce(Lent(own), op=hvd.Sum, name="total")), wanted)
    rows = hvd.allgather(Lent(own[: rank + 1]), name="rows")
    same(torch.from_dlpack(rows), torch.cat([torch.from_numpy(numbers(of, shape)[: of + 1]) for of in range(size)]).numpy())
    same(torch.from_dlpack(hvd.allreduce(rows, op=hvd.Max, name="again")), torch.from_dlpack(rows).float().cpu().numpy())
    lent = Lent(own)
    assert hvd.allreduce_(lent, op=hvd.Sum, name="here") is lent
    torch.cuda.current_stream().wait_stream(torch.cuda.default_stream())
    same(own, wanted)
    for history in (False, True):
        own = tensor(numbers(rank, shape), dtype).requires_grad_(history)
        same(hvd.allreduce(own, op=hvd.Sum, name="tensor"), wanted)
    same(hvd.broadcast_(tensor(numbers(rank, shape), dtype), root_rank=0, name="root"), numbers(0, shape))


for dtype in (torch.bfloat16, torch.float32):
    for stream in (torch.cuda.default_stream(), torch.cuda.Stream(DEVICE)):
        with torch.cuda.stream(stream):
            check(dtype)
hvd.shutdown()
print("dlpack_arrays: ok", flush=True)
