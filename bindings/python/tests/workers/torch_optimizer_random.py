# SPDX-License-Identifier: Apache-2.0
"""DistributedOptimizer in random trainings, against the gradients of all ranks computed and added up on each rank.

What is random: the model, the optimizer and the options; and in each step which layers and tables each rank uses, how often it
runs backward, which layers are frozen, and what is called between backward and step. Argument: how many trainings.
"""

import copy
import random
import sys

import torch
from torch import nn

import horovod.torch as hvd

WORDS = 20
CALLS = ("step", "synchronize", "skip_synchronize", "clip")


class Net(nn.Module):
    """Layers and embeddings that can be left out, perhaps a parameter that only some steps use."""

    def __init__(self, choice):
        super().__init__()
        width = choice.choice([3, 8, 64])
        tables = choice.choice([0, 0, 1, 2, 4])
        self.tables = nn.ModuleList(nn.Embedding(WORDS, 4, sparse=choice.random() < 0.6) for _ in range(tables))
        self.first = nn.Linear(4, width)
        self.layers = nn.ModuleList(
            nn.Linear(width, width, bias=choice.random() < 0.7) for _ in range(choice.randint(1, 6))
        )
        self.scale = nn.Parameter(torch.randn(choice.choice([1, 5, 1000]))) if choice.random() < 0.5 else None

    def forward(self, inputs, used, looked_up, scaled):
        inner = inputs
        for number, (table, use) in enumerate(zip(self.tables, looked_up)):
            if use:
                inner = inner + table((3 * inputs[:, number].abs()).long() % WORDS)
        inner = torch.tanh(self.first(inner))
        for layer, use in zip(self.layers, used):
            if use:
                inner = inner + 0.1 * torch.tanh(layer(inner))
        loss = inner.pow(2).mean()
        return loss if self.scale is None or not scaled else loss + self.scale.pow(2).mean() * inputs.sum()


def options(choice, net):
    """Arguments of DistributedOptimizer."""
    found = {"op": choice.choice([hvd.Average, hvd.Sum]), "backward_passes_per_step": choice.choice([1, 1, 2, 3])}
    if choice.random() < 0.3:
        found["sparse_as_dense"] = True
    if found["op"] == hvd.Average and choice.random() < 0.2:
        found["gradient_predivide_factor"] = 2.0
    if choice.random() < 0.5:
        found["named_parameters"] = list(net.named_parameters())
    parameters = list(net.parameters())
    choice.shuffle(parameters)
    found["groups"] = choice.choice([None, None, 1, 3, [parameters[: len(parameters) // 2]]])
    return found


def plan(seed, net, passes):
    """What each rank does in a step: (layers that are used, tables that are, whether the scale is, seed of the data) for each
    backward.
    """
    alike = random.Random(seed).random() < 0.6
    ranks = []
    for rank in range(hvd.size()):
        choice = random.Random(seed + 1 if alike else seed + 1 + rank)
        count = passes if alike or choice.random() < 0.6 else choice.randint(0, passes + 2)
        ranks.append([(_some(choice, net.layers), _some(choice, net.tables), choice.random() < 0.5, rank) for _ in range(count)])
    return ranks


def _some(choice, modules):
    return [choice.random() < 0.8 for _ in modules]


def backward(net, seed, passes):
    for number, (*chosen, rank) in enumerate(passes):
        generator = torch.Generator().manual_seed(seed + 100 * number + rank)
        net(torch.randn(5, 4, generator=generator), *chosen).backward()


def clip(net):
    dense = [one for one in net.parameters() if one.grad is not None and not one.grad.is_sparse]
    nn.utils.clip_grad_norm_(dense, 0.5)


def finish(optimizer, net, call):
    if call != "step":
        optimizer.synchronize()
    if call == "clip":
        clip(net)
    if call == "skip_synchronize":
        with optimizer.skip_synchronize():
            optimizer.step()
    else:
        optimizer.step()


def take_gradients(net, seed, ranks, divisor):
    """The net gets the gradients of all ranks; a parameter that no rank has used keeps what it has."""
    total = {}
    for passes in ranks:
        one = copy.deepcopy(net)
        one.zero_grad(set_to_none=True)
        backward(one, seed, passes)
        for name, parameter in one.named_parameters():
            if parameter.grad is not None:
                total[name] = total.get(name, 0) + parameter.grad.to_dense() / divisor
    sparse = {f"tables.{number}.weight" for number, table in enumerate(net.tables) if table.sparse}
    for name, parameter in net.named_parameters():
        if name in total:
            parameter.grad = total[name].to_sparse(1) if name in sparse else total[name]


def check(seed):
    choice = random.Random(seed)
    torch.manual_seed(seed)
    net = Net(choice)
    wanted = copy.deepcopy(net)
    kind = choice.choice([torch.optim.SGD, torch.optim.Adagrad])
    given = options(choice, net)
    optimizer, alone = hvd.DistributedOptimizer(kind(net.parameters(), lr=0.1), **given), kind(wanted.parameters(), lr=0.1)
    for step in range(choice.randint(2, 8)):
        if choice.random() < 0.15:
            number = choice.randrange(len(net.layers))
            for layers in (net.layers, wanted.layers):
                for parameter in layers[number].parameters():
                    parameter.requires_grad_(not parameter.requires_grad)
        to_none, call, now = choice.random() < 0.6, choice.choice(CALLS), 1000 * (10 * seed + step)
        ranks = plan(now, net, given["backward_passes_per_step"])
        optimizer.zero_grad(set_to_none=to_none)
        alone.zero_grad(set_to_none=to_none)
        backward(net, now, ranks[hvd.rank()])
        finish(optimizer, net, call)
        take_gradients(wanted, now, ranks, hvd.size() if given["op"] == hvd.Average else 1)
        if call == "clip":
            clip(wanted)
        alone.step()
        for (name, found), right in zip(net.named_parameters(), wanted.parameters()):
            torch.testing.assert_close(found, right, rtol=2e-4, atol=1e-5, msg=lambda text: f"{name}, step {step}: {text}")


hvd.init()
for training in range(int(sys.argv[1])):
    try:
        check(training)
    except BaseException:
        print(f"training {training} went wrong")
        raise
print("torch_optimizer_random: ok")
