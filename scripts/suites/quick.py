# SPDX-License-Identifier: Apache-2.0
"""What `scripts/test --quick` runs while somebody works: every layer, of some suites a sample. It makes no wheel: Python's tests
run on the sources and on the library in `build`."""

import os
from typing import Callable, Dict

from suites.count import ROOT, Count, passed_if
from suites.engine import LIBRARY, build, lint, meson_suites, plain_suite
from suites.package import pytest

_PYTHON = ROOT / "bindings" / "python"
_VECTORS = ("vectors_c", "vectors_python", "vectors_narrow_by_hosts", "vectors_are_current", "wrong_result_c", "wrong_message_c")
_KILLS = "20"  # of 207
# Whole jobs, messages and errors; PyTorch in a job of two ranks; horovodrun's options and output.
_PYTHON_TESTS = ("test_jobs.py", "test_objects.py", "test_package.py", "runner/test_flags.py", "runner/test_output.py")
_OF_INSTALLED = "test_what_is_not_built_is_not_claimed"  # looks for NCCL where an installed library does


def _conformance() -> Count:
    return meson_suites("build", "conformance", only=_VECTORS) if build("build") else passed_if(False)


def _process() -> Count:
    return meson_suites("build", "process", only=("process",), HVD_KILLS=_KILLS) if build("build") else passed_if(False)


def _python() -> Count:
    if not build("build"):
        return passed_if(False)
    path = os.pathsep.join(filter(None, (str(_PYTHON), os.environ.get("PYTHONPATH"))))
    sources = {"PYTHONPATH": path, "HVD_LIBRARY": str(LIBRARY), "HVD_PYTHON_NATIVE": "ctypes"}
    tests = _PYTHON / "tests"
    total = pytest(*(tests / name for name in _PYTHON_TESTS), "-k", f"not {_OF_INSTALLED}", **sources)
    return total.add(pytest(tests / "test_torch.py", "-k", "test_worker and ctypes-3", **sources))


QUICK: Dict[str, Callable[[], Count]] = {
    "lint": lint,
    "unit": plain_suite("unit"),
    "model": plain_suite("model"),
    "capi": plain_suite("capi"),
    "conformance": _conformance,
    "process": _process,
    "python": _python,
}
