# SPDX-License-Identifier: Apache-2.0
"""The guardian's connection to its launcher. Standard library only, see frames.py."""

import select
import time

import frames

# On another host: how often both sides say that they are there, and how long one may be silent.
_BEAT, _LONGEST_SILENCE = 2.0, 8.0
_NEVER = float("inf")


class Link:
    """`remote`: the launcher is on another host, so both sides must be heard regularly."""

    def __init__(self, channel, remote, poll):
        self._channel, self._remote, self._poll = channel, remote, poll
        self.alive = True
        self.paused = False  # the launcher was stopped by Ctrl-Z and cannot say that it is there
        self._heard = self._next_beat = time.monotonic()
        self._interest = 0
        poll.register(channel.reader, select.EPOLLIN)

    @property
    def reader(self):
        return self._channel.reader

    @property
    def pending(self):
        """Bytes that wait to go out."""
        return self._channel.pending

    def report(self, **event):
        if self.alive:
            self._channel.send(**event)

    def beat(self, now):
        """Says that this side is there; the seconds until the next time, or None if the launcher has been silent for too long."""
        if not self._remote or not self.alive:
            return _NEVER
        if now >= self._next_beat:
            self._next_beat = now + _BEAT
            self.report(beat=True)
        if now - self._heard > _LONGEST_SILENCE and not self.paused:
            return None
        return self._next_beat - now

    def receive(self):
        """The frames that have arrived; None at the end."""
        try:
            arrived = self._channel.receive()
        except frames.BrokenStream:
            return None
        if arrived is not None:
            self._heard = time.monotonic()
        return arrived

    def flush(self):
        """Sends what waits, and asks to be woken for the rest; False if nobody reads any more."""
        self._channel.flush()
        if not self.alive or self._channel.broken:
            return False
        wanted = select.EPOLLOUT if self._channel.pending else 0
        if wanted != self._interest:
            self._interest = wanted
            if self._channel.reader == self._channel.writer:
                self._poll.modify(self._channel.reader, select.EPOLLIN | wanted)
            elif wanted:
                self._poll.register(self._channel.writer, wanted)
            else:
                self._poll.unregister(self._channel.writer)
        return True

    def give_up(self):
        """The launcher has gone."""
        if not self.alive:
            return
        self.alive = False
        self._poll.unregister(self._channel.reader)
        if self._interest and self._channel.reader != self._channel.writer:
            self._poll.unregister(self._channel.writer)
        self._channel.broken = True
