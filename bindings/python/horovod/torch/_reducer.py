# SPDX-License-Identifier: Apache-2.0
"""Reduces the gradients of an optimizer's parameters while backward runs.

The unit is the step, not the backward pass. A gradient starts as soon as backward has finished it for the
``backward_passes_per_step``-th time; ``synchronize`` starts what has not started by then, and waits. What ranks cannot
know of each other they tell each other at ``synchronize``, in one small allreduce that overlaps with the last
gradients: which parameters have a gradient on any rank, of which kind, and which got more gradients after they had
started.
"""

import functools
import weakref

import torch
from torch.utils.weak import WeakTensorKeyDictionary

from horovod._floor import floor
from horovod.torch._flight import ABSENT, DENSE, finish, kind_of
from horovod.torch._outbox import Direct, Outbox
from horovod.torch._sparse import no_entries

# The reducer, by a weak reference, that reduces the gradient of a parameter: the one made last.
_owners = WeakTensorKeyDictionary()


@functools.lru_cache(maxsize=None)
def _slot_type():
    """The class of slots, which count by the floor."""

    class Slot(floor().GradientCounter):
        """One parameter. ``late``: its gradient grows again although an earlier part of it (``flight``) has started.

        ``given``: a later reducer reduces it.
        """

        __slots__ = ("parameter", "name", "group", "hooks", "given")

        def __init__(self, parameter, name, reducer):
            self.parameter, self.name = parameter, name
            self.line, self.left = reducer.line, reducer.passes
            self.direct = Direct() if reducer.way.direct else None
            self.bytes = parameter.numel() * parameter.element_size()
            self.group = None
            self.hooks = ()
            self.given = False

        def watch(self):
            """Counts what backward adds to the gradient. Held by the parameter, which may outlive the optimizer."""
            parameter = self.parameter
            after = parameter.register_post_accumulate_grad_hook(self.after)
            self.hooks = parameter.register_hook(self.before), after

        def unhook(self):
            for hook in self.hooks:
                hook.remove()

    return Slot


class _Group:
    """Parameters whose gradients travel as one operation, once all of them are ready."""

    __slots__ = ("name", "slots", "ready", "members")

    def __init__(self, name, slots):
        self.name, self.slots, self.ready, self.members = name, slots, 0, []


def _in_backward():
    return torch._C._current_graph_task_id() != -1


def _line(own):
    """The floor's GradientLine of a reducer; ``own``: a weak reference to it, since the parameters' hooks hold the line."""

    def set_apart(slot):
        reducer = own()
        if reducer is not None:
            reducer.set_apart(slot)

    def ready(slot, parameter):
        reducer = own()
        if reducer is not None:
            reducer.start(slot, parameter)

    def flush():
        reducer = own()
        if reducer is not None:
            reducer.outbox.flush()

    def at_end():
        if _in_backward():
            torch.autograd.Variable._execution_engine.queue_callback(flush)

    return floor().GradientLine(torch.Tensor, torch.strided, set_apart, ready, flush, at_end)


class Reducer:
    """See the module. ``names``: a dict from parameter to name. Inactive: every method does nothing."""

    def __init__(self, names, passes, way, active):
        self.way, self.passes, self.active = way, passes, active
        # Its ``done``: all is reduced, and no gradient grew since; ``paused``: no_sync().
        self.line = _line(weakref.ref(self))
        self.slots = [_slot_type()(parameter, name, self) for parameter, name in names.items()]
        self.by_parameter = {slot.parameter: slot for slot in self.slots}
        self.unwatched = list(self.slots)  # frozen so far
        self.groups = []
        self.heirs = weakref.WeakSet()
        self.skipping = False  # skip_synchronize()
        self.late = False  # a slot is
        self.outbox = Outbox(way, self.line)
        self.outbox.expect(self.slots)
        if active:
            self._take_over(self.slots)
            self._watch_all()

    def __del__(self):
        for slot in self.slots:
            slot.unhook()

    def add(self, parameter, name):
        """Reduces the gradients of one more parameter."""
        slot = self.by_parameter[parameter] = _slot_type()(parameter, name, self)
        self.slots.append(slot)
        self.unwatched.append(slot)
        self.outbox.expect(self.slots)
        if self.active:
            self._take_over([slot])
            self._watch_all()

    def _take_over(self, slots):
        """Parameters that were wrapped before are reduced once, by this object."""
        for slot in slots:
            owner = _owners.get(slot.parameter, lambda: None)()
            if owner is not None and owner is not self:
                owner.settle()
                given = owner.by_parameter[slot.parameter]
                given.unhook()
                given.given, given.group = True, None
                owner.heirs.add(self)
            _owners[slot.parameter] = weakref.ref(self)

    def set_groups(self, lists):
        """Lists of parameters that travel together; the others travel alone."""
        for number, members in enumerate(lists):
            slots = [self.by_parameter[member] for member in members]
            group = _Group(f"group.{number}.{slots[0].name}" if slots else "", slots)
            self.groups.append(group)
            for slot in slots:
                slot.group, slot.direct = group, None

    def _watch_all(self):
        frozen = []
        for slot in self.unwatched:
            if not slot.parameter.requires_grad:
                frozen.append(slot)
            elif not slot.given:
                slot.watch()
        self.unwatched = frozen

    def set_apart(self, slot):
        """The flight owns the memory of the gradient until it ends; what comes now is gathered apart from it."""
        slot.parameter.grad = None
        slot.late = True
        self.late = True

    def start(self, slot, parameter):
        """The gradient of a parameter is ready, and does not leave by the outbox."""
        if slot.group is not None:
            self._count_in_group(slot.group)
        else:
            slot.flight = self.way.start(slot.name, parameter.grad)

    def _count_in_group(self, group):
        if group.ready == 0:
            group.members = [slot for slot in group.slots if slot.parameter.requires_grad and not slot.given]
        group.ready += 1
        if group.ready == len(group.members):
            self._start_group(group, group.members)

    def _start_group(self, group, members):
        together = []
        for slot in members:
            if self.way.separate(kind_of(slot.parameter.grad)):
                slot.flight = self.way.start(slot.name, slot.parameter.grad)
            else:
                together.append(slot)
        if together:
            flights = self.way.start_group(group.name, [slot.parameter.grad for slot in together])
            for slot, flight in zip(together, flights):
                slot.flight = flight

    def synchronize(self):
        """Waits until every gradient is reduced. Does nothing if that has happened and no gradient came since."""
        if self.line.done or not self.active:
            return
        for heir in self.heirs:
            heir.synchronize()
        try:
            self._watch_all()  # parameters that were frozen so far
            self.outbox.flush()
            agreed = self._agree()
            if agreed is not None:
                kinds, late = agreed
                self._start_rest(kinds)
                self._collect(late)
            self.outbox.finish()
        finally:
            self.reset()
        self.line.done = True

    def _agree(self):
        """(kind of each gradient, kind of what came late), over all ranks. ValueError if kinds differ.

        None if all gradients are dense, complete and in the outbox here, and the other ranks have such gradients.
        """
        count = len(self.slots)
        if not count:
            return None
        # The maximum over the ranks of: the kinds, the kinds of what came late, and 255 - kind, for the smallest kind.
        usual = _usual(count)
        direct = not self.late and self.outbox.started == count
        # Of each step its own: an interrupted step's may still be on its way.
        told = bytearray(usual) if direct else self._kinds()
        self.outbox.maximum(f"gradients.{self.slots[0].name}", told)
        if direct and told == usual:
            return None
        kinds, late, smallest = told[:count], told[count : 2 * count], told[2 * count :]
        for slot, kind, rest in zip(self.slots, kinds, smallest):
            if kind != ABSENT and kind != 255 - rest:
                raise ValueError(f"gradient of {slot.name}: kind differs; it is sparse on some ranks and not on others")
        return kinds, late

    def _kinds(self):
        """For _agree: kinds, kinds of what came late, 255 - kinds."""
        count = len(self.slots)
        told = bytearray(3 * count)
        for index, slot in enumerate(self.slots):
            gradient = slot.parameter.grad
            if slot.flight is not None:
                told[index] = kind_of(slot.flight.gradient)
                told[count + index] = kind_of(gradient) if slot.late else ABSENT
            elif slot.parameter.requires_grad and not slot.given:
                told[index] = kind_of(gradient)
            if told[index] != ABSENT:
                told[2 * count + index] = 255 - told[index]
        return told

    def _start_rest(self, kinds):
        groups = {}
        for slot, kind in zip(self.slots, kinds):
            if slot.flight is None and kind != ABSENT:
                # Another rank has a gradient, so this one takes part with zeros if it has none.
                if slot.parameter.grad is None:
                    slot.parameter.grad = _zeros(slot.parameter, kind)
                if slot.group is None:
                    slot.flight = self.way.start(slot.name, slot.parameter.grad)
                else:
                    groups.setdefault(slot.group, set()).add(slot)
        for group, members in groups.items():
            # In the order in which the group has started on ranks that had all of it.
            self._start_group(group, [slot for slot in group.slots if slot in members])

    def _collect(self, late):
        flights = [slot.flight for slot in self.slots if slot.flight is not None]
        self.outbox.finish()
        finish([flight for flight in flights if type(flight) is not Direct])
        more = []
        for slot, kind in zip(self.slots, late):
            flight = slot.flight
            if flight is None:
                continue
            if kind == ABSENT:
                _store(slot.parameter, flight)
                continue
            gradient = slot.parameter.grad if slot.late else None
            if gradient is None:
                gradient = _zeros(slot.parameter, kind)
            more.append((slot, flight, self.way.start(f"{slot.name}.late", gradient)))
        finish([second for _slot, _first, second in more])
        for slot, first, second in more:
            slot.parameter.grad = (first.result + second.result).detach()

    def reset(self):
        """Counting starts again; what is on its way is forgotten."""
        self.late = False
        self.line.reset(self.slots, self.passes)
        self.outbox.reset()
        for group in self.groups:
            group.ready = 0

    def settle(self):
        """Finishes what is on its way, unless backward runs: then reading is all that the caller can want."""
        if self.line.flying and not _in_backward():
            self.synchronize()


@functools.lru_cache
def _usual(count):
    """What _agree tells of so many dense gradients, none of them late."""
    return bytes([DENSE] * count + [ABSENT] * count + [255 - DENSE] * count)


def _zeros(parameter, kind):
    if kind == DENSE:
        return torch.zeros_like(parameter, requires_grad=False)
    return no_entries(parameter, kind - DENSE)


def _store(parameter, flight):
    """Puts the result where the gradient was: into its memory, which others may know, if it is dense."""
    gradient, result = flight.gradient, flight.result
    if kind_of(gradient) != DENSE or kind_of(result) != DENSE:
        parameter.grad = result
    elif result.data_ptr() != gradient.data_ptr():
        with torch.no_grad():
            gradient.copy_(result)
