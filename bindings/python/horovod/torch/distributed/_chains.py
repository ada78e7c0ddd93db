# SPDX-License-Identifier: Apache-2.0
"""Which operation an operation follows that is started by what is chained to a future.

Ranks match the calls of a group by their order. What is chained to a future runs whenever the future is completed, on another
thread or at once, so the order of what it starts differs between ranks. Therefore that is matched by what it follows: the
name of the operation whose future it is, the place in the chain, and a number there.
"""

import collections
import hashlib
import threading
import weakref

import torch

_LONGEST_NAME = 200

_here = threading.local()
_links = weakref.WeakKeyDictionary()  # of futures; theirs is a class of C++, which takes no attributes


class Link:
    """One place in the chain of an operation's future."""

    def __init__(self, name):
        self._name = name
        self._chained = 0
        self._started = collections.Counter()

    def next_link(self):
        """The place of the next function that is chained to this one."""
        self._chained += 1
        return Link(_short(f"{self._name}>{self._chained}"))

    def next_name(self, group):
        """The name of the next operation of a group that is started here."""
        self._started[group] += 1
        return _short(f"{self._name}:{self._started[group]}")

    def run(self, function, future):
        """What the function returns; operations that it starts follow this link."""
        before, _here.link = current(), self
        try:
            return function(future)
        finally:
            _here.link = before


def _short(name):
    return name if len(name) <= _LONGEST_NAME else hashlib.sha256(name.encode()).hexdigest()


def current():
    """The link that this thread runs, or None."""
    return getattr(_here, "link", None)


def follow(future, name):
    """Notes that a future is that of the operation with this name."""
    _links[future] = Link(name)


def install():
    """Lets futures that ``follow`` knows tell what is chained to them where it belongs; others work as before."""
    base = torch._C.Future
    own_then, own_callback = base.then, base.add_done_callback

    def then(self, callback):
        link = _links.get(self)
        if link is None:
            return own_then(self, callback)
        place = link.next_link()
        chained = own_then(self, lambda future: place.run(callback, future))
        _links[chained] = place
        return chained

    def add_done_callback(self, callback):
        link = _links.get(self)
        if link is None:
            return own_callback(self, callback)
        place = link.next_link()
        return own_callback(self, lambda future: place.run(callback, future))

    then.__doc__, add_done_callback.__doc__ = own_then.__doc__, own_callback.__doc__
    base.then, base.add_done_callback = then, add_done_callback
