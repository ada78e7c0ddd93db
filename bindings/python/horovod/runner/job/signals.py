# SPDX-License-Identifier: Apache-2.0
"""What horovodrun does with signals: those that end a job, those that only pass through it, and its own clock.

Everything is sent from the handlers, not from the job's loop, which may be held up by a reader of our output that does not
read.
"""

import os
import signal
import time
from typing import List, Optional

from ..agents.agent import BEAT, Agent
from .outcome import Outcome
from .output import say

_STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_PASSING = (signal.SIGUSR2, signal.SIGWINCH, signal.SIGCONT)
# How long ranks may go on after a signal if the user has not said: a scheduler that stops a job lets it save a checkpoint.
_GRACE = {signal.SIGTERM: 30.0, signal.SIGHUP: 30.0, signal.SIGINT: 3.0}
GRACE_AFTER_CALLER = 3.0  # the program that called horovod.run has gone
# `timeout` and some schedulers signal a process and then its group: that is one signal.
_SAME_SIGNAL = 1.0
# The guardians kill everything when the grace is over; if this process is stuck in a write so long after that, it ends all the
# same. The same once all agents have ended.
_LAST_RESORT = 1.7


class Signals:
    """Installs the handlers; `received` lists the signals that stop the job. `wake` can be read when one has come."""

    def __init__(self, outcome: Outcome, agents: List[Agent], grace: Optional[float]) -> None:
        self.received: List[int] = []
        self.wake = -1
        self._outcome, self._agents, self._grace_wanted = outcome, agents, grace
        self._grace = 0.0
        self._announced = False
        self._asked = False
        self._stopped_at = self._last_resort = self._agents_ended_at = float("inf")

    def install(self) -> None:
        self.wake, wake_write = os.pipe()
        os.set_blocking(self.wake, False)
        os.set_blocking(wake_write, False)
        signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
        signal.signal(signal.SIGALRM, self._on_tick)
        for number in _STOPPING:
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._on_stop)
        for number in _PASSING:
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, lambda number, _: self._order_all(forward=int(number)))
        if signal.getsignal(signal.SIGUSR1) is not signal.SIG_IGN:
            signal.signal(signal.SIGUSR1, self._on_question)
        if signal.getsignal(signal.SIGTSTP) is signal.SIG_DFL:
            signal.signal(signal.SIGTSTP, self._on_pause)

    def start_beat(self) -> None:
        """There are hosts that must hear from us regularly."""
        signal.setitimer(signal.ITIMER_REAL, BEAT, BEAT)

    def stop(self, number: int, grace: Optional[float] = None) -> None:
        """Passes the signal on to the ranks, which are killed when the grace is over."""
        self.received.append(number)
        now = time.monotonic()
        if len(self.received) == 1:
            if self._outcome.signal is None:
                self._outcome.signal = int(number)
            self._grace = _GRACE[number] if self._grace_wanted is None else self._grace_wanted
            if grace is not None:
                self._grace = grace
            self._stopped_at, self._last_resort = now, now + self._grace + _LAST_RESORT
            self.repeat()
            self.start_beat()
        elif number == signal.SIGINT or number != self.received[0] or now - self._stopped_at > _SAME_SIGNAL:
            self._last_resort = now + _LAST_RESORT
            self._order_all(kill=True)

    def repeat(self) -> None:
        """Sends the order to stop to all agents, also to those that have been started since."""
        self._order_all(signal=int(self.received[0]), grace=self._grace)

    def announce(self) -> None:
        """Says once that the job is being stopped."""
        if self.received and not self._announced:
            self._announced = True
            count = sum(rank.code is None for rank in self._outcome.ranks)
            say(f"{signal.Signals(self.received[0]).name}: stopping {count} ranks, which are killed after {self._grace:g} s "
                "(--grace-period); once more to kill them at once")

    def take_question(self) -> bool:
        """Whether somebody has asked by SIGUSR1 how the job goes, since the last call."""
        asked, self._asked = self._asked, False
        return asked

    def _on_question(self, number: int, frame) -> None:
        """Schedulers send SIGUSR1 so that a program saves its state: ranks that wait for it get it. Others would be ended by it."""
        self._asked = True
        self._order_all(forward=int(number))

    def _on_stop(self, number: int, frame) -> None:
        self.stop(number)

    def _on_tick(self, number: int, frame) -> None:
        now = time.monotonic()
        if not any(_lives(agent) for agent in self._agents):
            self._agents_ended_at = min(self._agents_ended_at, now)
        if self.received and now >= min(self._last_resort, self._agents_ended_at + _LAST_RESORT):
            os._exit(self._outcome.exit_code() or 1)  # the guardians kill what is left when our connections close
        for agent in self._agents:
            if agent.is_remote:
                agent.order(beat=True)
                agent.order(clock=time.monotonic_ns())

    def _on_pause(self, number: int, frame) -> None:
        """Ctrl-Z: the ranks stop, and so do we; the agents must not take the silence for a cut cable."""
        self._order_all(forward=int(signal.SIGTSTP))
        self._order_all(paused=True)
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTSTP)
        signal.signal(signal.SIGTSTP, self._on_pause)
        self._order_all(paused=False)  # SIGCONT has been passed on by its own handler

    def _order_all(self, **message) -> None:
        for agent in self._agents:
            agent.order(**message)


def _lives(agent: Agent) -> bool:
    """Whether the process of the agent, or of ssh to it, goes on."""
    try:
        return bool(agent.pid) and os.waitid(os.P_PID, agent.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
    except ChildProcessError:
        return False


def busy_ranks(outcome: Outcome) -> Optional[str]:
    """A sentence about ranks that were killed although they may have been saving something, or None."""
    if outcome.signal not in (*_STOPPING,):
        return None
    killed = [rank for rank in outcome.ranks if rank.code == -signal.SIGKILL and rank.stopped_with == signal.SIGKILL]
    if not killed:
        return None
    waited = max((rank.after or 0.0) - (rank.stopped_at or 0.0) for rank in killed)
    numbers = " ".join(str(rank.place.rank) for rank in killed)
    return (f"killed while still busy, {waited:.1f} s after {signal.Signals(outcome.signal).name}: "
            f"{'rank' if len(killed) == 1 else 'ranks'} {numbers}; what they were writing may be incomplete "
            "(--grace-period SECONDS gives them longer)")
