# SPDX-License-Identifier: Apache-2.0
"""Carriers for horovod.run under mpirun, which carries neither functions nor results: an agent without ranks on every other
host takes the function there before mpirun starts, and brings back what its ranks have left when mpirun has ended."""

import os
import select
import time
from typing import Callable, Dict, List, Set

from .. import on_host
from ..agents import remote
from ..agents.agent import BEAT, LONGEST_SILENCE, Agent, end_ssh
from ..on_host import frames

_FUNCTION = "function"


class Carriers:
    """`problems` says what is wrong with hosts; after the first one nothing more is carried. Use once, in a with block."""

    def __init__(self, hosts: List[str], options: remote.SshOptions, run_folder: str) -> None:
        self.problems: List[str] = []
        self._agents = [Agent(host, True, []) for host in hosts]
        self._options, self._run_folder = options, run_folder
        self._arrived: Set[Agent] = set()  # those that have the whole function
        self._silent: Set[Agent] = set()  # those whose ssh has closed its stderr
        self._next_beat = 0.0

    def __enter__(self) -> "Carriers":
        return self

    def __exit__(self, *_) -> None:
        for agent in self._agents:
            agent.close()
        end_ssh(self._agents)

    def take(self, limit: float) -> List[str]:
        """Takes the function to every host, within `limit` seconds; returns the folders in which it is there."""
        program = remote.bundle(on_host.files(on_host.AGENT), "keeper")
        for agent in self._agents:
            agent.start_there(self._options, program)
            agent.heard = time.monotonic()
            agent.order(prepare={"folder": None, "secret": None, "cwd": os.getcwd(), "interfaces": None, "reserve": 0})
            for piece in frames.file_pieces(os.path.join(self._run_folder, _FUNCTION)):
                agent.channel.send_file(_FUNCTION, piece)
            agent.order(arrived=True)
        deadline = time.monotonic() + limit
        while len(self._arrived) < len(self._agents) and not self.problems:
            self._step()
            if time.monotonic() >= deadline:
                for agent in self._agents:
                    if agent not in self._arrived:
                        self._lose(agent, f"did not get ready within {limit:g} s (--start-timeout)")
        return [agent.facts["folder"] for agent in self._agents if agent in self._arrived]

    def wait_for(self, process: int) -> None:
        """Until this child of ours has ended, or a host is lost."""
        pidfd = os.pidfd_open(process)
        try:
            ended = False
            while not ended and not self.problems:
                ended = self._step(pidfd)
        finally:
            os.close(pidfd)

    def bring(self, names: List[str]) -> None:
        """Brings those of these files that there are into the run folder here."""
        for agent in self._agents:
            agent.order(start={"command": [], "environment": {}, "without": [], "ranks": [], "cwd": "/", "file_limit": None,
                               "meet_here": False, "results": names, "records": False})
        while not self.problems and not all(agent.finished for agent in self._agents):
            self._step()

    def _step(self, process: int = -1) -> bool:
        """Waits a moment for something to happen, and handles it; True when that process has ended."""
        if time.monotonic() >= self._next_beat:
            self._next_beat = time.monotonic() + BEAT
            for agent in self._agents:
                agent.order(beat=True)
        poll = select.poll()
        actions: Dict[int, Callable] = {}
        if process >= 0:
            poll.register(process, select.POLLIN)
        for agent in self._agents:
            if not agent.finished:
                self._watch(agent, poll, actions)
        ready = [descriptor for descriptor, _ in poll.poll(BEAT * 1000)]
        polled_at = time.monotonic()
        for descriptor in ready:
            if descriptor in actions:
                actions[descriptor]()
        for agent in self._agents:
            if not agent.finished and agent.channel.reader not in ready and polled_at - agent.heard > LONGEST_SILENCE:
                self._lose(agent, f"not heard for {LONGEST_SILENCE:g} s")
        return process in ready

    def _watch(self, agent: Agent, poll, actions: Dict[int, Callable]) -> None:
        agent.channel.flush()
        poll.register(agent.channel.reader, select.POLLIN)
        actions[agent.channel.reader] = lambda: self._receive(agent)
        if agent.channel.pending:
            poll.register(agent.channel.writer, select.POLLOUT)
        if agent not in self._silent:
            poll.register(agent.errors, select.POLLIN)
            actions[agent.errors] = lambda: self._hear(agent)

    def _hear(self, agent: Agent) -> None:
        if not agent.finished and not agent.read_errors():
            self._silent.add(agent)

    def _receive(self, agent: Agent) -> None:
        if agent.finished:
            return
        arrived = agent.receive()
        if arrived is None:
            self._lose(agent, agent.why_gone())
            return
        agent.heard = time.monotonic()
        for kind, payload in arrived:
            if kind == frames.FILE:
                frames.append_file(self._run_folder, payload)
            elif kind == frames.MESSAGE:
                self._note(agent, frames.read_message(payload))

    def _note(self, agent: Agent, event: dict) -> None:
        if "ready" in event:
            agent.facts = event["ready"]
        elif "arrived" in event:
            self._arrived.add(agent)
        elif "failed" in event:
            self._lose(agent, event["failed"])
        elif "done" in event:
            agent.close()

    def _lose(self, agent: Agent, why: str) -> None:
        agent.close()
        how = " was lost" if agent in self._arrived else ""
        self.problems.append(f'host "{agent.name}"{how}: {why}')
