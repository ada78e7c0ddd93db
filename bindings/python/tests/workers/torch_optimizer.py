# SPDX-License-Identifier: Apache-2.0
"""DistributedOptimizer: training on parts of a batch equals training one process on the whole batch."""

import warnings

import torch
from errors import raises

import horovod.torch as hvd

STEPS, ROWS = 4, 12  # rows: divisible by 1, 2, 3 and 4


def model_of(seed=1):
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(5, 6), torch.nn.Tanh(), torch.nn.Linear(6, 3)).double()


def batches():
    generator = torch.Generator().manual_seed(7)
    for _ in range(STEPS):
        yield torch.randn(ROWS, 8, generator=generator, dtype=torch.float64).split([5, 3], 1)


def loss_of(model, x, y):
    return torch.nn.functional.mse_loss(model(x), y)


def own(tensor):
    rows = tensor.shape[0] // hvd.size()
    return tensor[hvd.rank() * rows : (hvd.rank() + 1) * rows]


def reference(make, passes=1):
    model = model_of()
    optimizer = make(model)
    for x, y in batches():
        optimizer.zero_grad()
        for _ in range(passes):
            loss_of(model, x, y).backward()
        optimizer.step()
    return [p.detach() for p in model.parameters()]


def close(model, wanted, **tolerance):
    for found, expected in zip(model.parameters(), wanted):
        torch.testing.assert_close(found.detach(), expected, **tolerance)


def train(make, passes=1, **options):
    model = model_of()
    optimizer = hvd.DistributedOptimizer(
        make(model), named_parameters=model.named_parameters(), backward_passes_per_step=passes, **options
    )
    for x, y in batches():
        optimizer.zero_grad(set_to_none=True)
        for _ in range(passes):
            loss_of(model, own(x), own(y)).backward()
        optimizer.step()
    return model


def check_equals_large_batch():
    for make in (
        lambda m: torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.9),
        lambda m: torch.optim.Adam(m.parameters(), lr=0.01),
    ):
        wanted = reference(make)
        close(train(make), wanted)
        close(train(make, gradient_predivide_factor=2.0), wanted)
        close(train(make, groups=2, gradient_predivide_factor=2.0), wanted)
    make = lambda m: torch.optim.SGD(m.parameters(), lr=0.1)  # noqa: E731
    close(train(make, passes=2), reference(make, passes=2))
    close(train(make, compression=hvd.Compression.fp16), reference(make), rtol=1e-2, atol=1e-2)
    scaled = lambda m: torch.optim.SGD(m.parameters(), lr=0.1 / hvd.size())  # noqa: E731
    close(train(scaled, op=hvd.Sum), reference(make))


def check_is_the_same_kind():
    model = model_of()
    base = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.5)
    scheduler = torch.optim.lr_scheduler.StepLR(base, 1, gamma=0.5)
    optimizer = hvd.DistributedOptimizer(base, model.named_parameters())
    assert isinstance(optimizer, torch.optim.SGD) and type(optimizer).__name__ == "SGD"
    loss_of(model, torch.ones(2, 5, dtype=torch.float64), torch.full((2, 3), float(hvd.rank()), dtype=torch.float64)).backward()
    optimizer.step()
    scheduler.step()
    assert optimizer.param_groups[0]["lr"] == 0.05
    found = hvd.allgather_object([p.detach() for p in model.parameters()])
    assert all(torch.equal(a, b) for other in found for a, b in zip(other, found[0]))
    optimizer.load_state_dict(optimizer.state_dict())


def check_missing_gradients():
    """Ranks take different branches: nobody hangs, and a missing gradient counts as zero."""
    a, b = torch.nn.Parameter(torch.zeros(2)), torch.nn.Parameter(torch.zeros(2))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([a, b], lr=1.0), [("a", a), ("b", b)], op=hvd.Sum)
    (a if hvd.rank() == 0 else b).sum().backward()
    optimizer.step()
    if hvd.size() > 1:
        assert torch.equal(a.detach(), torch.full((2,), -1.0)), a
        assert torch.equal(b.detach(), torch.full((2,), 1.0 - hvd.size())), b


def check_clipping():
    model = model_of()
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters())
    x, y = next(batches())
    loss_of(model, own(x), own(y)).backward()
    optimizer.synchronize()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.01)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with optimizer.skip_synchronize():
            optimizer.step()
    found = hvd.allgather_object([p.detach() for p in model.parameters()])
    assert all(torch.equal(a, b) for other in found for a, b in zip(other, found[0]))


def check_closure():
    wanted = reference(lambda m: torch.optim.SGD(m.parameters(), lr=0.1))
    model = model_of()
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters())
    for x, y in batches():

        def closure(x=x, y=y):
            optimizer.zero_grad()
            loss = loss_of(model, own(x), own(y))
            loss.backward()
            return loss

        assert optimizer.step(closure) is not None
    close(model, wanted)


def check_sparse():
    embedding = torch.nn.Embedding(4, 2, sparse=True)
    torch.nn.init.zeros_(embedding.weight)
    make = lambda **o: hvd.DistributedOptimizer(  # noqa: E731
        torch.optim.SGD(embedding.parameters(), lr=1.0), embedding.named_parameters(), op=hvd.Sum, **o
    )
    wanted = torch.zeros(4, 2)
    for options in ({"sparse_as_dense": True}, {}, {"groups": 1}, {"groups": 1, "sparse_as_dense": True}):
        optimizer = make(**options)
        optimizer.zero_grad()
        embedding(torch.tensor([hvd.rank() % 4])).sum().backward()
        optimizer.step()
        assert embedding.weight.grad.is_sparse and embedding.weight.grad.sparse_dim() == 1
        for r in range(hvd.size()):
            wanted[r % 4] -= 1
        assert torch.equal(embedding.weight.detach(), wanted), (options, embedding.weight)


def check_errors():
    model = model_of()
    sgd = torch.optim.SGD(model.parameters(), lr=0.1)
    named = list(model.named_parameters())
    cases = [
        ({"op": hvd.Sum, "gradient_predivide_factor": 2.0}, "predivide"),
        ({"backward_passes_per_step": 0}, "backward_passes_per_step"),
        ({"named_parameters": [p for _n, p in named]}, "(name, parameter)"),
        ({"named_parameters": [("x", p) for _n, p in named]}, "not unique: x"),
        ({"named_parameters": named[:1]}, "missing"),
        ({"groups": -1}, "groups"),
        ({"groups": [[1]]}, "not a tensor"),
        ({"groups": [[named[0][1]], [named[0][1]]]}, "two groups"),
    ]
    for options, text in cases:
        raises(ValueError, text, hvd.DistributedOptimizer, sgd, **options)


def check_adasum():
    """Equal gradients on every rank: Adasum of equal vectors is the vector, so every rank steps as if alone."""
    make = lambda m: torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.9)  # noqa: E731
    model = model_of()
    optimizer = hvd.DistributedOptimizer(make(model), model.named_parameters(), op=hvd.Adasum)
    for x, y in batches():
        optimizer.zero_grad()
        loss_of(model, x, y).backward()
        optimizer.step()
    close(model, reference(make))


hvd.init()
for check in (
    check_equals_large_batch,
    check_is_the_same_kind,
    check_missing_gradients,
    check_clipping,
    check_closure,
    check_sparse,
    check_errors,
    check_adasum,
):
    check()
print("torch_optimizer: ok")
