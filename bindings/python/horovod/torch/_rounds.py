# SPDX-License-Identifier: Apache-2.0
"""Rounds: at the end of a backward pass, or at ``step()``, the ranks of a process set reduce what is new in their gradients.

What ranks cannot know of each other they tell each other in one small allreduce, the agreement: which gradients each has, of which
kind, in which step. It speaks for all optimizers of the set, so that ranks whose backward passes touch different ones do not
wait for each other crosswise.
"""

import ctypes
import hashlib
import time
import weakref

import torch

from horovod import _submit
from horovod._native import constants
from horovod._handles import Handle
from horovod._objects import allgather_object
from horovod.common import basics
from horovod.common.exceptions import HorovodInternalError, mismatch
from horovod.common.process_sets import ByRegistration, joins
from horovod.torch import _agreement, _samples, _start
from horovod.torch._tensors import CODES

_NAME = "DistributedOptimizer.gradients"


class Rounds:
    """Of one process set. ``members``: the reducers that all ranks know to be the same on all of them.

    A reducer becomes one by a roll call, when it is first used: ranks may have copies of optimizers that they never use.
    """

    def __init__(self):
        self.members = []
        self.passes = 0  # backward passes that this rank has run for the step
        self.generation = 0  # counts the sessions and joins for which something was prepared
        self.count = 0  # of rounds
        self._agreements = {}  # by length
        self._made_for = None

    def current(self, reducer):
        """The generation, if all ranks know the reducer in this session; otherwise None."""
        known = self._made_for == _era(reducer.method.process_set) and reducer in self.members
        return self.generation if known else None

    def begin(self, ready, process_set, met=None, pollable=False):
        """Starts an agreement in which the reducers of ``ready`` have something new. Ends with ``finish``.

        ``met``: the reducer in whose ``meet`` this rank is.
        """
        now = _era(process_set)
        if now != self._made_for:
            self._made_for = now
            self.generation += 1
            self._agreements.clear()
            self.members = []  # who has joined has missed what became of them
            self.passes = min(self.passes, 1)
        self._ready, self._met, self._set = ready, met, process_set
        self._phase = _agreement.BACKWARD if met is None else met.phase
        unknown = any(reducer not in self.members for reducer in self._used())
        if unknown or any(reducer.renewed for reducer in self.members):
            rest = sum(reducer.section_bytes for reducer in self.members)
            self._told = _agreement.encode_header(True, self._phase, self.passes) + bytes(rest)
        else:
            sections = [reducer.section(self._phase, reducer in ready, met) for reducer in self.members]
            self._told = _agreement.encode_header(False, self._phase, self.passes) + b"".join(sections)
        if pollable:
            self._heard = torch.frombuffer(bytearray(self._told), dtype=torch.uint8)
            options = {"reduce_op": basics.Max, "prescale": 1.0, "postscale": 1.0}
            self._running = Handle(*_start.in_place(constants.ALLREDUCE, self._heard, _NAME, process_set, **options))
            return self
        count = len(self._told)
        if count not in self._agreements:
            told = [(CODES[torch.uint8], (count,))]
            self._agreements[count] = _submit.prepare(_NAME, told, process_set, basics.Max, 1.0, 1.0)
        self._heard = bytearray(self._told)
        address = ctypes.addressof(ctypes.c_char.from_buffer(self._heard))
        self._running = _submit.start([self._agreements[count]], [address], self._heard)
        return self

    def _used(self):
        return self._ready if self._met is None or self._met in self._ready else [*self._ready, self._met]

    def poll(self):
        """Whether the agreement has ended; for those that are ``pollable``."""
        return self._running.poll()

    def finish(self):
        """Waits for the agreement, and reduces what is new on any rank. The least phase of all ranks."""
        try:
            error = self._finish()
        except HorovodInternalError:
            self._reset()
            raise
        except Exception as error:
            self._reset()
            # Only this rank knows of it, and the others wait for operations that it would have started.
            basics.shutdown()
            raise HorovodInternalError(
                "DistributedOptimizer: this rank has shut down, because it could not go on with a reduction that all take part in: "
                f"{type(error).__name__}: {error}"
            ) from error
        if error is not None or self._least > _agreement.BACKWARD:
            self._count_again()
        if error is not None:
            raise error
        return self._least

    def _count_again(self):
        """Backward passes count for the next step, also those for optimizers that were not stepped now.

        Another rank may not have used them, and then has only the count of the set.
        """
        self.passes = 0
        for reducer in self.members:
            if reducer.most:
                reducer.count_again()

    def _reset(self):
        self.passes = 0
        for reducer in self.members:
            reducer.lose()

    def _finish(self):
        """An error that leaves the ranks in step is returned."""
        self._running.wait()
        heard = self._heard.numpy().tobytes() if isinstance(self._heard, torch.Tensor) else bytes(self._heard)
        if heard[0]:
            self._call_roll()
            self.begin(self._ready, self._set, self._met)
            return self._finish()
        self.count += 1
        self._least, apart = _agreement.read_header(heard)
        for reducer in self._ready:
            reducer.contributed, reducer.renewed_at = True, self.count
        if heard == self._told and self._is_usual():
            errors = []
            for reducer in self._ready:
                reducer.plan.ordering = False  # as ``of_round`` leaves it on ranks that have less
                errors.append(reducer.collect(reducer.plan.buckets))
            return next(filter(None, errors), None)
        parts, place = [], _agreement.BEGINNING
        for reducer in self.members:
            section = heard[place : place + reducer.section_bytes]
            part = _agreement.Section(section, len(reducer.gradients), self._least, apart)
            place += reducer.section_bytes
            parts.append((reducer, part))
        unlike = [reducer for reducer, part in parts if part.unlike]
        if unlike:
            raise self._disagree(unlike[0])
        self.members = [reducer for reducer, part in parts if not part.gone]
        news = [(reducer, part) for reducer, part in parts if part.news]
        for reducer, _part in news:
            reducer.renewed_at = self.count
        if self._least == _agreement.STEP and any(part.changed for reducer, part in news):
            self._least = _agreement.SYNCHRONIZE  # whether the ranks still have the same is seen in another round
        errors = [reducer.reduce(part, self.generation) for reducer, part in news]
        error = next(filter(None, errors), None) or self._faults([reducer for reducer, part in parts if part.fault])
        if error is None and self._least == _agreement.STEP:
            error = self._compare([reducer for reducer, part in parts if part.changed])
        return error

    def _is_usual(self):
        """Whether all that this rank has new is on its way, and nothing else is to be done."""
        usual = all(reducer.has_departed() for reducer in self._ready)
        return usual and all(one.alive and not one.changed and not one.tells_trouble(one in self._ready) for one in self.members)

    def _faults(self, faulty):
        """What is wrong with these reducers, on any rank; None if there are none."""
        if not faulty:
            return None
        first = faulty[0]
        facts = allgather_object(_agreement.facts(first, self._phase, self.passes), process_set=self._set, name=f"{_NAME}.fault")
        for reducer in faulty:
            reducer.drop()
        trouble, difference = _agreement.fault(self._set.ranks, facts)
        text = f"DistributedOptimizer of {first.name}: {trouble or difference}. The gradients of this step are dropped on all ranks"
        return ValueError(text) if trouble else mismatch(text)

    def _compare(self, changed):
        """What is wrong with these reducers, whose reduced gradients the ranks have changed for this step; None if nothing is."""
        if not changed:
            return None
        sizes = [size for reducer in changed for size in reducer.sizes_of_changed(self._met)]
        codes = bytes(0 if size is None else _samples.code_of(size) for size in sizes)
        rest = bytes(0 if size is None else 255 - code for size, code in zip(sizes, codes))
        place = _samples.apart(self._largest(codes + rest, "sizes"))
        if place is None:
            return None
        gradient = [gradient for reducer in changed for gradient in reducer.gradients][place]
        every = allgather_object(sizes[place], process_set=self._set, name=f"{_NAME}.size")
        for reducer in changed:
            reducer.drop()
        return mismatch(_agreement.apart(gradient, self._set.ranks, every))

    def _largest(self, told, what):
        """Of each byte the largest of all ranks, those left out that have joined."""
        heard = torch.frombuffer(bytearray(told), dtype=torch.uint8)
        options = {"reduce_op": basics.Max, "prescale": 1.0, "postscale": 1.0}
        Handle(*_start.in_place(constants.ALLREDUCE, heard, f"{_NAME}.{what}", self._set, **options)).wait()
        return heard.numpy().tobytes()

    def _call_roll(self):
        """Makes members of the reducers that all ranks have. Raises on all ranks if one that is in use is missing on some."""
        known = set(self.members)
        others = [one for one in _reducers_of(self._set) if one not in known]
        for reducer in self.members + others:
            reducer.check_parameters_late()  # before this rank says what they are
        if self._all_have([reducer.description() for reducer in self.members + others]):
            new = others
        else:
            others.sort(key=lambda reducer: reducer not in self._used())
            all_of_mine = [(reducer in self._used(), reducer.description()) for reducer in self.members + others]
            under_way = [(reducer.departed, reducer.plan.number) for reducer in self.members]
            heard = allgather_object((all_of_mine, under_way), process_set=self._set, name=f"{_NAME}.roll")
            told = [one for one, _under_way in heard]
            kept, entered, error = _matched(told, len(self.members), self._set.ranks)
            if error is not None:
                self._settle([one for _told, one in heard])
                for reducer in self._ready:
                    reducer.drop()
                raise mismatch(f"DistributedOptimizer: {error}. All ranks have to step the same parameters")
            own = self._set.rank()
            new = [(self.members + others)[places[own]] for places in entered]
            self.members = [self.members[place] for place in kept]
        for reducer in new:
            reducer.begin_era()
        self.members = self.members + new
        for reducer in self.members:
            reducer.tell_names_apart()

    def _settle(self, under_way):
        """Ends what some ranks have started, so that nothing of it meets what is started later. ``under_way``: per rank and member, how
        many buckets have departed, and the number of the plan."""
        for place, reducer in enumerate(self.members):
            departed, plans = zip(*(one[place] for one in under_way))
            if any(departed):
                if len(set(plans)) > 1:
                    raise self._disagree(reducer)
                reducer.end_buckets(self.generation)
                reducer.drop()

    def _all_have(self, value):
        """Whether all ranks say the same, those left out that have joined."""
        digest = hashlib.sha256(repr(value).encode()).digest()
        heard = self._largest(digest + bytes(255 - number for number in digest), "digest")
        return heard[:32] == bytes(255 - number for number in heard[32:])

    def _disagree(self, reducer):
        reducer.drop()
        return HorovodInternalError(
            f"DistributedOptimizer of {reducer.name}: ranks disagree about which gradients travel together; hvd.shutdown() and "
            "hvd.init() begin afresh"
        )


def _era(process_set):
    return basics._session, process_set._address, joins[process_set].count


def _matched(told, members, ranks):
    """Which of the first ``members`` reducers are still the same on all ranks; of the others, for each that is, the places in the
    ranks' lists; and what is wrong with one that is in use.

    ``told``: for each rank and reducer whether it is in use, and its description.
    """
    kept = []
    for place in range(members):
        odd = next((number for number, one in enumerate(told) if one[place][1] != told[0][place][1]), None)
        if odd is None:
            kept.append(place)
        elif any(one[place][0] for one in told):
            return [], [], _difference(ranks[0], told[0][place][1], ranks[odd], told[odd][place][1])
    left = [list(range(members, len(one))) for one in told]
    entered = []
    for first in list(left[0]):
        description = told[0][first][1]
        places = [next((place for place in mine if one[place][1] == description), None) for mine, one in zip(left, told)]
        if None not in places:
            entered.append(places)
            for mine, place in zip(left, places):
                mine.remove(place)
    for number, (mine, one) in enumerate(zip(left, told)):
        for place in mine:
            if one[place][0]:
                odd = next(other for other in range(len(told)) if other != number)
                theirs = told[odd][left[odd][0]][1] if left[odd] else []
                return [], [], _difference(ranks[number], one[place][1], ranks[odd], theirs)
    return kept, entered, None


def _difference(first_rank, first, rank, other):
    """What two descriptions differ in."""
    ours, theirs = dict(first), dict(other)
    for name in [*ours, *theirs]:
        if ours.get(name) != theirs.get(name):
            told = ", ".join(
                f"rank {number} {'has none' if shape is None else f'has {shape}'}"
                for number, shape in sorted([(first_rank, ours.get(name)), (rank, theirs.get(name))])
            )
            return f"parameter {name} differs: {told}"
    return f"rank {rank} has no optimizer of {next(iter(ours), 'no parameters')}"


_by_set = ByRegistration(Rounds)
# Of all sets and sessions, in the order in which they were made.
_made = []


def rounds_of(process_set):
    """The Rounds of a process set."""
    return _by_set[process_set]


def reducers():
    """The reducers whose optimizers this rank has."""
    _made[:] = [reference for reference in _made if reference() is not None and reference().alive]
    return [one for one in (reference() for reference in _made) if one is not None]


def _reducers_of(process_set):
    """Those of the set."""
    return [one for one in reducers() if one.method.process_set._registration == process_set._registration]


def made(reducer):
    """The reducer can take part in the rounds of its set from now on."""
    _made.append(weakref.ref(reducer))


@basics.at_shutdown
def _lose(_session):
    """Nothing that is on its way arrives any more. What is still local can be reduced in another session."""
    for reducer in (reference() for reference in _made):
        if reducer is not None and reducer.departed:
            reducer.lose()


def passed(touched, run_anyway):
    """A backward pass has ended that touched these reducers. A round, if there is something to reduce on any rank.

    Ranks may use different optimizers, so which passes end with a round must not depend on what a rank has used.
    ``run_anyway``: whether what a reducer has on this rank makes a round necessary.
    """
    due = []
    for members in _by_set_of(touched):
        process_set = members[0].method.process_set
        rounds = rounds_of(process_set)
        counting = [one for one in members if not one.paused]
        rounds.passes += bool(counting)
        ready = [one for one in members if run_anyway(one)]
        known = {*rounds.members, *_reducers_of(process_set)}
        if ready or (counting and rounds.passes >= min(one.passes for one in known)):
            due.append((process_set, ready))
    _run_all(due)


def run(ready):
    """A round of the process sets of these reducers, which have something new."""
    _run_all([(members[0].method.process_set, members) for members in _by_set_of(ready)])


def _by_set_of(reducers):
    """Lists of those of the same process set."""
    sets = {}
    for reducer in reducers:
        sets.setdefault(reducer.method.process_set._address, []).append(reducer)
    return list(sets.values())


def _run_all(sets):
    if len(sets) == 1:
        run_set(*sets[0])
    if len(sets) < 2:
        return
    started = [rounds_of(process_set).begin(ready, process_set, pollable=True) for process_set, ready in sets]
    # Another rank may come to these sets in another order.
    while len(started) > 1:
        ended = next((one for one in started if one.poll()), None)
        if ended is None:
            time.sleep(0.00005)
            continue
        started.remove(ended)
        ended.finish()
    started[0].finish()


def run_set(process_set, ready, met=None):
    """A round of one process set, whatever other ranks have. The least phase of all ranks."""
    return rounds_of(process_set).begin(ready, process_set, met).finish()


def meet(reducer, successors):
    """Rounds, until all ranks are in the phase of the reducer. ``successors``: reducers that reduce some of its gradients."""
    process_set = reducer.method.process_set
    own = [reducer] + [one for one in successors if one is not reducer and one.method.process_set._address == process_set._address]
    while run_set(process_set, [one for one in own if one.local or one.trouble], reducer) < reducer.phase:
        pass
    others = [one for one in successors if one not in own and one.local]
    if others:
        run(others)
