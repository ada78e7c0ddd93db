# SPDX-License-Identifier: Apache-2.0
"""Random training programs, as lists of steps that one process and several ranks can run alike (``training_run.py``).

A program follows from its seed alone. It trains ``Model``, whose parts an optimizer of its own may have, and each of its steps is
a tuple: what is done, then with what. What a rank does in a backward pass (which parts it uses, whether it makes the pass)
stands in the step for every rank.
"""

import random

EXPERTS = 3
ALWAYS = ("trunk", "head")  # every loss uses them
KINDS = {
    "discard": "gradients are thrown away between backward and step without a call of the optimizer",
    "change": "gradients are clipped, scaled, penalised or smoothed between backward and step without synchronize()",
    "share": "a scheduler or a program holds the original while state is restored or broadcast",
    "add": "parameters arrive through the original or param_groups",
    "read": "one rank reads options, state or text of an optimizer",
    "original": "the original optimizer is stepped",
    "keep": "gradients of the step before are not cleared, although ranks are summed or gradients are sparse",
    "passes": "ranks make different numbers of backward passes",
    "scaler": "a GradScaler of PyTorch",
    "part": "a GradScaler is asked after fewer backward passes than backward_passes_per_step",
    "closure": "step() calls the program for its gradients",
    "set": "a process set trains, the other ranks train for themselves",
    "sparse": "gradients of a table are sparse",
    "uneven": "ranks use different parts of the model",
    "several": "several optimizers, each with parts of the model",
    "experts": "ranks use the parts of different optimizers",
}


class Program:
    """What is trained and how; ``steps`` is the list. ``may_fail``: an error on all ranks is right as well."""

    def __init__(self, seed, number, ranks, kinds):
        self.seed, self.number, self.ranks = seed, number, ranks
        self._choice = random.Random(f"{seed}.{number}")
        self._kinds = {kind for kind in sorted(KINDS) if self._maybe(0.6) and kind in kinds}
        self.may_fail = False
        self.average = self._maybe(0.7)
        self.width = self._pick(2, 5, 40)
        self.members = self._members()
        self.sparse = self._has("sparse")
        self.scaler = self._has("scaler") and not self.sparse and self._maybe(0.4)
        self.optimizers = self._optimizers()
        # broadcast_optimizer_state of Horovod takes no LBFGS.
        whole = self.members is None and all(given["kind"] != "lbfgs" for given in self.optimizers)
        self.broadcast = self._maybe(0.4) and whole and (self._has("share") or not self._before())
        self.steps = []
        self._saved, self._added, self._frozen = {}, False, set()
        for _ in range(self._choice.randint(2, 7)):
            self._round()

    def __str__(self):
        names = "members average width sparse scaler broadcast may_fail".split()
        lines = [f"program {self.number} of seed {self.seed}, {self.ranks} ranks:"]
        lines.append("  " + ", ".join(f"{name}={getattr(self, name)}" for name in names))
        lines += [f"  optimizer {number}: {given}" for number, given in enumerate(self.optimizers)]
        return "\n".join(lines + [f"  {step}" for step in self.steps])

    def _maybe(self, chance):
        return self._choice.random() < chance

    def _pick(self, *values):
        return self._choice.choice(values)

    def _has(self, kind):
        return kind in self._kinds

    def _members(self):
        if self.ranks < 3 or not self._has("set") or self._maybe(0.5):
            return None
        return sorted(self._choice.sample(range(self.ranks), 2))

    def _parts(self):
        return [*ALWAYS, "table", *(f"expert{number}" for number in range(EXPERTS))]

    def _optimizers(self):
        parts = self._parts()
        # Gradients of the other optimizers are kept until they step.
        several = self._has("several") and not self.scaler and (not self.sparse or self._has("keep"))
        if several and self._maybe(0.5):
            shares = [[part for part in parts if not part.startswith("expert")]]
            shares += [[f"expert{number}"] for number in range(EXPERTS)]
        elif several:
            self._choice.shuffle(parts)
            shares = [parts[:2], parts[2:]]
        else:
            shares = [parts]
        return [self._optimizer(share) for share in shares]

    def _optimizer(self, parts):
        kind = self._pick("sgd", "sgd", "momentum", "adagrad", "adam", "adamw", "rmsprop")
        if self.sparse and "table" in parts:
            kind = self._pick("sgd", "adagrad")
        elif self._has("closure") and not self.scaler and self._maybe(0.15):
            kind = "lbfgs"
        return {
            "parts": parts,
            "kind": kind,
            "passes": self._pick(1, 1, 1, 2, 3),
            "named": self._maybe(0.5),
            "groups": self._pick(None, None, None, 1, 3, "half"),
            "predivide": 2.0 if self.average and self._maybe(0.15) else 1.0,
            "sparse_as_dense": self._maybe(0.2),
            "scheduler": self._pick(None, "before", "after"),
            "schedule": self._pick("steps", "decay", "cycle"),
            "through": self._through(),
        }

    def _before(self):
        return any(given["scheduler"] == "before" for given in self.optimizers)

    def _through(self):
        """Whether the program says it to the wrapper or to the original."""
        return "original" if self._has("share") and self._maybe(0.5) else "wrapper"

    def _some_parts(self):
        return sorted(self._choice.sample(self._parts(), self._choice.randint(1, 4)))

    def _round(self):
        """From clearing the gradients to the step of one or all optimizers."""
        # A step that the optimizer makes with a closure of its own clears, and goes backward.
        whose = list(range(len(self.optimizers)))
        if len(whose) > 1 and self._maybe(0.4):
            whose = [self._choice.choice(whose)]
        self._now_and_then()
        for number in list(whose):
            given = self.optimizers[number]
            if given["kind"] == "lbfgs" or (self._has("closure") and not self.scaler and self._maybe(0.15)):
                whose.remove(number)
                self.steps.append(("closure", number, self._seed(), self._uses()))
        if not whose:
            return
        self._clear()
        changeable = self._passes()
        self._between(changeable)
        for number in whose:
            if self._has("read") and self._maybe(0.3):
                self._read(number)
            self._step(number)
        for number, given in enumerate(self.optimizers):
            if given["scheduler"] and (number in whose):
                self.steps.append(("schedule", number))

    def _clear(self):
        keep = self._maybe(0.1) and (self._has("keep") or (self.average and not self.sparse))
        if keep and not self.scaler:
            return
        if self._has("discard") and self._maybe(0.4):
            self.steps.append(("clear", "model", self._maybe(0.5)))
        else:
            self.steps += [("clear", number, self._maybe(0.5)) for number in range(len(self.optimizers))]

    def _passes(self):
        """Backward passes, whose gradients may be thrown away in between. Says whether what follows may change gradients."""
        most = max(given["passes"] for given in self.optimizers)
        complete = self.scaler and not self._has("part")
        count = most if complete or self._maybe(0.7) else self._choice.randint(1, most + 2)
        whole = most == 1
        uneven = self._has("passes") and self._maybe(0.2) and not self.scaler
        self.may_fail = self.may_fail or (self.scaler and not complete)
        for number in range(count):
            last = number == count - 1
            unsynced = not last and not complete and self._maybe(0.15)
            whole = whole and not unsynced
            made = [not uneven or self._maybe(0.7) for _ in range(self.ranks)]
            self.may_fail = self.may_fail or not all(made)
            whole = whole and all(made)
            self.steps.append(("backward", self._seed(), self._uses(), made, unsynced, self._broken()))
            if not last and not complete and self._maybe(0.2):
                self._discard()
            elif self._has("read") and self._maybe(0.1):
                self._read(self._choice.randrange(len(self.optimizers)))
        return whole

    def _broken(self):
        """The rank whose loss is not finite, for a GradScaler to find."""
        return self._choice.randrange(self.ranks) if self.scaler and self._maybe(0.2) else None

    def _discard(self):
        if not self._has("discard"):
            self.steps += [("clear", number, self._maybe(0.5)) for number in range(len(self.optimizers))]
        elif self._maybe(0.5):
            self.steps.append(("clear", "model", self._maybe(0.5)))
        else:
            self.steps.append((self._pick("forget", "zero"), self._some_parts()))

    def _between(self, whole):
        """Changes of the gradients that are there; ``whole``: each backward pass has ended with reductions."""
        if self.scaler:
            if self._maybe(0.5):
                self.steps.append(("unscale", 0))
                self._change(1)
            return
        if self._maybe(0.3):
            self.steps += [("synchronize", number) for number in range(len(self.optimizers))]
            self._change(2)
        elif self._has("change") and self._maybe(0.6):
            if whole:
                self._change(3)
            else:
                self.may_fail = True  # some gradients may be local
                self.steps.append(("scale", self._some_parts(), self._pick(0.5, 3.0), False))
        if self._has("discard") and self._maybe(0.15):
            self.steps.append((self._pick("forget", "zero"), self._some_parts()))

    def _change(self, most):
        for _ in range(self._choice.randint(0, most)):
            kind = self._pick("clip_norm", "clip_value", "scale", "penalty", "smooth")
            if kind.startswith("clip"):
                self.steps.append((kind, self._pick(0.01, 0.3)))
            elif kind == "scale":
                self.steps.append((kind, self._some_parts(), self._pick(0.5, 3.0), self._maybe(0.5)))
            else:
                parts, replaced = self._some_parts(), self._maybe(0.5)
                self.steps.append((kind, parts, replaced))
                # A gradient that was not reduced in this step may be a rank's own once it is replaced.
                if kind == "smooth" and replaced and not self.average and self._has_old():
                    self.may_fail = True

    def _has_old(self):
        """Whether a parameter that is frozen or not used may have a gradient of an earlier step, or its zeros."""
        zeroed = any(step[0] == "zero" or (step[0] == "clear" and not step[2]) for step in self.steps)
        return zeroed or self._has("keep")

    def _now_and_then(self):
        number = self._choice.randrange(len(self.optimizers))
        if self._maybe(0.15):
            self.steps.append(("freeze", self._pick("table", "expert0", "expert1", "expert2")))
        if self._maybe(0.1):
            self.steps.append(("rate", number, self._pick(0.01, 0.03)))
        if self._maybe(0.1):
            self.steps.append(("save", number))
            self._saved[number] = True
        elif self._saved.get(number) and self._maybe(0.4):
            if self._has("share") or self.optimizers[number]["scheduler"] != "before":
                self.steps.append(("restore", number, self._through()))
        if self._maybe(0.08) and not self._added and self.optimizers[number]["kind"] != "lbfgs":
            self._added = True
            self._saved.clear()
            how = self._pick("original", "append", "wrapper") if self._has("add") else "wrapper"
            if self.optimizers[number]["scheduler"]:
                how = "append" if self._has("add") else None  # a scheduler has one rate for each group it has seen
            if how:
                self.may_fail = self.may_fail or how != "wrapper"
                self.steps.append(("add", number, how))

    def _read(self, number):
        self.steps.append(("read", number, self._choice.randrange(self.ranks), self._pick("rate", "state", "text", "groups")))

    def _step(self, number):
        if self.scaler:
            self.steps.append(("scaled_step", number))
            return
        how = self._pick("step", "step", "step", "synchronized", "skipping")
        if self._has("original") and self._maybe(0.2):
            how, self.may_fail = "original", True
        self.steps.append(("step", number, how))

    def _seed(self):
        return self._choice.randrange(1 << 30)

    def _uses(self):
        """For each rank the parts that its loss uses, besides those that every loss does."""
        optional = [part for part in self._parts() if part not in ALWAYS]
        alike = [part for part in optional if self._maybe(0.7)]
        together = not self._has("uneven") or (len(self.optimizers) > 1 and not self._has("experts"))
        if together or self._maybe(0.3):
            return [alike] * self.ranks
        return [[part for part in optional if self._maybe(0.6)] for _ in range(self.ranks)]
