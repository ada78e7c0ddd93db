# SPDX-License-Identifier: Apache-2.0
"""Looks at all ranks of a job: asks the agents of all hosts, and puts their answers together."""

import os
import time
from typing import Callable, Dict, List, Optional, Set, Union

from ..agents.agent import Agent
from .outcome import Outcome
from .output import say

Answer = Dict
# An agent answers a look without stacks in less than a second, and gives a look with stacks up after 20 s.
_LIMIT, _LIMIT_WITH_STACKS = 5.0, 22.0


class _Look:
    def __init__(self, agents: List[Agent], deadline: float, done: Callable[[Answer], None]) -> None:
        self.agents, self.waiting, self.deadline, self.done = agents, set(agents), deadline, done
        self.facts: Dict[Agent, Optional[list]] = {}


class Looks:
    """Any number may go on at a time."""

    def __init__(self, agents: List[Agent], outcome: Outcome, command: List[str]) -> None:
        self._agents, self._outcome, self._command = agents, outcome, command
        self._began = time.monotonic()
        self._open: Dict[int, _Look] = {}
        self._next = 1

    def begin(self, stacks: Union[bool, List[int]], done: Callable[[Answer], None]) -> None:
        """Calls ``done(answer)`` once everybody has answered or the time is over. ``stacks``: of all ranks, of none, or of these."""
        agents = [agent for agent in self._agents if not agent.finished]
        number, self._next = self._next, self._next + 1
        limit = _LIMIT_WITH_STACKS if stacks else _LIMIT
        self._open[number] = _Look(agents, time.monotonic() + limit, done)
        for agent in agents:
            agent.order(look=number, stacks=stacks)
        self._end_if_complete(number)

    def note(self, agent: Agent, event: Dict) -> None:
        """An agent has answered."""
        look = self._open.get(event["looked"])
        if look is not None:
            look.facts[agent] = event["ranks"]
            look.waiting.discard(agent)
            self._end_if_complete(event["looked"])

    def tick(self, now: float) -> Optional[float]:
        """Ends what takes too long; returns when that will be for the next one."""
        if not self._open:
            return None
        gone = {agent for agent in self._agents if agent.finished}
        for number, look in list(self._open.items()):
            look.waiting -= gone if now < look.deadline else set(look.waiting)
            self._end_if_complete(number)
        return min((look.deadline for look in self._open.values()), default=None)

    def _end_if_complete(self, number: int) -> None:
        look = self._open[number]
        if not look.waiting:
            del self._open[number]
            try:
                look.done(self._answer(look))
            except Exception as error:  # a mistake in a report must not end the job that the report is about
                say(f"what the ranks do cannot be told: {type(error).__name__}: {error}")

    def _answer(self, look: _Look) -> Answer:
        ended: Set[int] = {rank.place.rank for rank in self._outcome.ranks if rank.code is not None}
        hosts = []
        for agent in look.agents:
            facts = look.facts.get(agent)
            if facts is not None:
                facts = [{**row, "label": self._outcome.label(row["rank"])} for row in facts if row["rank"] not in ended]
            if facts is not None or not agent.finished:
                hosts.append({"host": agent.name, "ranks": self._by_name(facts)})
        job = {"pid": os.getpid(), "command": self._command, "seconds": time.monotonic() - self._began,
               "ranks": len(self._outcome.ranks) - len(ended)}
        return {"job": job, "hosts": hosts, "ended": self._ended()}

    def _by_name(self, facts: Optional[list]) -> Optional[list]:
        """Each with the name of the host that the user has given: a machine may have several."""
        return facts and [{**row, "host": self._outcome.ranks[row["rank"]].place.host} for row in facts]

    def _ended(self) -> List[str]:
        from ..view import words
        from .summary import describe_end

        groups: Dict[str, List[int]] = {}
        for rank in self._outcome.ranks:
            if rank.code is not None:
                groups.setdefault(describe_end(rank.code), []).append(rank.place.rank)
        noun = self._outcome.noun
        return [f"{words.ranks(numbers, noun)} {how}" for how, numbers in groups.items()]
