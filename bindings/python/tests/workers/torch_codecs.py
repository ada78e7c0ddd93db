# SPDX-License-Identifier: Apache-2.0
"""Codecs: what travels, error feedback, and that training with them converges."""

import torch
from errors import raises

import horovod.torch as hvd
from horovod.torch.codec import Compressed

hvd.init()
RANK, SIZE = hvd.rank(), hvd.size()


def reduced(codec, gradient, op=hvd.Sum, steps=1):
    """What an optimizer makes of the same gradient in each of some steps."""
    p = torch.nn.Parameter(torch.zeros_like(gradient))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([p], lr=1.0), [("p", p)], op=op, compression=codec)
    found = []
    for _ in range(steps):
        optimizer.zero_grad()
        (p * gradient).sum().backward()
        optimizer.step()
        found.append(p.grad.clone())
    return found


def check_top_k():
    gradient = torch.tensor([[1.0, -9.0, 2.0], [0.5, 0.0, 3.0 + RANK]])
    wanted = torch.tensor([[0.0, -9.0 * SIZE, 0.0], [0.0, 0.0, sum(3.0 + r for r in range(SIZE))]])
    if SIZE > 1:
        assert torch.equal(reduced(hvd.TopK(0.34), gradient)[0], wanted)
        torch.testing.assert_close(reduced(hvd.TopK(0.34), gradient, op=hvd.Average)[0], wanted / SIZE)
    # Error feedback sends what was left out, later: after some steps everything has arrived but for the last rest.
    found = reduced(hvd.ErrorFeedback(hvd.TopK(0.34)), gradient, steps=40)
    everything = hvd.allreduce(gradient, op=hvd.Sum)
    mean = sum(found) / 40
    assert (mean - everything).abs().max() < 1.5, (mean, everything)
    torch.testing.assert_close(reduced(hvd.TopK(1.0), gradient)[0], everything)
    assert reduced(hvd.TopK(0.5), torch.zeros(0))[0].shape == (0,)
    raises(ValueError, "fraction 0", hvd.TopK, 0)
    raises(ValueError, "fraction 1.5", hvd.TopK, 1.5)


def check_power_sgd():
    generator = torch.Generator().manual_seed(4)
    columns = torch.randn(2, 6, 4, generator=generator)
    rows = torch.randn(2, 5, 4, generator=generator)
    # Rank 2 in total, whatever the number of ranks: thin matrices of width 2 lose nothing.
    gradient = columns[0, :, :1] @ rows[0, :, :1].t() * (RANK + 1) + columns[1, :, :1] @ rows[1, :, :1].t()
    everything = hvd.allreduce(gradient, op=hvd.Sum)
    torch.testing.assert_close(reduced(hvd.PowerSGD(rank=2), gradient)[0], everything, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(
        reduced(hvd.PowerSGD(rank=2), gradient, op=hvd.Average)[0], everything / SIZE, rtol=1e-4, atol=1e-4
    )
    if SIZE > 1:
        rough = reduced(hvd.PowerSGD(rank=1), gradient)[0]
        assert torch.linalg.matrix_rank(rough) == 1
    vector = torch.arange(5.0) * (RANK + 1)
    torch.testing.assert_close(reduced(hvd.PowerSGD(), vector)[0], hvd.allreduce(vector, op=hvd.Sum))
    half = torch.ones(8, 9, dtype=torch.bfloat16)
    torch.testing.assert_close(reduced(hvd.PowerSGD(1), half)[0], half * SIZE)
    kernel = torch.ones(6, 2, 3, 3)
    torch.testing.assert_close(reduced(hvd.PowerSGD(1), kernel)[0], kernel * SIZE)
    raises(ValueError, "rank 0", hvd.PowerSGD, 0)


def check_feedback_of_a_compressor():
    """Numbers that bfloat16 rounds away arrive in the end; without feedback they never do."""
    gradient = torch.tensor([1.0, 1.001])
    if SIZE == 1:
        return
    plain = sum(reduced(hvd.Compression.bf16, gradient, op=hvd.Average, steps=64)) / 64
    fed = sum(reduced(hvd.ErrorFeedback(hvd.Compression.bf16), gradient, op=hvd.Average, steps=64)) / 64
    assert (plain - gradient).abs().max() > 9e-4
    assert (fed - gradient).abs().max() < 2e-4


def check_state():
    codec = hvd.ErrorFeedback(hvd.TopK(0.5))
    reduced(codec, torch.tensor([1.0, 2.0]))
    state = codec.state_dict()
    if SIZE > 1:
        ((name, rest),) = state.items()
        assert torch.equal(rest, torch.tensor([1.0, 0.0]))
        other = hvd.ErrorFeedback(hvd.TopK(0.5))
        other.load_state_dict(state)
        assert other.state_dict()[name] is not rest and torch.equal(other.state_dict()[name], rest)


def train(compression, steps):
    """The loss on all data before and after."""
    torch.manual_seed(2)
    model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.Tanh(), torch.nn.Linear(32, 4))
    x = torch.randn(96, 16)
    y = torch.randn(16, 4)
    y = torch.tanh(x @ y)
    part = slice(RANK * (96 // SIZE), (RANK + 1) * (96 // SIZE))
    base = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.8)
    optimizer = hvd.DistributedOptimizer(base, model.named_parameters(), compression=compression)

    def loss():
        return torch.nn.functional.mse_loss(model(x), y).item()

    first = loss()
    for _ in range(steps):
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(x[part]), y[part]).backward()
        optimizer.step()
    same = hvd.allgather(torch.cat([p.detach().flatten() for p in model.parameters()])[None])
    assert torch.equal(same, same[:1].expand_as(same)), "ranks have different parameters"
    return first, loss()


def check_convergence():
    steps = 150
    first, exact = train(hvd.Compression.none, steps)
    for codec in (
        hvd.ErrorFeedback(hvd.TopK(0.05)),
        hvd.ErrorFeedback(hvd.PowerSGD(rank=1)),
        hvd.ErrorFeedback(hvd.Compression.fp16),
        Compressed(hvd.Compression.bf16),
    ):
        _first, last = train(codec, steps)
        assert last < 0.1 * first and last < 5 * exact + 1e-3, (type(codec).__name__, first, exact, last)
    if SIZE > 1:
        _first, bare = train(hvd.PowerSGD(rank=1), steps)
        _first, fed = train(hvd.ErrorFeedback(hvd.PowerSGD(rank=1)), steps)
        assert fed < bare, (fed, bare)


class Twice(hvd.Codec):
    """A codec as a user would write one."""

    def reduce(self, name, gradient, ranks):
        assert ranks.size == SIZE and name.startswith("p")
        total = yield ranks.allreduce(gradient * 2, "twice")
        return total, gradient * 2


def check_own_codec():
    gradient = torch.ones(3)
    if SIZE > 1:
        assert torch.equal(reduced(Twice(), gradient)[0], torch.full((3,), 2.0 * SIZE))
    p = torch.nn.Parameter(torch.ones(3))
    base = torch.optim.SGD([p], lr=1.0)
    raises(ValueError, "codec", hvd.DistributedOptimizer, base, compression=Twice(), groups=1)
    raises(ValueError, "codec", hvd.DistributedOptimizer, base, compression=Twice(), op=hvd.Adasum)
    # Sparse gradients go their own way, or as dense ones through the codec.
    for options, wanted in (({}, SIZE), ({"sparse_as_dense": True}, 2 * SIZE)):
        table = torch.nn.Embedding(4, 2, sparse=True)
        base = torch.optim.SGD(table.parameters(), lr=1.0)
        optimizer = hvd.DistributedOptimizer(
            base, [("p.table", table.weight)], op=hvd.Sum, compression=Twice(), **options
        )
        table(torch.tensor([1])).sum().backward()
        optimizer.step()
        if SIZE > 1:
            assert table.weight.grad.to_dense()[1].eq(wanted).all(), (options, table.weight.grad)


checks = [value for name, value in list(globals().items()) if name.startswith("check_")]
for check in checks:
    check()
print("torch_codecs: ok")
