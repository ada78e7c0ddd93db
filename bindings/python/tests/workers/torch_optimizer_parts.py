# SPDX-License-Identifier: Apache-2.0
"""DistributedOptimizer with what surrounds an optimizer: state, schedulers, groups, hooks, wrappers, process sets."""

import copy
import io
import warnings

import torch
from errors import raises
from small_model import adam, batch, close, closure_of, model_of, own, reference, train

import horovod.torch as hvd

hvd.init()
RANK, SIZE = hvd.rank(), hvd.size()


def check_state_round_trip():
    """Stop, save, load into fresh objects, go on: as if never stopped. Also into and out of a plain optimizer."""
    wanted = reference(adam, range(6))
    model = model_of()
    optimizer = hvd.DistributedOptimizer(adam(model), model.named_parameters())
    train(model, optimizer, range(3))
    file = io.BytesIO()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, file)
    for wrap_first in (True, False):
        file.seek(0)
        saved = torch.load(file, weights_only=True)
        model = model_of()
        model.load_state_dict(saved["model"])
        base = adam(model)
        if not wrap_first:
            base.load_state_dict(saved["optimizer"])
        optimizer = hvd.DistributedOptimizer(base, model.named_parameters())
        if wrap_first:
            optimizer.load_state_dict(saved["optimizer"])
        train(model, optimizer, range(3, 6))
        close(model, wanted)
        plain = adam(model)
        plain.load_state_dict(optimizer.state_dict())
        assert plain.state_dict()["state"].keys() == saved["optimizer"]["state"].keys()


def check_load_between_backward_and_step():
    model = model_of()
    optimizer = hvd.DistributedOptimizer(adam(model), model.named_parameters())
    state = copy.deepcopy(optimizer.state_dict())
    x, y = batch(0)
    torch.nn.functional.mse_loss(model(own(x)), own(y)).backward()
    optimizer.load_state_dict(state)
    train(model, optimizer, range(3))
    close(model, reference(adam, range(3)))


def check_schedulers():
    schedule = lambda optimizer: torch.optim.lr_scheduler.StepLR(optimizer, 2, gamma=0.5)  # noqa: E731
    cycle = lambda optimizer: torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=8)  # noqa: E731
    for make in (schedule, cycle):
        wanted = reference(adam, range(6), make)
        for before in (True, False):
            model = model_of()
            base = adam(model)
            scheduler = make(base) if before else None
            optimizer = hvd.DistributedOptimizer(base, model.named_parameters())
            with warnings.catch_warnings():
                warnings.simplefilter("error")  # PyTorch warns of a scheduler whose optimizer did not step
                train(model, optimizer, range(6), scheduler or make(optimizer))
            close(model, wanted)


def check_groups():
    wanted = reference(adam, range(3))
    for kind in ("number", "lists", "num_groups"):
        for extra in ({}, {"gradient_predivide_factor": 4.0}, {"compression": hvd.Compression.none}):
            model = model_of()
            first, second, *_rest = model.parameters()
            if kind == "num_groups":
                with warnings.catch_warnings(record=True) as caught:
                    warnings.simplefilter("always")
                    optimizer = hvd.DistributedOptimizer(adam(model), model.named_parameters(), num_groups=2, **extra)
                assert any(issubclass(w.category, DeprecationWarning) for w in caught)
            else:
                groups = 3 if kind == "number" else [[second, first]]
                optimizer = hvd.DistributedOptimizer(adam(model), model.named_parameters(), groups=groups, **extra)
            train(model, optimizer, range(3))
            close(model, wanted)


def check_hooks_of_the_optimizer():
    """They run once for each step, and see reduced gradients."""
    (p,) = [torch.nn.Parameter(torch.zeros(2))]
    base = torch.optim.SGD([p], lr=1.0)
    seen = []
    base.register_step_pre_hook(lambda *_unused: seen.append(p.grad[0].item()))
    optimizer = hvd.DistributedOptimizer(base, [("hooked", p)], op=hvd.Sum)
    optimizer.register_step_post_hook(lambda *_unused: seen.append("post"))
    for load in (False, True):
        if load:
            optimizer.load_state_dict(optimizer.state_dict())
        optimizer.zero_grad()
        p.sum().backward()
        optimizer.step()
    assert seen == [SIZE, "post"] * 2, seen


def check_wrapper_that_copies_attributes():
    """Lightning makes an object of a class made of its own and the optimizer's, with the optimizer's attributes."""
    model = model_of()
    inner = hvd.DistributedOptimizer(adam(model), model.named_parameters())

    class Wrapper:
        def step(self, closure=None):
            return inner.step(closure)

    outer_class = type("WrapperAdam", (Wrapper, type(inner)), {})
    outer = outer_class.__new__(outer_class)
    outer.__dict__ = {key: value for key, value in vars(inner).items() if key != "step"}
    for step in range(3):
        outer.step(closure_of(model, outer, step))
        assert outer.param_groups is inner.param_groups
    close(model, reference(adam, range(3)))


def check_added_group():
    model = model_of()
    params = list(model.parameters())
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(params[:2], lr=0.1))
    optimizer.add_param_group({"params": params[2:], "lr": 0.2})

    def make(model):
        params = list(model.parameters())
        return torch.optim.SGD([{"params": params[:2]}, {"params": params[2:], "lr": 0.2}], lr=0.1)

    train(model, optimizer, range(3))
    close(model, reference(make, range(3)))


def check_changed_number_of_passes():
    (p,) = [torch.nn.Parameter(torch.zeros(2))]
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([p], lr=1.0), [("passes", p)], op=hvd.Sum)
    for passes in (1, 3, 2):
        optimizer.set_backward_passes_per_step(passes)
        optimizer.zero_grad()
        for _ in range(passes):
            p.sum().backward()
        assert p.grad.tolist() == [passes * SIZE] * 2
        optimizer.step()
        assert p.grad.tolist() == [passes * SIZE] * 2
    raises(ValueError, "not above 0", optimizer.set_backward_passes_per_step, 0)


def check_lbfgs():
    """All ranks must see one loss to take the same steps; a line search asks for it several times."""
    make = lambda m: torch.optim.LBFGS(m.parameters(), lr=0.5, max_iter=4, line_search_fn="strong_wolfe")  # noqa: E731

    def run(model, optimizer, part):
        for step in range(2):
            optimizer.step(closure_of(model, optimizer, step, part))
        return model

    model, plain = model_of(), model_of()
    run(plain, make(plain), lambda t: t)
    run(model, hvd.DistributedOptimizer(make(model), model.named_parameters()), own)
    close(model, plain)


def check_complex_parameters():
    """Gradients of complex parameters may be marked as conjugates, which their memory does not hold yet."""
    here = torch.nn.Parameter(torch.full((2,), 1 + 1j))
    alone = torch.nn.Parameter(torch.full((2,), 1 + 1j))
    optimizer, plain = hvd.DistributedOptimizer(torch.optim.SGD([here], lr=0.1), [("here", here)]), torch.optim.SGD([alone], lr=0.1)
    loss_of = lambda p, rank: (p.conj() * (rank + 1j)).real.sum() + p.abs().sum()  # noqa: E731
    for _step in range(4):
        optimizer.zero_grad()
        loss_of(here, RANK).backward()
        optimizer.step()
        plain.zero_grad()
        (sum(loss_of(alone, rank) for rank in range(SIZE)) / SIZE).backward()
        plain.step()
    torch.testing.assert_close(here.detach(), alone.detach())


def check_process_sets():
    """Members train together, and the other ranks alone."""
    if SIZE < 3:
        print(f"process sets: not checked, a set of two needs 3 ranks, there are {SIZE}")
        return
    for ranks in ([0, SIZE - 1], [0, 1]):  # the second set has the id of the first, of which its second member knows nothing
        members = hvd.add_process_set(ranks)
        for op in (hvd.Sum, hvd.Adasum):
            (p,) = [torch.nn.Parameter(torch.zeros(2))]
            optimizer = hvd.DistributedOptimizer(torch.optim.SGD([p], lr=1.0), [("of_set", p)], op=op, process_set=members)
            # Adasum of orthogonal gradients is their sum, too.
            (p * torch.tensor([float(RANK == 0), float(RANK != 0)])).sum().backward()
            optimizer.step()
            wanted = [-1.0, -1.0] if members.included() else [0.0, -1.0]
            torch.testing.assert_close(p.detach(), torch.tensor(wanted))
        hvd.remove_process_set(members)


def check_adasum_options():
    p, frozen = torch.nn.Parameter(torch.zeros(2)), torch.nn.Parameter(torch.ones(2), requires_grad=False)
    base = torch.optim.SGD([p, frozen], lr=1.0)
    optimizer = hvd.DistributedOptimizer(base, [("a", p), ("f", frozen)], op=hvd.Adasum, backward_passes_per_step=2)
    for _ in range(2):
        with optimizer.no_sync() if SIZE > 1 else torch.enable_grad():
            p.sum().backward()
    assert optimizer.step(lambda: torch.tensor(3.0)) == 3.0
    torch.testing.assert_close(p.detach(), torch.full((2,), -2.0))
    assert torch.equal(frozen.detach(), torch.ones(2))
    extra = torch.nn.Parameter(torch.zeros(2))
    optimizer.add_param_group({"params": [extra]})
    (extra.sum() * 2).backward()
    p.grad = None
    optimizer.step()
    torch.testing.assert_close(extra.detach(), torch.full((2,), -2.0))
    if SIZE > 1:
        optimizer.synchronize()
        try:
            with optimizer.skip_synchronize():
                raise RuntimeError("skip_synchronize was accepted")
        except AssertionError as error:
            assert "Adasum" in str(error)


checks = [value for name, value in list(globals().items()) if name.startswith("check_")]
for check in checks:
    check()
print("torch_optimizer_parts: ok")
