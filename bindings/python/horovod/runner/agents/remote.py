# SPDX-License-Identifier: Apache-2.0
"""Python code on another host through ssh: how it gets there, how it is started, and what went wrong if it was not.

The far side needs a Python and nothing of this package: the modules travel through ssh's standard input, so that
neither they nor what follows them is ever an argument. After the greeting, standard input and output belong to them.
"""

import json
import os
import re
import shlex
import signal
import sys
from typing import Iterable, List, NamedTuple, Optional

from ..on_host import processes

# What a login shell prints before it is skipped.
GREETING = b"\n\x01hvd agent 1\x01\n"
_OLDEST_PYTHON = (3, 9)
# Without quotes, because it is quoted twice.
_FIRST = "import io;f=io.FileIO(0,closefd=False);exec(f.readline())"
_SECOND = """
import json, os, sys, types
if sys.version_info < {oldest}:
    sys.exit("python {needed} or newer is needed, " + sys.executable + " is " + sys.version.split()[0])
size, text = int(f.readline()), b""
while len(text) < size:
    piece = f.read(size - len(text))
    if not piece:
        sys.exit("the program did not arrive")
    text += piece
bundle = json.loads(text.decode())
for name, source in bundle["modules"]:
    module = types.ModuleType(name)
    sys.modules[name] = module
    exec(compile(source, name + ".py", "exec"), module.__dict__)
os.write(1, {greeting})
sys.modules[bundle["entry"]].main()
"""
_PLAIN = re.compile(r"[\w./+-]+")
_NO_PYTHON = "no python3 there"
# Ways in which ssh fails: what it says, what we say.
_FAULTS = (
    (r"REMOTE HOST IDENTIFICATION HAS CHANGED",
     "its host key differs from the known one; if that is right, remove the old one: ssh-keygen -R {name}"),
    (r"Host key verification failed|No \S+ host key is known",
     "its host key is not known; connect once with ssh {name}, or trust new hosts with --ssh-accept-new"),
    (r"Permission denied \((?P<fact>[^)]*)\)",
     "ssh: permission denied ({fact}); it must let you in without a password: ssh-copy-id {name}, or --ssh-identity-file"),
    (r"Could not resolve hostname [^:]*: (?P<fact>.*)", "its name is not known: {fact}"),
    (r"Connection refused", "no ssh server answers there; start sshd, or give its port with --ssh-port"),
    (r"connect to host .*: (?P<fact>No route to host|Network is unreachable|Connection timed out|Operation timed out)",
     "cannot be reached: {fact}"),
    (r"Timeout, server .* not responding", "it does not answer any more"),
    (_NO_PYTHON, _NO_PYTHON + "; install one, or put it into the PATH that ssh {name} gives"),
)


class SshOptions(NamedTuple):
    """How to reach hosts; what is not given is left to the user's own configuration of ssh."""

    port: Optional[int] = None
    identity_file: Optional[str] = None
    accept_new: bool = False
    connect_timeout: int = 10


class Connection(NamedTuple):
    """A started ssh: its process, and our ends of its standard streams."""

    pid: int
    to: int
    back: int
    errors: int


def ssh_command(host: str, options: SshOptions, command: str) -> List[str]:
    """The arguments of ssh. HOROVOD_SSH_ARGS adds options of the user, for example `-F file`."""
    arguments = ["ssh", *shlex.split(os.environ.get("HOROVOD_SSH_ARGS", "")), "-T", "-x"]
    settings = ["BatchMode=yes", f"ConnectTimeout={options.connect_timeout}", "ServerAliveInterval=2",
                "ServerAliveCountMax=4", "ClearAllForwardings=yes", "RemoteCommand=none"]
    if options.accept_new:
        settings.append("StrictHostKeyChecking=accept-new")
    for setting in settings:
        arguments += ["-o", setting]
    if options.port is not None:
        arguments += ["-p", str(options.port)]
    if options.identity_file is not None:
        arguments += ["-i", options.identity_file]
    return [*arguments, "--", host, command]


def python_command() -> str:
    """What the far side's shell executes: the same Python as here if it is there too, else its own."""
    wanted = [sys.executable] if sys.executable and _PLAIN.fullmatch(sys.executable) else []
    script = (f'for p in {" ".join([*wanted, "python3", "python"])}; do p=$(command -v $p) && [ -x "$p" ] && '
              f'exec "$p" -I -S -c "{_FIRST}"; done; echo "{_NO_PYTHON}" >&2; exit 127')
    return f"exec /bin/sh -c '{script}'"


def bundle(files: Iterable[str], entry: str) -> bytes:
    """What goes into ssh's standard input first: modules, each after those it imports, and whose main() is then called."""
    sources = []
    for path in files:
        with open(path, encoding="utf-8") as file:
            sources.append((os.path.splitext(os.path.basename(path))[0], file.read()))
    text = json.dumps({"modules": sources, "entry": entry}).encode()
    needed = ".".join(map(str, _OLDEST_PYTHON))
    second = _SECOND.format(oldest=_OLDEST_PYTHON, needed=needed, greeting=GREETING)
    return f"exec({second!r})\n{len(text)}\n".encode() + text


def connect(host: str, options: SshOptions) -> Connection:
    """Starts ssh to a host. It dies with this process, and a signal for the terminal's group spares it."""
    arguments = ssh_command(host, options, python_command())
    ours, theirs = [], []
    for writes in (False, True, True):  # stdin, stdout, stderr as ssh sees them
        read, write = os.pipe()
        ours.append(read if writes else write)
        theirs.append(write if writes else read)
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        try:
            os.setsid()
            processes.die_with_parent(parent)
            for number, descriptor in enumerate(theirs):
                os.dup2(descriptor, number)
            signal.set_wakeup_fd(-1)
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE, signal.SIGALRM, signal.SIGTSTP):
                signal.signal(number, signal.SIG_DFL)
            os.execvp(arguments[0], arguments)
        except OSError as error:
            os.write(2, f"{arguments[0]}: {error.strerror}".encode())
        finally:
            os._exit(127)
    for descriptor in theirs:
        os.close(descriptor)
    return Connection(pid, *ours)


def explain(host: str, said: str, code: Optional[int]) -> str:
    """Why ssh did not get through or has ended, in one line, with what to do about it."""
    for pattern, text in _FAULTS:
        match = re.search(pattern, said)
        if match:
            fact = (match.groupdict().get("fact") or "").strip().lower()
            return text.format(name=host, fact=fact)
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    how = "ssh ended" if code is None else f"ssh ended with {'exit code' if code >= 0 else 'signal'} {abs(code)}"
    return f"{how}: {lines[-1]}" if lines else how
