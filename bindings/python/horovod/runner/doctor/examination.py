# SPDX-License-Identifier: Apache-2.0
"""The probes of `horovodrun doctor`, seen from the launcher: one here and one, through ssh, on every other host."""

import os
import select
import time
from typing import Callable, Dict, List, Optional, Tuple

from .. import on_host
from ..agents import remote
from ..agents.agent import Agent, end_ssh
from ..on_host import frames
from ..plan import environment
from ..plan.hosts import Host, is_local

_HERE = os.path.dirname(os.path.abspath(__file__))
# The modules of a probe, each after those it imports.
_PROBE = (*on_host.files(("processes", "frames", "interfaces")),
          *on_host.files(("facts", "links", "probe"), os.path.join(_HERE, "on_host")))
_VIEW = os.path.join(_HERE, "ranks", "view.py")
_CLOCK_ROUNDS = 8
_CONNECT_LIMIT, _VIEW_LIMIT = 1.5, 8.0
_SEND_SECONDS, _SEND_BYTES = 0.3, 64 << 20
# With more hosts than this each sends only to its successor: all pairs, one after the other, would take minutes.
_ALL_PAIRS = 6
_SPARE_LIFE = 30.0  # seconds after which a probe that nobody asks any more ends itself


class Probe(Agent):
    """One host under examination. `failure` is set when it cannot be reached or goes away."""

    def __init__(self, name: str, slots: int, number: int, local: bool) -> None:
        super().__init__(name, True, [])
        self.slots, self.number, self.local = slots, number, local
        self.connect_seconds: Optional[float] = None
        self.said = ""  # what ssh said on its stderr, or a local probe
        self.clock: Optional[dict] = None
        self.answers: Dict[str, object] = {}
        self._began = 0.0
        self._clocks: List[tuple] = []
        self._asked_at = 0.0

    def begin(self, options: remote.SshOptions, program: bytes) -> None:
        self._began = time.monotonic()
        if not self.local:
            self.start_there(options, program)
            return
        ours, theirs = [], []
        for number in range(3):  # stdin, stdout, stderr as the probe sees them
            read, write = os.pipe()
            ours.append(read if number else write)
            theirs.append(write if number else read)
        # The same shell command as on the far side, so that this machine is looked at in the same way.
        shell = ["/bin/sh", "-c", remote.python_command()]
        actions = [(os.POSIX_SPAWN_DUP2, descriptor, number) for number, descriptor in enumerate(theirs)]
        self.pid = os.posix_spawn(shell[0], shell, os.environ, file_actions=actions)
        for descriptor in theirs:
            os.close(descriptor)
        self.errors = ours[2]
        os.set_blocking(self.errors, False)
        self.channel = frames.Channel(ours[1], ours[0])
        self.channel.send_raw(program)

    def hear(self) -> bool:
        """Takes what has arrived; False when the connection has ended."""
        arrived = self.receive()
        if arrived is None:
            return False
        if self._greeted and self.connect_seconds is None:
            self.connect_seconds = time.monotonic() - self._began
        try:
            for kind, payload in arrived:
                if kind == frames.MESSAGE:
                    for name, content in frames.read_message(payload).items():
                        self._note(name, content)
        except (frames.BrokenStream, ValueError) as error:
            self.failure = f"its probe sent noise: {error}"
            return False
        return True

    def _note(self, name: str, content) -> None:
        if name == "clock":
            now = time.time()
            self._clocks.append((now - self._asked_at, content - (self._asked_at + now) / 2))
            if len(self._clocks) < _CLOCK_ROUNDS:
                self.ask_clock()
                return
            shortest, offset = min(self._clocks)
            self.clock = {"offset": offset, "uncertainty": shortest / 2}
        elif name == "look":
            self.facts = content
            self.read_errors()
            self.said = self._said.decode("utf-8", "replace")
        self.answers[name] = content

    def ask_clock(self) -> None:
        self._asked_at = time.time()
        self.order(clock=True)

    def lose(self) -> None:
        """The connection has ended: finds out why."""
        why = self.why_gone()
        self.said = self._said.decode("utf-8", "replace")
        if self.local:
            why = "its probe ended: " + ((self.said.strip().splitlines() or ["it said nothing"])[-1])
        self.give_up(why)

    def give_up(self, why: str) -> None:
        self.failure = self.failure or why
        self.close()


class Examination:
    """Examines hosts. `probes` has the results, `links` what connects them. Use once, in a with block."""

    def __init__(
        self,
        hosts: List[Host],
        options: remote.SshOptions,
        interfaces: Optional[List[str]],
        limit: float,
        tell: Callable[[str], None] = lambda line: None,
    ) -> None:
        self.probes = _probes(hosts)
        self.links: List[dict] = []
        self.bandwidths: List[dict] = []
        self._options, self._interfaces, self._limit, self._tell = options, interfaces, limit, tell
        self._token = os.urandom(32).hex()

    def __enter__(self) -> "Examination":
        return self

    def __exit__(self, *_) -> None:
        for probe in self.probes:
            probe.close()
        end_ssh(self.probes)

    def look(self) -> None:
        """Reaches every host and takes its facts, then compares the clocks."""
        program = remote.bundle(_PROBE, "probe")
        with open(_VIEW, encoding="utf-8") as file:
            view = file.read()
        for probe in self.probes:
            probe.begin(self._options, program)
            variables = dict(os.environ) if probe.local else environment.forwarded(os.environ)
            probe.order(
                look={
                    "interfaces": self._interfaces,
                    "cwd": os.getcwd(),
                    "view": view,
                    "environment": variables,
                    "without": list(environment.OF_ANOTHER_JOB),
                    "limit": _VIEW_LIMIT,
                    "token": self._token,
                    "number": probe.number,
                    "lifetime": self._lifetime(),
                }
            )
        self._wait(self.probes, "look", self._limit, lambda probe: self._tell(_progress(probe)))
        self._look_at_clocks()

    def _lifetime(self) -> int:
        """Of probes, in seconds: a probe behind a cut cable does not see that this process has ended."""
        return int(self._limit + _SPARE_LIFE + len(_pairs(self.probes)))

    def _look_at_clocks(self) -> None:
        there = [probe for probe in self.living() if not probe.local]
        for probe in there:  # one after the other, so that none waits for our attention
            probe.ask_clock()
            self._wait([probe], "clock", 3.0)

    def connect(self) -> None:
        """Every host that has slots tries every address of every other; twice where one may only have been busy."""
        there = self.ranked()
        found = self._try_addresses(there)
        if any(result["state"] == "no answer" for _, result in found):
            again = self._try_addresses(self.ranked())
            answered = {_way(probe, result) for probe, result in found if result["state"] != "no answer"}
            found = [one for one in found if _way(*one) in answered] + [one for one in again if _way(*one) not in answered]
        if any(result["state"] == "no answer" for _, result in found):
            for probe in self.living():
                probe.order(half_open=True)
            self._wait(self.living(), "half_open", 3.0)
        by_number = {probe.number: probe for probe in self.probes}
        for probe, result in found:
            other = by_number[result["to"]]
            link = {
                "from": probe.name,
                "to": other.name,
                "address": result["address"],
                "state": result["state"],
                "round_trip": result.get("round_trip"),
                "source": result.get("source"),
                "error": result.get("error"),
                "lost": None,
            }
            if result["state"] == "no answer":
                link["lost"] = _lost(probe, other, ":" in result["address"])
            self.links.append(link)
        _keep_what_agrees(self.links)

    def _try_addresses(self, there: List[Probe]) -> List[Tuple[Probe, dict]]:
        """What each found at each address of the others."""
        for probe in there:
            probe.answers.pop("connect", None)
            targets = [_target(other) for other in there if other is not probe]
            probe.order(connect={"targets": targets, "limit": _CONNECT_LIMIT})
        self._wait(there, "connect", _CONNECT_LIMIT + 5.0)
        return [(probe, result) for probe in there for result in probe.answers.get("connect", ())]

    def measure(self) -> None:
        """Sends for a moment from host to host, one after the other, over the first address that works."""
        for sender, receiver in _pairs(self.ranked()):
            ways = [
                link
                for link in self.links
                if (link["from"], link["to"], link["state"]) == (sender.name, receiver.name, "connected")
            ]
            if not ways or sender.finished or receiver.finished:
                continue
            address = ways[0]["address"]  # in the order in which a job takes them
            sender.answers.pop("send", None)
            sender.order(
                send={
                    "target": _target(receiver),
                    "address": address,
                    "seconds": _SEND_SECONDS,
                    "most": _SEND_BYTES,
                    "limit": 3.0,
                }
            )
            self._wait([sender], "send", 6.0)
            result = sender.answers.get("send", {"error": "no result"})
            rate = result["bytes"] / result["seconds"] if result.get("seconds") else None
            self.bandwidths.append(
                {
                    "from": sender.name,
                    "to": receiver.name,
                    "address": address,
                    "bytes_per_second": rate,
                    "error": result.get("error"),
                }
            )

    def living(self) -> List[Probe]:
        return [probe for probe in self.probes if not probe.finished and probe.facts is not None]

    def ranked(self) -> List[Probe]:
        """The living hosts on which ranks would run."""
        return [probe for probe in self.living() if probe.slots]

    def _wait(
        self, probes: List[Probe], name: str, limit: float, answered: Callable[[Probe], None] = lambda probe: None
    ) -> None:
        """Until each of them has answered or is gone; one that takes longer is given up."""
        deadline = time.monotonic() + limit
        waiting = {probe for probe in probes if not probe.finished and name not in probe.answers}
        while waiting:
            left = deadline - time.monotonic()
            if left <= 0:
                for probe in waiting:
                    probe.give_up(f"did not answer within {limit:g} s")
                    answered(probe)
                return
            for probe in _ready(waiting, left):
                if not probe.hear():
                    probe.lose()
                if probe.finished or name in probe.answers:
                    waiting.discard(probe)
                    answered(probe)


def _way(probe: Probe, result: dict) -> Tuple[int, int, str]:
    return probe.number, result["to"], result["address"]


def _lost(probe: Probe, other: Probe, ipv6: bool) -> Optional[List[str]]:
    """Whose packets to whom do not arrive: if the other side has answered, its answers, else those of this side."""
    half_open = other.answers.get("half_open")
    if half_open is None:
        return None
    own = {entry["address"] for entry in probe.facts["interfaces"] if (":" in entry["address"]) == ipv6}
    return [other.name, probe.name] if own & set(half_open) else [probe.name, other.name]


def _keep_what_agrees(links: List[dict]) -> None:
    """Forgets directions that contradict a certain one.

    An answer that got lost is certain. A first packet that did not arrive may never have been sent: the answer to the
    question for the other's hardware address may have been lost before.
    """
    certain = {tuple(link["lost"]) for link in links if link["lost"] and link["lost"][0] == link["to"]}
    for link in links:
        if link["lost"] and (link["lost"][1], link["lost"][0]) in certain and tuple(link["lost"]) not in certain:
            link["lost"] = None


def _ready(probes, limit: float) -> List[Probe]:
    """Those from which something has arrived; meanwhile sends what waits for them."""
    poll, by_descriptor = select.poll(), {}
    for probe in probes:
        probe.channel.flush()
        by_descriptor[probe.channel.reader] = probe
        poll.register(probe.channel.reader, select.POLLIN)
        if probe.channel.pending:
            poll.register(probe.channel.writer, select.POLLOUT)
    return [by_descriptor[descriptor] for descriptor, _ in poll.poll(limit * 1000) if descriptor in by_descriptor]


def _probes(hosts: List[Host]) -> List[Probe]:
    """This machine first, whatever it is called in the list; without slots there if it is not."""
    local = [host for host in hosts if is_local(host.name)]
    here = Probe(local[0].name if local else "localhost", sum(host.slots for host in local), 0, True)
    others = [host for host in hosts if host not in local]
    return [here] + [Probe(host.name, host.slots, number, False) for number, host in enumerate(others, 1)]


def _pairs(probes: List[Probe]) -> List[Tuple[Probe, Probe]]:
    """Who sends to whom: all of a few hosts, each to its successor of many."""
    if len(probes) > _ALL_PAIRS:
        return list(zip(probes, probes[1:] + probes[:1]))
    return [(sender, receiver) for sender in probes for receiver in probes if sender is not receiver]


def _target(probe: Probe) -> dict:
    return {"number": probe.number, "addresses": probe.facts["addresses"], "port": probe.facts["port"]}


def _progress(probe: Probe) -> str:
    if probe.failure is not None:
        return f"{probe.name}: {probe.failure}"
    return f"{probe.name}: looked at after {time.monotonic() - probe._began:.1f} s"
