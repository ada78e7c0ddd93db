# SPDX-License-Identifier: Apache-2.0
"""Reduces the gradients of an optimizer's parameters while backward runs.

The unit is the step, not the backward pass. A gradient starts as soon as backward has finished it for the
``backward_passes_per_step``-th time; ``synchronize`` starts what has not started by then, and waits. What ranks cannot
know of each other they tell each other at ``synchronize``, in one small allreduce that overlaps with the last
gradients: which parameters have a gradient on any rank, of which kind, and which got more gradients after they had
started. From what they have told they also know whether gradients can travel together (``_layout.py``).
"""

import weakref

import torch
from torch.utils.weak import WeakTensorKeyDictionary

from horovod.common.exceptions import HorovodInternalError, HorovodMismatchError, mismatch
from horovod.torch import _layout
from horovod.torch._flight import ABSENT, DENSE, finish, kind_of
from horovod.torch._outbox import Outbox
from horovod.torch._slots import gradient_line, in_backward, slot_type
from horovod.torch._sparse import no_entries

# The reducer, by a weak reference, that reduces the gradient of a parameter: the one made last.
_owners = WeakTensorKeyDictionary()


class _Group:
    """Parameters whose gradients travel as one operation, once all of them are ready."""

    __slots__ = ("name", "slots", "ready", "members")

    def __init__(self, name, slots):
        self.name, self.slots, self.ready, self.members = name, slots, 0, []


class Reducer:
    """See the module. ``names``: a dict from parameter to name. Inactive: every method does nothing."""

    def __init__(self, names, passes, way, active):
        self.way, self.passes, self.active = way, passes, active
        # Its ``done``: all is reduced, and no gradient grew since; ``paused``: no_sync().
        self.line = gradient_line(weakref.ref(self))
        self.slots = [slot_type()(parameter, name, self) for parameter, name in names.items()]
        self.by_parameter = {slot.parameter: slot for slot in self.slots}
        self.unwatched = list(self.slots)  # frozen so far
        self.groups = []
        self.heirs = ()
        self.skipping = False  # skip_synchronize()
        self.late = False  # a slot is
        self.outbox = Outbox(way, self.line)
        self.outbox.expect(self.slots)
        self.layout = self.laid_out = None
        self.up_to_date = False  # as far as known in this step
        self.buckets = []  # as ``laid_out``, a layout and its number, says
        self.outside = []  # (place, slot) of those in none of them
        self.gathered = []  # slots of sparse ones
        if active:
            self._take_over(self.slots)
            self._watch_all()
            self._lay_out()

    def __del__(self):
        for slot in self.slots:
            slot.unhook()
            slot.flight = None  # which can be the slot

    def add(self, parameter, name):
        """Reduces the gradients of one more parameter."""
        slot = self.by_parameter[parameter] = slot_type()(parameter, name, self)
        self.slots.append(slot)
        self.unwatched.append(slot)
        self.outbox.expect(self.slots)
        if self.active:
            self._take_over([slot])
            self._watch_all()
            self._forget_layout()

    def _forget_layout(self):
        """Other parameters, or other ones alone, have another layout."""
        self.layout, self.up_to_date = None, False
        self._lay_out()

    def _lay_out(self):
        """Puts the slots into the buckets of the present layout, at the first call of a step."""
        if self.up_to_date or not self.slots or not self.active:
            return
        self.up_to_date = True
        together = self.way.direct and not self.groups
        layout = self.layout = _layout.current(self.layout, self.slots, self.way.process_set, together)
        if (layout, layout.number) == self.laid_out:
            return
        self.laid_out = layout, layout.number
        inside = [self.slots[place] for place in layout.places]
        self.buckets = self.outbox.buckets(inside, [layout.kinds[place] for place in layout.places])
        for slot in self.slots:
            slot.bucket = None
        for bucket in self.buckets:
            for slot in bucket.slots:
                slot.bucket = bucket
        self.outside = [(place, slot) for place, slot in enumerate(self.slots) if slot.bucket is None]
        self.gathered = [slot for bucket in self.buckets if bucket.sparse for slot in bucket.slots]

    def depart(self, bucket):
        """All of a bucket is ready. After shutdown() and init() buckets mean nothing: synchronize() starts what was in them."""
        self._lay_out()
        if bucket in self.buckets:
            self.outbox.depart(bucket)

    def _take_over(self, slots):
        """Parameters that were wrapped before are reduced once, by this object."""
        for slot in slots:
            owner = _owners.get(slot.parameter, lambda: None)()
            if owner is not None and owner is not self:
                owner.settle()
                given = owner.by_parameter[slot.parameter]
                given.unhook()
                given.given, given.group = True, None
                owner.heirs = owner.heirs or weakref.WeakSet()
                owner.heirs.add(self)
            _owners[slot.parameter] = weakref.ref(self)

    def set_groups(self, lists):
        """Lists of parameters that travel together; the others travel alone."""
        for number, members in enumerate(lists):
            slots = [self.by_parameter[member] for member in members]
            group = _Group(f"group.{number}.{slots[0].name}" if slots else "", slots)
            self.groups.append(group)
            for slot in slots:
                slot.group, slot.direct = group, False
        self._forget_layout()

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
        """Starts what travels together of a group, or of a bucket that has not departed."""
        together, sparse = [], []
        for slot in members:
            (sparse if self.way.separate(kind_of(slot.parameter.grad)) else together).append(slot)
        if group in self.groups:  # whose sparse gradients may be on several devices
            for slot in sparse:
                slot.flight = self.way.start(slot.name, slot.parameter.grad)
            sparse = []
        for part in filter(None, (together, sparse)):
            flights = self.way.start_group(group.name, [slot.parameter.grad for slot in part])
            for slot, flight in zip(part, flights):
                slot.flight = flight

    def synchronize(self):
        """Waits until every gradient is reduced. Does nothing if that has happened and no gradient came since."""
        if self.line.done or not self.active:
            return
        for heir in self.heirs:
            heir.synchronize()
        try:
            if self.unwatched:  # parameters that were frozen so far
                self._watch_all()
            self.outbox.flush()
            agreed = self._agree()
            if agreed is None:
                self.outbox.finish()
                if self.gathered:
                    self._store_entries()
            else:
                kinds, late = agreed
                self._start_rest(kinds)
                self._collect(late)
        finally:
            self.reset()
        self.line.done = True

    def _agree(self):
        """(kind of each gradient, kind of what came late), over all ranks. ValueError if kinds differ.

        None if the gradients of all ranks are the usual ones, and here all in the outbox.
        """
        if not self.slots:
            return None
        self._lay_out()
        count, layout = len(self.slots), self.layout
        usual = layout.usual(count)
        direct = self._all_sent()
        told = usual if direct else _layout.tell(*self._kinds(), layout.number)
        if layout.due:
            told = told + self._order()
        try:
            told = self.outbox.maximum(f"gradients.{self.slots[0].name}", told)
        except HorovodMismatchError as error:  # those with a layout tell less than those without
            raise mismatch(f"{self._disagreement()}: {error}") from error
        if direct and layout.places and told == usual:
            return None  # and nothing to learn from it
        agreed, order = told[: len(usual)], told[len(usual) :]
        if direct and agreed == usual:
            layout.learn(usual[:count], order)
            return None
        return self._differing(_layout.Heard(agreed, count), order)

    def _differing(self, heard, order):
        if not heard.same_layout():
            raise HorovodInternalError(self._disagreement())
        self.layout.learn(heard.kinds if heard.alike() else None, order)
        place = heard.of_two_kinds()
        if place is not None:
            self._end_buckets()
            name = self.slots[place].name
            raise ValueError(f"gradient of {name}: kind differs; it is sparse on some ranks and not on others")
        return heard.kinds, heard.late

    def _disagreement(self):
        return (
            f"DistributedOptimizer of {self.slots[0].name}, with {len(self.slots)} parameters on this rank: ranks disagree about "
            "which gradients travel together. Either their parameters differ, or only some ranks had an error before; then "
            "hvd.shutdown() and hvd.init() begin afresh"
        )

    def _all_sent(self):
        """Whether every gradient of a usual step has left by the outbox, and no other one is here."""
        if self.late:
            return False
        if not self.buckets:
            return self.outbox.alone == len(self.slots)
        if self.outbox.departed != len(self.buckets):
            return False
        return not self.outside or not any(slot.kind() or self.layout.kinds[place] for place, slot in self.outside)

    def _order(self):
        """For the next layout: what left by the outbox of the first rank or could have, which speaks for all."""
        count = len(self.slots)
        if self.way.process_set.rank() != 0:
            return _layout.pack((), count)
        places = {slot: place for place, slot in enumerate(self.slots)}
        rest = [slot for slot in self.slots if slot.flight is None and slot.kind()]
        left = [slot for slot in self.outbox.order + rest if slot.flight is slot or self.outbox.travels(slot.here())]
        return _layout.pack([places[slot] for slot in left], count)

    def _kinds(self):
        """Kinds of the gradients, and of what came late."""
        kinds = bytes(slot.kind() for slot in self.slots)
        late = bytes(kind_of(slot.parameter.grad) if slot.late else ABSENT for slot in self.slots)
        return kinds, late

    def _end_buckets(self):
        """Takes part with zeros in what other ranks may have started, so that it ends for them."""
        flights = []
        for bucket in self.buckets:
            if bucket.slots[0].flight is None:
                zeros = [_zeros(slot.parameter, kind) for slot, kind in zip(bucket.slots, bucket.kinds)]
                flights += self.way.start_group(bucket.name, zeros)
        finish(flights)

    def _start_rest(self, kinds):
        groups = {}
        for slot, kind in zip(self.slots, kinds):
            if slot.flight is None and kind != ABSENT:
                # Another rank has a gradient, so this one takes part with zeros if it has none.
                if slot.parameter.grad is None:
                    slot.parameter.grad = _zeros(slot.parameter, kind)
                group = slot.group or slot.bucket
                if group is None:
                    slot.flight = self.way.start(slot.name, slot.parameter.grad)
                else:
                    groups.setdefault(group, set()).add(slot)
        for group, members in groups.items():
            # In the order in which the group has started on ranks that had all of it.
            self._start_group(group, [slot for slot in group.slots if slot in members])

    def _collect(self, late):
        self.outbox.finish()
        finish([slot.flight for slot in self.slots if slot.flight is not None and slot.flight is not slot])
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

    def _store_entries(self):
        """After a usual step, in which the rest was reduced where it lies."""
        finish([slot.flight for slot in self.gathered])
        for slot in self.gathered:
            _store(slot.parameter, slot.flight)

    def reset(self):
        """Counting starts again; what is on its way is forgotten."""
        self.late = False
        self.line.reset(self.slots, self.passes)
        self.outbox.reset()
        for group in self.groups:
            group.ready = 0
        self.up_to_date = False
        if self.layout is not None and self.layout.number != self.laid_out[1]:
            self._lay_out()

    def settle(self):
        """Finishes what is on its way, unless backward runs: then reading is all that the caller can want."""
        if self.line.flying and not in_backward():
            self.synchronize()


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
