# SPDX-License-Identifier: Apache-2.0
"""A job whose ranks may come and go: does what the membership machine decides, and says so.

Every process has a *worker* number, which its output, its fault file and the summary go by; ranks are numbered anew in each epoch.
"""

import os
import time
from typing import Dict, List

from ..agents.agent import Agent, rendezvous_at
from ..membership.machine import Membership
from ..membership.orders import Begin, Bounds, Changed, End, Order, Refuse, Start
from ..plan import environment
from ..plan.hosts import Host, Place, is_local
from .elastic_outcome import ElasticOutcome
from .job import Job
from .output import say
from .task import Task

_PATIENCE = 10.0  # seconds that members wait for another one until that is said


class ElasticJob(Job):
    """Use once. ``hosts``: where workers may run."""

    _is_elastic = True

    def __init__(self, task: Task, bounds: Bounds, hosts: List[Host]) -> None:
        self._hosts = hosts
        self._membership = Membership(bounds)
        self._agent_of: Dict[int, Agent] = {}  # by worker
        self._slot_of: Dict[int, int] = {}
        self._name = os.urandom(8).hex()
        self._stopped_since = None  # when the members of the epoch began to wait for the next one
        self._look_at = None  # when it is said for whom they wait
        super().__init__(task)

    def _new_outcome(self) -> ElasticOutcome:
        return ElasticOutcome()

    def _new_agents(self) -> List[Agent]:
        agents: Dict[object, Agent] = {}
        for host in self._hosts:
            agents.setdefault(None if is_local(host.name) else host.name, Agent(host.name, not is_local(host.name), []))
        self._agent_at = {host.name: agents[None if is_local(host.name) else host.name] for host in self._hosts}
        return list(agents.values())

    def _most_ranks(self, agent: Agent) -> int:
        return sum(host.slots for host in self._hosts if self._agent_at[host.name] is agent)

    def _start_ranks(self) -> None:
        """Every host is ready; the machine says which workers to start."""
        self._started, self._give_up_at = True, None
        for agent in self._agents:
            folder = agent.facts["folder"] if agent.is_remote else self._task.folder
            variables = environment.of_agent(self._task, agent, self._most_ranks(agent), None)
            variables["HOROVOD_MEMBERSHIP"] = os.path.join(folder, "members")
            self._order_start(agent, variables, [], False)
        self._obey(self._membership.found(time.monotonic(), self._slots()))

    # ---- what the machine decides

    def _obey(self, orders: List[Order]) -> None:
        if self._outcome.failed or self._outcome.ends_already():
            self._membership.over, self._wake_at = True, None
            return  # the job ends: nobody comes any more
        for order in orders:
            if isinstance(order, Start):
                self._start_worker(order)
            elif isinstance(order, Begin):
                self._begin(order)
            elif isinstance(order, Changed):
                self._tell({worker: f"changed {order.flags}" for worker in order.workers})
            elif isinstance(order, Refuse):
                self._tell({order.worker: f"refuse {order.why}"})
            elif isinstance(order, End):
                self._outcome.give_up(order.why, order.blamed)
                self._order_all(stop=True)
        if not self._membership.over:
            wakes = [self._membership.deadline, self._look_at]
            self._wake_at = min((when for when in wakes if when is not None), default=None)
            return
        self._wake_at = None
        if not self._outcome.failed:
            self._order_all(no_more=True)
            if self._outcome.living():
                self._order_all(stop=True)  # workers that have waited for a place

    def _tick(self) -> None:
        now = time.monotonic()
        if self._look_at is not None and now >= self._look_at:
            self._look_at = None
            missing = " ".join(map(str, self._membership.missing()))
            if missing:
                say(f"the other ranks have waited {_PATIENCE:g} s for worker {missing}, which has not come to its next operation or commit")
        self._obey(self._membership.tick(now))

    def _start_worker(self, order: Start) -> None:
        agent = self._agent_at[order.host]
        place = Place(order.worker, order.worker + 1, order.slot, order.slot + 1, 0, 1, order.host)
        self._agent_of[order.worker], self._slot_of[order.worker] = agent, order.slot
        agent.places.append(place)
        self._outcome.add(place)
        self._streams.expect(place)
        agent.order(more=[{"rank": order.worker, "environment": environment.of_worker(place)}])

    def _begin(self, order: Begin) -> None:
        url = self._rendezvous(order)
        size = len(order.members)
        self._tell({worker: f"begin {order.epoch} {rank} {size} {int(order.synchronize)} {url}" for rank, worker in enumerate(order.members)})
        self._outcome.begin(order.members)
        if order.epoch > 1:
            still = "" if self._stopped_since is None else f"; {time.monotonic() - self._stopped_since:.3f} s from the first sign to the new ranks"
            say(f"{self._outcome.news()}; {size} {'rank goes' if size == 1 else 'ranks go'} on{still}")
        self._stopped_since = self._look_at = None

    def _rendezvous(self, order: Begin) -> str:
        """Where the members of the epoch meet: at its rank 0's host, or in a folder if all are here."""
        if len(self._agents) == 1 and not self._agents[0].is_remote:
            path = os.path.join(self._task.folder, f"epoch.{order.epoch}")
            os.mkdir(path, 0o700)
            return f"file://{path}"
        first = order.members[0]
        return rendezvous_at(self._agent_of[first], self._slot_of[first], f"{self._name}.{order.epoch}")

    def _tell(self, lines: Dict[int, str]) -> None:
        for agent in self._agents:
            own = [[worker, line] for worker, line in lines.items() if self._agent_of[worker] is agent]
            if own:
                agent.order(tell=own)

    def _be_lost(self, agent: Agent, why: str) -> None:
        """A host has gone, and its workers with it; the others go on."""
        say(f'host "{agent.name}" was lost: {why}; what ran there is stopped there')
        self._hosts = [host for host in self._hosts if self._agent_at[host.name] is not agent]
        now = time.monotonic()
        orders = self._membership.found(now, self._slots())
        for worker in self._outcome.lose_host([place.rank for place in agent.places]):
            self._tell_lost(now, worker)
            orders += self._membership.ended(now, worker, True)
        self._obey(orders)

    def _slots(self) -> Dict[str, int]:
        return {host.name: host.slots for host in self._hosts}

    # ---- what agents say

    def _note(self, agent: Agent, event: dict) -> None:
        super()._note(agent, event)
        now = time.monotonic()
        if "said" in event:
            self._hear(now, event["said"].split())
        elif "exited" in event:
            self._tell_lost(now, event["exited"])
            self._obey(self._membership.ended(now, event["exited"], event["code"] != 0))

    def _tell_lost(self, now: float, worker: int) -> None:
        """Members that are about to meet the worker wait for it no more."""
        self._stand_still(now, worker)
        members = self._membership.members
        if worker in members:
            self._tell({other: f"lost {worker}" for other in members if other != worker})

    def _hear(self, now: float, words: List[str]) -> None:
        worker = int(words[1])
        if words[0] == "ask":
            self._stand_still(now, worker)
            self._obey(self._membership.asked(now, worker, int(words[2])))
        elif words[0] == "leave":
            self._obey(self._membership.leaving(now, worker))

    def _stand_still(self, now: float, worker: int) -> None:
        if self._stopped_since is None and worker in self._membership.members:
            self._stopped_since, self._look_at = now, now + _PATIENCE
