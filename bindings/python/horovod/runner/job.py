# SPDX-License-Identifier: Apache-2.0
"""One job, seen from horovodrun: starts the guardian, forwards output and signals, and collects how every rank ended."""

import json
import os
import select
import signal
import socket
import sys
import time
from typing import Dict, List, Optional

from . import processes
from .hosts import Place
from .output import RankStream, rank_folder, write_all

# The guardian stops everything within 5 s of a signal; if this process is stuck in a write then, it ends all the same.
_LAST_RESORT = 4.7
_WAIT_FOR_OUTPUT = 1.0
_STOPPING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_GUARDIAN = "import sys; sys.path.insert(0, sys.argv[1]); import guardian; guardian.main()"


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
        self.not_started: Optional[tuple] = None  # rank, errno, text
        self.signal: Optional[int] = None  # that stopped the job from outside
        self.guardian_lost = False
        self.left_behind: List[list] = []  # [pid, name] of processes that outlived the ranks
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
        return 1 if self.guardian_lost or self.unkillable else 0


class Job:
    """Runs one command on all places. Use once."""

    def __init__(self, places: List[Place], command: List[str], environment: Dict[str, str],
                 rank_environments: List[Dict[str, str]], output_folder: Optional[str] = None,
                 timestamp: bool = False, verbose: bool = False, parent_pipe: Optional[int] = None) -> None:
        self._places, self._command = places, command
        self._environment, self._rank_environments = environment, rank_environments
        self._output_folder, self._timestamp, self._verbose = output_folder, timestamp, verbose
        self._parent_pipe = parent_pipe
        self._outcome = Outcome(places)
        self._streams: Dict[int, RankStream] = {}
        self._tails = {}
        self._channel: Optional[socket.socket] = None
        self._unread = b""
        self._guardian = 0
        self._signals: List[int] = []
        self._announced = False
        self._done = False

    def run(self) -> Outcome:
        """Starts the ranks and returns when all of them, and everything they started, have ended."""
        processes.adopt_orphans()
        self._poll = select.epoll()
        wake_read, wake_write = os.pipe()
        os.set_blocking(wake_write, False)
        signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
        for number in _STOPPING_SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._on_signal)
        try:
            self._start_guardian()
            self._poll.register(wake_read, select.EPOLLIN)
            if self._parent_pipe is not None:
                self._poll.register(self._parent_pipe, select.EPOLLIN)
            self._loop(wake_read)
        finally:
            self._end()
        return self._outcome

    # ---- start

    def _start_guardian(self) -> None:
        file_limit = self._raise_file_limit()
        ours, theirs = socket.socketpair()
        ranks, passed = [], [theirs.fileno()]
        for place, environment in zip(self._places, self._rank_environments):
            pipes = {}
            for name, sink in (("stdout", 1), ("stderr", 2)):
                read, write = os.pipe()
                pipes[name] = write
                passed.append(write)
                self._add_stream(place, name, read, sink)
            ranks.append({"rank": place.rank, "environment": environment, **pipes})
        for descriptor in passed:
            os.set_inheritable(descriptor, True)
        # The command is not among the arguments, so that `pkill -f` of the user's script spares the guardian.
        arguments = [sys.executable, "-I", "-S", "-c", _GUARDIAN, os.path.dirname(os.path.abspath(__file__))]
        self._guardian = os.posix_spawn(sys.executable, arguments + [str(fd) for fd in passed], os.environ)
        for descriptor in passed[1:]:
            os.close(descriptor)
        theirs.close()
        job = {"command": self._command, "environment": self._environment, "ranks": ranks, "file_limit": file_limit}
        ours.sendall(json.dumps(job).encode() + b"\n")
        self._channel = ours
        self._poll.register(ours.fileno(), select.EPOLLIN)
        if self._signals:
            self._order({"signal": self._signals[0]})

    def _add_stream(self, place: Place, name: str, pipe: int, sink: int) -> None:
        copy_to = None
        if self._output_folder:
            copy_to = os.path.join(rank_folder(self._output_folder, place.rank, place.size), name)
        stream = RankStream(place.rank, name, pipe, sink, self._timestamp, copy_to)
        self._streams[pipe] = stream
        self._tails[place.rank, name] = stream.tail
        self._poll.register(pipe, select.EPOLLIN)

    def _raise_file_limit(self) -> Optional[List[int]]:
        """Makes room for the pipes; returns the limits the ranks shall keep, if they had to be changed."""
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        need = 6 * len(self._places) + 64
        if soft == resource.RLIM_INFINITY or soft >= need:
            return None
        if hard != resource.RLIM_INFINITY and hard < need:
            raise OSError(f"{len(self._places)} processes need {need} open files, the limit is {hard} (ulimit -Hn)")
        resource.setrlimit(resource.RLIMIT_NOFILE, (need, hard))
        return [soft, hard]

    # ---- run

    def _loop(self, wake_read: int) -> None:
        give_up = None
        while not self._done or self._streams:
            timeout = -1.0 if give_up is None else max(0.0, give_up - time.monotonic())
            ready = self._poll.poll(timeout)
            for descriptor, _ in ready:
                if descriptor in self._streams:
                    self._forward(descriptor)
                elif descriptor == wake_read:
                    os.read(wake_read, 4096)
                    self._announce_signal()
                elif self._channel is not None and descriptor == self._channel.fileno():
                    self._receive()
                elif descriptor == self._parent_pipe:
                    self._poll.unregister(descriptor)
                    self._on_signal(signal.SIGTERM, None)
            if self._done and give_up is None:
                # Nothing of the job lives, so the pipes end at once unless a stranger was handed one.
                give_up = time.monotonic() + _WAIT_FOR_OUTPUT
            if give_up is not None and time.monotonic() >= give_up:
                break

    def _forward(self, pipe: int) -> None:
        stream = self._streams[pipe]
        try:
            more = stream.read()
        except BrokenPipeError:
            self._output_gone()
            more = True
        if not more:
            self._poll.unregister(pipe)
            stream.close()
            del self._streams[pipe]

    def _output_gone(self) -> None:
        """Nobody reads our output any more (`| head`): ends the job, as any program in a pipeline does."""
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.close(null)
        if self._outcome.signal is None and self._outcome.first_failure is None:
            self._outcome.signal = int(signal.SIGPIPE)
            self._order({"signal": int(signal.SIGTERM)})

    def _on_signal(self, number: int, frame) -> None:
        # Sends from here, not from the loop: the loop may be held up by a reader of our output that does not read.
        self._signals.append(number)
        if len(self._signals) == 1:
            if self._outcome.signal is None:
                self._outcome.signal = int(number)
            self._order({"signal": int(number)})
            signal.signal(signal.SIGALRM, self._on_last_resort)
            signal.setitimer(signal.ITIMER_REAL, _LAST_RESORT)
        else:
            self._order({"kill": True})

    def _on_last_resort(self, number: int, frame) -> None:
        os._exit(self._outcome.exit_code() or 1)  # the guardian kills what is left when our socket closes

    def _announce_signal(self) -> None:
        if self._signals and not self._announced:
            self._announced = True
            name = signal.Signals(self._signals[0]).name
            again = "; once more to kill them at once" if self._signals[0] == signal.SIGINT else ""
            self.say(f"{name}: stopping {self._alive()} ranks{again}")

    def _alive(self) -> int:
        return sum(rank.code is None for rank in self._outcome.ranks)

    def _order(self, order: dict) -> None:
        if self._channel is not None:
            try:
                self._channel.sendall(json.dumps(order).encode() + b"\n")
            except OSError:
                pass  # the guardian is gone; the loop sees that

    def _receive(self) -> None:
        try:
            data = self._channel.recv(1 << 16)
        except ConnectionError:
            data = b""
        if not data:
            self._poll.unregister(self._channel.fileno())
            if not self._done:
                self._outcome.guardian_lost = True
                self._outcome.unkillable = processes.kill_all(os.getpid(), _reap, 2.0)
                self._done = True
            return
        self._unread += data
        while b"\n" in self._unread:
            line, _, self._unread = self._unread.partition(b"\n")
            self._note(json.loads(line))

    def _note(self, event: dict) -> None:
        """One event of the guardian, see there."""
        outcome = self._outcome
        if "started" in event:
            outcome.ranks[event["started"]].pid = event["pid"]
            if self._verbose:
                self.say(f"rank {event['started']}: pid {event['pid']}")
        elif "exited" in event:
            rank = outcome.ranks[event["exited"]]
            rank.code, rank.after = event["code"], event["after"]
            outcome.order.append(event["exited"])
            if rank.code != 0 and outcome.first_failure is None and not self._ends_already():
                outcome.first_failure = event["exited"]
            if self._verbose:
                self.say(f"rank {event['exited']}: ended after {rank.after:.2f} s with code {rank.code}")
        elif "stopping" in event:
            for number in event["stopping"]:
                outcome.ranks[number].stopped_with = event["signal"]
        elif "not_started" in event:
            outcome.not_started = (event["not_started"], event["errno"], event["text"])
        elif "left_behind" in event:
            outcome.left_behind = event["left_behind"]
        elif "done" in event:
            outcome.unkillable = event["unkillable"]
            self._done = True

    def _ends_already(self) -> bool:
        return self._outcome.signal is not None or self._outcome.not_started is not None

    def _end(self) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        for stream in list(self._streams.values()):
            try:
                stream.close()
            except BrokenPipeError:
                pass
        for rank in self._outcome.ranks:
            tail = self._tails.get((rank.place.rank, "stderr"))
            rank.stderr_tail = tail.lines() if tail else []
        if self._channel is not None:
            self._channel.close()
        _reap()

    @staticmethod
    def say(text: str) -> None:
        """A line of horovodrun itself, on stderr."""
        try:
            write_all(2, f"horovodrun: {text}\n".encode("utf-8", "replace"))
        except OSError:
            pass


def _reap() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass
