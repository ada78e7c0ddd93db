# SPDX-License-Identifier: Apache-2.0
"""One job, seen from horovodrun: starts an agent on every host, forwards output and signals, collects how ranks ended."""

import os
import select
import signal
import time
from typing import Dict, List, Optional, Tuple

from .. import on_host
from ..agents import remote
from ..agents.agent import (LONGEST_SILENCE, Agent, agents_for, end_ssh, master_place, missing_interfaces, parts_file,
                            rendezvous_place)
from ..on_host import frames, processes
from ..plan import environment
from . import record_files
from .connections import Connections
from .insight import Insight
from .outcome import Outcome
from .output import say
from .signals import GRACE_AFTER_CALLER, Signals
from .streams import Streams, raise_file_limit
from .task import Task

_WAIT_FOR_OUTPUT = 1.0
# How long other hosts may take to say what is wrong with them once one has failed.
_WAIT_FOR_MORE_FAULTS = 5.0
_MOST_PORTS = 64  # reserved on a host: each is an open file of its guardian for as long as the job runs


class Job:
    """Runs a task on its hosts. Use once."""

    _is_elastic = False

    def __init__(self, task: Task) -> None:
        self._task = task
        self._outcome = self._new_outcome()
        self._agents = self._new_agents()
        self._streams = Streams(task.output_folder, task.timestamp, self._output_gone)
        self._local_pipes: List[int] = []
        self._file_limit: Optional[List[int]] = None
        self._program = b""  # of agents elsewhere
        self._started = False
        self._give_up_at: Optional[float] = None
        self._wake_at: Optional[float] = None  # when `_tick` is due
        self._signals = Signals(self._outcome, self._agents, task.grace)

    def _new_outcome(self) -> Outcome:
        return Outcome(self._task.places)

    def _new_agents(self) -> List[Agent]:
        return agents_for(self._task.places)

    def run(self) -> Outcome:
        """Starts the ranks and returns when all of them, and everything they started, have ended."""
        processes.adopt_orphans()
        self._poll = select.epoll()
        self._connections = Connections(self._poll)
        self._insight = Insight(self._poll, self._agents, self._outcome, self._task.command)
        self._signals.install()
        self._poll.register(self._signals.wake, select.EPOLLIN)
        if self._task.parent_pipe is not None:
            self._poll.register(self._task.parent_pipe, select.EPOLLIN)
        try:
            self._start_agents()
            self._loop()
        finally:
            self._end()
        return self._outcome

    # ---- start

    def _start_agents(self) -> None:
        self._file_limit = raise_file_limit(len(self._task.places), len(self._agents))
        self._give_up_at = time.monotonic() + self._task.start_timeout
        for agent in self._agents:
            self._start_agent(agent)
        if len(self._agents) == 1 and not self._agents[0].is_remote:
            self._start_ranks()  # nothing to agree on with others
        if self._signals.received:
            self._signals.repeat()

    def _start_agent(self, agent: Agent) -> None:
        if agent.is_remote:
            if not self._program:
                self._program = remote.bundle(on_host.files(on_host.AGENT), "keeper")
                self._signals.start_beat()
            agent.start_there(self._task.ssh, self._program)
            self._connections.watch(agent, agent.errors)
        else:
            agent.start_here(self._pipes_of(agent))
        agent.heard = time.monotonic()
        self._connections.watch(agent, agent.channel.reader)
        self._prepare(agent)

    def _has_several_hosts(self) -> bool:
        """Whether ranks may have to meet over the network."""
        return len(self._agents) > 1

    def _prepare(self, agent: Agent) -> None:
        task = self._task
        ports = min(self._most_ranks(agent), _MOST_PORTS) if self._has_several_hosts() else 0
        ports += self._has_several_hosts() or agent.is_remote  # see master_place
        order = {"folder": None if agent.is_remote else task.folder, "cwd": os.getcwd(), "interfaces": task.interfaces,
                 "reserve": ports, "first": agent is self._agents[0], "elastic": self._is_elastic}
        if agent.is_remote:
            order["secret"] = task.secret
        agent.order(prepare=order)
        if agent.is_remote and task.run_folder:
            for piece in frames.file_pieces(os.path.join(task.run_folder, "function")):
                agent.channel.send_file("function", piece)

    def _most_ranks(self, agent: Agent) -> int:
        """How many ranks a host may have."""
        return len(agent.places)

    def _pipes_of(self, agent: Agent) -> List[int]:
        """Pipes for the ranks of this machine; the ends to write to, two for each rank."""
        for place in agent.places:
            readers, writers = self._streams.pipes(place)
            self._local_pipes += writers
            for reader in readers:
                self._poll.register(reader, select.EPOLLIN)
        return self._local_pipes

    def _start_ranks(self) -> None:
        """Every host is ready: tells each what to start."""
        self._started, self._give_up_at = True, None
        task = self._task
        rendezvous = rendezvous_place(self._agents)
        master = environment.of_master(os.environ, *master_place(self._agents))
        parts = parts_file(rendezvous, self._agents) if rendezvous else b""
        for agent in self._agents:
            ranks = [{"rank": place.rank, "environment": environment.of_rank(place)} for place in agent.places]
            if parts:
                agent.hand_over(environment.PARTS, parts, task.folder)
            if agent.is_remote:
                for place in agent.places:
                    self._streams.expect(place)
            else:
                for number, rank in enumerate(ranks):
                    rank["stdout"], rank["stderr"] = self._local_pipes[2 * number : 2 * number + 2]
            self._order_start(agent, {**environment.of_agent(task, agent, self._most_ranks(agent), rendezvous), **master}, ranks, rendezvous is None)

    def _order_start(self, agent: Agent, variables: Dict[str, str], ranks: List[dict], meet_here: bool) -> None:
        """Tells a host to start these ranks. They meet in a folder there, or where `variables` say."""
        task = self._task
        if task.verbose:
            listed = " ".join(f"{name}={value}" for name, value in sorted(variables.items()))
            say(f'environment of the ranks on "{agent.name}": {listed}')
        if agent.is_remote:
            variables = {**environment.forwarded(os.environ), **variables}
        agent.order(start={
            "command": task.command, "environment": variables, "without": environment.of_another_job(os.environ), "ranks": ranks,
            "cwd": os.getcwd(), "file_limit": None if agent.is_remote else self._file_limit, "meet_here": meet_here,
            "results": [f"result.{place.rank}" for place in agent.places] if task.run_folder else [],
            "records": task.output_folder is not None,
        })

    # ---- run

    def _loop(self) -> None:
        give_up = None
        while self._streams or not self._has_ended():
            now = time.monotonic()
            held = self._streams.tick(now)
            limits = [limit - now for limit in (give_up, held, self._give_up_at, self._wake_at, self._insight.deadline) if limit is not None]
            ready = self._poll.poll(max(0.0, min(limits)) if limits else -1)
            polled_at = time.monotonic()
            descriptors = [descriptor for descriptor, _ in ready]
            self._handle(descriptors)
            if self._wake_at is not None and time.monotonic() >= self._wake_at:
                self._tick()
            self._insight.tick()
            self._look_for_silence(polled_at, descriptors)
            self._connections.send_rest(self._agents)
            if self._give_up_at is not None and (self._signals.received or time.monotonic() >= self._give_up_at):
                self._give_up_start()
            if give_up is None and self._has_ended():
                # Nothing of the job lives, so the pipes end at once unless a stranger was handed one.
                give_up = time.monotonic() + _WAIT_FOR_OUTPUT
            if give_up is not None and time.monotonic() >= give_up:
                break

    def _has_ended(self) -> bool:
        """Whether nothing of the job lives any more."""
        return all(agent.finished for agent in self._agents)

    def _tick(self) -> None:
        """The time of `_wake_at` has come."""

    def _handle(self, ready: List[int]) -> None:
        for descriptor in ready:
            if self._streams.has_pipe(descriptor):
                if not self._streams.forward(descriptor):
                    self._poll.unregister(descriptor)
                    self._streams.end_pipe(descriptor)
            elif descriptor == self._signals.wake:
                os.read(descriptor, 4096)
                self._signals.announce()
                if self._signals.take_question():
                    self._insight.print()
            elif descriptor == self._task.parent_pipe:
                self._poll.unregister(descriptor)
                self._signals.stop(signal.SIGTERM, GRACE_AFTER_CALLER)
            elif descriptor in self._insight:
                self._insight.handle(descriptor)
            elif self._connections.agent_of(descriptor) is not None:
                agent = self._connections.agent_of(descriptor)
                if descriptor == agent.errors:
                    self._hear_errors(agent)
                elif descriptor == agent.channel.reader:
                    self._receive(agent)

    def _output_gone(self, error: OSError) -> None:
        """Nobody reads our output any more (`| head`), or its disk is full: ends the job, as any program does."""
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.close(null)
        if self._outcome.signal is None and self._outcome.output_lost is None and not self._outcome.failed:
            if isinstance(error, BrokenPipeError):
                self._outcome.signal = int(signal.SIGPIPE)
            else:
                self._outcome.output_lost = error.strerror.lower()
            self._order_all(signal=int(signal.SIGTERM))

    def _order_all(self, **message) -> None:
        for agent in self._agents:
            agent.order(**message)

    # ---- what agents say

    def _receive(self, agent: Agent) -> None:
        arrived = agent.receive()
        if arrived is None:
            self._lose(agent)
            return
        agent.heard = time.monotonic()
        for kind, payload in arrived:
            if kind == frames.OUTPUT:
                self._streams.receive(payload, [place.rank for place in agent.places])
            elif kind == frames.FILE:
                self._keep_file(payload)
            elif kind == frames.MESSAGE:
                self._note(agent, frames.read_message(payload))

    def _keep_file(self, payload: bytes) -> None:
        """What a rank has left about its operations, or a result of horovod.run."""
        folder = self._task.folder if record_files.LEFT.fullmatch(frames.read_file(payload)[0]) else self._task.run_folder
        if folder:
            frames.append_file(folder, payload)

    def clock_of(self, rank: int) -> Tuple[int, int]:
        """What is added to times of a rank for rank 0's clock, and how wrong that may be at most, in ns; -1 if nobody knows."""
        places = {place.rank: agent for agent in self._agents for place in agent.places}
        (first, error), (own, own_error) = (self._insight.clocks.ahead(places[number]) for number in (0, rank))
        return first - own, -1 if min(error, own_error) < 0 else 0 if places[0] is places[rank] else error + own_error

    def _note(self, agent: Agent, event: dict) -> None:
        self._insight.note(agent, event)
        if "ready" in event:
            self._be_ready(agent, event["ready"])
        elif "failed" in event:
            if self._started:
                self._be_lost(agent, event["failed"])
            else:
                self._fail_start(agent, event["failed"])
        elif self._outcome.note(agent.name if agent.is_remote else None, event):
            self._stop_others(agent, "not_started" in event)
        if self._task.verbose:
            self._tell(event)
        if "done" in event:
            self._finish(agent)

    def _tell(self, event: dict) -> None:
        if "started" in event:
            say(f"rank {event['started']}: pid {event['pid']}")
        elif "exited" in event:
            say(f"rank {event['exited']}: ended after {event['after']:.2f} s with code {event['code']}")

    def _stop_others(self, agent: Agent, at_once: bool) -> None:
        for other in self._agents:
            if other is not agent:
                other.order(**({"signal": int(signal.SIGTERM)} if at_once else {"stop": True}))

    def _hear_errors(self, agent: Agent) -> None:
        said = agent.read_errors()
        if not said:
            self._connections.unwatch(agent.errors)
        elif self._task.verbose and said.strip():
            say(f'host "{agent.name}": ' + said.decode("utf-8", "replace").strip().replace("\n", "\n  "))

    # ---- hosts that are not ready, or go away

    def _be_ready(self, agent: Agent, facts: dict) -> None:
        agent.facts = facts
        if agent.is_remote:
            agent.order(clock=time.monotonic_ns())  # again with every beat
        if agent.is_remote and not facts["cwd"]:
            say(f'host "{agent.name}": has no folder {os.getcwd()}; its ranks start in the home folder')
        if self._give_up_at is not None and not any(map(self._is_awaited, self._agents)):
            self._all_are_ready(agent)

    def _is_awaited(self, agent: Agent) -> bool:
        """Whether the ranks cannot start without this host."""
        return agent.facts is None

    def _all_are_ready(self, agent: Agent) -> None:
        """Every host is; this one was the last."""
        missing = missing_interfaces(self._task.interfaces, [other for other in self._agents if other.facts is not None])
        if missing:
            self._outcome.not_ready.append((agent.name, missing))
            self._give_up_start()
        else:
            self._start_ranks()

    def _fail_start(self, agent: Agent, why: str) -> None:
        """Remembers what is wrong with a host; the others have a moment to say what is wrong with them."""
        if self._give_up_at is None:
            return  # given up already
        agent.failure = why
        self._outcome.not_ready.append((agent.name, why))
        if all(other.facts is not None or other.failure is not None for other in self._agents):
            self._give_up_start()
        else:
            self._give_up_at = min(self._give_up_at, time.monotonic() + _WAIT_FOR_MORE_FAULTS)

    def _give_up_start(self) -> None:
        waited = f"did not get ready within {self._task.start_timeout:g} s (--start-timeout)"
        if not self._outcome.not_ready and not self._signals.received:
            self._outcome.not_ready = [(agent.name, waited) for agent in self._agents if agent.facts is None]
        self._give_up_at = None
        for agent in self._agents:
            agent.order(kill=True)
            if agent.is_remote:
                self._finish(agent)  # closing the connection ends what is there

    def _lose(self, agent: Agent, why: Optional[str] = None) -> None:
        """The connection has ended, and the agent had not said that it is done."""
        why = why or agent.why_gone()
        self._finish(agent)
        if not self._started:
            if self._outcome.signal is None:
                self._fail_start(agent, why)
        elif agent.is_remote:
            self._be_lost(agent, why)
        else:
            self._outcome.guardian_lost = True
            self._outcome.unkillable = processes.kill_all(os.getpid(), processes.reap_ended, 2.0)
            for other in self._agents:
                self._finish(other)

    def _be_lost(self, agent: Agent, why: str) -> None:
        if all(name != agent.name for name, _ in self._outcome.lost_hosts):
            self._outcome.lost_hosts.append((agent.name, why))
        self._stop_others(agent, False)

    def _look_for_silence(self, polled_at: float, ready: List[int]) -> None:
        """An agent that has said nothing for long although we were listening is behind a cut cable."""
        for agent in self._agents:
            if agent.is_remote and self._started and not agent.finished and agent.channel.reader not in ready:
                if polled_at - agent.heard > LONGEST_SILENCE:
                    self._lose(agent, f"not heard for {LONGEST_SILENCE:g} s")

    def _finish(self, agent: Agent) -> None:
        if agent.finished:
            return
        self._connections.unwatch_all_of(agent)
        if agent.is_remote:
            self._streams.end_ranks([place.rank for place in agent.places])
        agent.close()

    # ---- end

    def _end(self) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        self._insight.close()
        self._streams.close()
        for rank in self._outcome.ranks:
            rank.stderr_tail = self._streams.stderr_tail(rank.place.rank)
        for agent in self._agents:
            agent.close()
        end_ssh(self._agents)
        processes.reap_ended()
