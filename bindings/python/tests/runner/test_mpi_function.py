# SPDX-License-Identifier: Apache-2.0
"""horovod.run(use_mpi=True): mpirun starts the ranks; the function and its results travel beside it."""

import os
import shutil
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from hosts_fixture import LIMIT

HEAD = """
import os, signal, sys, time
import horovod

def me():
    return int(os.environ["OMPI_COMM_WORLD_RANK"])

def told(function, **options):
    try:
        return horovod.run(function, use_mpi=True, **options)
    except RuntimeError as error:
        return str(error)
"""


def test_a_function(mpirun, tmp_path):
    program = tmp_path / "caller.py"
    program.write_text("""
import os, horovod
print(horovod.run(lambda x: (os.environ["OMPI_COMM_WORLD_RANK"], x), (5,), np=2, use_mpi=True, mpi_args="--oversubscribe"))
def fail(): raise KeyError("told")
try:
    horovod.run(fail, np=2, use_mpi=True, mpi_args="--oversubscribe")
except RuntimeError as error:
    print(str(error).splitlines()[0].replace("1", "0"))
""")
    done = subprocess.run([sys.executable, str(program)], env={**os.environ, "PATH": mpirun[0]}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["[('0', 5), ('1', 5)]", "rank 0 raised KeyError: 'told'"]


class Caller:
    """A program that calls horovod.run on h0, on hosts that see nothing of each other's temporary folders."""

    def __init__(self, hosts, path):
        self.hosts, self._path = hosts, path
        for host in range(2):
            assert hosts.net.run(host, ["mount", "-t", "tmpfs", "tmpfs", hosts.net.temporary(1 - host)]).returncode == 0

    def start(self, text):
        program = self.hosts.folder / "caller.py"
        program.write_text(HEAD + textwrap.dedent(text))
        return self.hosts.start(program=(str(program),), env={"PATH": self._path, "UP": str(self.hosts.folder)})

    def run(self, text):
        """What the program prints, line by line; it must end well."""
        process = self.start(text)
        try:
            out, err = process.communicate(timeout=LIMIT)
        finally:
            if process.poll() is None:
                process.kill()
        assert process.returncode == 0, err.decode()
        return [line for line in out.decode().splitlines() if line.startswith("> ")]


@pytest.fixture
def caller(many_hosts, mpirun):
    return Caller(many_hosts(), mpirun[0])


def test_results_of_other_hosts(caller):
    said = caller.run("""
        big = bytes(5 << 20)
        def work(number):
            import horovod as hvd
            hvd.init()
            total = float(hvd.allreduce(float(hvd.rank()), op=hvd.Sum))
            hvd.shutdown()
            return me(), os.uname().nodename, len(big) + number, total, big[:3 << 20]
        results = horovod.run(work, (3,), hosts="h0:1,h1:2", use_mpi=True)
        print(">", *[result[:4] for result in results], {len(result[4]) for result in results})
        print(">", told(lambda: (me(), os.uname().nodename), hosts="h1:2"))  # no rank is here
    """)
    size = (5 << 20) + 3
    assert said == [f"> (0, 'h0', {size}, 3.0) (1, 'h1', {size}, 3.0) (2, 'h1', {size}, 3.0) {{{3 << 20}}}",
                    "> [(0, 'h1'), (1, 'h1')]"]


def test_whoever_raises_is_told_whatever_the_others_wait_for(caller):
    said = caller.run("""
        def sleeping():
            if me() == 2:
                raise KeyError("told")
            time.sleep(300)
        text = told(sleeping, hosts="h0:1,h1:2")
        print(">", text.splitlines()[0], "Traceback (most recent call last)" in text, "in sleeping" in text)
        def training():
            import horovod as hvd
            hvd.init()
            if hvd.rank() == 3:
                raise ValueError("in the middle")
            while True:
                hvd.allreduce(1.0, name="step")
        print(">", told(training, hosts="h0:2,h1:2").splitlines()[0])
        print(">", told(lambda: os._exit(4) if me() == 1 else time.sleep(300), hosts="h0:1,h1:1"))
    """)
    assert said == ["> rank 2 raised KeyError: 'told' True True", "> rank 3 raised ValueError: in the middle",
                    "> mpirun failed with exit code 4"]


def test_host_that_cannot_be_reached(caller):
    said = caller.run("""
        print(">", repr(told(me, hosts="h0:1,nosuch.invalid:1", start_timeout=20)))
    """)
    assert len(said) == 1 and "host \"nosuch.invalid\": its name is not known" in said[0], said


UP = """
    def work():
        open(os.path.join(os.environ["UP"], f"up{me()}"), "w").close()
        time.sleep(300)
    print(">", repr(told(work, hosts="h0:1,h1:1")))
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_caller_that_goes_takes_everything_along(caller, number):
    process = caller.start(UP)
    caller.hosts.wait_for("up0", "up1")
    os.kill(process.command_pid, number)
    process.communicate(timeout=LIMIT)
    caller.hosts.wait_until(lambda: not any("run_task" in line or "mpirun" in line or "hvd" in line for host in range(2)
                                            for line in caller.hosts.net.processes(host).values()), 10)
    assert caller.hosts.run("-np", 1, "true")[0] == 0  # removes the folder of a caller that could not


def test_host_that_goes_away(caller):
    process = caller.start(UP)
    caller.hosts.wait_for("up0", "up1")
    caller.hosts.net.kill_host(1)
    out, err = process.communicate(timeout=LIMIT)
    assert b'host "h1" was lost: ' in out, err.decode()
    for folder in Path(caller.hosts.net.temporary(1)).glob("horovod-*"):
        shutil.rmtree(folder)  # what had no power could not tidy up
