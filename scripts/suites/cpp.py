# SPDX-License-Identifier: Apache-2.0
"""Suite cpp: hvd.hpp's tests, and the examples in C and C++, built from an installed tree, which print what Python's print."""

import sys
from pathlib import Path
from typing import Optional

from suites.count import ROOT, Count, lacking, passed_if
from suites.elastic import elastic
from suites.engine import build, built_all, meson_suites
from suites.jobs import Member, printed, same
from suites.package import install

# Of each language, with the Python program of the same name and the number of ranks.
EXAMPLES = {"hello": ("hello", 2), "allreduce": ("allreduce_numpy", 2), "grouped": ("grouped", 2),
            "process_sets": ("process_sets", 4), "train": ("train", 2)}  # fmt: skip
PROGRAMS = ROOT / "build" / "examples"


def cpp_suite() -> Count:
    if not (built_all("build") or build("build", target="cpp_tests")):
        return passed_if(False)
    total = meson_suites("build", "cpp")
    if not install():
        return total.add(passed_if(False))
    if not (PROGRAMS / "cmake_cpp").is_dir():
        return total.add(lacking("the examples are not built: the test installed_examples says why"))
    # CMake's programs find the library where it was installed, others where it was built.
    installed = {"LD_LIBRARY_PATH": str(_folder_of("libhvd.so.1"))}
    for name, (python, ranks) in EXAMPLES.items():
        expected = printed(ranks, [sys.executable, ROOT / "examples" / "python" / f"{python}.py"])
        for language in ("c", "cpp"):
            total.add(same(f"{name} in {language}", expected, printed(ranks, [PROGRAMS / f"cmake_{language}" / name], **installed)))
    total.add(elastic("C++", Member([PROGRAMS / "cmake_cpp" / "elastic"], installed), 100))
    mixed = ["sh", ROOT / "examples" / "mixed" / "rank.sh", PROGRAMS / "cmake_c" / "allreduce"]
    expected = printed(2, [sys.executable, ROOT / "examples" / "python" / "allreduce_numpy.py"])
    return total.add(same("allreduce in C and Python at once", expected, printed(2, mixed, PYTHON=sys.executable, **installed)))


def member() -> Optional[Member]:
    """The rank of a job of several languages; None if it could not be built."""
    return _of_languages("member_cpp")


def elastic_member() -> Optional[Member]:
    """The same of an elastic job."""
    return _of_languages("elastic_cpp")


def _of_languages(program: str) -> Optional[Member]:
    built = built_all("build") or build("build", target="cpp_tests")
    return Member([ROOT / "build" / "tests" / "languages" / program]) if built else None


def _folder_of(name: str) -> Path:
    return next(path.parent for path in (PROGRAMS / "root").rglob(name))

