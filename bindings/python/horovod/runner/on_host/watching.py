# SPDX-License-Identifier: Apache-2.0
"""Watches what the ranks of this host do: their flight memories, reports of stalls in them, looks at the ranks, and at their end
records and samples. Standard library only, see frames.py.
"""

import json
import os
import select
import signal
import time

import flight
import stacks

_LOOK = 1.0  # seconds between two looks at the reports of stalls
_LOOK_LIMIT = 20.0  # a look takes no longer: tools for stacks have limits of their own
_MOST_ENDED = 512  # ranks that have ended, of which the memory is kept: each is an open file of 1.6 MB
_NEVER = float("inf")


class _Look:
    def __init__(self, number, process, pipe, deadline):
        self.number, self.process, self.pipe, self.deadline, self.text = number, process, pipe, deadline, b""


class Watch:
    """``report`` sends a message to the launcher."""

    def __init__(self, poll, report):
        self._poll, self._report = poll, report
        self._memories = {}  # rank: descriptor
        self._stack_files = {}
        self._places = {}  # rank: host and local rank
        self.wants_records = False  # of all ranks at their end: one has failed, or the user wants them in any case
        self._stalls = {}  # rank: number of the newest report that was passed on
        self._living = {}  # rank: process
        self._before_stop = {}  # rank: what its memory told when it was stopped
        self._looks = {}  # pipe: _Look
        self._next = 0.0
        self._samples = None  # begun if the records are wanted in any case

    def want_records(self):
        """The user wants the records of all ranks, however the job ends, and samples of what the kernel knows about the ranks."""
        import samples

        self.wants_records = True
        self._samples = samples.Samples()

    def variables(self, order, folder):
        """What a rank that is about to be started finds in its environment; ``order`` is what the launcher said about the rank."""
        rank = order["rank"]
        self._places[rank] = order["environment"].get("HOROVOD_HOSTNAME", ""), int(order["environment"].get("HOROVOD_LOCAL_RANK", 0))
        if rank in self._memories:
            os.close(self._memories.pop(rank))
        variables = {}
        self._stack_files[rank] = variables[stacks.VARIABLE] = stacks.path(folder, rank)
        try:
            self._memories[rank] = flight.new(rank)
        except OSError:
            return variables  # the rank keeps its records to itself
        variables[flight.VARIABLE] = flight.path(os.getpid(), self._memories[rank])
        return variables

    def begin(self, rank, pid):
        """A rank has been started."""
        self._living[rank] = pid

    def end(self, rank, failed):
        """A rank has ended: what its memory tells of that, as items of a message."""
        self._living.pop(rank, None)
        self.wants_records = self.wants_records or failed
        told = self._before_stop.pop(rank, None) or self._flight_of(rank)
        # Workers of an elastic job come and go: the records of the latest ones are kept.
        for old in [other for other in self._memories if other not in self._living][:-_MOST_ENDED]:
            os.close(self._memories.pop(old))
        return {"flight": told} if told else {}

    def remember(self):
        """All ranks are about to be stopped, after which they do not wait any more where they wait now."""
        self.wants_records = True
        for rank in self._living:
            self._before_stop.setdefault(rank, self._flight_of(rank))

    def _flight_of(self, rank):
        return flight.with_ages(self._memories[rank]) if rank in self._memories else None

    # ---- reports of stalls

    def tick(self, now):
        """Passes new reports on, and ends looks that take too long; returns the seconds until the next time."""
        for look in list(self._looks.values()):
            if now >= look.deadline:
                self._end_look(look)
        if not self._living and not self._looks:
            return _NEVER
        if now >= self._next:
            self._next = now + _LOOK
            for rank in self._living:
                self._pass_on(rank)
        sample = _NEVER if self._samples is None else self._samples.take(now, self._processes)
        return min(sample, self._next - now)

    def _processes(self):
        """By rank, the process that has called hvd.init(): a descendant where a shell has started the rank's program."""
        found = {}
        for rank in self._living:
            header = flight.Flight(self._memories[rank]).header() if rank in self._memories else None
            if header is not None:
                found[rank] = header["pid"]
        return found

    def _pass_on(self, rank):
        if rank not in self._memories:
            return
        memory = flight.Flight(self._memories[rank])
        header = memory.header()
        newest = header["stalls"] if header else 0
        if newest <= self._stalls.get(rank, 0):
            self._stalls[rank] = newest  # a rank that joins anew counts anew
            return
        found = memory.stalls(self._stalls.get(rank, 0))
        self._stalls[rank] = newest
        told = [{**{name: one[name] for name in ("kind", "name", "set", "missing", "missing_count", "text")},
                 "waited": round((one["at"] - one["submitted"]) / 1e9, 3)} for one in found]
        if told:
            self._report(stalled=told, rank=rank, own=header["rank"], size=header["size"])

    # ---- looks

    def look(self, order):
        """Begins a look; the answer is reported when it is there. ``order``: its number, and whether with stacks or of which ranks."""
        import looking

        with_stacks = order.get("stacks", False)
        ranks = [(rank, pid, self._memories.get(rank, -1), self._stack_files[rank]) for rank, pid in self._living.items()]
        try:
            process, pipe = looking.start(ranks, self._living if with_stacks is True else with_stacks or ())
        except OSError:  # no process, no descriptor or no memory left: the job goes on
            self._report(looked=order["look"], ranks=None)
            return
        self._looks[pipe] = _Look(order["look"], process, pipe, time.monotonic() + _LOOK_LIMIT)
        self._poll.register(pipe, select.EPOLLIN)

    def __contains__(self, descriptor):
        return descriptor in self._looks

    def handle(self, pipe):
        """A look has written something, or has ended."""
        look = self._looks[pipe]
        try:
            data = os.read(pipe, 1 << 16)
        except BlockingIOError:
            return
        look.text += data
        if not data:
            self._end_look(look)

    def _end_look(self, look):
        try:
            facts = json.loads(look.text)
        except ValueError:
            facts = None  # it took too long, or was killed
        self._forget(look)
        self._report(looked=look.number, ranks=facts)

    def _forget(self, look):
        del self._looks[look.pipe]
        self._poll.unregister(look.pipe)
        os.close(look.pipe)
        try:
            signal.pidfd_send_signal(look.process, signal.SIGKILL)
        except OSError:
            pass  # it has ended
        os.close(look.process)

    # ---- the end

    def stop_looking(self):
        """No look goes on: nothing of the job is left behind because of one."""
        for look in list(self._looks.values()):
            self._forget(look)

    def write_records(self, folder):
        """Writes the records of each rank into the folder if they are wanted; returns the names of the files."""
        if not self.wants_records:
            return []
        import records

        names = records.write_all(folder, [(rank, descriptor, self._places[rank]) for rank, descriptor in self._memories.items()])
        for file in self._stack_files.values():
            if stacks.have_been_taken(file):
                names.append(os.path.basename(file))
            elif os.path.exists(file):
                os.unlink(file)  # it says only who would have written there
        if self._samples is not None:
            names += self._samples.write(folder, {rank: host for rank, (host, _) in self._places.items()})
        return names

    def close(self):
        """Gives the memories up."""
        self.stop_looking()
        for descriptor in self._memories.values():
            os.close(descriptor)
        self._memories.clear()
