# SPDX-License-Identifier: Apache-2.0
"""Everything that tells how a running job goes: answers to horovodrun status and stacks, to SIGUSR1, and reports of stalls."""

import time
from typing import Dict, List, Optional

from ..agents.agent import Agent
from .clocks import Clocks
from .desk import Desk
from .looks import Answer, Looks
from .outcome import Outcome
from .output import say
from .stalls import Stalls


class Insight:
    """Part of a Job, whose loop calls it."""

    def __init__(self, poll, agents: List[Agent], outcome: Outcome, command: List[str]) -> None:
        self._looks = Looks(agents, outcome, command)
        self._desk = Desk(poll, self._looks.begin)
        self._stalls = Stalls(self._looks.begin, outcome.number_of, say)
        self.clocks = Clocks()
        self.deadline: Optional[float] = None  # when tick() is due

    def __contains__(self, descriptor: int) -> bool:
        return descriptor in self._desk

    def handle(self, descriptor: int) -> None:
        self._desk.handle(descriptor)

    def note(self, agent: Agent, event: Dict) -> None:
        """A message of an agent; most are not for this."""
        if "looked" in event:
            self._looks.note(agent, event)
        elif "stalled" in event:
            self._stalls.note(event, time.monotonic())
        elif "clock" in event:
            self.clocks.note(agent, event["clock"], event["at"])

    def tick(self) -> None:
        """Ends what takes too long."""
        now = time.monotonic()
        limits = [self._looks.tick(now), self._desk.tick(now)]
        self.deadline = min((limit for limit in limits if limit is not None), default=None)

    def print(self) -> None:
        """Writes everything on stderr, once it is known."""
        self._looks.begin(True, _say_all)

    def close(self) -> None:
        self._desk.close()


def _say_all(answer: Answer) -> None:
    from ..view import stacks, table

    say("\n".join(table.screen(answer) + stacks.listing(answer)))
