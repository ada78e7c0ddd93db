# SPDX-License-Identifier: Apache-2.0
"""Processes of Python programs that start in milliseconds, because they are forked from a process that has imported the framework.

    with Preloaded("torch", "horovod.torch") as program:
        subprocess.run([..., *program.command("train.py", "100")])

A test that kills hundreds of processes would else wait for hundreds of imports. The command is a small process that asks for the
forked one, passes signals on to it, and ends as it ends: killed if that was killed.

As a program, for this module's own use: preloaded.py serve SOCKET MODULE... | preloaded.py start SOCKET PROGRAM WORD...
"""

import contextlib
import importlib
import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile

_PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)


class Preloaded:
    """A process that has imported these modules, until the end of the `with` block."""

    def __init__(self, *modules, environment=None):
        self._modules, self._environment = modules, {**os.environ, **(environment or {})}

    def __enter__(self):
        self._folder = tempfile.TemporaryDirectory()
        self._path = os.path.join(self._folder.name, "socket")
        self._server = subprocess.Popen(
            [sys.executable, "-W", "ignore", __file__, "serve", self._path, *self._modules],
            stdout=subprocess.PIPE, text=True, env=self._environment,
        )
        assert self._server.stdout.readline() == "ready\n", f"{self._modules} could not be imported"
        return self

    def __exit__(self, *_raised):
        self._server.kill()
        self._server.wait()
        self._server.stdout.close()
        self._folder.cleanup()

    def command(self, program, *words):
        """What starts a process that runs this program."""
        return [sys.executable, "-I", "-S", __file__, "start", self._path, str(program), *map(str, words)]


def _start(path, *words):
    """Is the process that was asked for, as far as signals and the exit code tell."""
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(path)
    request = json.dumps({"words": words, "environment": dict(os.environ), "folder": os.getcwd()}).encode()
    socket.send_fds(connection, [struct.pack("I", len(request))], [0, 1, 2])
    connection.sendall(request)
    pid = _received(connection)
    for number in _PASSED_ON:
        signal.signal(number, lambda number, _frame: os.kill(pid, number))
    status = _received(connection)
    if os.WIFSIGNALED(status):
        if os.WTERMSIG(status) != signal.SIGKILL:
            signal.signal(os.WTERMSIG(status), signal.SIG_DFL)
        os.kill(os.getpid(), os.WTERMSIG(status))
    os._exit(os.WEXITSTATUS(status))


def _received(connection):
    return struct.unpack("i", connection.recv(4, socket.MSG_WAITALL))[0]


def _serve(path, *modules):
    """Forks a process per request. Returns in that process alone, with the words that it was asked to run."""
    for module in modules:
        importlib.import_module(module)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(64)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the keepers
    print("ready", flush=True)
    while True:
        connection, _address = listener.accept()
        if os.fork() == 0:
            listener.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            return _keep(connection)
        connection.close()


def _keep(connection):
    """Forks the process, tells whoever asked of its pid and end, and kills it when whoever asked has gone."""
    length, descriptors, _flags, _address = socket.recv_fds(connection, 4, 3)
    request = json.loads(connection.recv(struct.unpack("I", length)[0], socket.MSG_WAITALL))
    pid = os.fork()
    if pid == 0:
        connection.close()
        return _become(request, descriptors)
    connection.sendall(struct.pack("i", pid))
    end = os.pidfd_open(pid)
    poll = select.poll()
    poll.register(end, select.POLLIN)
    poll.register(connection, select.POLLIN)
    if end not in dict(poll.poll()):
        os.kill(pid, signal.SIGKILL)
    _pid, status = os.waitpid(pid, 0)
    with contextlib.suppress(OSError):  # it has gone
        connection.sendall(struct.pack("i", status))
    os._exit(0)


def _become(request, descriptors):
    os.setsid()
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["folder"])
    return request["words"]


if __name__ == "__main__":
    if sys.argv[1] == "start":
        _start(*sys.argv[2:])
    sys.argv = _serve(*sys.argv[2:])
    sys.path[0] = os.path.dirname(sys.argv[0])
    with open(sys.argv[0]) as file:
        source = file.read()
    exec(compile(source, sys.argv[0], "exec"), {"__name__": "__main__", "__file__": sys.argv[0]})
