# SPDX-License-Identifier: Apache-2.0
"""How the clocks of other hosts differ from ours: measured with questions to their agents, of which the fastest answers say most."""

import time
from typing import Dict, List, Tuple

from ..agents.agent import Agent

_KEPT = 16  # measurements of a host, so that a clock that runs faster is followed


class Clocks:
    """Nanoseconds of CLOCK_MONOTONIC."""

    def __init__(self) -> None:
        self._measured: Dict[Agent, List[Tuple[int, int]]] = {}  # (longest error, how far their clock is ahead of ours)

    def note(self, agent: Agent, asked: int, at: int) -> None:
        """An agent has answered ``at`` what was asked at ``asked``."""
        now = time.monotonic_ns()
        found = self._measured.setdefault(agent, [])
        found.append(((now - asked) // 2 + 1, at - (asked + now) // 2))
        del found[:-_KEPT]

    def ahead(self, agent: Agent) -> Tuple[int, int]:
        """How far the clock of a host is ahead of ours, and how wrong that may be at most; -1 if nobody knows."""
        if not agent.is_remote:
            return 0, 0
        error, ahead = min(self._measured.get(agent, [(-1, 0)]))
        return ahead, error
