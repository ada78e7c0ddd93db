# SPDX-License-Identifier: Apache-2.0
"""What steps is what was reduced: whatever a program does with ``.grad`` counts as in one process, or is an error on all ranks."""

import copy
import io
import pickle
import warnings

import torch
from errors import raises
from small_steps import CHANGES, MEAN, RANK, SIZE, backward, is_value, parameter, sgd

import horovod.torch as hvd


def check_changes_count():
    """Between two passes, and between backward and step."""
    for options in ({}, {"compression": hvd.Compression.bf16}, {"groups": 1}):
        for change, left in CHANGES.values():
            p = parameter()
            optimizer = sgd(p, **options)
            total = 0.0
            for _ in range(3):
                optimizer.zero_grad()
                backward(p, 100.0)
                is_value(p.grad, 100 * MEAN)
                change(p, optimizer)
                backward(p)
                is_value(p.grad, left + MEAN) if not options.get("compression") else None
                optimizer.step()
                total += left + MEAN
                if not options.get("compression"):
                    is_value(p, -total)
            for _ in range(2):
                optimizer.zero_grad()
                backward(p, 100.0)
                change(p, optimizer)
                before = p.detach().clone()
                optimizer.step()
                torch.testing.assert_close(before - p.detach(), torch.full((3,), left), rtol=1e-2, atol=1e-2)


def check_local_parts():
    """Inside no_sync() and with fewer passes than announced: discarding counts, other changes are an error on all ranks."""
    for local in ("no_sync", "passes"):
        for name, (change, _left) in CHANGES.items():
            p = parameter()
            optimizer = sgd(p, backward_passes_per_step=1 if local == "no_sync" else 3)
            backward(p, 10.0)
            optimizer.step()  # so that an older part is in .grad
            is_value(p.grad, 10 * MEAN)
            with optimizer.no_sync() if local == "no_sync" else torch.enable_grad():
                backward(p, 100.0)
                is_value(p.grad, 10 * MEAN + 100 * (RANK + 1))
            before = p.detach().clone()
            change(p, optimizer)
            if SIZE > 1 and name in ("clip_norm", "clip_value", "penalty", "other"):
                error = raises(ValueError, "was changed after backward while it was not reduced yet", optimizer.step)
                assert "p0" in str(error) and "rank 0" in str(error) and "rank 1" in str(error)
                optimizer.zero_grad()
            elif SIZE > 1 or name == "nothing":
                optimizer.step()
                # Scaling by ``.data`` is not seen, and right all the same: the mean of what is scaled is the scaled mean.
                is_value(before - p.detach(), {"nothing": 110 * MEAN, "data": 55 * MEAN}.get(name, 0.0))
            optimizer.zero_grad()
            before = p.detach().clone()
            backward(p)
            optimizer.step()
            is_value(before - p.detach(), MEAN)


def check_reading_is_local():
    """On one rank, between backward passes and before the step."""
    p = parameter()
    optimizer = sgd(p, backward_passes_per_step=2)
    for _ in range(3):
        optimizer.zero_grad()
        for _ in range(2):
            backward(p)
            if RANK == 0:
                repr(optimizer), str(optimizer), optimizer.state_dict(), optimizer.param_groups[0]["lr"], len(optimizer.state)
                pickle.dumps(optimizer), copy.deepcopy(optimizer), copy.copy(optimizer), optimizer.__getstate__()
                pickle.loads(pickle.dumps(optimizer))
        optimizer.step()
    is_value(p, -6 * MEAN)


def check_one_object():
    """Wrapper, original and schedulers made before and after refer to the same groups, also after state was loaded."""
    p = parameter()
    original = torch.optim.SGD([p], lr=1.0, momentum=0.5)
    before = torch.optim.lr_scheduler.StepLR(original, 1, 0.5)
    groups, group, members = original.param_groups, original.param_groups[0], original.param_groups[0]["params"]
    optimizer = hvd.DistributedOptimizer(original, [("p", p)])
    after = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
    hvd.broadcast_optimizer_state(optimizer, 0)
    saved = copy.deepcopy(optimizer.state_dict())
    for load in (optimizer, original):
        load.load_state_dict(copy.deepcopy(saved))
        assert optimizer.param_groups is original.param_groups is groups
        assert groups[0] is group and group["params"] is members and members[0] is p
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for use in (original, optimizer):
                use.zero_grad()
                backward(p)
                use.step()
                is_value(p.grad, MEAN)
                lr = group["lr"]
                before.step()
                after.step()
                assert group["lr"] == lr / 4
    raises(ValueError, "already", hvd.DistributedOptimizer, original)


def check_failed_wrap():
    p = parameter()
    original = torch.optim.SGD([p], lr=1.0)
    torch.optim.lr_scheduler.StepLR(original, 1)
    before = dict(vars(original))
    for options in ({"groups": [[parameter()]]}, {"named_parameters": []}, {"backward_passes_per_step": 0}, {"groups": "x"}):
        raises(ValueError, "", hvd.DistributedOptimizer, original, **options)
        assert type(original) is torch.optim.SGD and vars(original) == before and not p._backward_hooks


def check_not_kept():
    p = parameter()
    original = torch.optim.SGD([p], lr=1.0)
    hvd.DistributedOptimizer(original, [("p", p)])
    for _ in range(2):
        original.zero_grad()
        backward(p)
        original.step()
    is_value(p, -2 * MEAN)


def check_other_parameters():
    """Parameters come by any way, are replaced and go."""
    first, second, third = parameter(), parameter(), parameter()
    optimizer = sgd(first)
    optimizer.param_groups[0]["params"].append(second)
    backward(first + second)
    optimizer.step()
    is_value(second, -MEAN)
    optimizer.param_groups[0]["params"][0] = third
    for _ in range(3):
        optimizer.zero_grad()
        first.grad = None
        backward(first + second + third)
        optimizer.step()
    is_value(second, -4 * MEAN)
    is_value(third, -3 * MEAN)
    is_value(first, -MEAN)
    is_value(first.grad, RANK + 1)  # which nobody reduces any more


def check_parameter_of_an_optimizer_without_gradients():
    """Its gradient, too, is reduced when backward returns, so that a program can clip it."""
    for zeroed in (False, True):
        p, q, late = (parameter() for _ in range(3))
        one, two = sgd(p), sgd(q)
        two.param_groups[0]["params"].append(late)
        if zeroed:
            two.zero_grad()
        for total in (late if zeroed else p + late, late, q + late):
            backward(total, 100.0)
            is_value(late.grad, 100 * MEAN)
            torch.nn.utils.clip_grad_value_([late], 7.0)
            two.step()
            two.zero_grad()
        is_value(late, -21.0)
        one.zero_grad()


def check_parameter_that_no_hook_has_told_of():
    """Nothing of the pass was known to an optimizer, and what the program has done to the gradient since cannot be told."""
    first, second = parameter(), parameter()
    optimizer = sgd(first)
    optimizer.param_groups[0]["params"][0] = second
    backward(second)
    if SIZE > 1:
        raises(ValueError, "noname.0.0 came into param_groups by another way than add_param_group", optimizer.step)
        optimizer.zero_grad()
        backward(second)
    optimizer.step()
    is_value(second, -MEAN)


def check_one_optimizer_for_each_parameter():
    """Stepped in hooks of backward."""
    params = [parameter() for _ in range(4)]
    optimizers = {p: sgd(p) for p in params}

    def step(p):
        optimizers[p].step()
        optimizers[p].zero_grad()

    for p in params:
        p.register_post_accumulate_grad_hook(step)
    for _ in range(3):
        backward(sum(params))
    for p in params:
        is_value(p, -3 * MEAN)


def check_failed_backward():
    """A backward pass that ends with an error on all ranks, and one that does so on one rank."""
    params = [parameter() for _ in range(3)]
    optimizer = sgd(*params)

    def fail(_gradient):
        raise MemoryError("made up")

    backward(sum(params))
    optimizer.step()
    for alone in (False, True):
        optimizer.zero_grad()
        x = params[0] * 1.0
        x.register_hook(fail) if RANK == 0 or not alone else None
        loss = (x.sum() + params[1].sum() + params[2].sum()) * (RANK + 1)
        if RANK == 0 or not alone:
            raises(MemoryError, "made up", loss.backward)
            optimizer.zero_grad()
            if alone:
                backward(sum(params))
        else:
            loss.backward()
    optimizer.step()
    for p in params:
        is_value(p, -2 * MEAN)


def check_reentrant_checkpoints():
    from torch.utils.checkpoint import checkpoint

    params = [parameter(1.0) for _ in range(4)]
    optimizer = sgd(*params, lr=0.0)
    for _ in range(3):
        optimizer.zero_grad()
        inner = torch.ones(3, requires_grad=True)
        for p in params[:3]:
            inner = checkpoint(lambda t, p=p: t * p, inner, use_reentrant=True)
        ((inner * params[3]).sum() * (RANK + 1)).backward()
        for p in params:
            is_value(p.grad, MEAN)
        optimizer.step()


def check_autograd_grad():
    p = parameter()
    optimizer = sgd(p)
    backward(p, 10.0)
    torch.autograd.grad(p.sum(), p)
    is_value(p.grad, 10 * MEAN)
    backward(p)
    optimizer.step()
    is_value(p, -11 * MEAN)


def check_made_by_hand():
    """Gradients that no backward pass has left in .grad are reduced all the same, with or without zero_grad()."""
    p, q = parameter(), parameter()
    optimizer = sgd(p, q)
    for turn in range(4):
        if turn % 2:
            optimizer.zero_grad()
        p.grad, q.grad = torch.autograd.grad(((p + 2 * q).sum() * (RANK + 1)), (p, q))
        optimizer.step()
        is_value(p.grad, MEAN)
    is_value(p, -4 * MEAN)
    is_value(q, -8 * MEAN)
    optimizer.zero_grad()
    backward(p)  # and beside those of a backward pass
    q.grad = torch.full((3,), RANK + 1.0)
    optimizer.step()
    is_value(p, -5 * MEAN)
    is_value(q, -9 * MEAN)
    if SIZE > 1:
        summed = parameter()
        optimizer = sgd(summed, op=hvd.Sum)
        backward(summed)
        optimizer.step()
        summed.grad = torch.ones(3)
        raises(ValueError, "write that into the old one, by .grad.copy_()", optimizer.step)


def check_sparse_gradients_that_are_kept():
    """Backward adds entries to those that the ranks have reduced."""
    for entries in ([4], [4, 3, 4]):
        table, p = torch.nn.Embedding(5, 2, sparse=True), parameter()
        torch.nn.init.zeros_(table.weight)
        optimizer = sgd(table.weight, p, op=hvd.Sum, backward_passes_per_step=2)
        for _ in range(2):
            for _ in range(2):
                ((table(torch.tensor(entries)).sum() if RANK == 0 else 0.0) + p.sum()).backward()
            optimizer.step()
        is_value(table.weight[4], -6.0 * entries.count(4))
        is_value(p, -6.0 * SIZE)


def check_copies_between_backward_and_step():
    for local in (False, True):
        p = torch.zeros(3, requires_grad=True)  # of which, unlike of a Parameter, .grad is copied too
        optimizer = sgd(p, op=hvd.Sum)
        with optimizer.no_sync() if local else torch.enable_grad():
            backward(p)
        copied, other = copy.deepcopy((p, optimizer))
        other.step()
        optimizer.step()
        is_value(p, -SIZE * MEAN)
        is_value(copied, -SIZE * MEAN)


class Scaled(torch.optim.SGD):
    def step(self, closure=None, scale=1.0):
        for group in self.param_groups:
            for p in group["params"]:
                p.grad.div_(scale)
        return super().step(closure)


def check_step_arguments():
    p = parameter()
    optimizer = hvd.DistributedOptimizer(Scaled([p], lr=1.0), [("p", p)])
    backward(p)
    optimizer.step(scale=2.0)
    is_value(p, -MEAN / 2)
    optimizer.zero_grad()
    backward(p)
    optimizer.step(None, 4.0)
    is_value(p, -MEAN * 3 / 4)


def check_pickled():
    """Optimizer, scheduler and model; what comes back trains as what was saved."""
    p = parameter()
    optimizer = sgd(p, op=hvd.Sum, backward_passes_per_step=2)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
    file = io.BytesIO()
    torch.save({"p": p, "optimizer": optimizer, "scheduler": scheduler}, file)
    file.seek(0)
    loaded = torch.load(file, weights_only=False)
    q, other = loaded["p"], loaded["optimizer"]
    assert loaded["scheduler"].optimizer is other and other.param_groups[0]["params"][0] is q
    for used, of in ((p, optimizer), (q, other), (p, optimizer)):
        backward(used)
        backward(used)
        of.step()
        of.zero_grad()
    is_value(q, -2 * SIZE * MEAN)
    is_value(p, -4 * SIZE * MEAN)
    both, steps = copy.copy(optimizer), p.detach().clone()
    backward(p)
    both.step()
    is_value(steps - p.detach(), SIZE * MEAN)


def check_half_built():
    model = torch.nn.LazyLinear(4)
    if SIZE > 1:  # alone nothing is reduced, and it works
        raises(RuntimeError, "uninitialized", hvd.DistributedOptimizer, torch.optim.SGD(model.parameters(), lr=0.1))


checks = [value for name, value in list(globals().items()) if name.startswith("check_")]
for check in checks:
    check()
print("torch_optimizer_invariant: ok")
