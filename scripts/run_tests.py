#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the suites of this project and counts. Called by scripts/test, which installs what they need first.

A test is what its own runner counts: a case of GoogleTest or pytest, otherwise a program of Meson. A suite that cannot run
here counts as one skipped test, with the reason. The exit code is 0 only if nothing failed and something passed.
"""

import argparse
import functools
import signal
import sys
from typing import Callable, Dict, List

from suites import ahead
from suites.count import Count, share_output
from suites.cpp import cpp_suite
from suites.engine import ahead_of, fuzz, lint, plain_suite, sanitized, tidy
from suites.examples import examples
from suites.frameworks import JAX, MXNET, TENSORFLOWS, jax_suite, mxnet_suite, tensorflow_suite
from suites.julia import find_julia, julia_suite
from suites.jvm import java_suite, scala_suite, spark, spark_suite
from suites.languages import languages_suite
from suites.package import install, installed_suite, open_mpi_5, python_suite
from suites.quick import QUICK
from suites.report import Report, beside
from suites.room import ahead_fits, make_room, say_room
from suites.rust import bindgen_program, rust_suite

SUITES: Dict[str, Callable[[], Count]] = {
    "lint": lint,
    "tidy": tidy,
    "abi": plain_suite("abi"),
    "unit": plain_suite("unit"),
    "model": plain_suite("model"),
    "capi": plain_suite("capi"),
    "conformance": plain_suite("conformance"),
    "process": plain_suite("process"),
    "python": python_suite,
    # Most of the time these wait for processes to start and to end; each file has what it needs for itself.
    "runner": installed_suite("bindings/python/tests/runner", "-n", 3, "--dist", "loadfile"),
    "hosts": installed_suite("tests/hosts"),
    "launch": installed_suite("tests/launch"),
    "examples": examples,
    "jax": jax_suite,
    "tensorflow": tensorflow_suite,
    "mxnet": mxnet_suite,
    "cpp": cpp_suite,
    "rust": rust_suite,
    "julia": julia_suite,
    "java": java_suite,
    "scala": scala_suite,
    "spark": spark_suite,
    "languages": languages_suite,
    "fuzz": fuzz,
    # Their allocators return nothing where there is no memory, as others do: what the engine says then is tested.
    "asan": sanitized("asan", ASAN_OPTIONS="detect_leaks=1:abort_on_error=1:allocator_may_return_null=1",
                      UBSAN_OPTIONS="halt_on_error=1:print_stacktrace=1"),
    # Some tests fork ranks that start threads, which this sanitizer refuses by default once the parent has had threads.
    "tsan": sanitized("tsan", TSAN_OPTIONS="halt_on_error=1:die_after_fork=0:allocator_may_return_null=1"),
}


# What a suite needs beside the folder `build`, in the order in which it is made while earlier suites run.
AHEAD: Dict[str, List[Callable[[], None]]] = {
    "python": [open_mpi_5.ahead],
    "jax": [JAX.ahead],
    "tensorflow": [each.ahead for each in TENSORFLOWS],
    "mxnet": [MXNET.ahead],
    "rust": [bindgen_program.ahead],
    "julia": [find_julia.ahead],
    "spark": [spark.ahead],
    **{name: [functools.partial(ahead_of, name)] for name in ("fuzz", "asan", "tsan")},
}
NEED_PACKAGE = {"python", "runner", "hosts", "launch", "examples", "cpp", "rust", "julia", "java", "scala", "spark", "languages"}

# These run at the same time, each lane in its order: those of languages compute on one core, those of frameworks and sanitizers
# mostly wait. They share nothing but the library in `build` and the installed package.
LANES = (["jax", "tensorflow", "mxnet", "fuzz", "asan", "tsan"], ["cpp", "rust", "julia", "java", "scala", "spark", "languages"])

# Run when named: takes longer than all the rest.
ON_DEMAND = ["tidy"]


def _begin_ahead_of(names: List[str]) -> None:
    works = [install.ahead] if NEED_PACKAGE & set(names) else []
    works += [work for name, needed in AHEAD.items() if name in names for work in needed]
    ahead.begin(works, ahead_fits)


def _run(report: Report, names: List[str], suites: Dict[str, Callable[[], Count]]) -> None:
    """All that are in no lane one after another, then the lanes."""
    main_lane, side_lane = ([name for name in names if name in lane] for lane in LANES)

    def side() -> None:
        for name in side_lane:
            report.run_behind(name, suites[name])
            make_room(name)

    for name in names:
        if name not in main_lane + side_lane:
            report.run(name, suites[name])
            make_room(name)
    with beside(side):
        for name in main_lane:
            report.run(name, suites[name])
            make_room(name)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--list", action="store_true", help="name the suites")
    parser.add_argument("--quick", action="store_true", help=f"a sample of {' '.join(QUICK)}: minutes, once `build` is built")
    parser.add_argument("suites", nargs="*", help=f"default: all but {' '.join(ON_DEMAND)}")
    options = parser.parse_args()
    if options.list:
        print(*SUITES)
        return 0
    suites = QUICK if options.quick else SUITES
    unknown = [name for name in options.suites if name not in suites]
    if unknown:
        parser.error(f"no suite {' '.join(unknown)}; there are {' '.join(suites)}")
    # `nohup` and `command &` leave these ignored, and every test that interrupts a process would inherit that.
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    names = options.suites or [name for name in suites if name not in ON_DEMAND]
    if not options.suites and not options.quick:
        say_room()
    share_output()
    report = Report(names)
    if not options.quick:
        _begin_ahead_of(names[1:])
    try:
        _run(report, names, suites)
    finally:
        report.say()
    return 0 if report.total.passed and not report.total.failed else 1


if __name__ == "__main__":
    sys.exit(main())
