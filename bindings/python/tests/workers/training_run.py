# SPDX-License-Identifier: Apache-2.0
"""Runs a program of ``training_programs.py``: on one rank of several, or in one process on what all ranks have."""

import contextlib
import copy

import torch
from torch import nn
from training_programs import EXPERTS

WORDS, ROWS = 6, 4


class Model(nn.Module):
    """Parts by name; a loss uses the trunk, the head and what it is told to."""

    def __init__(self, width, sparse):
        super().__init__()
        self.trunk, self.head = nn.Linear(3, width), nn.Linear(width, 1)
        self.table = nn.Embedding(WORDS, width, sparse=sparse)
        for number in range(EXPERTS):
            setattr(self, f"expert{number}", nn.Linear(width, width, bias=number > 0))
        self.late = nn.Parameter(torch.ones(width))
        self.double()  # so that what is not equal is more than rounding

    def forward(self, inputs, words, used, late):
        inner = self.trunk(inputs)
        if "table" in used:
            inner = inner + self.table(words)
        for part in used:
            if part.startswith("expert"):
                inner = inner + 0.3 * torch.tanh(getattr(self, part)(inner))
        if late:
            inner = inner * self.late
        return self.head(torch.tanh(inner))


OPTIMIZERS = {
    "sgd": lambda params, rate: torch.optim.SGD(params, lr=rate),
    "momentum": lambda params, rate: torch.optim.SGD(params, lr=rate, momentum=0.9, weight_decay=0.01),
    "adagrad": lambda params, rate: torch.optim.Adagrad(params, lr=rate),
    "adam": lambda params, rate: torch.optim.Adam(params, lr=rate, amsgrad=True),
    "adamw": lambda params, rate: torch.optim.AdamW(params, lr=rate),
    "rmsprop": lambda params, rate: torch.optim.RMSprop(params, lr=rate, eps=1e-3),
    "lbfgs": lambda params, rate: torch.optim.LBFGS(params, lr=rate, max_iter=2),
}
SCHEDULES = {
    "steps": lambda optimizer: torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5),
    "decay": lambda optimizer: torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.8),
    "cycle": lambda optimizer: torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=200, cycle_momentum=False),
}


class Run:
    """One run. ``data``: the ranks whose data it trains on; ``rank``: the one it is, or None if it is all of them.

    ``distribute(optimizer, model, given)`` wraps an optimizer and ``spread(run)`` broadcasts; without ranks both do nothing.
    """

    def __init__(self, program, data, rank=None, distribute=None, spread=None):
        self.program, self.data, self.rank, self.spread = program, data, rank, spread
        apart = program.broadcast and rank not in (None, 0)
        torch.manual_seed(program.number + (7 if apart else 0))
        self.model = Model(program.width, program.sparse)
        self.originals, self.optimizers, self.schedulers, self.saved, self.smoothed = [], [], [], {}, {}
        self.late = False
        for given in program.optimizers:
            original = OPTIMIZERS[given["kind"]](self.of(given["parts"]), 0.5 if apart else 0.05)
            before = SCHEDULES[given["schedule"]](original) if given["scheduler"] == "before" else None
            optimizer = distribute(original, self.model, given) if distribute else original
            after = SCHEDULES[given["schedule"]](optimizer) if given["scheduler"] == "after" else None
            self.originals.append(original)
            self.optimizers.append(optimizer)
            self.schedulers.append(before or after)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=8.0, growth_interval=3) if program.scaler else None
        if program.broadcast and spread:
            spread(self)

    def of(self, parts):
        return [parameter for part in parts for parameter in getattr(self.model, part).parameters()]

    def with_gradient(self, parts=None):
        """The dense gradients there are, of some parts or all; with the place of each."""
        chosen = list(self.model.parameters()) if parts is None else self.of(parts)
        return [p for p in chosen if p.grad is not None and not p.grad.is_sparse]

    def do(self, step):
        getattr(self, "do_" + step[0])(*step[1:])

    def loss(self, seed, rank, used, broken=None):
        generator = torch.Generator().manual_seed(seed + rank)
        inputs = torch.randn(ROWS, 3, generator=generator, dtype=torch.float64)
        words = torch.randint(WORDS, (ROWS,), generator=generator)
        wanted = torch.randn(ROWS, 1, generator=generator, dtype=torch.float64)
        loss = (self.model(inputs, words, used, self.late) - wanted).pow(2).mean()
        return loss * float("inf") if broken == rank else loss

    def all_losses(self, seed, uses, made=None, broken=None):
        losses = [self.loss(seed, rank, uses[rank], broken) for rank in self.data if made is None or made[rank]]
        return sum(losses) / (len(self.data) if self.program.average else 1) if losses else None

    def do_backward(self, seed, uses, made, unsynced, broken):
        loss = self.all_losses(seed, uses, made, broken)
        if loss is None:
            return
        with contextlib.ExitStack() as stack:
            if unsynced and self.rank is not None:
                for optimizer in self.optimizers:
                    stack.enter_context(optimizer.no_sync())
            (self.scaler.scale(loss) if self.scaler else loss).backward()

    def do_closure(self, number, seed, uses):
        def closure():
            self.optimizers[number].zero_grad()
            loss = self.all_losses(seed, uses)
            loss.backward()
            return loss

        self.optimizers[number].step(closure)

    def do_clear(self, whose, to_none):
        (self.model if whose == "model" else self.optimizers[whose]).zero_grad(set_to_none=to_none)

    def do_forget(self, parts):
        for parameter in self.of(parts):
            parameter.grad = None

    def do_zero(self, parts):
        for parameter in self.of(parts):
            if parameter.grad is not None:
                parameter.grad.zero_()

    def do_synchronize(self, number):
        if self.rank is not None:
            self.optimizers[number].synchronize()

    def do_unscale(self, number):
        self.scaler.unscale_(self.optimizers[number])

    def do_clip_norm(self, most):
        nn.utils.clip_grad_norm_(self.with_gradient(), most)

    def do_clip_value(self, most):
        # Without any gradients PyTorch has an error of its own.
        if self.with_gradient():
            nn.utils.clip_grad_value_(self.with_gradient(), most)

    def do_scale(self, parts, factor, by_data):
        for parameter in self.with_gradient(parts):
            if by_data:
                parameter.grad.data.mul_(factor)
            else:
                parameter.grad *= factor

    def do_penalty(self, parts, by_data):
        for parameter in self.with_gradient(parts):
            (parameter.grad.data if by_data else parameter.grad).add_(parameter.detach(), alpha=0.1)

    def do_smooth(self, parts, replaced):
        """A moving average of the gradients takes the place of each, or its memory."""
        for parameter in self.with_gradient(parts):
            smoothed = 0.5 * self.smoothed.get(parameter, 0) + 0.5 * parameter.grad
            self.smoothed[parameter] = smoothed.detach().clone()
            if replaced:
                parameter.grad = smoothed
            else:
                parameter.grad.copy_(smoothed)

    def do_freeze(self, part):
        for parameter in self.of([part]):
            parameter.requires_grad_(not parameter.requires_grad)

    def do_rate(self, number, rate):
        for group in self.optimizers[number].param_groups:
            group["lr"] = rate

    def do_save(self, number):
        self.saved[number] = copy.deepcopy(self.optimizers[number].state_dict())

    def do_restore(self, number, through):
        whose = self.originals if through == "original" else self.optimizers
        whose[number].load_state_dict(copy.deepcopy(self.saved[number]))

    def do_add(self, number, how):
        if how == "append":
            self.optimizers[number].param_groups[0]["params"].append(self.model.late)
        else:
            whose = self.originals if how == "original" else self.optimizers
            whose[number].add_param_group({"params": [self.model.late], "lr": 0.02})
        self.late = True

    def do_read(self, number, rank, what):
        if self.rank != rank:
            return
        optimizer = self.optimizers[number]
        if what == "rate":
            float(optimizer.param_groups[0]["lr"])
        elif what == "state":
            optimizer.state_dict()
        elif what == "text":
            repr(optimizer)
        else:
            sum(len(group["params"]) for group in optimizer.param_groups)

    def do_step(self, number, how):
        optimizer = self.optimizers[number]
        if self.rank is None:
            optimizer.step()
        elif how == "original":
            self.originals[number].step()
        elif how == "step":
            optimizer.step()
        else:
            optimizer.synchronize()
            with optimizer.skip_synchronize() if how == "skipping" else contextlib.nullcontext():
                optimizer.step()

    def do_scaled_step(self, number):
        self.scaler.step(self.optimizers[number])
        self.scaler.update()

    def do_schedule(self, number):
        self.schedulers[number].step()

    def difference(self, other):
        """What is not as in another run, in words; empty if nothing is."""
        names = [name for name, _parameter in self.model.named_parameters()]
        for name, found, wanted in zip(names, self.model.parameters(), other.model.parameters()):
            if not torch.allclose(found, wanted, rtol=1e-6, atol=1e-7, equal_nan=True):
                return f"{name} is {found.flatten()[:4].tolist()}, in one process {wanted.flatten()[:4].tolist()}"
        for number, (mine, theirs) in enumerate(zip(self.optimizers, other.optimizers)):
            rates = [[group["lr"] for group in vars(one)["param_groups"]] for one in (mine, theirs)]
            if rates[0] != rates[1]:
                return f"rates of optimizer {number} are {rates[0]}, in one process {rates[1]}"
        return ""
