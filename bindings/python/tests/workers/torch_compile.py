# SPDX-License-Identifier: Apache-2.0
"""Operations inside graphs of torch.compile: values, gradients, one graph; models that train."""

import random
import sys

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as collectives
from torch import nn

import horovod.torch as hvd

torch._dynamo.config.capture_dynamic_output_shape_ops = True


def compiled(function, **options):
    """The function as one graph; a break in it is an error."""
    torch._dynamo.reset()
    return torch.compile(function, backend=backend, fullgraph=True, **options)


def with_gradient(function, tensor):
    """The result of the function and the gradient of a weighted sum of it."""
    tensor = tensor.clone().requires_grad_()
    result = function(tensor)
    weights = torch.arange(result.numel(), dtype=result.dtype).view(result.shape) * (rank + 1)
    (result * weights).sum().backward()
    return result.detach(), tensor.grad


def check_operations():
    splits = torch.arange(1, size + 1)
    rows = int(splits.sum())
    for number, function in enumerate(
        (
            lambda t: hvd.allreduce(t * 2, op=hvd.Sum, name="sum") + 1,
            lambda t: hvd.allreduce(t * 2, prescale_factor=0.5, compression=hvd.Compression.bf16),
            lambda t: sum(hvd.grouped_allreduce([t * 2, t + 1], op=hvd.Sum)),
            lambda t: hvd.allreduce(t * 2, op=hvd.Max),
            lambda t: sum(hvd.grouped_allreduce([t + 1, t * 2], op=hvd.Product)),
            lambda t: hvd.broadcast(t * 3, size - 1) * 2,
            lambda t: hvd.allgather(t * 2) * 3,
            lambda t: hvd.gather(t[rank:] * 2, size - 1) * 3,
            lambda t: torch.cat(hvd.grouped_allgather([t * 2, t[rank:] + 1])) * 3,
            lambda t: hvd.reducescatter(t * 2, op=hvd.Sum) * 3,
            lambda t: hvd.reducescatter(t * 2, op=hvd.Min) * 3,
            lambda t: sum(hvd.grouped_reducescatter([t * 2, t + 1], op=hvd.Sum)),
            lambda t: sum(hvd.grouped_reducescatter([t * 2, t + 1], op=hvd.Max, prescale_factor=0.5)),
            lambda t: hvd.alltoall(t[: 2 * size] * 2) * 3,
            lambda t: hvd.alltoall(t[:rows] * 2, splits=splits)[0] * 3,
            lambda t: hvd.allreduce(t, op=hvd.Sum, process_set=own_set) * 2,
            lambda t: hvd.reducescatter(t, op=hvd.Sum, process_set=own_set) * 2,
        )
    ):
        tensor = torch.arange(2.0 * rows * 3).view(2 * rows, 3) + rank
        wanted, wanted_gradient = with_gradient(function, tensor)
        found, gradient = with_gradient(compiled(function), tensor)
        torch.testing.assert_close(found, wanted, msg=lambda text: f"function {number}: {text}")
        torch.testing.assert_close(gradient, wanted_gradient, msg=lambda text: f"gradient {number}: {text}")


def check_in_place():
    def function(tensor):
        mine = tensor + 1
        hvd.allreduce_(mine, op=hvd.Sum)
        root = tensor * 1
        hvd.broadcast_(root, size - 1)
        pair = [tensor + 1, tensor + 2]
        hvd.grouped_allreduce_(pair, op=hvd.Max)
        return mine * 2, root, pair

    mine, root, pair = compiled(function)(torch.full((3,), float(rank)))
    torch.testing.assert_close(mine, torch.full((3,), 2.0 * sum(range(1, size + 1))))
    torch.testing.assert_close(root, torch.full((3,), float(size - 1)))
    for more, one in enumerate(pair):
        torch.testing.assert_close(one, torch.full((3,), float(size + more)))


def check_unused():
    """Every rank runs all operations, also where it uses other results than the others, or asks twice for the same."""

    def function(tensor):
        total = hvd.allreduce(tensor, op=hvd.Sum)
        most = hvd.allreduce(tensor + (rank == 0), op=hvd.Max)  # on other ranks like the next one
        again = hvd.allreduce(tensor, op=hvd.Max)
        own = tensor + 1
        hvd.allreduce_(own, op=hvd.Sum)
        root = hvd.broadcast(tensor * 2, size - 1, name="root")
        return total + most + root if rank == 0 else most + again

    for wants_gradient in (False, True):
        tensor = torch.full((3,), rank + 1.0, requires_grad=wants_gradient)
        found = compiled(function)(tensor)
        most = max(size, 2)
        wanted = size * (size + 1) / 2 + most + 2 * size if rank == 0 else most + size
        torch.testing.assert_close(found.detach(), torch.full((3,), float(wanted)))


def check_places():
    """Operations run in the program's order, also where the program would need less memory in another one."""
    from horovod.torch import _graph_ops

    ran = []
    out_of_place = _graph_ops._start.out_of_place

    def noted(*arguments, **options):
        ran.append(options["prescale"])
        return out_of_place(*arguments, **options)

    _graph_ops._start.out_of_place = noted
    for seed in range(5, 12):
        chosen = random.Random(seed)
        plan = [(chosen.random() < 0.5, chosen.randrange(4)) for _ in range(chosen.randrange(3, 8))]

        def function(*tensors, plan=plan):
            at_hand, used = list(tensors), tensors[0].sum()
            for place, (keep, source) in enumerate(plan):
                tensor = at_hand[source % len(at_hand)] * (place + 2)
                result = hvd.allreduce(tensor, op=hvd.Sum, prescale_factor=1.0 + place)
                if keep:
                    at_hand.append(result + 1)
                    used = used + (result * 3).sum()
            return used

        tensors = [torch.ones(chosen.choice([8, 1000, 100000])) for _ in range(3)]
        ran.clear()
        compiled(function)(*tensors)
        assert ran == [1.0 + place for place in range(len(plan))], (seed, ran)
    _graph_ops._start.out_of_place = out_of_place


def check_library():
    """PyTorch's own checks of a custom operation: schema, fake kernel, gradient."""
    from horovod.torch import _graph_ops

    tensor = torch.ones(2 * size, 2, requires_grad=True)
    for operation, arguments in (
        (_graph_ops.allreduce, (tensor, None, 0, hvd.Sum, 1.0, 1.0)),
        (_graph_ops.broadcast, (tensor, 0, None, 0)),
        (_graph_ops.reducescatter, (tensor, None, 0, hvd.Sum, 1.0, 1.0)),
    ):
        tests = ("test_schema", "test_autograd_registration", "test_faketensor")
        torch.library.opcheck(operation, arguments, test_utils=tests)


def check_asynchronous():
    """A handle cannot be in a graph: the graph breaks there and the result is right."""

    def function(tensor):
        handle = hvd.allreduce_async(tensor * 2, op=hvd.Sum, name="later")
        return hvd.synchronize(handle) + 1

    torch._dynamo.reset()
    found = torch.compile(function, backend=backend)(torch.ones(3))
    torch.testing.assert_close(found, torch.full((3,), 2.0 * size + 1))


def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))


def train(model, parameters, inputs, optimizer):
    for _step in range(4):
        optimizer.zero_grad()
        model(inputs).pow(2).mean().backward()
        optimizer.step()
    return list(parameters)


def check_models():
    inputs = torch.randn(4 * size, 4, generator=torch.Generator().manual_seed(1))
    alone = net()
    wanted = train(alone, alone.parameters(), inputs, torch.optim.Adam(alone.parameters(), lr=0.01))
    mine = inputs[4 * rank : 4 * rank + 4]
    for groups in (None, 1):
        torch._dynamo.reset()
        model = net()
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        optimizer = hvd.DistributedOptimizer(optimizer, model.named_parameters(), groups=groups)
        found = train(torch.compile(model, backend=backend), model.parameters(), mine, optimizer)
        for one, other in zip(found, wanted):
            torch.testing.assert_close(one, other)


def check_step():
    """A whole step of training may be compiled; what hvd does in it is left alone."""

    def step(model, optimizer, rows):
        optimizer.zero_grad()
        model(rows).pow(2).mean().backward()
        optimizer.step()

    inputs = torch.randn(4 * size, 4, generator=torch.Generator().manual_seed(1))
    for options in ({}, {"groups": 1}, {"op": hvd.Adasum}):
        models = net(), net()
        for model, train_step in zip(models, (step, torch.compile(step, backend=backend))):
            torch._dynamo.reset()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            optimizer = hvd.DistributedOptimizer(optimizer, model.named_parameters(), **options)
            for _step in range(3):
                train_step(model, optimizer, inputs[4 * rank : 4 * rank + 4])
        for one, other in zip(*(model.parameters() for model in models)):
            torch.testing.assert_close(one, other)


def check_parallel():
    """A compiled DistributedDataParallel, and PyTorch's own collectives in a graph, on the backend hvd."""

    def function(tensor):
        total = collectives.all_reduce(tensor * 2, "sum", dist.group.WORLD)
        return total + 1, collectives.all_gather_tensor(tensor, 0, dist.group.WORLD)

    total, rows = compiled(function)(torch.full((2,), float(rank)))
    torch.testing.assert_close(total, torch.full((2,), 2.0 * sum(range(size)) + 1))
    torch.testing.assert_close(rows, torch.arange(float(size)).repeat_interleave(2))
    inputs = torch.randn(4 * size, 4, generator=torch.Generator().manual_seed(1))
    alone, model = net(), net()
    wanted = train(alone, alone.parameters(), inputs, torch.optim.Adam(alone.parameters(), lr=0.01))
    parallel = torch.compile(nn.parallel.DistributedDataParallel(model), backend=backend)
    mine = inputs[4 * rank : 4 * rank + 4]
    found = train(parallel, model.parameters(), mine, torch.optim.Adam(model.parameters(), lr=0.01))
    for one, other in zip(found, wanted):
        torch.testing.assert_close(one, other)


hvd.init()
dist.init_process_group("hvd")
rank, size = hvd.rank(), hvd.size()
sets = [hvd.add_process_set([r]) for r in range(size)] if size > 1 else [hvd.global_process_set]
own_set = sets[rank]
backend = sys.argv[1]
if backend == "inductor":  # seconds of C++ compiler for each graph
    checks = [check_in_place, check_models]
    if hasattr(torch._library.custom_ops.CustomOpDef, "register_effect"):
        checks += [check_unused, check_places]
    else:
        print(f"unused results: skipped, Inductor of PyTorch {torch.__version__} cannot be told to keep them")
else:
    checks = [check_operations, check_in_place, check_unused, check_places, check_library]
    checks += [check_asynchronous, check_models, check_step, check_parallel]
for check in checks:
    check()
dist.destroy_process_group()
print("torch_compile: ok")
