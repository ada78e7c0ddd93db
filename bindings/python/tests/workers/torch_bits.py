# SPDX-License-Identifier: Apache-2.0
"""The bits of a sum do not depend on what else is reduced with it: alone, in a group, fused by the engine."""

import os
import sys

import torch

import horovod.torch as hvd


def among(tensor, others):
    """The sum of the tensor, started between other sums."""
    options = {"op": hvd.Sum}
    handles = [hvd.allreduce_async(other, name=f"other.{number}", **options) for number, other in enumerate(others)]
    result = hvd.synchronize(hvd.allreduce_async(tensor, name="tensor", **options))
    for handle in handles:
        hvd.synchronize(handle)
    return result


if sys.argv[1] == "hosts":  # every rank on a host of its own, as far as the engine knows
    os.environ["HOROVOD_HOSTNAME"] = f"host{os.environ['HOROVOD_RANK']}"
hvd.init()
assert hvd.local_size() == (1 if sys.argv[1] == "hosts" else hvd.size())
generator = torch.Generator().manual_seed(hvd.rank())
for count in (1000, 20000, 300000):
    tensor = torch.randn(count, generator=generator)
    alone = hvd.allreduce(tensor, op=hvd.Sum, name="alone")
    for before, after in ((1, 7), (37, 259), (5000, 35000), (100000, 5)):
        others = [torch.randn(before, generator=generator), torch.randn(after, generator=generator)]
        grouped = hvd.grouped_allreduce([others[0], tensor, others[1]], op=hvd.Sum, name="group")[1]
        assert torch.equal(grouped, alone), (count, before, after)
        assert torch.equal(among(tensor, others), alone), (count, before, after)
print("torch_bits: ok")
