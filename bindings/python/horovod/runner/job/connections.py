# SPDX-License-Identifier: Apache-2.0
"""The descriptors of a job's agents in the loop of the job: what comes from them, and what waits to go out to them."""

import select
from typing import Dict, List, Optional

from ..agents.agent import Agent


class Connections:
    """``poll`` is the loop's."""

    def __init__(self, poll) -> None:
        self._poll = poll
        self._by_descriptor: Dict[int, Agent] = {}

    def watch(self, agent: Agent, descriptor: int) -> None:
        """The loop wakes when something comes there."""
        self._by_descriptor[descriptor] = agent
        self._poll.register(descriptor, select.EPOLLIN)

    def unwatch(self, descriptor: int) -> None:
        if self._by_descriptor.pop(descriptor, None) is not None:
            self._poll.unregister(descriptor)

    def unwatch_all_of(self, agent: Agent) -> None:
        """The agent has said what there was to say."""
        self.unwatch(agent.channel.reader)
        if agent.is_remote:
            if agent.writing:
                self._poll.unregister(agent.channel.writer)
            self.unwatch(agent.errors)

    def agent_of(self, descriptor: int) -> Optional[Agent]:
        return self._by_descriptor.get(descriptor)

    def send_rest(self, agents: List[Agent]) -> None:
        """Sends what waits, and has the loop wake for what is left."""
        for agent in agents:
            if agent.finished:
                continue
            agent.channel.flush()
            wanted, writer = agent.channel.pending > 0, agent.channel.writer
            if wanted != agent.writing:
                agent.writing = wanted
                if writer == agent.channel.reader:
                    self._poll.modify(writer, select.EPOLLIN | (select.EPOLLOUT if wanted else 0))
                elif wanted:
                    self._poll.register(writer, select.EPOLLOUT)
                else:
                    self._poll.unregister(writer)
