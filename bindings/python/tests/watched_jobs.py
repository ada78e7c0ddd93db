# SPDX-License-Identifier: Apache-2.0
"""Jobs whose metrics are read while they run."""

import contextlib
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

WORKERS = Path(__file__).resolve().parent / "workers"
_LIMIT = 90


def free_ports(number=2):
    """The first of so many ports of loopback, one after another, that nobody uses now."""
    for _attempt in range(100):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            first = probe.getsockname()[1]
        with contextlib.ExitStack() as held:
            try:
                for port in range(first, first + number):
                    held.enter_context(socket.socket()).bind(("127.0.0.1", port))
            except (OSError, OverflowError):
                continue
            return first
    raise AssertionError("no free ports")


def read(port, token=None, path="/metrics", host="127.0.0.1"):
    """(status, text) of one answer; (None, "") where nobody listens."""
    request = urllib.request.Request(f"http://{host}:{port}{path}")
    if token is not None:
        request.add_header("Authorization", f"Bearer {token}")
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except OSError:
        return None, ""


def wait_for(what, limit=_LIMIT):
    """The first true result of the function."""
    end = time.monotonic() + limit
    while True:
        result = what()
        if result:
            return result
        assert time.monotonic() < end, "nothing came of it in time"
        time.sleep(0.1)


def sample(text, name, **labels):
    """The value of a sample in the text format, None if there is none."""
    for line in text.splitlines():
        head, _, value = line.rpartition(" ")
        found, _, rest = head.partition("{")
        if found == name and all(f'{label}="{wanted}"' in rest for label, wanted in labels.items()):
            return float(value)
    return None


class Job:
    """horovodrun with `worker` as its ranks, from start() to its end. `stop` is the file that ends watched_training.py."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self.stop = self.folder / "stop"
        self.errors = self.folder / "stderr"
        self._process = None

    def start(self, *arguments, worker="watched_training.py", more=(), **environment):
        variables = {name: value for name, value in os.environ.items() if not name.startswith("HOROVOD_")}
        variables.update(OMP_NUM_THREADS="1", HOROVOD_LOG_LEVEL="info", **environment)
        command = [sys.executable, "-m", "horovod.runner", *map(str, arguments), sys.executable, WORKERS / worker, self.stop, *more]
        with open(self.errors, "wb") as errors:
            self._process = subprocess.Popen(list(map(str, command)), env=variables, stdout=errors, stderr=subprocess.STDOUT)
        return self

    @property
    def text(self):
        return self.errors.read_text(errors="replace")

    def wait(self):
        return self._process.wait(_LIMIT)

    def runs(self):
        return self._process.poll() is None

    def end(self):
        """Lets the training end; its exit code."""
        self.stop.touch()
        return self.wait()

    def close(self):
        if self._process is not None and self.runs():
            self._process.terminate()
            self.wait()
