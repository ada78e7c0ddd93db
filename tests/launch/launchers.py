# SPDX-License-Identifier: Apache-2.0
"""The program that every launcher starts, and what is known of the launchers."""

import json
import os
import re
import secrets
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
SETTINGS = {
    "HOROVOD_LOG_LEVEL": "info",
    "HOROVOD_START_TIMEOUT": "30",
    "OMP_NUM_THREADS": "1",
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
}
DEBIAN_MPI = "libmpi.so.40"


class Work:
    """The program, and what its ranks have left behind."""

    def __init__(self, folder):
        self.folder = folder
        self.secret = folder / "secret"
        self.secret.write_text(secrets.token_hex(32))
        self.secret.chmod(0o600)

    def command(self, *arguments):
        return [sys.executable, str(HERE / "train.py"), str(self.folder), *arguments]

    def run(self, launcher, *arguments, timeout=120, **variables):
        done = subprocess.run(
            [*launcher, *self.command(*arguments)],
            env={**os.environ, **SETTINGS, **variables},
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=timeout,
        )
        assert done.returncode == 0, done.stdout
        return done.stdout

    def run_each(self, start, environments, timeout=120):
        """Starts one process for each environment; returns the output of all."""
        ranks = [start(number, variables) for number, variables in enumerate(environments)]
        try:
            outputs = [rank.communicate(timeout=timeout)[0] for rank in ranks]
        finally:
            for rank in ranks:
                rank.kill()
        assert [rank.returncode for rank in ranks] == [0] * len(ranks), "\n".join(outputs)
        return "\n".join(outputs)

    def check(self, output, launcher, size, local_size, rendezvous, security="auth"):
        """All ranks were there and agreed, twice, and said in one line how they met."""
        seen = [json.loads((self.folder / f"rank.{rank}").read_text()) for rank in range(size)]
        for rank, one in enumerate(seen):
            assert (one["rank"], one["size"], one["local_size"]) == (rank, size, local_size)
            assert one["after"] < one["before"] / 100
            assert one["after"] == seen[0]["after"]
            line = (
                rf"rank {rank} of {size} \(local {one['local_rank']} of {local_size}\) on host \S+; launcher "
                rf"{launcher}; rendezvous {rendezvous}\S*; security {security}"
            )
            assert len(re.findall(line, output)) == 2, output
        return seen


def local(_number, variables, command):
    return subprocess.Popen(
        command,
        env={**os.environ, **SETTINGS, **variables},
        text=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


def open_mpi_4():
    program = shutil.which("mpirun.openmpi") or shutil.which("mpirun")
    if not program:
        pytest.skip("mpirun is not installed")
    version = subprocess.run([program, "--version"], capture_output=True, text=True).stdout
    if not re.search(r"\((Open MPI|OpenRTE)\) 4\.", version):
        pytest.skip(f"{program} is no Open MPI 4: {version.splitlines()[:1]}")
    return program


def torchrun(*arguments):
    if not find_spec("torch"):
        pytest.skip("torch is not installed")
    return [sys.executable, "-m", "torch.distributed.run", *arguments, "--no-python"]
