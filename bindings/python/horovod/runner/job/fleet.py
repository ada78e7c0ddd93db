# SPDX-License-Identifier: Apache-2.0
"""The hosts of an elastic job, and the agent through which each is reached."""

from typing import Dict, Iterable, List, Optional

from ..agents.agent import Agent
from ..plan.hosts import Host, is_local

_FIRST_PAUSE, _LONGEST_PAUSE = 10.0, 600.0  # seconds until a listed host that was lost is tried again


class Fleet:
    """Names of this machine share one agent, as each other host has one.

    ``fixed``: the hosts are all there will ever be, all of them are used, and a host that is lost is not tried again. Otherwise lists
    follow each other, and only as many hosts are used, in the order of the list, as the job needs.
    """

    def __init__(self, listed: Iterable[Host], fixed: bool) -> None:
        self._listed: List[Host] = list(listed)
        self._fixed = fixed
        self._keys: Dict[str, Optional[str]] = {}  # by name
        self._agents: Dict[Optional[str], Agent] = {}
        self._losses: Dict[Optional[str], int] = {}
        self._not_before: Dict[Optional[str], float] = {}

    def offer(self, listed: Iterable[Host]) -> None:
        """These hosts are there now."""
        self._listed = list(listed)

    def new_agents(self, now: float, wanted: int) -> List[Agent]:
        """Agents to start, so that so many slots can be used."""
        made, reached = [], 0
        for host in self._listed:
            key = self._key(host.name)
            if key not in self._agents:
                if (reached >= wanted and not self._fixed) or self._not_before.get(key, now) > now:
                    continue
                self._agents[key] = Agent(host.name, key is not None, [])
                made.append(self._agents[key])
            reached += host.slots
        return made

    def agent_at(self, name: str) -> Agent:
        """The agent of a host that is in use."""
        return self._agents[self._key(name)]

    def most_ranks(self, agent: Agent) -> int:
        """How many ranks may run there."""
        return sum(host.slots for host in self._listed if self._agents.get(self._key(host.name)) is agent)

    def slots(self) -> Dict[str, int]:
        """The slots of the listed hosts that are ready, by name."""
        return {host.name: host.slots for host in self._listed if self._is_ready(self._agents.get(self._key(host.name)))}

    def lose(self, now: float, agent: Agent) -> Optional[float]:
        """The host is out of reach: seconds until it is tried again, None if it will not be."""
        key = None if not agent.is_remote else agent.name
        self._agents.pop(key, None)
        if self._fixed:
            self._listed = [host for host in self._listed if self._key(host.name) != key]
        if all(self._key(host.name) != key for host in self._listed):
            return None
        losses = self._losses[key] = self._losses.get(key, 0) + 1
        pause = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** min(losses - 1, 10))
        self._not_before[key] = now + pause
        return pause

    def _key(self, name: str) -> Optional[str]:
        if name not in self._keys:
            self._keys[name] = None if is_local(name) else name
        return self._keys[name]

    @staticmethod
    def _is_ready(agent: Optional[Agent]) -> bool:
        # Orders for this machine's agent wait in its socket until it is ready.
        return agent is not None and not agent.finished and (agent.facts is not None or not agent.is_remote)
