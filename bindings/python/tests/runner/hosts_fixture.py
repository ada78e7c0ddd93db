# SPDX-License-Identifier: Apache-2.0
"""Jobs on several hosts: the network of tests/hosts, horovodrun started on its first host, and what must not be left."""

import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[4] / "tests" / "hosts"))
import network  # noqa: E402  (found through the line above)
from time_scale import scaled  # noqa: E402

LIMIT = scaled(60)  # seconds; generous, because machines that run tests are busy
HEAD = """import os, signal, subprocess, sys, time
rank, size = int(os.environ["HOROVOD_RANK"]), int(os.environ["HOROVOD_SIZE"])
"""


def wait_until(condition, limit=LIMIT):
    """Waits for a condition and returns the seconds it took; fails after `limit`."""
    began = time.monotonic()
    while not condition():
        assert time.monotonic() - began < limit, f"not within {limit} s"
        time.sleep(0.02)
    return time.monotonic() - began


class Hosts:
    """A network of hosts with a folder that all of them see."""

    def __init__(self, net, folder):
        self.net, self.folder = net, folder
        self.ssh_args = f"-F {net.ssh_config}"

    def script(self, text):
        """A command that runs this Python text as a rank; `rank` and `size` are defined in it."""
        path = self.folder / f"rank{len(list(self.folder.glob('rank*.py')))}.py"
        path.write_text(HEAD + textwrap.dedent(text))
        return [sys.executable, "-S", str(path)]

    def start(self, *arguments, env=None, cwd=None, program=("-m", "horovod.runner"), **options):
        """horovodrun on h0, running."""
        command = [sys.executable, *program, *map(str, arguments)]
        options.setdefault("stdout", subprocess.PIPE)
        options.setdefault("stderr", subprocess.PIPE)
        environment = {"HOROVOD_SSH_ARGS": self.ssh_args, "PYTHONPATH": package(), **(env or {})}
        return self.net.popen(0, command, environment, cwd=str(cwd or self.folder), **options)

    def run(self, *arguments, **options):
        """horovodrun on h0 until its end: exit code, stdout, stderr."""
        process = self.start(*arguments, **options)
        try:
            out, err = process.communicate(timeout=LIMIT)
        finally:
            if process.poll() is None:
                process.kill()
        return process.returncode, out.decode("utf-8", "surrogateescape"), err.decode("utf-8", "surrogateescape")

    def wait_for(self, *names, limit=LIMIT):
        """Waits until the ranks have made these files."""
        self.wait_until(lambda: all((self.folder / name).exists() for name in names), limit)

    wait_until = staticmethod(wait_until)

    def pid_of(self, host, name):
        """The process on a host that has this name (ps -o comm)."""
        found = [pid for pid in self.net.processes(host) if Path(f"/proc/{pid}/comm").read_text().strip() == name]
        assert len(found) == 1, f"{name} on h{host}: {found}"
        return found[0]

    def left(self):
        """Processes and private directories of jobs on all hosts."""
        found = [command for host in range(len(self.net.host_names)) for command in self.net.processes(host).values()]
        for host in range(len(self.net.host_names)):
            found += [path.name for path in Path(self.net.temporary(host)).glob("horovod-*")]
        return found


def package():
    """The folder that holds the package under test."""
    import horovod

    return str(Path(horovod.__file__).resolve().parent.parent)


@pytest.fixture
def many_hosts(tmp_path):
    """many_hosts(hosts=2, ...): a Hosts on a new network; see network.Network for the options."""
    reason = network.available()
    if reason:
        pytest.skip(reason)
    made = []

    def make(**options):
        net = network.Network(**options)
        net.__enter__()
        made.append(Hosts(net, tmp_path))
        return made[-1]

    yield make
    left = []
    deadline = time.monotonic() + 5
    for hosts in made:
        while hosts.left() and time.monotonic() < deadline:
            time.sleep(0.02)  # a keeper ends a moment after the launcher
        left += hosts.left()
        hosts.net.__exit__()
    assert left == []


def default_signals():
    """Undoes what nohup and `command &` do to those they start: SIGINT and SIGHUP ignored."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
