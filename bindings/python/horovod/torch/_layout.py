# SPDX-License-Identifier: Apache-2.0
"""Which gradients travel together as one operation. All ranks have the same layout at every step.

At first each gradient is an operation of its own, for which ranks need to know nothing of each other. That costs several
microseconds of processor time for each. Where a step has shown that all ranks have the same gradients, the order in which
they got ready on the set's first rank becomes the layout. Whoever gets other gradients than it says tells the other ranks
so at the end of the step, and it ends for all of them; the next one needs twice as many steps without a difference.
"""

import array
import sys

from torch.utils.weak import WeakTensorKeyDictionary

from horovod.common import basics
from horovod.common.process_sets import ByRegistration, joins
from horovod.torch._flight import ABSENT, DENSE

_MOST_PATIENCE = 64
_NUMBERS = 254  # fit into a byte beside 0
# For bytes.translate(): 255 - kind of what is there, and whether nothing is.
_SMALLEST = bytes([ABSENT] + [255 - kind for kind in range(1, 256)])
_IS_ABSENT = bytes([1] + [0] * 255)
# By the first parameter: it and the names tell optimizers apart, as well as those that are made again.
_layouts = ByRegistration(WeakTensorKeyDictionary)


class Layout:
    """``places``: in their order, the positions in the list of parameters of gradients that travel in buckets.

    ``number``: tells a layout from earlier ones; 0 where nothing travels in buckets. ``kinds``: of each parameter's gradient,
    in the latest step in which ranks had the same. ``calm``: so many steps had these. ``patience``: so many are needed.
    ``together``: whether there can be buckets. ``era``: see ``current``.
    """

    __slots__ = ("places", "number", "kinds", "calm", "patience", "together", "era", "_made", "_usual")

    def __init__(self, era, together):
        self.era, self.together = era, together
        self.patience, self.kinds, self._made = 1, None, 0
        self._end()

    def _end(self):
        self.places, self.number, self.calm, self._usual = (), 0, 0, None

    @property
    def due(self):
        """Whether this step's order can become the layout."""
        return self.together and not self.places and self.calm + 1 >= self.patience

    def usual(self, count):
        """What ``tell`` says in a step like those before; without a layout, in one where all gradients are dense."""
        if self._usual is None:
            kinds = self.kinds if self.places else bytes([DENSE] * count)
            self._usual = bytes(tell(kinds, bytes(count), self.number))
        return self._usual

    def learn(self, kinds, order):
        """The outcome of a step: the kinds that all ranks had, None if they differed; the order of the first rank or b''."""
        if self.places:
            if kinds != self.kinds:
                self._end()
                self.patience = min(2 * self.patience, _MOST_PATIENCE)
            return
        if kinds is None or kinds != self.kinds:
            self.kinds, self.calm = kinds, 0
        if kinds is None:
            return
        self.calm += 1
        places = unpack(order)
        if self.calm >= self.patience and len(places) > 1:
            self._usual = None
            self._made += 1
            self.places, self.number = places, 1 + self._made % _NUMBERS


def current(known, slots, process_set, together):
    """The Layout of these parameters: ``known``, None if there was none, or another one.

    All optimizers of them share it, also those made again. It ends with an era: the session of the job, whose next one may
    have other ranks, and with each join, because who has joined learns of no layout.
    """
    era = basics._session, process_set._registration, joins[process_set].count
    if known is not None and known.era == era:
        return known
    layouts = _layouts[process_set].setdefault(slots[0].parameter, {})
    key = (together, *(slot.name for slot in slots))
    if key not in layouts or layouts[key].era != era:
        layouts[key] = Layout(era, together)
    return layouts[key]


def tell(kinds, late, number):
    """What a rank says of its gradients, as a bytearray whose maximum over the ranks is taken.

    ``kinds``, ``late``: one byte for each parameter. It says for each what the largest kind is, and of what came late, what
    the smallest is of those that are there, and whether one is not there; then the largest and the smallest ``number``.
    """
    return bytearray(kinds + late + kinds.translate(_SMALLEST) + kinds.translate(_IS_ABSENT)) + bytes([number, 255 - number])


class Heard:
    """The maximum of what all ranks ``told``, as bytes. ``kinds``, ``late``: the largest of all ranks, a byte for each parameter."""

    def __init__(self, told, count):
        self._told = told
        self.kinds, self.late = told[:count], told[count : 2 * count]
        self._smallest, self._numbers = told[2 * count : 3 * count], told[4 * count :]

    def same_layout(self):
        """Whether all ranks had the same."""
        return self._numbers[0] == 255 - self._numbers[1]

    def alike(self):
        """Whether all ranks had the same gradients, and none of them late."""
        return self._told == tell(self.kinds, bytes(len(self.kinds)), self._numbers[0])

    def of_two_kinds(self):
        """The position of the first parameter whose gradients are of different kinds, or None."""
        for place, (kind, rest) in enumerate(zip(self.kinds, self._smallest)):
            if kind not in (ABSENT, 255 - rest):
                return place
        return None


def pack(places, count):
    """Positions in a list of ``count``, as bytes for ``tell``; () is what ranks say that leave it to another one."""
    numbers = array.array("I", [place + 1 for place in places] + [0] * (count - len(places)))
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers.tobytes()


def unpack(order):
    """The tuple of positions of ``pack``."""
    numbers = array.array("I", order)
    if sys.byteorder == "big":
        numbers.byteswap()
    return tuple(number - 1 for number in numbers if number)
