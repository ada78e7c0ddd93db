# SPDX-License-Identifier: Apache-2.0
"""How a job went: what the launcher learns about every rank and every host."""

from typing import List, Optional, Tuple

from ..plan.hosts import Place


class Rank:
    """What is known about one rank."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.pid: Optional[int] = None
        self.code: Optional[int] = None  # negative: minus the signal that killed it
        self.after: Optional[float] = None  # seconds from the start of the job to its end
        self.stopped_with: Optional[int] = None  # the signal that horovodrun sent before it ended
        self.stderr_tail: List[str] = []


class Outcome:
    """How the job went."""

    def __init__(self, places: List[Place]) -> None:
        self.ranks = [Rank(place) for place in places]
        self.order: List[int] = []  # ranks in the order in which they ended
        self.first_failure: Optional[int] = None
        self.not_ready: List[Tuple[str, str]] = []  # hosts where nothing could be started, and why
        self.not_started: Optional[tuple] = None  # rank, errno, text
        self.signal: Optional[int] = None  # that stopped the job from outside
        self.guardian_lost = False
        self.lost_hosts: List[Tuple[str, str]] = []  # hosts that went away during the job, and how
        self.left_behind: List[tuple] = []  # (pid, name, host) of processes that outlived the ranks
        self.unkillable: List[int] = []

    def exit_code(self) -> int:
        """What horovodrun returns: the code of the rank that failed first, 128 + signal for a death by signal."""
        if self.first_failure is not None:
            code = self.ranks[self.first_failure].code or 0
            return code if code > 0 else 128 - code
        if self.signal is not None:
            return 128 + self.signal
        if self.not_started is not None:
            return 127 if self.not_started[1] == 2 else 126
        return 1 if self.guardian_lost or self.unkillable or self.not_ready or self.lost_hosts else 0

    def ends_already(self) -> bool:
        """True when a rank that fails now is no news."""
        return self.signal is not None or self.not_started is not None or bool(self.lost_hosts)

    def note(self, host: Optional[str], event: dict) -> bool:
        """One message of an agent, see agents/agent.py; `host` is None for this machine. True if the other hosts must stop now."""
        if "started" in event:
            self.ranks[event["started"]].pid = event["pid"]
        elif "exited" in event:
            rank = self.ranks[event["exited"]]
            rank.code, rank.after = event["code"], event["after"]
            self.order.append(event["exited"])
            if rank.code != 0 and self.first_failure is None and not self.ends_already():
                self.first_failure = event["exited"]
                return True
        elif "stopping" in event:
            for number in event["stopping"]:
                self.ranks[number].stopped_with = event["signal"]
        elif "not_started" in event:
            if self.not_started is None:
                self.not_started = (event["not_started"], event["errno"], event["text"])
                return True
        elif "left_behind" in event:
            self.left_behind += [(pid, name, host) for pid, name in event["left_behind"]]
        elif "done" in event:
            self.unkillable += event["unkillable"]
        return False
