# SPDX-License-Identifier: Apache-2.0
"""broadcast_optimizer_state for every optimizer of torch.optim, and broadcast_parameters."""

import inspect

import torch
from errors import raises

import horovod.torch as hvd

hvd.init()
RANK, SIZE = hvd.rank(), hvd.size()
ROOT = SIZE - 1


def optimizer_classes():
    for name, cls in sorted(vars(torch.optim).items()):
        if inspect.isclass(cls) and issubclass(cls, torch.optim.Optimizer) and cls is not torch.optim.Optimizer:
            yield name, cls


def make(name, cls, wrapped):
    torch.manual_seed(1)
    if name == "SparseAdam":
        model = torch.nn.Embedding(6, 3, sparse=True)
        loss = lambda: model(torch.tensor([1, 2, 2])).pow(2).sum()  # noqa: E731
    else:
        model = torch.nn.Linear(3, 4, bias=name != "Muon")  # Muon takes matrices only
        loss = lambda: model(torch.ones(2, 3)).pow(2).sum()  # noqa: E731
    optimizer = cls(model.parameters(), lr=0.01)
    if wrapped:
        optimizer = hvd.DistributedOptimizer(optimizer, model.named_parameters())
    return model, optimizer, loss


def step(optimizer, loss):
    def closure():
        optimizer.zero_grad()
        value = loss()
        value.backward()
        return value

    optimizer.step(closure)


def plain(value):
    if isinstance(value, torch.Tensor):
        return str(value.dtype), value.to_dense().tolist()
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(part) for part in value]
    return value


def check_every_optimizer():
    tried = 0
    for name, cls in optimizer_classes():
        for wrapped in (False, True):
            for root_has_state in (True, False):
                model, optimizer, loss = make(name, cls, wrapped)
                if root_has_state and wrapped:
                    step(optimizer, loss)
                elif root_has_state and RANK == ROOT:  # only the root has state
                    step(optimizer, loss)
                # Not earlier: LBFGS asks for more gradients on ranks that take other steps.
                optimizer.param_groups[0]["lr"] = 0.01 * (RANK + 1)
                hvd.broadcast_parameters(model.state_dict(), root_rank=ROOT)
                hvd.broadcast_optimizer_state(optimizer, root_rank=ROOT)
                assert optimizer.param_groups[0]["lr"] == 0.01 * (ROOT + 1), name
                step(optimizer, loss)
                found = hvd.allgather_object((plain(optimizer.state_dict()), plain(model.state_dict())))
                assert all(one == found[0] for one in found), (name, wrapped, root_has_state)
                tried += 1
    assert tried >= 13 * 4, tried


def check_a_root_that_cannot_send():
    """Everybody gets the error, and the next operation works."""
    p = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([p], lr=0.1)
    if RANK == ROOT:
        optimizer.param_groups[0]["odd"] = (n for n in range(3))  # a generator cannot be pickled
    error = raises(Exception, "", hvd.broadcast_optimizer_state, optimizer, root_rank=ROOT)
    assert "pickle" in str(error) or "cannot send" in str(error), error
    assert hvd.allreduce(torch.ones(1)).item() == 1


def check_state_of_any_dtype():
    p = torch.nn.Parameter(torch.zeros(2, dtype=torch.complex64))
    optimizer = torch.optim.Adam([p], lr=0.1)
    p.grad = torch.full((2,), 1 + 1j) * (RANK + 1)
    optimizer.step()
    wanted = {name: getattr(torch, name) for name in ("uint32", "float8_e4m3fn", "bool") if hasattr(torch, name)}
    optimizer.state[p].update({name: torch.full((2,), float(RANK)).to(dtype) for name, dtype in wanted.items()})
    hvd.broadcast_optimizer_state(optimizer, root_rank=ROOT)
    found = optimizer.state[p]
    assert torch.allclose(found["exp_avg"], torch.full((2,), 0.1 + 0.1j) * (ROOT + 1)), found
    for name, dtype in wanted.items():
        assert found[name].dtype is dtype and found[name].to(torch.float32).eq(float(ROOT > 0 if dtype is torch.bool else ROOT)).all()


def check_parameters():
    """Pairs, dicts, generators, None; shared and transposed tensors."""
    matrix = torch.full((2, 3), float(RANK)).t()
    both = torch.full((2,), float(RANK))
    hvd.broadcast_parameters({"b": matrix, "a": both, "same": both, "none": None}, root_rank=ROOT)
    assert matrix.eq(ROOT).all() and both.eq(ROOT).all()
    model = torch.nn.Linear(2, 2)
    torch.nn.init.constant_(model.weight, float(RANK))
    hvd.broadcast_parameters(model.named_parameters(), root_rank=0)
    assert model.weight.eq(0).all()
    state = {
        name: torch.full((2,), float(RANK)).to(getattr(torch, name))
        for name in "uint16 uint32 uint64 complex64 complex128 float8_e4m3fn float8_e5m2 bool".split() if hasattr(torch, name)
    }
    hvd.broadcast_parameters(state, root_rank=ROOT)
    for name, tensor in state.items():
        assert tensor.view(torch.uint8).equal(torch.full((2,), float(ROOT)).to(tensor.dtype).view(torch.uint8)), (name, tensor)
    raises(ValueError, "text: str is not a tensor", hvd.broadcast_parameters, {"text": "no"}, 0)


for check in (check_every_optimizer, check_a_root_that_cannot_send, check_state_of_any_dtype, check_parameters):
    check()
print("torch_state: ok")
