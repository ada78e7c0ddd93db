# SPDX-License-Identifier: Apache-2.0
"""Training on the backend hvd equals training in one process: DDP (also on Gloo), fully_shard, DTensor, DeviceMesh."""

import traceback

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook
from torch.nn.parallel import DistributedDataParallel

import horovod.torch  # noqa: F401 - registers the backend

try:
    from torch.distributed.device_mesh import init_device_mesh
except ImportError:
    init_device_mesh = None  # came with 2.2

PER_RANK = 6


def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 4))


def batch(start, end):
    generator = torch.Generator().manual_seed(5)
    inputs = torch.randn(PER_RANK * size, 8, generator=generator)
    targets = torch.randn(PER_RANK * size, 4, generator=generator)
    return inputs[start:end], targets[start:end]


def trained(net, start=None, end=None):
    """The net after a few steps of Adam on the rows of this rank, or on those given."""
    start, end = (rank * PER_RANK, (rank + 1) * PER_RANK) if start is None else (start, end)
    inputs, targets = batch(start, end)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    for _step in range(4):
        optimizer.zero_grad()
        (net(inputs) - targets).pow(2).mean().backward()
        optimizer.step()
    return net


def full(parameter):
    return parameter.full_tensor() if hasattr(parameter, "full_tensor") else parameter


def alike(net, other, **tolerance):
    for one, wanted in zip(net.parameters(), other.parameters()):
        torch.testing.assert_close(full(one), full(wanted), **tolerance)


def check_ddp(alone):
    gloo = dist.new_group(backend="gloo")
    for options in ({}, {"bucket_cap_mb": 0.0005}, {"gradient_as_bucket_view": True}, {"find_unused_parameters": True}):
        net = trained(DistributedDataParallel(model(), **options))
        alike(net, alone)
        alike(net, trained(DistributedDataParallel(model(), process_group=gloo, **options)))
    net = DistributedDataParallel(model())
    net.register_comm_hook(None, fp16_compress_hook)
    alike(trained(net), alone, rtol=0.05, atol=0.02)
    net = DistributedDataParallel(model())
    inputs, targets = batch(rank * PER_RANK, (rank + 1) * PER_RANK)
    with net.no_sync():
        (net(inputs) - targets).pow(2).mean().backward()
    (net(inputs) - targets).pow(2).mean().backward()
    reference = model()
    inputs, targets = batch(0, PER_RANK * size)
    (2 * (reference(inputs) - targets).pow(2).mean()).backward()
    for one, wanted in zip(net.parameters(), reference.parameters()):
        torch.testing.assert_close(one.grad, wanted.grad)


def check_ddp_sparse():
    """Sparse gradients, as on Gloo; ranks use other rows, some of them twice."""

    def parameters(group):
        torch.manual_seed(1)
        net = nn.Sequential(nn.EmbeddingBag(12, 4, mode="sum", sparse=True), nn.Linear(4, 2))
        net = DistributedDataParallel(net, process_group=group)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for step in range(4):
            words = torch.randint(12, (5, 3), generator=torch.Generator().manual_seed(10 * step + rank))
            optimizer.zero_grad()
            net(words).pow(2).sum().backward()
            assert net.module[0].weight.grad.is_sparse
            optimizer.step()
        return list(net.parameters())

    for own, wanted in zip(parameters(None), parameters(dist.new_group(backend="gloo"))):
        torch.testing.assert_close(own, wanted)


def check_ddp_uneven():
    """Ranks with more and with fewer batches, with DDP's own join."""
    net = DistributedDataParallel(nn.Linear(2, 1, bias=False))
    with torch.no_grad():
        net.module.weight.zero_()
    optimizer = torch.optim.SGD(net.parameters(), lr=1.0)
    with net.join(divide_by_initial_world_size=False):
        for _step in range(1 + rank):
            optimizer.zero_grad()
            net(torch.ones(1, 2)).sum().backward()
            optimizer.step()
    torch.testing.assert_close(net.module.weight, torch.full((1, 2), -float(size)))


def check_fully_shard(alone):
    try:
        from torch.distributed.fsdp import fully_shard
    except ImportError:
        print("fully_shard: skipped, this PyTorch has none")
        return
    if not hasattr(torch.cpu.Stream, "record_event"):
        print(f"fully_shard: skipped, that of PyTorch {torch.__version__} cannot train on the CPU")
        return
    meshes = [init_device_mesh("cpu", (size,)), init_device_mesh("cpu", (size, 1), mesh_dim_names=("copies", "parts"))]
    for mesh in meshes:
        net = model()
        for layer in net:
            if isinstance(layer, nn.Linear):
                fully_shard(layer, mesh=mesh)
        fully_shard(net, mesh=mesh)
        try:
            trained(net)
        except AssertionError as error:
            # On Gloo, too: PyTorch 2.7 expects an event that there is on GPUs only.
            if traceback.extract_tb(error.__traceback__)[-1].line != "assert all_reduce_event is not None":
                raise
            print(f"fully_shard: PyTorch {torch.__version__} cannot train on the CPU with a mesh of {mesh.ndim} dimensions")
            continue
        alike(net, alone)


def check_dtensor():
    try:
        from torch.distributed.tensor import Partial, Replicate, Shard, distribute_tensor
    except ImportError:
        print("dtensor: skipped, this PyTorch has no torch.distributed.tensor")
        return
    mesh = init_device_mesh("cpu", (size,))
    generator = torch.Generator().manual_seed(1)
    a, b = torch.randn(6 * size, 4 * size, generator=generator), torch.randn(4 * size, 2 * size, generator=generator)
    for places in ((Shard(0), Replicate()), (Shard(1), Shard(0)), (Replicate(), Shard(1))):
        product = distribute_tensor(a, mesh, [places[0]]) @ distribute_tensor(b, mesh, [places[1]])
        torch.testing.assert_close(product.full_tensor(), a @ b)
    partial = distribute_tensor(a, mesh, [Shard(1)]) @ distribute_tensor(b, mesh, [Shard(0)])
    assert isinstance(partial.placements[0], Partial) or size == 1
    torch.testing.assert_close(partial.redistribute(mesh, [Shard(0)]).full_tensor(), a @ b)
    torch.testing.assert_close(distribute_tensor(a, mesh, [Shard(0)]).redistribute(mesh, [Shard(1)]).full_tensor(), a)


def check_tensor_parallel():
    try:
        from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
    except ImportError:
        print("tensor parallel: skipped, this PyTorch has none")
        return

    def net():
        torch.manual_seed(3)
        return nn.Sequential(nn.Linear(4, 6 * size), nn.ReLU(), nn.Linear(6 * size, 4))

    inputs = torch.ones(2, 4)
    mesh = init_device_mesh("cpu", (1, size), mesh_dim_names=("data", "model"))
    parallel = parallelize_module(net(), mesh["model"], {"0": ColwiseParallel(), "2": RowwiseParallel()})
    alone = net()
    torch.testing.assert_close(parallel(inputs), alone(inputs))
    parallel(inputs).sum().backward()
    alone(inputs).sum().backward()
    for one, wanted in zip(parallel.parameters(), alone.parameters()):
        torch.testing.assert_close(full(one.grad), wanted.grad)


dist.init_process_group("hvd")
rank, size = dist.get_rank(), dist.get_world_size()
reference_net = trained(model(), 0, PER_RANK * size)
check_ddp(reference_net)
check_ddp_sparse()
check_ddp_uneven()
if init_device_mesh is None:
    print(f"fully_shard, dtensor, tensor parallel: skipped, PyTorch {torch.__version__} has no init_device_mesh")
else:
    check_fully_shard(reference_net)
    if size == 1 and torch.__version__.startswith(("2.2.", "2.3.", "2.4.", "2.5.")):
        print(f"dtensor, tensor parallel: skipped, PyTorch {torch.__version__} finds no plan for a matrix product of one rank")
    else:
        check_dtensor()
        check_tensor_parallel()
dist.barrier()
dist.destroy_process_group()
print("torch_dist_models: ok")
