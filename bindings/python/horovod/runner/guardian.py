# SPDX-License-Identifier: Apache-2.0
"""The guardian: a small process between horovodrun and the ranks that starts, watches and stops them.

It exists so that nothing outlives the job. It adopts every process whose parent dies, so also those that detached
themselves; when horovodrun is gone (even by kill -9) its socket closes and the guardian kills everything; when the
guardian itself is killed, the kernel kills the ranks and horovodrun the rest. It never writes to a terminal, so a slow
reader of the output cannot delay it.

It runs as `python -I -S -c ... guardian.py's folder, socket`, so it imports only the standard library and `processes`.
Both directions of the socket carry JSON, one object per line. From the launcher: the job (a `Job` below), then
{"signal": n} to pass a signal on and stop, {"kill": true} to stop at once. To the launcher: started, not_started, exited,
stopping, left_behind, done.
"""

import errno
import json
import os
import select
import signal
import socket
import sys
import time

import processes

# After the first failure: time for the others to notice by themselves, then to obey SIGTERM; together under 5 s.
_GRACE_TO_NOTICE = 1.0
_GRACE_AFTER_TERM = 3.0
# Helpers of a rank (resource trackers and the like) end by themselves shortly after it.
_GRACE_FOR_HELPERS = 0.2
_KILL_LIMIT = 1.0

_HANDLED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE, signal.SIGXFSZ)


class Guardian:
    """Starts the ranks and lives until all of them and all their descendants have ended."""

    def __init__(self, channel):
        self._channel = channel
        self._unread = b""
        self._pid = os.getpid()
        self._ranks = {}  # pid of a living rank: its number
        self._pidfds = {}  # pidfd: pid
        self._poll = select.epoll()
        self._began = time.monotonic()
        self._stage = "run"  # run, notice, term, killed
        self._deadline = None
        self._launcher_alive = True

    def run(self):
        self._channel.setblocking(True)
        job = self._receive_job()
        wake_read, wake_write = os.pipe()
        os.set_blocking(wake_read, False)
        os.set_blocking(wake_write, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)  # a handler is needed for the wake-up
        signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
        if self._start(job):
            self._channel.setblocking(False)
            self._poll.register(self._channel.fileno(), select.EPOLLIN)
            self._poll.register(wake_read, select.EPOLLIN)
            self._watch(wake_read)
        self._finish()

    def _receive_job(self):
        while b"\n" not in self._unread:
            data = self._channel.recv(1 << 16)
            if not data:
                sys.exit(1)
            self._unread += data
        line, _, self._unread = self._unread.partition(b"\n")
        return json.loads(line)

    # ---- start

    def _start(self, job):
        self._began = time.monotonic()
        for rank in job["ranks"]:
            environment = {**os.environ, **job["environment"], **rank["environment"]}
            pid, error = self._fork(job["command"], environment, rank["stdout"], rank["stderr"], job["file_limit"])
            if error:
                self._report(not_started=rank["rank"], errno=error, text=os.strerror(error))
                processes.kill_all(self._pid, self._reap_everything, _KILL_LIMIT)
                return False
            self._ranks[pid] = rank["rank"]
            pidfd = os.pidfd_open(pid)
            self._pidfds[pidfd] = pid
            self._poll.register(pidfd, select.EPOLLIN)
            self._report(started=rank["rank"], pid=pid)
        for rank in job["ranks"]:
            os.close(rank["stdout"])
            os.close(rank["stderr"])
        return True

    def _fork(self, command, environment, stdout, stderr, file_limit):
        """The new process and 0, or an error number of exec. Safe to fork here: this process has one thread."""
        failure_read, failure_write = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                self._become_rank(command, environment, stdout, stderr, file_limit)
            except OSError as error:
                os.write(failure_write, str(error.errno).encode())
            finally:
                os._exit(127)
        os.close(failure_write)
        failure = os.read(failure_read, 16)  # ends empty when exec closes the other end
        os.close(failure_read)
        if failure:
            os.waitpid(pid, 0)
        return pid, int(failure or 0)

    def _become_rank(self, command, environment, stdout, stderr, file_limit):
        os.setsid()  # a session of its own, so that a signal to its group reaches all it starts
        processes.die_with_parent(self._pid)
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.dup2(stdout, 1)
        os.dup2(stderr, 2)
        for number in _HANDLED:
            if number in (signal.SIGPIPE, signal.SIGXFSZ) or signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.set_wakeup_fd(-1)
        if file_limit:
            import resource

            resource.setrlimit(resource.RLIMIT_NOFILE, tuple(file_limit))
        os.execvpe(command[0], command, environment)

    # ---- watch

    def _watch(self, wake_read):
        while self._ranks:
            timeout = -1 if self._deadline is None else max(0.0, self._deadline - time.monotonic())
            ready = [descriptor for descriptor, _ in self._poll.poll(timeout)]
            # Descriptors come in the order in which they became ready, so the first rank here died first.
            for descriptor in ready:
                if descriptor in self._pidfds:
                    self._reap_rank(descriptor)
            if wake_read in ready:
                os.read(wake_read, 4096)
                self._reap_adopted()
            if self._channel.fileno() in ready:
                self._receive()
            if self._deadline is not None and time.monotonic() >= self._deadline:
                self._escalate()

    def _reap_rank(self, pidfd):
        pid = self._pidfds.pop(pidfd)
        self._poll.unregister(pidfd)
        os.close(pidfd)
        _, status = os.waitpid(pid, 0)
        rank = self._ranks.pop(pid)
        code = os.waitstatus_to_exitcode(status)  # negative: minus the signal
        self._report(exited=rank, code=code, after=time.monotonic() - self._began)
        if code != 0 and self._stage == "run":
            self._go("notice", _GRACE_TO_NOTICE)

    def _reap_adopted(self):
        """Reaps adopted processes, and leaves ranks to _reap_rank, which knows their order."""
        try:
            while True:
                child = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
                if child is None or child.si_pid in self._ranks:
                    return
                os.waitpid(child.si_pid, 0)
        except ChildProcessError:
            pass

    def _reap_everything(self):
        """Reaps what kill_all has killed; ranks still report how they ended."""
        try:
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return
                rank = self._ranks.pop(pid, None)
                if rank is not None:
                    code = os.waitstatus_to_exitcode(status)
                    self._report(exited=rank, code=code, after=time.monotonic() - self._began)
        except ChildProcessError:
            pass

    # ---- stop

    def _go(self, stage, seconds):
        self._stage = stage
        self._deadline = time.monotonic() + seconds

    def _escalate(self):
        if self._stage == "notice":
            self._report(stopping=list(self._ranks.values()), signal=int(signal.SIGTERM))
            self._signal_ranks(signal.SIGTERM)
            self._go("term", _GRACE_AFTER_TERM)
        else:
            self._kill()

    def _kill(self):
        self._stage, self._deadline = "killed", None
        self._report(stopping=list(self._ranks.values()), signal=int(signal.SIGKILL))
        processes.kill_all(self._pid, self._reap_everything, _KILL_LIMIT)
        self._ranks.clear()

    def _signal_ranks(self, number):
        for pid in self._ranks:  # not reaped yet, so the group is certainly still theirs
            processes.send(pid, number, to_group=True)

    def _receive(self):
        try:
            data = self._channel.recv(4096)
        except BlockingIOError:
            return
        except ConnectionError:
            data = b""
        if not data:
            self._launcher_alive = False
            self._kill()
            return
        self._unread += data
        while b"\n" in self._unread:
            line, _, self._unread = self._unread.partition(b"\n")
            order = json.loads(line)
            if "kill" in order:
                self._kill()
            elif self._stage != "killed":
                self._signal_ranks(order["signal"])
                self._go("term", _GRACE_AFTER_TERM)

    def _finish(self):
        """All ranks have ended: ends what they have left behind."""
        self._reap_everything()
        left = []
        deadline = time.monotonic() + _GRACE_FOR_HELPERS
        while self._has_children() and time.monotonic() < deadline and self._stage != "killed":
            time.sleep(0.005)
        if self._has_children():
            left = processes.descendants(self._pid)
            self._report(left_behind=[[pid, processes.name_of(pid)] for pid in left])
            for pid in left:
                processes.send(pid, signal.SIGTERM)
            deadline = time.monotonic() + (_GRACE_AFTER_TERM if self._stage == "run" else 0.2)
            while self._has_children() and time.monotonic() < deadline and self._launcher_still_there():
                time.sleep(0.01)
            left = processes.kill_all(self._pid, self._reap_everything, _KILL_LIMIT)
        self._report(done=True, unkillable=left)

    def _has_children(self):
        self._reap_everything()
        try:
            os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            return True
        except ChildProcessError:
            return False

    def _launcher_still_there(self):
        """False once the launcher is gone or asks to be quick: any order now means that."""
        ready, _, _ = select.select([self._channel], [], [], 0)
        return not ready

    def _report(self, **event):
        if self._launcher_alive:
            data = json.dumps(event).encode() + b"\n"
            try:
                while data:
                    try:
                        data = data[self._channel.send(data) :]
                    except BlockingIOError:
                        select.select([], [self._channel], [], 1.0)
            except OSError as error:
                if error.errno not in (errno.EPIPE, errno.ECONNRESET):
                    raise
                self._launcher_alive = False


def main():
    # Out of the terminal's and the launcher's group: a signal to those must not hit the one who cleans up.
    os.setsid()
    processes.set_name("hvd-guardian")
    processes.adopt_orphans()
    channel = socket.socket(fileno=int(sys.argv[2]))
    os.set_inheritable(channel.fileno(), False)
    for rank_pipe in map(int, sys.argv[3:]):
        os.set_inheritable(rank_pipe, False)
    Guardian(channel).run()
