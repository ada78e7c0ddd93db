# SPDX-License-Identifier: Apache-2.0
"""A job whose ranks may come and go: does what the membership machine decides, and says so.

Every process has a *worker* number, which its output, its fault file and the summary go by; ranks are numbered anew in each epoch.
"""

import os
import select
import time
from typing import Dict, List, Optional

from ..agents.agent import Agent, rendezvous_at
from ..membership.machine import Membership
from ..membership.orders import Begin, Bounds, Changed, End, Order, Refuse, Start
from ..on_host.frozen import PATIENCE as FROZEN_PATIENCE
from ..plan import environment
from ..plan.hosts import Host, Place
from .discovery import Discovery
from .elastic_outcome import ElasticOutcome
from .fleet import Fleet
from .job import Job
from .output import say
from .task import Task

_PATIENCE = 10.0  # seconds that members wait for another one until that is said


class ElasticJob(Job):
    """Use once. ``hosts``: where workers may run, for as long as ``discovery`` lists no others."""

    _is_elastic = True

    def __init__(self, task: Task, bounds: Bounds, hosts: List[Host], discovery: Optional[Discovery] = None) -> None:
        self._bounds, self._discovery = bounds, discovery
        self._fleet = Fleet(hosts, discovery is None)
        self._membership = Membership(bounds)
        self._agent_of: Dict[int, Agent] = {}  # by worker
        self._slot_of: Dict[int, int] = {}
        self._opened: List[Agent] = []  # where workers can be started
        self._name = os.urandom(8).hex()
        self._is_stopping = False
        self._stopped_since = None  # when the members of the epoch began to wait for the next one
        self._look_at = None  # when it is said for whom they wait
        super().__init__(task)

    def _new_outcome(self) -> ElasticOutcome:
        return ElasticOutcome()

    # ---- hosts

    def _new_agents(self) -> List[Agent]:
        return self._fleet.new_agents(time.monotonic(), self._bounds.most)

    def _most_ranks(self, agent: Agent) -> int:
        return self._fleet.most_ranks(agent)

    def _has_several_hosts(self) -> bool:
        return super()._has_several_hosts() or self._discovery is not None

    def _start_ranks(self) -> None:
        """Every host is ready; the machine says which workers to start."""
        self._started, self._give_up_at = True, None
        for agent in self._agents:
            if not agent.finished:
                self._open(agent)
        if self._discovery is not None:
            self._poll.register(self._discovery.descriptor, select.EPOLLIN)
        self._obey(self._membership.found(time.monotonic(), self._fleet.slots()))

    def _open(self, agent: Agent) -> None:
        """Workers can be started there from now on."""
        self._opened.append(agent)
        folder = agent.facts["folder"] if agent.is_remote else self._task.folder
        variables = environment.of_agent(self._task, agent, max(1, self._most_ranks(agent)), None)
        variables["HOROVOD_MEMBERSHIP"] = os.path.join(folder, "members")
        self._order_start(agent, variables, [], False)

    def _is_awaited(self, agent: Agent) -> bool:
        return super()._is_awaited(agent) and not (self._discovery is not None and agent.finished)

    def _be_ready(self, agent: Agent, facts: dict) -> None:
        super()._be_ready(agent, facts)
        if self._started and agent not in self._opened and not self._membership.over:
            self._open(agent)
            self._obey(self._membership.found(time.monotonic(), self._fleet.slots()))

    def _handle(self, ready: List[int]) -> None:
        if self._discovery is not None and self._discovery.descriptor in ready and self._discovery.handle():
            self._fleet.offer(self._discovery.hosts)
            self._reach_hosts()
        super()._handle(ready)
        if self._signals.received and not self._is_stopping:
            self._is_stopping = True
            self._obey(self._membership.stopping())

    def _reach_hosts(self) -> None:
        """Goes by the list that the script has given."""
        now = time.monotonic()
        for agent in self._fleet.new_agents(now, self._bounds.most + self._membership.resting(now)):
            self._agents.append(agent)
            self._start_agent(agent)
            if not agent.is_remote:
                self._open(agent)
        self._obey(self._membership.found(now, self._fleet.slots()))

    def _fail_start(self, agent: Agent, why: str) -> None:
        """A host of those that a script lists may fail; the others do."""
        others = [other for other in self._agents if other is not agent and not other.finished]
        if self._discovery is None or not others:
            super()._fail_start(agent, why)
            return
        agent.failure = why
        self._finish(agent)
        self._be_lost(agent, why)
        if self._give_up_at is not None and all(other.facts is not None for other in others):
            self._all_are_ready(others[-1])

    def _give_up_start(self) -> None:
        late = [agent for agent in self._agents if agent.facts is None and not agent.finished]
        if self._discovery is None or self._signals.received or len(late) == len(self._agents):
            super()._give_up_start()
            return
        for agent in late:
            self._lose(agent, f"did not get ready within {self._task.start_timeout:g} s (--start-timeout)")

    def _be_lost(self, agent: Agent, why: str) -> None:
        """A host has gone, and its workers with it; the others go on."""
        now = time.monotonic()
        pause = self._fleet.lose(now, agent)
        lost = self._outcome.lose_host([place.rank for place in agent.places])
        if lost or pause is not None or self._discovery is None:
            how = "was lost" if lost or agent.facts is not None else "cannot be used"
            rest = "; what ran there is stopped there" if lost else ""
            rest += "" if pause is None else f"; it is tried again in {pause:g} s"
            say(f'host "{agent.name}" {how}: {why}{rest}')
        if not self._started:
            return
        orders = self._membership.found(now, self._fleet.slots())
        for worker in lost:
            self._tell_lost(now, worker)
            orders += self._membership.ended(now, worker, True)
        self._obey(orders)

    def _has_ended(self) -> bool:
        hopes = self._discovery is not None and self._started and not self._membership.over and not self._outcome.ends_already()
        return super()._has_ended() and not hopes

    def _end(self) -> None:
        if self._discovery is not None:
            self._discovery.stop()
        super()._end()

    # ---- what the machine decides

    def _obey(self, orders: List[Order]) -> None:
        if self._outcome.failed or self._outcome.ends_already():
            self._membership.over = True  # nobody comes any more
            self._end_hosts()
            orders = [order for order in orders if isinstance(order, (Changed, Refuse))]
        for order in orders:
            if isinstance(order, Start):
                self._start_worker(order)
            elif isinstance(order, Begin):
                self._begin(order)
            elif isinstance(order, Changed):
                self._tell_workers({worker: f"changed {order.flags}" for worker in order.workers})
            elif isinstance(order, Refuse):
                self._tell_workers({order.worker: f"{'expel' if order.expelled else 'refuse'} {order.why}"})
            elif isinstance(order, End):
                self._outcome.give_up(order.why, order.blamed)
                self._order_all(stop=True)
        if not self._membership.over:
            wakes = [self._membership.deadline, self._look_at, self._discovery and self._discovery.wake_at]
            self._wake_at = min((when for when in wakes if when is not None), default=None)
            return
        self._end_hosts()
        if not self._outcome.failed and not self._outcome.ends_already():
            self._order_all(no_more=True)
            if self._outcome.living():
                self._order_all(stop=True)  # workers that have waited for a place

    def _end_hosts(self) -> None:
        """The job ends: no host waits for workers any more, and none is looked for."""
        self._wake_at = None
        for agent in self._agents:
            if agent not in self._opened and not agent.finished:
                agent.order(kill=True)
                self._finish(agent)  # closing the connection ends what is there

    def _tick(self) -> None:
        now = time.monotonic()
        if self._look_at is not None and now >= self._look_at:
            self._look_at = None
            missing = " ".join(map(str, self._membership.missing()))
            if missing:
                say(f"the other ranks have waited {_PATIENCE:g} s for worker {missing}, which has not come to its next operation or commit")
        if self._discovery is not None:
            self._discovery.tick()
        self._obey(self._membership.tick(now))

    def _start_worker(self, order: Start) -> None:
        agent = self._fleet.agent_at(order.host)
        place = Place(order.worker, order.worker + 1, order.slot, order.slot + 1, 0, 1, order.host)
        self._agent_of[order.worker], self._slot_of[order.worker] = agent, order.slot
        agent.places.append(place)
        self._outcome.add(place)
        self._streams.expect(place)
        result = f"result.{order.worker}" if self._task.run_folder else None
        agent.order(more=[{"rank": order.worker, "environment": environment.of_worker(place), "result": result}])

    def _begin(self, order: Begin) -> None:
        url = self._rendezvous(order)
        size = len(order.members)
        sets = "".join(f" {number}:{','.join(map(str, ranks))}" for number, ranks in order.sets)
        rest = f"{size} {int(order.synchronize)} {url} {order.next_set_id}{sets}"
        self._tell_workers({worker: f"begin {order.epoch} {rank} {rest}" for rank, worker in enumerate(order.members)})
        self._outcome.begin(order.members)
        if order.epoch > 1:
            still = "" if self._stopped_since is None else f"; {time.monotonic() - self._stopped_since:.3f} s from the first sign to the new ranks"
            say(f"{self._outcome.news()}; {size} {'rank goes' if size == 1 else 'ranks go'} on{still}")
        self._stopped_since = self._look_at = None

    def _rendezvous(self, order: Begin) -> str:
        """Where the members of the epoch meet: at its rank 0's host, or in a folder if all are here."""
        first = self._agent_of[order.members[0]]
        if not first.is_remote and all(self._agent_of[worker] is first for worker in order.members):
            path = os.path.join(self._task.folder, f"epoch.{order.epoch}")
            os.mkdir(path, 0o700)
            return f"file://{path}"
        ports = max(1, len(first.facts["ports"]) - 1)
        return rendezvous_at(first, self._slot_of[order.members[0]] % ports, f"{self._name}.{order.epoch}")

    def _tell_workers(self, lines: Dict[int, str]) -> None:
        for agent in self._agents:
            own = [[worker, line] for worker, line in lines.items() if self._agent_of[worker] is agent]
            if own:
                agent.order(tell=own)

    # ---- what agents say

    def _note(self, agent: Agent, event: dict) -> None:
        super()._note(agent, event)
        now = time.monotonic()
        if "frozen" in event:
            self._expel(now, event["frozen"], event["seconds"])
        elif "said" in event:
            self._hear(now, event["said"].split())
        elif "exited" in event:
            self._tell_lost(now, event["exited"])
            self._obey(self._membership.ended(now, event["exited"], event["code"] != 0))

    def _expel(self, now: float, worker: int, seconds: float) -> None:
        """The worker has been stopped by a signal; nothing but this tells the other members."""
        where = self._outcome.ranks[worker].place.host
        say(f"worker {worker} on {where} has been stopped by a signal for {seconds:g} s (HOROVOD_PEER_TIMEOUT): the others go on without "
            f"it, and it is killed if it does not go on within {FROZEN_PATIENCE:g} s")
        self._outcome.expel(worker, seconds)
        self._stand_still(now, worker)
        members = self._membership.members
        if worker in members:
            line = f"expelled {members.index(worker)} was stopped by a signal for {seconds:g} s, and the launcher has expelled it"
            self._tell_workers(dict.fromkeys(members, line))  # the worker hears that when it goes on
        self._obey(self._membership.expelled(now, worker))

    def _tell_lost(self, now: float, worker: int) -> None:
        """Members that are about to meet the worker wait for it no more."""
        self._stand_still(now, worker)
        members = self._membership.members
        if worker in members:
            self._tell_workers({other: f"lost {worker}" for other in members if other != worker})

    def _hear(self, now: float, words: List[str]) -> None:
        worker = int(words[1])
        if words[0] == "ask":
            self._stand_still(now, worker)
            self._obey(self._membership.asked(now, worker, int(words[2])))
        elif words[0] == "leave":
            self._obey(self._membership.leaving(now, worker))
        elif words[0] in ("set", "unset"):
            ranks = [int(rank) for rank in words[3].split(",")] if words[0] == "set" else []
            self._membership.set_changed(worker, int(words[2]), ranks)

    def _stand_still(self, now: float, worker: int) -> None:
        if self._stopped_since is None and worker in self._membership.members:
            self._stopped_since, self._look_at = now, now + _PATIENCE
