# SPDX-License-Identifier: Apache-2.0
"""DistributedOptimizer where users of gradient averaging have stumbled; each check compares with plain PyTorch."""

import copy
import warnings

import torch
from errors import raises

import horovod.torch as hvd

hvd.init()
RANK, SIZE = hvd.rank(), hvd.size()


def parameters(*values):
    return [torch.nn.Parameter(torch.full((3,), float(value))) for value in values]


def sgd(params, named=True, lr=1.0, **options):
    names = [(f"p{i}", p) for i, p in enumerate(params)] if named else None
    return hvd.DistributedOptimizer(torch.optim.SGD(params, lr=lr), names, **{"op": hvd.Sum, **options})


def is_value(tensor, value):
    wanted = torch.full_like(tensor, value)
    torch.testing.assert_close(tensor.detach(), wanted)


TOTAL = SIZE * (SIZE + 1) / 2  # the sum of rank + 1


def backward(parameter, factor=1.0):
    (parameter.sum() * factor * (RANK + 1)).backward()


def check_more_passes_than_announced():
    for options in ({}, {"groups": 1}, {"backward_passes_per_step": 2}):
        (p, q) = params = parameters(0, 0)
        optimizer = sgd(params, **options)
        for _ in range(2):
            optimizer.zero_grad()
            for factor in (1, 10, 100):
                backward(p, factor)
                backward(q, factor)
            optimizer.step()
        is_value(p.grad, 111 * TOTAL)
        is_value(p, -222 * TOTAL)
        is_value(q, -222 * TOTAL)


def check_fewer_passes_than_announced():
    """The last batches of an epoch, and steps that do not come in the announced rhythm."""
    (p,) = params = parameters(0)
    optimizer = sgd(params, backward_passes_per_step=4)
    for passes in (4, 1, 3, 4):
        optimizer.zero_grad()
        for _ in range(passes):
            backward(p)
        optimizer.step()
    is_value(p, -12 * TOTAL)


def check_different_passes():
    """Rank 0 runs two passes for a step, the others one: all get to know at once, and go on together."""
    (p,) = params = parameters(0)
    optimizer = sgd(params)
    backward(p)
    if SIZE > 1:
        further = (backward, p) if RANK == 0 else (optimizer.step,)
        error = raises(hvd.HorovodMismatchError, "different numbers of backward passes", *further)
        assert "rank 0 is in backward pass 2, rank 1 is in step()" in str(error), error
        assert p.grad is None
    with torch.no_grad():
        p.zero_()
    for _ in range(2):
        optimizer.zero_grad()
        backward(p)
        optimizer.step()
    is_value(p, -2 * TOTAL)


def check_gradient_twice_in_one_backward():
    """Reentrant checkpoints finish the gradient of a shared parameter several times in one backward pass."""
    from torch.utils.checkpoint import checkpoint

    (p,) = params = parameters(1)
    optimizer = sgd(params)
    x = torch.ones(3, requires_grad=True)
    y = checkpoint(lambda t: t * p, x, use_reentrant=True)
    z = checkpoint(lambda t: t * p, y, use_reentrant=True)
    z.sum().backward()
    optimizer.step()
    is_value(p.grad, 2 * SIZE)


def check_no_sync():
    (p,) = params = parameters(0)
    optimizer = sgd(params)
    with optimizer.no_sync():
        backward(p)
        is_value(p.grad, RANK + 1)
    backward(p)
    optimizer.step()
    is_value(p, -2 * TOTAL)


def check_reduced_once():
    """step() after synchronize() does not reduce again, inside skip_synchronize() or not; clipping stays."""
    for skip in (False, True):
        (p,) = params = parameters(0)
        optimizer = sgd(params)
        for step in (1, 2):
            optimizer.zero_grad()
            backward(p)
            optimizer.synchronize()
            is_value(p.grad, TOTAL)
            torch.nn.utils.clip_grad_norm_(params, 1.0)
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                if skip:
                    with optimizer.skip_synchronize():
                        optimizer.step()
                else:
                    optimizer.step()
            torch.testing.assert_close(p.detach().norm(), torch.tensor(float(step)), atol=1e-4, rtol=1e-4)


def has_grad_scaler():
    if hasattr(torch.amp, "GradScaler"):
        return True
    print(f"GradScaler: not checked, PyTorch {torch.__version__} has none for the CPU")
    return False


def check_grad_scaler():
    """Without any call to synchronize: what the scaler looks at is reduced, so all ranks step or none does."""
    if not has_grad_scaler():
        return
    (p,) = params = parameters(0)
    optimizer = sgd(params, lr=1.0)
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0, growth_interval=100)
    for unscale in (False, True):
        for broken in (False, True):
            before, scale = p.detach().clone(), scaler.get_scale()
            optimizer.zero_grad()
            factor = float("inf") if broken and RANK == SIZE - 1 else 1.0
            scaler.scale(p.sum() * (RANK + 1) * factor).backward()
            if unscale:
                scaler.unscale_(optimizer)
                if not broken:
                    is_value(p.grad, TOTAL)
            scaler.step(optimizer)
            scaler.update()
            assert scaler.get_scale() == (scale / 2 if broken else scale)
            torch.testing.assert_close(p.detach(), before if broken else before - TOTAL)


def check_grad_scaler_with_adasum():
    """Each rank steps with its own gradients, but all ranks step or none does."""
    if not has_grad_scaler():
        return
    for fused in (False, True) if torch.__version__ >= (2, 4) else (False,):  # on the CPU since then
        (p,) = params = parameters(0)
        base = torch.optim.SGD(params, lr=1.0, fused=fused)
        optimizer = hvd.DistributedOptimizer(base, [(f"adasum{fused}", p)], op=hvd.Adasum)
        scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
        for broken, unscale, wanted in ((False, False, -1.0), (True, False, -1.0), (False, True, -2.0)):
            optimizer.zero_grad()
            factor = float("inf") if broken and RANK == SIZE - 1 else 1.0
            scaler.scale(p.sum() * factor).backward()
            if unscale:
                scaler.unscale_(optimizer)
            scaler.step(optimizer)
            scaler.update()
            is_value(p, wanted)


def check_no_gradient():
    """A parameter without a gradient on any rank stays alone: no weight decay, no momentum, no state."""
    for groups in (None, 1):
        used, rare, unused = params = parameters(1, 1, 1)
        names = [(f"n{i}", p) for i, p in enumerate(params)]
        base = torch.optim.AdamW(params, lr=0.1, weight_decay=0.5)
        optimizer = hvd.DistributedOptimizer(base, names, groups=groups)
        backward(used + rare if RANK == SIZE - 1 else used)
        optimizer.step()
        assert unused.grad is None and unused not in optimizer.state
        is_value(unused, 1.0)
        is_value(rare.grad, 1.0)
        same = hvd.allgather(torch.stack([p.detach() for p in params])[None])
        assert torch.equal(same, same[:1].expand_as(same))
        assert rare[0] < 0.9


def check_requires_grad_changes():
    for groups in (None, 1):
        p, q = params = parameters(0, 0)
        q.requires_grad_(False)
        optimizer = sgd(params, groups=groups)
        for p_on, q_on in [(True, False), (True, True), (False, True), (True, True)]:
            p.requires_grad_(p_on)
            q.requires_grad_(q_on)
            optimizer.zero_grad(set_to_none=True)
            before = [p.detach().clone(), q.detach().clone()]
            backward(p + q)
            for parameter, on in zip(params, (p_on, q_on)):
                assert parameter.grad is None if not on else parameter.grad[0] == TOTAL
            optimizer.step()
            for parameter, on, start in zip(params, (p_on, q_on), before):
                torch.testing.assert_close(parameter.detach(), start - TOTAL * on)
                assert on or parameter.grad is None


def check_several_optimizers():
    """A GAN: one loss leaves gradients in the other network; names are not given, and the same."""
    torch.manual_seed(3)
    start = [torch.nn.Linear(3, 3), torch.nn.Linear(3, 1)]
    data = torch.randn(6 * SIZE, 3)

    def play(wrap, rows):
        generator, judge = copy.deepcopy(start)
        g = wrap(torch.optim.SGD(generator.parameters(), lr=0.1))
        d = wrap(torch.optim.SGD(judge.parameters(), lr=0.1))
        for _ in range(3):
            d.zero_grad()
            (judge(generator(rows)).mean() - judge(rows).mean()).backward()
            d.step()
            g.zero_grad()
            (-judge(generator(rows)).mean()).backward()
            g.step()
        return [*generator.parameters(), *judge.parameters()]

    found = play(hvd.DistributedOptimizer, data[6 * RANK : 6 * RANK + 6])
    for one, wanted in zip(found, play(lambda optimizer: optimizer, data)):
        torch.testing.assert_close(one, wanted)


def check_wrapped_again():
    """A new optimizer for the same parameters, while the old one lives and after it died."""
    (p,) = params = parameters(0)
    old = sgd(params)
    new = sgd(params, compression=hvd.Compression.bf16)  # so gradients change when they have arrived, not before
    backward(p)
    new.step()
    is_value(p, -TOTAL)
    new.zero_grad()
    backward(p)
    old.step()
    is_value(p, -2 * TOTAL)
    del old, new
    p.grad = None
    backward(p)
    is_value(p.grad, RANK + 1)
    last = sgd(params)
    last.zero_grad()
    backward(p)
    last.step()
    is_value(p, -3 * TOTAL)


def check_gradients_keep_their_memory():
    """Gradients that are views of one flat tensor still are after the step."""
    p, q = params = parameters(0, 0)
    flat = torch.zeros(6)
    p.grad, q.grad = flat[:3], flat[3:]
    for compression in (hvd.Compression.none, hvd.Compression.bf16):
        optimizer = sgd(params, compression=compression)
        flat.zero_()
        backward(p)
        backward(q, 2)
        optimizer.step()
        assert p.grad.data_ptr() == flat.data_ptr()
        is_value(flat[:3], TOTAL)
        is_value(flat[3:], 2 * TOTAL)


checks = [value for name, value in list(globals().items()) if name.startswith("check_")]
for check in checks:
    check()
print("torch_optimizer_traps: ok")
