# SPDX-License-Identifier: Apache-2.0
"""What a rank tells the others of an optimizer in a round, and what it hears of all: of each byte the largest.

A number that must be equal on all ranks is told with its complement, so that the largest of both are the largest and the smallest.
"""

import array
import operator
import sys
import zlib

from horovod.torch._reductions import ABSENT

# What a rank is in: a backward pass, synchronize() or step().
BACKWARD, SYNCHRONIZE, STEP = range(3)
# For bytes.translate(): 255 - kind of what is there.
_SMALLEST = bytes([ABSENT] + [255 - kind for kind in range(1, 256)])
_NUMBERS = 251  # bucket plans and passes are told modulo this
_EQUALS = 2 + 4 + 4
_HEADER = 2 * _EQUALS + 5
# What is new on a rank comes while it steps, or by a backward pass.
_NOTHING, _STEPPING, _PASSING = range(3)


BEGINNING = 5


def encode_header(unknown, phase, passes):
    """What every rank tells first. ``unknown``: it uses an optimizer that others may not know. ``passes``: backward passes so far."""
    passes %= _NUMBERS
    return bytes((unknown, phase, 255 - phase, *((passes, 255 - passes) if phase == BACKWARD else (0, 0))))


def read_header(heard):
    """The least phase of all ranks; and whether those in a backward pass are in different ones."""
    _unknown, _most, phase, passes, least = heard[:BEGINNING]
    return 255 - phase, least > 0 and passes != 255 - least


def section_bytes(gradients, ordering):
    """The bytes told of an optimizer of so many gradients."""
    return _HEADER + (6 if ordering else 2) * gradients


def encode_section(reducer, phase, ready, kinds, compared):
    """What this rank tells. ``phase``: what it is in. ``ready``: it has something new. ``compared``: the changes of its
    reduced gradients, where they count for the step that this rank is in, or None."""
    equals = bytes((reducer.plan.number % _NUMBERS, reducer.phase))
    mark, complement = bytes(8), bytes(8)  # no opinion
    if compared is not None:
        mark = _mark(reducer, compared)
        complement = _complement(mark)
    new = (_STEPPING if phase else _PASSING) if ready else _NOTHING
    flags = reducer.alive, new, reducer.tells_trouble(ready), bool(reducer.phase) and reducer.contributed, reducer.changed
    order = _order(reducer) if reducer.plan.ordering else b""
    return equals + mark + _complement(equals) + complement + bytes(flags) + kinds + kinds.translate(_SMALLEST) + order


def _complement(numbers):
    return bytes(255 - number for number in numbers)


def _mark(reducer, changes):
    """Of what the program has done to reduced gradients in this step, and of which nothing is left."""
    gone = bytes(gradient.is_gone() for gradient in reducer.gradients) if reducer.changed else bytes(len(changes))
    return zlib.crc32(changes).to_bytes(4, "big") + zlib.crc32(gone).to_bytes(4, "big")


def _order(reducer):
    """The places of the gradients in the order in which they got ready, if this is the first rank."""
    gradients, order = reducer.gradients, []
    if reducer.method.process_set.rank() == 0:
        places = {gradient: place for place, gradient in enumerate(gradients)}
        order = [places[gradient] + 1 for gradient in dict.fromkeys(reducer.order) if gradient in places]
    numbers = array.array("I", order + [0] * (len(gradients) - len(order)))
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers.tobytes()


class Section:
    """What all ranks have told of a reducer. ``news``: some rank has something new. ``fault``: some rank has a fault, or they do
    what does not go together. ``unlike``: bucket plans differ. ``gone``: no rank has the optimizer any more. ``kinds``: of each
    gradient, the largest of all ranks. ``changed``: some rank's program has changed reduced gradients that count for this step.
    """

    __slots__ = ("news", "fault", "unlike", "gone", "kinds", "changed", "_least", "_order")

    def __init__(self, section, count, phase, apart):
        """``phase``, ``apart``: see ``together``."""
        most, least = section[:_EQUALS], [255 - number for number in section[_EQUALS : 2 * _EQUALS]]
        alive, self.news, fault, again, self.changed = section[2 * _EQUALS : _HEADER]
        self.unlike, self.gone = most[0] != least[0], not alive
        alone = phase > BACKWARD and most[1] > least[1] == BACKWARD  # some ranks step another optimizer
        # What is new on any rank comes to all of them: whether something is left is seen in the round behind.
        told = slice(2, 6) if self.news else slice(2, _EQUALS)
        changed_alone = phase == STEP and any(map(operator.gt, most[told], least[told]))
        self.fault = bool(fault or alone or changed_alone or (self.news == _PASSING and (again or apart)))
        body = section[_HEADER:]
        self.kinds, self._least, self._order = body[:count], body[count : 2 * count], body[2 * count :]

    def of_two_kinds(self):
        """The place of the first gradient that is of different kinds, or None."""
        for place, (kind, rest) in enumerate(zip(self.kinds, self._least)):
            if kind not in (ABSENT, 255 - rest):
                return place
        return None

    def ordered(self, gradients):
        """The gradients, as they get ready on the first rank."""
        numbers = array.array("I", self._order)
        if sys.byteorder == "big":
            numbers.byteswap()
        return list(dict.fromkeys([gradients[number - 1] for number in numbers if number] + gradients))


_PHASES = "is in backward pass {}", "is in synchronize()", "is in step()"
_SHOWN = 16  # ranks in a message
_NAMES = 4  # gradients of a rank in a message


def facts(reducer, phase, passes):
    """What this rank says of a fault."""
    changes = [(gradient.name, (gradient.is_gone(), gradient.changes())) for gradient in reducer.gradients]
    return {"trouble": reducer.trouble, "phase": phase, "passes": passes, "own": reducer.phase, "changes": changes}


def apart(gradient, ranks, sizes):
    """The text for a reduced gradient that ranks have changed to different sizes."""
    told = ", ".join(f"rank {rank} about {size:.3g}" for rank, size in zip(ranks, sizes) if size is not None)
    return (
        f"DistributedOptimizer of {gradient.name}: ranks have changed this reduced gradient differently: the sum of three of its elements "
        f"is {told}. What clips, scales, sets or drops reduced gradients does so on all ranks, by the same amount. The gradients of this "
        "step are dropped on all ranks"
    )


def fault(ranks, facts):
    """(the trouble of ranks, or None; what they disagree about, or None)."""
    shown = list(zip(ranks, facts))
    troubles = [f"rank {rank}: {fact['trouble']}" for rank, fact in shown if fact["trouble"]]
    if troubles:
        return "; ".join(troubles[:_SHOWN]), None
    shown = shown[:_SHOWN]
    if min(fact["phase"] for fact in facts) == BACKWARD:
        told = ", ".join(f"rank {rank} {_PHASES[fact['phase']].format(fact['passes'])}" for rank, fact in shown)
        return None, (
            f"ranks run different numbers of backward passes for a step: {told}. All ranks run backward equally often for a step, or "
            "not at all; where one needs more passes, all but the last are inside no_sync(), or backward_passes_per_step says how "
            "many there are at most, the same of all optimizers"
        )
    if min(fact["own"] for fact in facts) == BACKWARD < max(fact["own"] for fact in facts):
        told = ", ".join(f"rank {rank} {_PHASES[fact['own']] if fact['own'] else 'in that of another'}" for rank, fact in shown)
        return None, f"ranks step different optimizers: {told}. All ranks step the same ones in the same order"
    least = [min(changes) for changes in zip(*([outcome for _name, outcome in one["changes"]] for one in facts))]
    told = ", ".join(f"rank {rank} {_changed(fact['changes'], least)}" for rank, fact in shown)
    return None, (
        f"ranks have changed reduced gradients differently: {told}. What clips, scales, sets or drops reduced gradients does so on "
        "all ranks"
    )


def _changed(changes, least):
    """The names of those to which more was done than on the rank that did the least."""
    names = [name for (name, outcome), others in zip(changes, least) if outcome != others]
    more = f" and {len(names) - _NAMES} more" if len(names) > _NAMES else ""
    return ", ".join(names[:_NAMES]) + more if names else "none"
