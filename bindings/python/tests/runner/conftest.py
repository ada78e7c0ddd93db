# SPDX-License-Identifier: Apache-2.0
"""Starts horovodrun as users do: as a process, with small scripts as ranks. No engine is needed here."""

import os
import shutil
import signal
import subprocess
import sys
import textwrap

import pytest
from hosts_fixture import LIMIT, default_signals, many_hosts, wait_until  # noqa: F401  (many_hosts is a fixture)


class Runner:
    """Starts horovodrun in a folder of its own."""

    def __init__(self, folder):
        self.folder = folder
        self.temporary = folder / "tmp"
        self.temporary.mkdir()
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith("HOROVOD_")}
        self.environment.pop("XDG_RUNTIME_DIR", None)
        self.environment.pop("OMP_NUM_THREADS", None)
        self.environment["TMPDIR"] = str(self.temporary)

    def script(self, text, name="rank.py"):
        """A command that runs this Python text; `rank` and `size` are defined in it."""
        path = self.folder / name
        head = "import os, signal, subprocess, sys, time\nrank = int(os.environ['HOROVOD_RANK'])\nsize = int(os.environ['HOROVOD_SIZE'])\n"
        path.write_text(head + textwrap.dedent(text))
        return [sys.executable, "-S", str(path)]

    def start(self, *arguments, **options):
        """horovodrun as a running process."""
        command = [sys.executable, "-m", "horovod.runner", *map(str, arguments)]
        options.setdefault("stdout", subprocess.PIPE)
        options.setdefault("stderr", subprocess.PIPE)
        options.setdefault("preexec_fn", default_signals)
        return subprocess.Popen(command, env=self.environment, cwd=self.folder, **options)

    def run(self, *arguments):
        """horovodrun until its end: exit code, stdout, stderr."""
        process = self.start(*arguments)
        out, err = process.communicate(timeout=LIMIT)
        return process.returncode, out.decode(), err.decode()

    def marked(self, mark):
        """Processes of this machine that have `mark` in their environment or arguments."""
        found = []
        for entry in os.listdir("/proc"):
            if entry.isdigit() and int(entry) != os.getpid():
                try:
                    with open(f"/proc/{entry}/environ", "rb") as file:
                        text = file.read()
                    with open(f"/proc/{entry}/stat", "rb") as file:
                        state = file.read().rpartition(b")")[2].split()[0]
                except OSError:
                    continue
                if mark.encode() in text and state not in (b"Z", b"X"):
                    found.append(int(entry))
        return found

    wait_until = staticmethod(wait_until)

    def private_dirs(self):
        return sorted(path.name for path in self.temporary.iterdir() if path.name.startswith("horovod-"))


# The mpirun of PATH, and those in the folders that HVD_TEST_MPI lists.
MPI_FOLDERS = [os.path.dirname(shutil.which("mpirun") or "")] + os.environ.get("HVD_TEST_MPI", "").split(os.pathsep)


@pytest.fixture(params=[folder for folder in MPI_FOLDERS if folder] or [""])
def mpirun(request):
    """The PATH that finds an mpirun, and its major number."""
    if not request.param:
        pytest.skip("no mpirun in PATH")
    from horovod.runner.job import mpi

    said = subprocess.run([f"{request.param}/mpirun", "--version"], capture_output=True, text=True).stdout
    implementation, major = mpi.implementation_of(said)
    if implementation != mpi.OPEN_MPI:
        pytest.skip(f"mpirun is {implementation}, not Open MPI")
    return f"{request.param}:{os.environ['PATH']}", major


@pytest.fixture
def runner(tmp_path):
    made = Runner(tmp_path)
    yield made
    # Whatever a test did, nothing of its jobs lives on and nothing is left in the temporary folder.
    left = made.marked(str(made.temporary))
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert left == []
    assert made.private_dirs() == []
