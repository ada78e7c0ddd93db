# SPDX-License-Identifier: Apache-2.0
"""Reduces the gradients of an optimizer's parameters while backward runs; when backward returns, all of them are reduced.

A bucket departs as soon as backward has finished all of its gradients for the ``backward_passes_per_step``-th time. The end of
backward is a round (``_rounds.py``), in which ranks agree what else there is, and wait. So are ``synchronize()`` and ``step()``.
"""

import operator
import weakref

import torch
from torch.utils.weak import WeakTensorKeyDictionary

from horovod.torch import _agreement, _backward, _rounds, _samples
from horovod.torch._bucket import BucketPlan
from horovod.torch._reductions import ABSENT, finish
from horovod.torch._gradient import Gradient
from horovod.torch._parameter_names import distinct, position_name

_LOST = (
    "an operation failed, or the job was left, while gradients were being reduced; optimizer.zero_grad() throws away what is left of them"
)

# The reducer, by a weak reference, that reduces the gradient of a parameter: the one made last.
_owners = WeakTensorKeyDictionary()


class Lifetime:
    """Held by the optimizer and by its copies: when it goes, the reducer retires."""

    def __init__(self, reducer):
        self._reducer = reducer

    def __del__(self):
        self._reducer.retire()


class Reducer:
    """See the module. ``names``: a dict from parameter to name. Inactive: every method does nothing."""

    def __init__(self, optimizer, names, passes, method, lists, active):
        self.method, self.passes, self.active = method, passes, active
        self.paused = False  # no_sync()
        self.step_number = self.most = self.local = self.departed = 0
        self.task = -1  # the latest backward pass that has touched a gradient
        self.phase = _agreement.BACKWARD  # what this rank is in, for this optimizer
        self.contributed = False  # this rank had something new since the latest step
        self.changed = False  # the program has changed reduced gradients that count for the step that this rank is in
        self.asides, self.order = [], []
        self.trouble = None  # a fault that other ranks must hear of
        self.renewed_at = self.stepped_at = 0  # the latest round with something new, and that before which it stepped
        self.alive = True
        self._optimizer = weakref.ref(optimizer)
        self._listed = _listed(optimizer)
        self.gradients = [Gradient(parameter, name, self) for parameter, name in names.items()] if active else []
        for number, members in enumerate(lists):
            for gradient in self.gradients:
                if any(gradient.parameter is member for member in members):
                    gradient.group = number
        self.gradients.sort(key=operator.attrgetter("key"))
        self.by_parameter = {gradient.parameter: gradient for gradient in self.gradients}
        self.plan = BucketPlan(self.gradients, method)
        self.renewed, self._keys = False, []  # parameters have come or gone since the roll was called; those there were
        if active:
            for gradient in self.gradients:
                self._take_over(gradient)
            _rounds.made(self)

    def retire(self):
        """The optimizer is gone. The reducer takes part with zeros until it is gone on all ranks."""
        self.alive = False
        for gradient in self.gradients:
            gradient.unhook()
            gradient.parameter = gradient.base = gradient.aside = None
            gradient.local = False
        self.by_parameter = {}
        self._listed = []
        self.local = 0

    def _take_over(self, gradient):
        """A parameter that was wrapped before is reduced once, by this object."""
        owner = _owners.get(gradient.parameter, lambda: None)()
        before = None if owner is None or owner is self else owner.by_parameter.get(gradient.parameter)
        if before is not None:
            before.unhook()
            before.given = True
            gradient.follow(before, before.base)
            before.discard()
        _owners[gradient.parameter] = weakref.ref(self)
        gradient.watch()

    def follow(self, other, copied):
        """The parameters are copies of those of another reducer, with their gradients. ``copied(tensor)``: the copy."""
        for before in other.gradients:
            gradient = self.by_parameter.get(copied(before.parameter))
            if gradient is not None:
                gradient.follow(before, None if before.base is None else before.base.clone())

    # What hooks call.

    def enter(self, task):
        """A backward pass touches a gradient for the first time."""
        self.task = task
        _backward.enter(task, self, _end_of_backward)

    def ready(self, gradient):
        """Backward has finished the gradient for this step."""
        if self.plan.ordering:
            self.order.append(gradient)
        bucket = gradient.bucket
        if bucket is None or gradient.base is not None:
            return
        bucket.left -= 1
        if bucket.left == 0 and self.trouble is None and bucket.parts is None and bucket.agrees():
            generation = _rounds.rounds_of(self.method.process_set).current(self)
            if generation is not None:
                bucket.start(self.method, generation)
                self.departed += 1

    def end_early(self):
        """Backward is about to add to a gradient that is on its way."""
        _rounds.run([self])

    def is_complete(self):
        """Whether every gradient that backward can give is there."""
        return all(one.local or one.given or not one.parameter.requires_grad for one in self.gradients)

    def abandon(self):
        """A backward pass ended with an error."""
        for gradient in self.gradients:
            gradient.restore()
        self.asides.clear()
        if self.departed:
            self.trouble = "its backward pass failed after some gradients had left for the other ranks"

    # Steps.

    def meet(self, phase):
        """Rounds, until all ranks are in this phase: those that run backward have something new."""
        if not self.active:
            return
        if _backward.running() == -1:
            _backward.abandon_failed()
        self.check_parameters_late()
        for gradient in self.gradients:
            if not gradient.local and not gradient.given:
                gradient.look()
        if phase == _agreement.STEP:
            for other in _rounds.rounds_of(self.method.process_set).members:
                if other is not self and other.counts_for(self):
                    for gradient in other.gradients:
                        gradient.glance()
        successors = [_owners.get(one.parameter, lambda: None)() for one in self.gradients if one.given]
        self.phase = phase
        try:
            _rounds.meet(self, [one for one in {*successors} if one is not None])
        finally:
            self.phase = _agreement.BACKWARD

    def counts_for(self, stepping):
        """Whether the gradients of this optimizer count for the step of another, or of itself. A norm of all gradients, say, makes
        those count that came since the other stepped last. Of gradients that are still local nothing can be said."""
        if self is stepping or not self.alive:
            return self.alive
        return self.local == 0 and self.renewed_at > stepping.stepped_at and not any(map(Gradient.is_own, self.gradients))

    def finish_step(self):
        """A step begins."""
        self.step_number += 1
        self.stepped_at = _rounds.rounds_of(self.method.process_set).count
        self.contributed = False

    def discard(self, zeroed=False):
        """The program throws the gradients away. ``zeroed``: those that are still there are zeros."""
        self.check_parameters()
        if _backward.running() == -1:
            _backward.abandon_failed()
        if self.trouble is _LOST:
            self.drop()
        if self.local and self.trouble is None:
            for gradient in self.gradients:
                if gradient.local and not gradient.in_flight:
                    gradient.discard()
            self.most = 0
        if zeroed:
            for gradient in self.gradients:
                gradient.note_zeros()

    def set_passes(self, passes):
        """So many backward passes are summed locally from now on; counting starts again."""
        self.passes = passes
        self.count_again()

    def count_again(self):
        """The backward passes so far do not count any more; what they added to the gradients stays."""
        self.most = 0
        for gradient in self.gradients:
            if not gradient.in_flight:
                gradient.uncount()

    def check_parameters(self):
        """Reduces also parameters that the optimizer has got by other ways than ``add_param_group``, and lets go of others.

        The gradients of new ones that have some.
        """
        optimizer = self._optimizer()
        if optimizer is None or not self.active:
            return []
        listed = _listed(optimizer)
        if len(listed) == len(self._listed) and all(map(operator.is_, listed, self._listed)):
            return []
        if self._let_go(listed):
            self._listed = listed
        adopted = []
        for number, group in enumerate(optimizer.param_groups):
            for index, parameter in enumerate(group["params"]):
                if parameter not in self.by_parameter:
                    adopted.append(self._adopt(parameter, position_name(number, index)))
        self.renewed = True
        return [gradient for gradient in adopted if gradient.local]

    def check_parameters_late(self):
        """The same outside of backward: what the program has done to a gradient of a new one since cannot be told."""
        for gradient in self.check_parameters():
            self.trouble = self.trouble or (
                f"{gradient.name} came into param_groups by another way than add_param_group(), and backward gave it a gradient before its "
                "optimizer knew; call optimizer.zero_grad() when param_groups has been changed"
            )

    def _adopt(self, parameter, name):
        gradient = Gradient(parameter, name, self)
        self.gradients.append(gradient)
        self.by_parameter[parameter] = gradient
        self._take_over(gradient)
        gradient.look()
        return gradient

    def _let_go(self, listed):
        left = set(map(id, listed))
        gone = [one for one in self.gradients if id(one.parameter) not in left]
        for gradient in gone:
            if gradient.in_flight:
                continue
            gradient.unhook()
            gradient.discard()
            self.gradients.remove(gradient)
            del self.by_parameter[gradient.parameter]
            if gradient.bucket is not None:
                self.plan.dissolve(gradient.bucket)
        return not any(gradient.in_flight for gradient in gone)

    # Rounds.

    def tell_names_apart(self):
        """The roll was called: other optimizers of this process may have parameters of the same names."""
        keys = [gradient.key for gradient in self.gradients]
        if keys != self._keys:
            self.gradients.sort(key=operator.attrgetter("key"))
            self.plan.ordering, self._keys = True, sorted(keys)
        self.renewed = False
        for gradient in self.gradients:
            if gradient.parameter is not None:
                gradient.name = distinct(gradient.key, gradient.parameter, self.method.process_set)

    @property
    def name(self):
        """For errors: that of the first gradient."""
        return self.gradients[0].name if self.gradients else ""

    @property
    def section_bytes(self):
        """The length of ``section``, as when the roll was called."""
        return _agreement.section_bytes(len(self._keys), self.plan.ordering)

    def begin_era(self):
        """A session has begun, whose ranks may be others, or one has joined, which knows neither bucket plan nor step."""
        used = self.contributed or self.step_number > 0
        self.stepped_at = _rounds.rounds_of(self.method.process_set).count
        for gradient in self.gradients:
            gradient.history = 0
            if used and not gradient.local:
                gradient.note()
        self.contributed = False
        if self.departed == 0:
            self.reset_plan()

    def reset_plan(self):
        """No gradients travel together until the next round."""
        for gradient in self.gradients:
            gradient.bucket = None
        self.plan = BucketPlan(self.gradients, self.method)

    def section(self, phase, ready, met):
        """What this rank tells the others. It is as long on all ranks. ``met``: the reducer in whose ``meet`` this rank is."""
        if self.has_departed():
            kinds = self.plan.usual(self.gradients)
        else:
            kinds = bytes(map(self._kind, self.gradients)) if self.local else bytes(len(self.gradients))
        counts = phase == _agreement.STEP and self.counts_for(met)
        compared = bytes(gradient.changes() for gradient in self.gradients) if counts else None
        self.changed = counts and any(compared)
        return _agreement.encode_section(self, phase, ready, kinds, compared)

    def sizes_of_changed(self, met):
        """Of each gradient how large its elements are about, if the program has changed what was reduced; otherwise None."""
        sizes = [None] * len(self.gradients)
        if self.counts_for(met):
            changed = [place for place, one in enumerate(self.gradients) if one.changes() & 1 and one.parameter.grad is not None]
            for place, size in zip(changed, _samples.sizes_of([self.gradients[place].parameter.grad for place in changed])):
                sizes[place] = size
        return sizes

    def _kind(self, gradient):
        if not gradient.local:
            return ABSENT
        if not gradient.in_flight and gradient.is_changed():
            if gradient.is_discarded():
                gradient.discard()
                gradient.look()  # zeros are this rank's own, and the others get them, too
            else:
                self.trouble = self.trouble or (
                    f"the gradient of {gradient.name} was changed after backward while it was not reduced yet; call "
                    "optimizer.synchronize() before it is changed"
                )
        return gradient.kind()

    def tells_trouble(self, ready):
        """Whether the others hear of ``trouble`` now. ``ready``: this rank has something new here. Lost gradients matter only to
        a program that goes on with this optimizer, and not to a program that has made another optimizer."""
        return self.trouble is not None and (self.trouble is not _LOST or ready or self.phase > _agreement.BACKWARD)

    def has_departed(self):
        """Whether all that is new is on its way, and all that travels together."""
        plan = self.plan
        return self.departed == len(plan.buckets) > 0 and self.local == plan.count

    def reduce(self, heard, generation):
        """Reduces what is new on any rank. An error that leaves the ranks in step is returned."""
        place = heard.of_two_kinds()
        if place is not None:
            self.end_buckets(generation)
            self.drop()
            return ValueError(
                f"gradient of {self.gradients[place].name}: kind differs; it is sparse on some ranks and not on others"
            )
        kinds = dict(zip(self.gradients, heard.kinds))
        whole, more = self.plan.of_round(kinds, heard.ordered(self.gradients))
        for bucket in whole + more:
            if bucket.parts is None:
                bucket.start(self.method, generation)
        return self.collect(whole + more)

    def end_buckets(self, generation):
        """Takes part with zeros in what other ranks may have started, so that it ends for them."""
        for gradient in self.gradients:
            if not gradient.in_flight:
                gradient.local = False
        for bucket in self.plan.buckets:
            if bucket.parts is None:
                bucket.start(self.method, generation)
        finish([reduction for bucket in self.plan.buckets for reduction in bucket.reductions])
        for bucket in self.plan.buckets:
            bucket.results()

    def collect(self, buckets):
        """Waits for these buckets and puts the sums into ``.grad``. An error that leaves the ranks in step is returned."""
        reductions = [reduction for bucket in buckets for reduction in bucket.reductions]
        if reductions:
            finish(reductions)
        changed = None
        with torch.no_grad():
            for bucket in buckets:
                for gradient, part, result in zip(bucket.gradients, bucket.parts, bucket.results()):
                    if gradient.local and gradient.is_changed():
                        changed = changed or gradient
                    gradient.store(part, result)
                bucket.reset()
        self.reset()
        if changed is not None and self.trouble is None:
            return ValueError(
                f"DistributedOptimizer: the gradient of {changed.name} was changed within backward, after its reduction had begun; "
                "change it when backward has returned, or in a hook that was registered before the optimizer was wrapped"
            )
        return None

    def reset(self):
        """A round has ended."""
        for gradient in self.gradients:
            if gradient.local or gradient.in_flight:
                gradient.forget()
        for bucket in self.plan.buckets:
            bucket.reset()
        self.local = self.most = self.departed = 0
        self.asides, self.order = [], []

    def lose(self):
        """What is new in the gradients cannot be reduced any more."""
        if self.local or self.departed:
            self.trouble = _LOST
        self.reset()

    def start_over(self):
        """The program goes back to before the step that has begun."""
        _backward.abandon_failed()
        self.drop()
        self.reset_plan()

    def drop(self):
        """The gradients of this step are no more."""
        for gradient in self.gradients:
            if gradient.parameter is not None:
                gradient.parameter.grad = None
        self.reset()
        for gradient in self.gradients:
            gradient.note()
            gradient.held, gradient.history = False, 0
        self.trouble, self.contributed = None, False

    def description(self):
        """Of the parameters, for errors."""
        return sorted((gradient.key, f"{list(gradient.shape)} {gradient.dtype}") for gradient in self.gradients)


def _listed(optimizer):
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def _end_of_backward(touched):
    for reducer in touched:
        for gradient in reducer.asides:
            gradient.restore()
        reducer.asides = [gradient for gradient in reducer.asides if gradient.aside is not None]
    touched = list(touched)
    for reducer in _rounds.reducers():
        for gradient in reducer.check_parameters():  # no hook has told of these
            gradient.after(gradient.parameter)
            if reducer not in touched:
                touched.append(reducer)
    _rounds.passed(touched, lambda reducer: reducer.most >= reducer.passes or reducer.departed or reducer.trouble)
