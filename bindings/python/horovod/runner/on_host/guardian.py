# SPDX-License-Identifier: Apache-2.0
"""The guardian: a small process on every host of a job that starts, watches and stops the ranks there.

It exists so that nothing outlives the job. It adopts every process whose parent dies, so also those that detached
themselves; when horovodrun is gone (even by kill -9, or behind a cable that was cut) it kills everything; when the guardian
itself is killed, the kernel kills the ranks, and horovodrun (here) or the keeper (on another host, see keeper.py) the rest.
It never waits for a reader of its output, so a slow one cannot delay it.

It runs as `python -I -S -c ...`, so it imports only the standard library and the modules beside it that say so.
The launcher and it exchange the frames of frames.py; agent.py lists the messages.
"""

import os
import select
import signal
import socket
import sys
import time

import fault_file
import frames
import frozen
import link
import passing
import processes
import rank_process
import ranks
import watching

# After the first failure: time for the others to notice by themselves, then to obey SIGTERM; together under 5 s.
_GRACE_TO_NOTICE = 1.0
_GRACE_AFTER_TERM = 3.0
# Helpers of a rank (resource trackers and the like) end by themselves shortly after it.
_GRACE_FOR_HELPERS = 0.2
_KILL_LIMIT = 1.0
# Nothing of the job lives, so its pipes end at once unless a stranger was handed one.
_WAIT_FOR_OUTPUT = 1.0
_NEVER = float("inf")


class Guardian:
    """Starts the ranks and lives until all of them and all their descendants have ended.

    `remote`: the launcher is on another host, so output travels in frames and both sides must be heard regularly.
    `keeper`: a descriptor that ends with the process that keeps this one.
    """

    def __init__(self, channel, remote=False, keeper=None):
        self._channel, self._remote, self._keeper = channel, remote, keeper
        self._pid = os.getpid()
        self._poll = select.epoll()
        self._link = link.Link(channel, remote, self._poll)
        self._report = self._link.report
        self._watch = watching.Watch(self._poll, self._report)
        self._ranks = ranks.Ranks(self._poll)
        self._pipes = None
        self._preparation = None
        self._began = time.monotonic()
        self._stage = "wait"  # wait for the start, run, notice, term, killed
        self._deadline = _NEVER
        self._results = []
        self._members = None  # of an elastic job, where ranks may fail and more of them come
        self._frozen = None  # likewise

    def run(self):
        wake_read, wake_write = os.pipe()
        os.set_blocking(wake_read, False)
        os.set_blocking(wake_write, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)  # a handler is needed for the wake-up
        signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
        self._wake = wake_read
        self._poll.register(wake_read, select.EPOLLIN)
        if self._keeper is not None:
            self._poll.register(self._keeper, select.EPOLLIN)
        if self._remote:
            self._read_pipes()
        try:
            while self._ranks or self._stage in ("wait", "elastic"):
                self._step()
            self._finish()
        finally:
            if self._preparation is not None:
                self._preparation.close()

    # ---- start

    def _read_pipes(self):
        """Output of ranks goes to the launcher in frames."""
        import rank_pipes

        self._pipes = rank_pipes.RankPipes(self._channel, self._poll)

    def _prepare(self, order):
        import preparation

        try:
            self._preparation = preparation.Preparation(order)
            if order.get("elastic"):
                self._be_elastic()
            self._report(ready=self._preparation.facts)
        except Exception as error:
            self._report(failed=str(error))
            self._stage = "killed"

    def _be_elastic(self):
        import members

        self._members = members.Members(self._preparation.folder, self._poll, lambda line: self._report(said=line))
        if self._pipes is None:
            self._read_pipes()
        # A host that is about to go ends all its processes: ranks may leave in order, and this one stays for them.
        signal.signal(signal.SIGTERM, lambda *_: passing.forward(signal.SIGTERM, list(self._ranks)))

    def _start(self, job):
        self._began = time.monotonic()
        self._stage = "run" if self._members is None else "elastic"
        base = {name: value for name, value in os.environ.items() if name not in job["without"]}
        base.update(job["environment"])
        if job["meet_here"]:
            base["HOROVOD_RENDEZVOUS"] = self._preparation.rendezvous()
        if self._remote:
            self._enter_folder(job["cwd"], base)
        self._results = job["results"]
        if job["records"]:
            self._watch.want_records()
        self._job, self._base = job, base
        self._frozen = frozen.Frozen(base.get("HOROVOD_PEER_TIMEOUT", "10"))
        self._start_ranks(job["ranks"])

    def _start_ranks(self, wanted):
        for rank in wanted:
            folder = self._preparation.folder
            noted = {fault_file.VARIABLE: fault_file.path(folder, rank["rank"]), **self._watch.variables(rank, folder)}
            if not self._start_rank(self._job, rank, {**self._base, **rank["environment"], **noted}):
                processes.kill_all(self._pid, self._reap_everything, _KILL_LIMIT)
                self._stage = "killed"
                return
            if rank.get("result"):
                self._results.append(rank["result"])
        for rank in wanted:
            if "stdout" in rank:
                os.close(rank["stdout"])
                os.close(rank["stderr"])

    def _enter_folder(self, folder, environment):
        try:
            os.chdir(folder)
            environment["PWD"] = folder
        except OSError:
            environment["PWD"] = os.getcwd()  # the launcher has said so

    def _start_rank(self, job, rank, environment):
        outputs = [rank["stdout"], rank["stderr"]] if "stdout" in rank else [
            self._pipes.add(rank["rank"], stream) for stream in (1, 2)]
        pid, error = rank_process.start(job["command"], environment, *outputs, job["file_limit"])
        if "stdout" not in rank:
            for output in outputs:
                os.close(output)
        if error:
            self._report(not_started=rank["rank"], errno=error, text=os.strerror(error))
            return False
        self._ranks.add(pid, rank["rank"])
        self._watch.begin(rank["rank"], pid)
        self._report(started=rank["rank"], pid=pid)
        return True

    # ---- watch

    def _step(self, limit=_NEVER):
        """Waits until something happens, at most `limit` seconds, and handles it."""
        now = time.monotonic()
        beat = self._link.beat(now)
        if beat is None:
            self._lose_launcher()
            beat = _NEVER
        timeout = min(limit, self._deadline - now, beat, self._end_frozen(now), self._watch.tick(now))
        ready = [descriptor for descriptor, _ in self._poll.poll(-1 if timeout == _NEVER else max(0.0, timeout))]
        # Descriptors come in the order in which they became ready, so the first rank here died first.
        for descriptor in ready:
            if self._ranks.watches(descriptor):
                self._reap_rank(descriptor)
            elif self._pipes is not None and descriptor in self._pipes:
                self._pipes.forward(descriptor)
            elif self._members is not None and descriptor in self._members:
                self._members.handle(descriptor)
            elif descriptor in self._watch:
                self._watch.handle(descriptor)
            elif descriptor == self._keeper:
                self._poll.unregister(descriptor)
                self._report(failed="its keeper process was killed")
                self._kill()
        if self._wake in ready:
            os.read(self._wake, 4096)
            self._ranks.reap_adopted()
        if self._link.reader in ready and self._link.alive:
            self._receive()
        self._send()
        if time.monotonic() >= self._deadline:
            self._escalate()

    def _end_frozen(self, now):
        """Tells of ranks that stand still, and ends them later; returns the seconds until the next look."""
        if self._frozen is None or self._stage != "elastic":
            return _NEVER
        if self._link.paused:
            self._frozen.forget()
        expelled, ended = self._frozen.look(now, list(self._ranks))
        for pid in expelled:
            self._report(frozen=self._ranks.number_of(pid), seconds=self._frozen.limit)
        for pid in ended:
            processes.send(pid, signal.SIGKILL, to_group=True)
        return self._frozen.wait(now)

    def _send(self):
        """Sends what waits, and asks to be woken for the rest."""
        if not self._link.flush() and self._link.alive:
            self._lose_launcher()
        if self._pipes is not None:
            self._pipes.regulate()

    def _reap_rank(self, pidfd):
        code = self._report_end(*self._ranks.take_ended(pidfd))
        if code != 0 and self._stage == "run":
            self._go("notice", _GRACE_TO_NOTICE)

    def _reap_everything(self):
        self._ranks.reap_everything(self._report_end)

    def _report_end(self, rank, status):
        code = os.waitstatus_to_exitcode(status)  # negative: minus the signal
        fault = fault_file.read(self._preparation.folder, rank, self._began)
        self._report(exited=rank, code=code, after=time.monotonic() - self._began, **fault, **self._watch.end(rank, code != 0))
        return code

    # ---- stop

    def _go(self, stage, seconds):
        self._stage = stage
        self._deadline = time.monotonic() + seconds

    def _escalate(self):
        if self._stage == "notice":
            self._signal_ranks(signal.SIGTERM)
            self._go("term", _GRACE_AFTER_TERM)
        else:
            self._kill()

    def _kill(self):
        self._stage, self._deadline = "killed", _NEVER
        self._report_stop(signal.SIGKILL)
        processes.kill_all(self._pid, self._reap_everything, _KILL_LIMIT)
        self._ranks.forget()

    def _report_stop(self, number):
        self._watch.remember()
        after = time.monotonic() - self._began
        self._report(stopping=self._ranks.numbers(), signal=int(number), after=after)

    def _signal_ranks(self, number):
        self._report_stop(number)
        for pid in self._ranks:
            processes.send(pid, number, to_group=True)

    def _receive(self):
        arrived = self._link.receive()
        if arrived is None:
            self._lose_launcher()
            return
        for kind, payload in arrived:
            if kind == frames.FILE:
                frames.append_file(self._preparation.folder, payload)
            elif kind == frames.MESSAGE:
                self._obey(frames.read_message(payload))

    def _obey(self, order):
        if "prepare" in order:
            self._prepare(order["prepare"])
        elif "start" in order:
            if self._stage == "wait":
                self._start(order["start"])
        elif "more" in order:
            if self._stage == "elastic":
                self._start_ranks(order["more"])
        elif "tell" in order:
            for worker, line in order["tell"]:
                self._members.tell(worker, line)
        elif "no_more" in order:
            if self._stage == "elastic":
                self._stage = "run"
        elif "arrived" in order:
            self._report(arrived=True)
        elif "kill" in order:
            self._kill()
        elif "signal" in order:
            if self._stage != "killed":
                self._signal_ranks(order["signal"])
                self._go("term", order.get("grace", _GRACE_AFTER_TERM))
        elif "forward" in order:
            passing.forward(order["forward"], self._ranks)
        elif "stop" in order:
            if self._stage in ("run", "elastic"):
                self._go("notice", _GRACE_TO_NOTICE)
        elif "paused" in order:
            self._link.paused = order["paused"]
        elif "look" in order:
            self._watch.look(order)
        elif "clock" in order:
            self._report(clock=order["clock"], at=time.monotonic_ns())

    def _lose_launcher(self):
        self._link.give_up()
        self._kill()

    def _finish(self):
        """All ranks have ended: ends what they have left behind."""
        self._reap_everything()
        self._watch.stop_looking()
        stage, left = self._stage, []
        self._deadline = _NEVER
        self._wait_for_children(stage, _GRACE_FOR_HELPERS)
        if self._has_children():
            left = processes.descendants(self._pid)
            self._report(left_behind=[[pid, processes.name_of(pid)] for pid in left])
            for pid in left:
                processes.send(pid, signal.SIGTERM)
            self._wait_for_children(stage, _GRACE_AFTER_TERM if stage == "run" else 0.2)
            left = processes.kill_all(self._pid, self._reap_everything, _KILL_LIMIT)
        self._results += self._watch.write_records(self._preparation.folder) if self._preparation is not None else []
        self._send_rest()
        self._watch.close()
        if self._members is not None:
            self._members.close()
        if self._preparation is not None:
            self._preparation.close()
        self._report(done=True, unkillable=left)
        while self._channel.pending and self._link.alive:
            self._step()

    def _wait_for_children(self, stage, limit):
        """Waits until all have ended, at most so long; shorter if the launcher is gone or has any order now."""
        deadline = time.monotonic() + limit
        while self._has_children() and self._stage == stage != "killed" and time.monotonic() < deadline:
            self._step(0.005)

    def _send_rest(self):
        """Sends what is left in the pipes, and the files that the launcher wants to have."""
        if self._pipes is None:
            return
        give_up = time.monotonic() + _WAIT_FOR_OUTPUT
        while len(self._pipes) and self._link.alive and time.monotonic() < give_up:
            self._step(give_up - time.monotonic())
            if self._pipes.paused:
                give_up = time.monotonic() + _WAIT_FOR_OUTPUT  # it is the launcher that is slow
        self._pipes.close()
        for name in self._results:
            path = os.path.join(self._preparation.folder, name)
            if os.path.exists(path):
                for piece in frames.file_pieces(path):
                    self._channel.send_file(name, piece)
                    while self._channel.pending > frames.PIECE and self._link.alive:
                        self._step()

    def _has_children(self):
        self._reap_everything()
        try:
            os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            return True
        except ChildProcessError:
            return False


def main():
    """The guardian of the launcher's own host."""
    # Out of the terminal's and the launcher's group: a signal to those must not hit the one who cleans up.
    os.setsid()
    processes.set_name("hvd-guardian")
    processes.adopt_orphans()
    channel = socket.socket(fileno=int(sys.argv[2]))
    for inherited in map(int, sys.argv[2:]):
        os.set_inheritable(inherited, False)
    Guardian(frames.Channel(channel.fileno(), channel.fileno())).run()
