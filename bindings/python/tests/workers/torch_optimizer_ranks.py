# SPDX-License-Identifier: Apache-2.0
"""Ranks that do something else than the others with an optimizer: right, where one process would do it, or an error on all ranks."""

import gc

import torch
from errors import raises
from small_steps import CHANGES, MEAN, RANK, SIZE, backward, is_value, parameter, sgd

import horovod.torch as hvd


def check_changed_on_one_rank():
    """One rank alone clips, scales, sets or drops what was reduced: an error on all, and the next step is right."""
    if SIZE == 1:
        return
    for name in ("none", "zero_", "zero_grad", "clip_norm", "clip_value", "penalty", "other"):
        p, q = parameter(), parameter()
        optimizer = sgd(p, q)
        for wrong in (False, True, False):
            optimizer.zero_grad()
            backward(p + q, 100.0)
            if wrong:
                if RANK == SIZE - 1:
                    CHANGES[name][0](q, optimizer)
                text = "ranks have changed reduced gradients differently: rank 0 none, "
                error = raises(hvd.HorovodMismatchError, text, optimizer.step)
                assert f"rank {SIZE - 1} p" in str(error), error
            else:
                optimizer.step()
        is_value(p, -200 * MEAN)


def check_changed_by_different_amounts():
    """All ranks scale what was reduced, one by another factor; a factor that differs by rounding is none."""
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        p = torch.nn.Parameter(torch.zeros(3, dtype=dtype))
        optimizer = sgd(p)
        for factor in (1.0, 3.0, 1.0):
            optimizer.zero_grad()
            backward(p)
            p.grad.mul_(factor * (1 + 1e-7 * RANK) if RANK == 0 else 1.0)
            if factor == 1.0 or SIZE == 1:
                optimizer.step()
            else:
                raises(hvd.HorovodMismatchError, "ranks have changed this reduced gradient differently", optimizer.step)
        is_value(p, -(2 if SIZE > 1 else 5) * MEAN)


def check_dropped_on_one_rank_and_changed_on_all():
    """One rank throws away what was reduced, and what follows changes the gradients that are there on all ranks."""
    if SIZE == 1:
        return
    p, q = parameter(), parameter()
    optimizer = sgd(p, q)
    for wrong in (False, True, False):
        optimizer.zero_grad()
        backward(p + q, 100.0)
        if wrong and RANK == SIZE - 1:
            q.grad = None
        for each in (p, q):
            if each.grad is not None:
                each.grad.mul_(0.5)
        if wrong:
            error = raises(hvd.HorovodMismatchError, "ranks have changed reduced gradients differently", optimizer.step)
            assert f"rank {SIZE - 1} p1" in str(error), error
        else:
            optimizer.step()
    is_value(p, -100 * MEAN), is_value(q, -100 * MEAN)


def check_changed_of_another_optimizer():
    """One rank throws away what was reduced for another optimizer, and a norm of all gradients clips those that step."""
    if SIZE == 1:
        return
    p, q = parameter(), parameter()
    one, two = sgd(p), sgd(q)
    for wrong in (False, True, False):
        one.zero_grad(), two.zero_grad()
        backward(p + q, 100.0)
        if wrong and RANK == SIZE - 1:
            q.grad = None
        torch.nn.utils.clip_grad_norm_([p, q], 6**0.5)
        if wrong:
            raises(hvd.HorovodMismatchError, "ranks have changed reduced gradients differently", one.step)
        else:
            one.step(), two.step()
    is_value(p, -2.0), is_value(q, -2.0)


def check_zeros_to_which_one_rank_added():
    """Zeros that were reduced stay zeros: whether something local was added to them in between makes no difference."""
    p = parameter()
    optimizer = sgd(p)
    backward(p)
    optimizer.step()
    optimizer.zero_grad(set_to_none=False)
    optimizer.step()
    if RANK == 0:
        with optimizer.no_sync():
            backward(p)
    optimizer.zero_grad(set_to_none=False)
    backward(p)
    optimizer.step()
    is_value(p, -2 * MEAN)


def check_zeros_of_one_rank():
    """A rank that fills its own gradient with zeros gives all ranks zeros, with which they step, as one process does."""
    p = parameter()
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([p], lr=1.0, momentum=0.5), [("zeros", p)])
    backward(p)
    optimizer.step()
    optimizer.zero_grad()
    if RANK == 0:
        with optimizer.no_sync():
            backward(p)
        p.grad.zero_()
    optimizer.step()
    is_value(p, -1.5 * MEAN)


def check_zeros_that_became_a_sum():
    """Zeros whose memory holds a sum since a round are not taken for zeros in later passes."""
    p = parameter()
    optimizer = sgd(p, backward_passes_per_step=2)
    with optimizer.no_sync():
        backward(p)
    optimizer.zero_grad(set_to_none=False)
    if RANK == 0:
        backward(p)
    optimizer.synchronize()
    backward(p)
    backward(p)
    optimizer.step()
    is_value(p, -(1 / SIZE + 2 * MEAN))


def check_a_pass_too_many():
    """On one rank, which is told at once by all."""
    if SIZE == 1:
        return
    for passes in (1, 2):
        p = parameter()
        optimizer = sgd(p, backward_passes_per_step=passes)
        for wrong in (False, True, False):
            optimizer.zero_grad()
            for _ in range(passes):
                backward(p)
            if wrong:
                further = [lambda: [backward(p) for _ in range(passes)]] if RANK == 0 else [optimizer.step]
                raises(hvd.HorovodMismatchError, "ranks run different numbers of backward passes for a step", *further)
            else:
                optimizer.step()
        is_value(p, -2 * passes * MEAN)


def check_fewer_passes():
    """No pass on one rank, or fewer than announced: the others' count."""
    for announced, made in ((1, 0), (3, 0), (3, 1)):
        p = parameter()
        optimizer = sgd(p, op=hvd.Sum, backward_passes_per_step=announced)
        for _ in range(2):
            optimizer.zero_grad()
            for _ in range(made if RANK == 0 else announced):
                backward(p)
            optimizer.step()
        is_value(p, -2.0 * (announced * (SIZE * MEAN - 1) + made))


def check_passes_before_another_steps():
    """What an optimizer has counted when another one steps does not end its next pass with a round on some ranks alone."""
    gc.collect()  # frames of errors keep optimizers of other checks, whose smaller number of passes would count
    p, q = parameter(), parameter()
    one, two = (sgd(each, op=hvd.Sum, backward_passes_per_step=2) for each in (p, q))
    for _ in range(3):
        backward(p + q)
        one.step()
        one.zero_grad()
        for each in (q, p) if RANK == 0 else (p, q):
            backward(each)
        one.step(), two.step()
        one.zero_grad(), two.zero_grad()
    is_value(p + q, -12 * SIZE * MEAN)


def check_different_optimizers():
    """Ranks that step different ones, instead of waiting for each other."""
    if SIZE == 1:
        return
    p, q = parameter(), parameter()
    one, two = sgd(p), sgd(q)
    backward(p + q)
    text = "ranks step different optimizers: rank 0 is in step(), rank 1 in that of another"
    error = raises(hvd.HorovodMismatchError, "ranks step different optimizers", (one if RANK == 0 else two).step)
    assert text in str(error), error
    one.zero_grad(), two.zero_grad()
    backward(p + q)
    one.step(), two.step()
    is_value(p + q, -2 * MEAN)


def check_scaler_of_local_gradients():
    """A GradScaler looks at this rank's gradients only: an error on all ranks, not a step on some."""
    if SIZE == 1 or not hasattr(torch.amp, "GradScaler"):
        return
    for unscale in (False, True):
        for infinite in (False, True):
            p = parameter()
            optimizer = sgd(p, backward_passes_per_step=2)
            scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
            scaler.scale(p.sum() * (float("inf") if infinite and RANK == 1 else 1.0)).backward()
            scaler.unscale_(optimizer) if unscale else None
            raises(ValueError, "a GradScaler looks at gradients that are not reduced yet", scaler.step, optimizer)
            scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
            optimizer.zero_grad()
            scaler.scale(p.sum() * (float("inf") if infinite and RANK == 1 else 1.0)).backward()
            optimizer.synchronize()
            scaler.step(optimizer)
            scaler.update()
            is_value(p, 0.0 if infinite else -1.0)
            assert scaler.get_scale() == (2.0 if infinite else 4.0)


def check_other_parameters_on_one_rank():
    if SIZE == 1:
        return
    first, second = parameter(), parameter()
    optimizer = sgd(first)
    backward(first)
    optimizer.step()
    if RANK == 1:
        optimizer.param_groups[0]["params"].append(second)
    optimizer.zero_grad()
    text = "allreduce.noname.0.1 differs: rank 0 has none, rank 1 has [3]"
    raises(hvd.HorovodMismatchError, text, backward, first + second)
    if RANK == 1:
        optimizer.param_groups[0]["params"].pop()
    first.grad = None
    backward(first)
    optimizer.step()
    is_value(first, -2 * MEAN)


def check_parameter_added_before_a_pass_of_one_rank():
    """What that rank has sent off when the others do not know the parameter yet meets nothing of a later step."""
    if SIZE == 1:
        return
    p, q, late, other = (parameter() for _ in range(4))
    one, two = sgd(p, q), sgd(other)

    def step(total):
        one.zero_grad(), two.zero_grad()
        backward(total)
        one.step(), two.step()

    for _ in range(3):
        step(p + q + other)
    if RANK == SIZE - 1:
        one.param_groups[0]["params"].append(late)
    one.zero_grad()
    act = [backward, p + q, 50.0] if RANK == SIZE - 1 else [two.synchronize]
    raises(hvd.HorovodMismatchError, "All ranks have to step the same parameters", *act)
    if RANK != SIZE - 1:
        one.param_groups[0]["params"].append(late)
    for _ in range(3):
        step(p + q + late + other)
    is_value(p + q + other, -18 * MEAN), is_value(late, -3 * MEAN)


def check_crosswise():
    """Every rank uses another one of several optimizers; those of process sets in an order of their own."""
    experts = [parameter() for _ in range(3)]
    optimizers = [sgd(p, op=hvd.Sum) for p in experts]
    for turn in range(4):
        mine = (RANK + turn) % 3
        for optimizer in optimizers:
            optimizer.zero_grad()
        backward(experts[mine])
        for optimizer in optimizers:
            optimizer.step()
    used = [sum(r + 1 for turn in range(4) for r in range(SIZE) if (r + turn) % 3 == place) for place in range(3)]
    for p, total in zip(experts, used):
        is_value(p, -float(total))


checks = [value for name, value in list(globals().items()) if name.startswith("check_")]
for check in checks:
    check()
print("torch_optimizer_ranks: ok")
