# SPDX-License-Identifier: Apache-2.0
"""Output of ranks on another host: read from their pipes and sent to the launcher. Standard library only, see frames.py."""

import os
import select

import frames

# With this much waiting for a slow launcher, the pipes are left alone, so that the ranks wait as well.
_ENOUGH = 1 << 20


class RankPipes:
    """The reading ends of the ranks' stdout and stderr."""

    def __init__(self, channel, poll):
        self._channel, self._poll = channel, poll
        self._open = {}  # descriptor: (rank, stream)
        self._paused = False

    def add(self, rank, stream):
        """A pipe for one stream of a rank; returns the end to write to."""
        reader, writer = os.pipe()
        os.set_blocking(reader, False)
        self._open[reader] = (rank, stream)
        if not self._paused:
            self._poll.register(reader, select.EPOLLIN)
        return writer

    def __contains__(self, descriptor):
        return descriptor in self._open

    def __len__(self):
        return len(self._open)

    def forward(self, descriptor):
        """Sends what has arrived on a pipe, and its end."""
        rank, stream = self._open[descriptor]
        try:
            data = os.read(descriptor, frames.PIECE)
        except BlockingIOError:
            return
        self._channel.send_output(rank, stream, data)
        if not data:
            self._close(descriptor)

    def regulate(self):
        """Stops reading while much waits to go out, and goes on when it has gone."""
        full = self._channel.pending > _ENOUGH
        if full != self._paused:
            self._paused = full
            for descriptor in self._open:
                if full:
                    self._poll.unregister(descriptor)
                else:
                    self._poll.register(descriptor, select.EPOLLIN)

    @property
    def paused(self):
        return self._paused

    def close(self):
        """Gives up pipes that a stranger holds open."""
        for descriptor in list(self._open):
            rank, stream = self._open[descriptor]
            self._channel.send_output(rank, stream, b"")
            self._close(descriptor)

    def _close(self, descriptor):
        if not self._paused:
            self._poll.unregister(descriptor)
        os.close(descriptor)
        del self._open[descriptor]
