# SPDX-License-Identifier: Apache-2.0
"""Every optimizer of torch.optim: steps on parts of a batch equal those of one process on the whole batch."""

import inspect

import torch

import horovod.torch as hvd

hvd.init()
RANK, SIZE = hvd.rank(), hvd.size()
ROWS, STEPS = 12, 3  # rows: divisible by 1, 2, 3 and 4
SPARSE = ("SparseAdam",)
MATRICES_ONLY = ("Muon",)


def optimizer_classes():
    found = inspect.getmembers(torch.optim, inspect.isclass)
    return [(name, cls) for name, cls in found if issubclass(cls, torch.optim.Optimizer) and cls is not torch.optim.Optimizer]


class Net(torch.nn.Module):
    def __init__(self, sparse, bias):
        super().__init__()
        torch.manual_seed(4)
        self.words = torch.nn.Embedding(8, 5, sparse=sparse)
        self.head = torch.nn.Linear(5, 3, bias=bias).requires_grad_(not sparse)

    def forward(self, words):
        return self.head(torch.tanh(self.words(words)).mean(1))


def own(tensor):
    return tensor[RANK * ROWS // SIZE : (RANK + 1) * ROWS // SIZE]


def trained(name, cls, part, wrap):
    model = Net(name in SPARSE, name not in MATRICES_ONLY).double()
    optimizer = wrap(cls([p for p in model.parameters() if p.requires_grad], lr=0.02), model)
    generator = torch.Generator().manual_seed(9)
    for _ in range(STEPS):
        words = torch.randint(8, (ROWS, 4), generator=generator)
        mine, classes = part(words), part(words.sum(1) % 3)

        def closure(mine=mine, classes=classes):
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(mine), classes)
            loss.backward()
            return loss

        if cls is torch.optim.LBFGS:
            optimizer.step(closure)
        else:
            closure()
            optimizer.step()
    return model


def wrapped(optimizer, model):
    return hvd.DistributedOptimizer(optimizer, model.named_parameters())


classes = optimizer_classes()
for name, cls in classes:
    start = Net(name in SPARSE, name not in MATRICES_ONLY).double()
    wanted = trained(name, cls, lambda tensor: tensor, lambda optimizer, _model: optimizer)
    found = trained(name, cls, own, wrapped)
    assert not torch.equal(found.words.weight, start.words.weight), f"{name} did not step"
    for (key, value), expected in zip(found.named_parameters(), wanted.parameters()):
        same = {"rtol": 1e-9, "atol": 1e-9}
        torch.testing.assert_close(value, expected, **same, msg=lambda text, at=f"{name} {key}": f"{at}: {text}")
print(f"{len(classes)} optimizers: {' '.join(name for name, _cls in classes)}")
assert len(classes) >= 13, classes
print("torch_every_optimizer: ok")
