# SPDX-License-Identifier: Apache-2.0
"""An agent as the launcher sees it: the guardian of one host, reached over a socket here or through ssh elsewhere.

Messages (on_host/frames.py), from the launcher to the agent:
  prepare   make the job's belongings ready: folder, secret, port (see on_host/preparation.py)
  start     start the ranks
  more      start these as well;  no_more: no others will come;  tell: lines for ranks that ask for their place; of elastic jobs
  arrived   answered by the same: everything before it has been done
  signal    pass this signal on to the ranks and stop;  stop: as if a rank here had failed;  kill: stop at once
  forward   pass this signal on to the ranks, and nothing more
  paused    the launcher is stopped by the terminal, or goes on;  beat: it is there
  look      say what the ranks do, with the stacks of all, none, or some of them (on_host/looking.py)
  clock     answered by the same and the time there
and back:
  ready     with facts about the host;  failed: with the reason why it cannot be
  frozen    a rank of an elastic job that a signal had stopped for too long; it is killed
  said      a line of a rank that asks for its place
  looked    the answer to a look: facts about each rank, or null if that took too long
  stalled   reports that a rank has written about operations that wait
  started, not_started, exited, stopping: ranks;  left_behind: processes that outlived them
  done      nothing of the job lives on this host;  beat: the agent is there
"""

import json
import os
import select
import signal
import socket
import sys
import time
from typing import Dict, List, Optional, Tuple

from .. import on_host
from ..on_host import frames, processes
from ..plan.hosts import Place, is_local
from . import remote

_LOCAL = "import sys; sys.path.insert(0, sys.argv[1]); import guardian; guardian.main()"
_ERRORS_KEPT = 1 << 14
_WAIT_FOR_SSH = 1.0
# How often the launcher says that it is there, and how long an agent elsewhere may be silent, in seconds.
BEAT, LONGEST_SILENCE = 1.0, 10.0


class Agent:
    """One host's agent. `facts` is None until it is ready, `finished` is True when nothing more comes from it."""

    def __init__(self, name: str, is_remote: bool, places: List[Place]) -> None:
        self.name, self.is_remote, self.places = name, is_remote, places
        self.facts: Optional[dict] = None
        self.failure: Optional[str] = None
        self.finished = False
        self.heard = 0.0
        self.pid = 0
        self.errors = -1  # what ssh says on its stderr
        self.writing = False  # the loop waits until more can be written
        self._closed = False
        self._said = b""
        self._greeted = not is_remote
        self._before_greeting = b""
        self._socket: Optional[socket.socket] = None
        self.channel: Optional[frames.Channel] = None

    def start_here(self, pipes: List[int]) -> None:
        """Starts the guardian of this machine, which inherits the writing ends of the ranks' pipes."""
        ours, theirs = socket.socketpair()
        passed = [theirs.fileno(), *pipes]
        for descriptor in passed:
            os.set_inheritable(descriptor, True)
        # The command is not among the arguments, so that `pkill -f` of the user's script spares the guardian.
        arguments = [sys.executable, "-I", "-S", "-c", _LOCAL, on_host.FOLDER]
        self.pid = os.posix_spawn(sys.executable, arguments + [str(descriptor) for descriptor in passed], os.environ)
        for descriptor in pipes:
            os.close(descriptor)
        theirs.close()
        self._socket = ours
        self.channel = frames.Channel(ours.fileno(), ours.fileno())

    def start_there(self, options: remote.SshOptions, program: bytes) -> None:
        """Starts ssh, and sends the program of the agent through it."""
        connection = remote.connect(self.name, options)
        self.pid, self.errors = connection.pid, connection.errors
        os.set_blocking(self.errors, False)
        self.channel = frames.Channel(connection.back, connection.to)
        self.channel.send_raw(program)

    def order(self, **message) -> None:
        """Sends a message; an agent that is gone is noticed where its answers are read."""
        if self.channel is not None and not self.finished:
            self.channel.send(**message)

    def hand_over(self, name: str, content: bytes, folder: str) -> None:
        """Puts a file into the job's folder on this host; `folder` is the one here."""
        if self.is_remote:
            for start in range(0, len(content), frames.PIECE):
                self.channel.send_file(name, content[start : start + frames.PIECE])
            self.channel.send_file(name, b"")
        else:
            with open(os.path.join(folder, name), "wb") as file:
                file.write(content)

    def receive(self) -> Optional[list]:
        """The frames that have arrived; None when the connection has ended or brings no frames."""
        try:
            if self._greeted:
                return self.channel.receive()
            data = self.channel.read()
            if data is None:
                return None
            self._before_greeting += data
            noise, found, rest = self._before_greeting.partition(remote.GREETING)
            if not found:
                self._before_greeting = noise[-frames.PIECE :]
                return []
            self._greeted, self._before_greeting = True, b""
            return self.channel.feed(rest)
        except (frames.BrokenStream, ValueError) as error:
            self._said += f"\nthe agent sent noise: {error}".encode()
            return None

    def read_errors(self) -> bytes:
        """What ssh has said since the last call; empty at the end."""
        try:
            data = os.read(self.errors, 1 << 14)
        except BlockingIOError:
            return b" "
        self._said = (self._said + data)[-_ERRORS_KEPT:]
        return data

    def why_gone(self) -> str:
        """Why the connection ended, from what ssh said and how it ended."""
        if not self.is_remote:
            return "its guardian ended"
        self._wait_for_ssh()
        while self.errors >= 0:
            data = self.read_errors()
            if data in (b"", b" "):
                break
        code = None
        try:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                code, self.pid = os.waitstatus_to_exitcode(status), 0
        except ChildProcessError:
            self.pid = 0
        return remote.explain(self.name, self._said.decode("utf-8", "replace"), code)

    def _wait_for_ssh(self) -> None:
        """Its output has ended, so it is about to end; one that does not is not waited for."""
        try:
            pidfd = os.pidfd_open(self.pid)
        except OSError:
            return
        try:
            ended = select.poll()  # select() knows no descriptors above 1023
            ended.register(pidfd, select.POLLIN)
            ended.poll(_WAIT_FOR_SSH * 1000)
        finally:
            os.close(pidfd)

    def close(self) -> None:
        """Closes our side; an agent that still lives ends everything then."""
        if self._closed:
            return
        self.finished = self._closed = True
        if self._socket is not None:
            self._socket.close()
        elif self.channel is not None:
            for descriptor in (self.channel.reader, self.channel.writer, self.errors):
                os.close(descriptor)
        if self.channel is not None:
            self.channel.broken = True


def agents_for(places: List[Place]) -> List[Agent]:
    """One agent for all names of this machine and one for every other host, in the order of their first ranks."""
    agents: Dict[Optional[str], Agent] = {}
    for place in places:
        key = None if is_local(place.host) else place.host
        if key not in agents:
            agents[key] = Agent(place.host, key is not None, [])
        agents[key].places.append(place)
    return list(agents.values())


def rendezvous_place(agents: List[Agent]) -> Optional[str]:
    """The URL where ranks of several hosts meet: at rank 0's host. None for a job on one host, which meets in a folder."""
    if len(agents) == 1:
        return None
    return rendezvous_at(agents[0], 0, os.urandom(8).hex())


def rendezvous_at(agent: Agent, number: int, job: str) -> str:
    """The URL where ranks meet at one of the places of a host."""
    return "tcp://" + ",".join(_candidates(agent, number)) + f"/{job}"


def master_place(agents: List[Agent]) -> Tuple[str, int]:
    """An address of rank 0's host and a port that is free there: where programs meet that bring their own way to do so."""
    if len(agents) == 1 and not agents[0].is_remote:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            return probe.getsockname()
    facts = agents[0].facts
    return "127.0.0.1" if len(agents) == 1 else facts["addresses"][0], facts["ports"][-1]


def parts_file(rendezvous: str, agents: List[Agent]) -> bytes:
    """For each rank, where others can meet at it: what hvd.init(comm=[...]) reads when rank 0 need not take part."""
    places = {place.rank: _candidates(agent, number) for agent in agents for number, place in enumerate(agent.places)}
    return json.dumps({"rendezvous": rendezvous, "places": [places[rank] for rank in sorted(places)]}).encode()


def _candidates(agent: Agent, number: int) -> List[str]:
    """The addresses, each with the port, of one of the ranks on a host; none if no port was reserved for it."""
    if number >= len(agent.facts["ports"]) - 1:  # the last one is not for this
        return []
    written = [f"[{address}]" if ":" in address else address for address in agent.facts["addresses"]]
    return [f"{address}:{agent.facts['ports'][number]}" for address in written]


def missing_interfaces(wanted: Optional[List[str]], agents: List[Agent]) -> Optional[str]:
    """What is wrong if one of these network interfaces is on no host; each host is known to have at least one of them."""
    if not wanted:
        return None
    missing = sorted(set(wanted).difference(*(agent.facts["interfaces"] for agent in agents)))
    if not missing:
        return None
    there = "; ".join(f"{agent.name} has {', '.join(agent.facts['interfaces'])}" for agent in agents)
    return f"network interface {', '.join(missing)}: on no host; {there}"


def end_ssh(agents: List[Agent]) -> None:
    """Each ssh ends by itself when its far side has; one whose far side is out of reach is ended here."""
    left = {agent.pid for agent in agents if agent.is_remote and agent.pid}
    deadline = time.monotonic() + _WAIT_FOR_SSH
    while left:
        for pid in list(left):
            try:
                if os.waitpid(pid, os.WNOHANG)[0]:
                    left.discard(pid)
            except ChildProcessError:
                left.discard(pid)
        if left and time.monotonic() > deadline:
            for pid in left:
                processes.send(pid, signal.SIGKILL)
            deadline = float("inf")
        if left:
            time.sleep(0.005)
