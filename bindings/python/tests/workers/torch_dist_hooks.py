# SPDX-License-Identifier: Apache-2.0
"""PyTorch's own communication hooks of DistributedDataParallel give on hvd what they give on Gloo, there in one bucket: what they
chain to one bucket starts further collectives, and those of several buckets get mixed up on Gloo.
"""

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import (
    debugging_hooks, default_hooks, optimizer_overlap_hooks, post_localSGD_hook, powerSGD_hook, quantization_hooks)
from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
from torch.distributed.optim import functional_sgd
from torch.nn.parallel import DistributedDataParallel

import horovod.torch  # noqa: F401 - registers the backend

STEPS = 8


def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 4))


def trained(group, register, steps=True, **options):
    """The parameters after a few steps; ``register(net, group)`` gives the net its hook."""
    net = DistributedDataParallel(model(), process_group=group, **options)
    after = register(net, group)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
    generator = torch.Generator().manual_seed(rank)
    for _step in range(STEPS):
        optimizer.zero_grad()
        inputs, targets = torch.randn(6, 8, generator=generator), torch.randn(6, 4, generator=generator)
        (net(inputs) - targets).pow(2).mean().backward()
        if steps:
            optimizer.step()
        if after is not None:
            after(net)
    return [parameter.detach().clone() for parameter in net.parameters()]


def simple(hook):
    return lambda net, group: net.register_comm_hook(group, hook)


def power(hook, wrap=None, **options):
    def register(net, group):
        state = powerSGD_hook.PowerSGDState(group, matrix_approximation_rank=2, start_powerSGD_iter=3, **options)
        net.register_comm_hook(state, hook if wrap is None else wrap(hook))

    return register


def post_local(net, group):
    alone, _groups = dist.new_subgroups(group_size=1, backend=dist.get_backend(group))
    net.register_comm_hook(
        post_localSGD_hook.PostLocalSGDState(group, alone, start_localSGD_iter=2), post_localSGD_hook.post_localSGD_hook
    )
    averager = PeriodicModelAverager(period=3, warmup_steps=2, process_group=group)
    return lambda net: averager.average_parameters(net.parameters())


def overlapped(net, group):
    functional = functional_sgd._FunctionalSGD
    state = optimizer_overlap_hooks._OptimizerHookState(functional([], lr=0.05, _allow_empty_param_list=True))
    net.register_comm_hook(group, optimizer_overlap_hooks._hook_then_optimizer(default_hooks.allreduce_hook, state))


HOOKS = {
    "allreduce": simple(default_hooks.allreduce_hook),
    "fp16": simple(default_hooks.fp16_compress_hook),
    "bf16": simple(default_hooks.bf16_compress_hook),
    "noop": simple(debugging_hooks.noop_hook),
    "quantized": simple(quantization_hooks.quantization_pertensor_hook),
    "quantized by channel": simple(quantization_hooks.quantization_perchannel_hook),
    "PowerSGD": power(powerSGD_hook.powerSGD_hook),
    "PowerSGD, cold": power(powerSGD_hook.powerSGD_hook, use_error_feedback=False, warm_start=False),
    "PowerSGD of fp16": power(powerSGD_hook.powerSGD_hook, default_hooks.fp16_compress_wrapper),
    "batched PowerSGD": power(powerSGD_hook.batched_powerSGD_hook),
    "post-local SGD": post_local,
}


# bfloat16 and float16 round another order of adding otherwise.
TOLERANCE = {name: {"rtol": 1e-2, "atol": 1e-3} for name in ("fp16", "bf16", "PowerSGD of fp16")}
LOCAL = ("noop", "post-local SGD")  # ranks differ between averages
ONE_BUCKET = ("PowerSGD, cold",)  # what is chained to one bucket forgets what the hook knows of all


def outcome(group, register, **options):
    """The parameters, or the error."""
    try:
        return trained(group, register, **options)
    except (RuntimeError, ValueError, NotImplementedError, AssertionError) as error:
        return error


def check(name, register, **options):
    found, wanted = outcome(None, register, **options), outcome(gloo, register, **options)
    if isinstance(wanted, list):
        tolerance = TOLERANCE.get(name, {"rtol": 1e-4, "atol": 1e-5})
        torch.testing.assert_close(found, wanted, **tolerance, msg=lambda text: f"{name}: {text}")
    else:  # for GPUs only
        assert type(found) is type(wanted), (name, found, wanted)
    if name in LOCAL or name in ONE_BUCKET:
        return isinstance(wanted, list)
    # In many small buckets all ranks get the same.
    found = outcome(None, register, bucket_cap_mb=0.002, **options)
    assert isinstance(found, list) == isinstance(wanted, list), (name, found)
    if isinstance(wanted, list):
        for parameter in found:
            everywhere = [torch.empty_like(parameter) for _ in range(size)]
            dist.all_gather(everywhere, parameter)
            assert all(torch.equal(one, parameter) for one in everywhere) and parameter.isfinite().all(), name
    return isinstance(wanted, list)


dist.init_process_group("hvd")
rank, size = dist.get_rank(), dist.get_world_size()
gloo = dist.new_group(backend="gloo")
ran = {name for name, register in HOOKS.items() if check(name, register)}
# The optimizer steps where the gradient arrives.
if check("overlapped", overlapped, steps=False):
    ran.add("overlapped")
assert len(ran) >= len(HOOKS) - 2, ran
print("hooks:", ", ".join(sorted(ran)))
dist.barrier()
dist.destroy_process_group()
print("torch_dist_hooks: ok")
