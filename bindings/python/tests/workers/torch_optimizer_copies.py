# SPDX-License-Identifier: Apache-2.0
"""Copies of models and of DistributedOptimizers, and the classes that other libraries wrap around optimizers."""

import copy
import pickle

import torch
from small_model import adam, batch, close, closure_of, model_of, own, reference, train

import horovod.torch as hvd

hvd.init()
RANK, SIZE = hvd.rank(), hvd.size()


def wrapped(model, **options):
    return hvd.DistributedOptimizer(adam(model), model.named_parameters(), **options)


def check_copied_model():
    """An average of the weights, say: its gradients belong to nobody, and the original's are still reduced."""
    model = model_of()
    optimizer = wrapped(model)
    train(model, optimizer, range(2))
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        other.zero_grad()
        if RANK == 0:  # nobody waits for the others
            torch.nn.functional.mse_loss(other(own(batch(0)[0])), own(batch(0)[1])).backward()
    train(model, optimizer, range(2, 4))
    close(model, reference(adam, range(4)))


def check_copied_together():
    """The copies train as the originals do, which do not notice: same state, same options."""
    wanted = reference(adam, range(5))
    for options in ({}, {"groups": 2}, {"gradient_predivide_factor": 2.0}, {"op": hvd.Sum}):
        model = model_of()
        base = adam(model)
        if options.get("op") == hvd.Sum:  # Adam does not mind the factor, except in its epsilon
            base.param_groups[0]["eps"] = 0.0
        optimizer = hvd.DistributedOptimizer(base, model.named_parameters(), **options)
        train(model, optimizer, range(2))
        half_way = copy.deepcopy(model)
        other_model, other = copy.deepcopy((model, optimizer))
        assert type(other).__name__ == "Adam" and isinstance(other, torch.optim.Adam)
        assert all(a is b for a, b in zip(other.param_groups[0]["params"], other_model.parameters()))
        train(other_model, other, range(2, 5))
        close(model, half_way)
        train(model, optimizer, range(2, 5))
        close(other_model, model)
        close(model, wanted) if "op" not in options else None


def check_copy_has_the_options():
    """Lists of parameters become lists of the copies; passes and parameters that came later are there, too."""
    model = model_of()
    first, second, third, fourth = model.parameters()
    base = torch.optim.SGD([first, second, third], lr=0.1)
    optimizer = hvd.DistributedOptimizer(base, groups=[[first, second]], op=hvd.Sum)
    optimizer.set_backward_passes_per_step(2)
    optimizer.add_param_group({"params": [fourth]})
    model, optimizer = copy.deepcopy((model, optimizer))
    x, y = (own(t) for t in batch(0))
    for reduced in (False, True):
        torch.nn.functional.mse_loss(model(x), y).backward()
        assert SIZE == 1 or [not gradient.local for gradient in optimizer._hvd.gradients] == [reduced] * 4
    if SIZE > 1:
        assert [gradient.group is not None for gradient in optimizer._hvd.gradients] == [True, True, False, False]
    optimizer.step()
    weights = hvd.allgather(torch.cat([p.detach().flatten() for p in model.parameters()])[None])
    assert torch.equal(weights, weights[:1].expand_as(weights))


def check_copied_adasum():
    model = model_of()
    optimizer = hvd.DistributedOptimizer(adam(model), model.named_parameters(), op=hvd.Adasum)
    other_model, other = copy.deepcopy((model, optimizer))
    train(model, optimizer, range(2))
    train(other_model, other, range(2))
    close(model, other_model)


class Delegating(torch.optim.Optimizer):
    """As Accelerate does it: an optimizer that owns nothing and passes everything on."""

    def __init__(self, optimizer):
        self.optimizer = optimizer

    param_groups = property(lambda self: self.optimizer.param_groups)
    state = property(lambda self: self.optimizer.state)
    defaults = property(lambda self: self.optimizer.defaults)

    def zero_grad(self, set_to_none=True):
        self.optimizer.zero_grad(set_to_none=set_to_none)

    def step(self, closure=None):
        return self.optimizer.step(closure) if closure is not None else self.optimizer.step()

    def state_dict(self):
        return self.optimizer.state_dict()

    def load_state_dict(self, state):
        self.optimizer.load_state_dict(state)


class Guarded:
    """As Lightning does it: becomes a class made of itself and the optimizer's, with the optimizer's attributes."""

    def __init__(self, optimizer):
        self.__dict__ = {key: value for key, value in vars(optimizer).items() if key != "step"}
        self.__class__ = type("Guarded" + type(optimizer).__name__, (type(self), type(optimizer)), {})
        self.inner = optimizer

    def step(self, closure=None):
        return self.inner.step(closure) if closure is not None else self.inner.step()


def train_with_closures(model, optimizer, steps, scheduler):
    for step in steps:
        assert isinstance(optimizer.step(closure_of(model, optimizer, step)), torch.Tensor)
        scheduler.step()


def check_wrapping_classes():
    """Also with a scheduler, and with state that is broadcast and loaded through a wrapper that passes it on."""
    schedule = lambda optimizer: torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)  # noqa: E731
    wanted = reference(adam, range(4), schedule)
    for wrapper in (Delegating, Guarded):
        for closures in (False, True):
            model = model_of()
            optimizer = wrapper(wrapped(model))
            assert isinstance(optimizer, torch.optim.Optimizer)
            assert wrapper is Delegating or isinstance(optimizer, torch.optim.Adam)
            if wrapper is Delegating:  # the other one would load into itself and not into what it guards
                hvd.broadcast_optimizer_state(optimizer, root_rank=0)
            scheduler = schedule(optimizer)
            run = train_with_closures if closures else train
            run(model, optimizer, range(2), scheduler)
            if wrapper is Delegating:
                optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))
            run(model, optimizer, range(2, 4), scheduler)
            close(model, wanted)


checks = [value for name, value in list(globals().items()) if name.startswith("check_")]
for check in checks:
    check()
print("torch_optimizer_copies: ok")
