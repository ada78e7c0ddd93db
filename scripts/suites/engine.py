# SPDX-License-Identifier: Apache-2.0
"""Suites that Meson builds and runs: the engine, the C ABI, lints, sanitizers, fuzzers."""

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import Callable, Dict, Iterable, List, Sequence, Set, Tuple

from suites.ahead import once
from suites.count import BIN, JOBS, ROOT, Count, lacking, passed_if, run, say, skipped, start

TIME_SCALE = float(os.environ.get("HVD_TEST_TIME_SCALE") or 1)  # what limits of time are multiplied by, as in tests
LIBRARY = ROOT / "build" / "capi" / "libhvd.so.1"

# Sources joined by six: half the time. The main folder compiles each on its own, as an editor's tools see them.
JOINED = ("--unity=on", "-Dunity_size=6")

_complete: Set[str] = set()  # folders where everything is built
_one_at_a_time: Dict[str, threading.Lock] = defaultdict(threading.Lock)  # of each folder: Ninja expects to be alone there


@once
def build(folder: str, *options: str, target: str = "all", suites: Tuple[str, ...] = (), **environment: str) -> bool:
    """Configures and builds the target or only what these suites run; False if that failed."""
    with _one_at_a_time[folder]:
        return _build(folder, options, target, suites, environment)


def _build(folder: str, options: Tuple[str, ...], target: str, suites: Tuple[str, ...], environment: Dict[str, str]) -> bool:
    began = time.monotonic()
    setup: List[object] = [BIN / "meson", "setup", "-Dwerror=true", *options, folder]
    if (ROOT / folder / "meson-info").is_dir():
        setup.insert(2, "--reconfigure")
    log = ROOT / folder / "build.log"
    log.parent.mkdir(exist_ok=True)
    with open(log, "w") as output:

        def done(command: List[object]) -> bool:
            return start(command, output, environment)

        ninja = [BIN / "ninja", "-C", folder]
        built = done(setup) and done(ninja + (_targets(folder, suites) if suites else [target]))
    say(f"   build {folder}: {time.monotonic() - began:.0f} s")
    if not built:
        say("\n".join("   " + line for line in _faults(log.read_text().splitlines())))
    elif target == "all" and not suites:
        _complete.add(folder)
    return built


def _targets(folder: str, suites: Iterable[str]) -> List[str]:
    """What the tests of these suites need, as Ninja calls it."""
    def about(what: str) -> List[dict]:
        command = [BIN / "meson", "introspect", folder, f"--{what}"]
        return json.loads(subprocess.run([str(word) for word in command], cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout)

    wanted = {f"hvd:{suite}" for suite in suites}
    needed = {name for test in about("tests") if wanted & set(test["suite"]) for name in test["depends"]}
    files = [file for target in about("targets") if target["id"] in needed for file in target["filename"]]
    return [os.path.relpath(file, ROOT / folder) for file in files]


def built_all(folder: str) -> bool:
    """Whether some suite of this run has built everything there, so that no part need be built."""
    return folder in _complete


def build_library() -> bool:
    """libhvd in `build`, without its tests unless some other suite has built them."""
    return built_all("build") or build("build", target="capi/libhvd.so.1")


def _faults(lines: List[str]) -> List[str]:
    """What a failed build says from its first failure on, without the successful steps after it."""
    first = next((number for number, line in enumerate(lines) if line.startswith("FAILED")), max(0, len(lines) - 40))
    return [line for line in lines[first:] if not line.startswith("[")][:60]


def meson_suites(folder: str, *suites: str, without: str = "", only: Sequence[str] = (), wrapper: str = "",
                 **environment: str) -> Count:  # fmt: skip
    """Runs Meson suites of a built folder, except tests that are also in the suite `without`; or only these tests of them."""
    # Fuzzers and vectors compute all the time. Most of the time of unit tests is waiting: for a deadline, for a peer that is late.
    # The limits that stand beside the tests are for one that has a core; sanitizers take longer.
    programs = int(JOBS) * (2 if "unit" in suites else 1)
    command: List[object] = [BIN / "meson", "test", "-C", folder, "--no-rebuild", "--print-errorlogs",
                             "--num-processes", programs, "--logbase", f"testlog-{suites[0]}",
                             "--timeout-multiplier", 4 * TIME_SCALE if folder != "build" else 2 * TIME_SCALE]  # fmt: skip
    command += [word for suite in suites for word in ("--suite", suite)]
    command += ["--no-suite", without] if without else []
    command += ["--wrapper", wrapper] if wrapper else []
    command += only
    # With a wrapper Meson puts its name into the log's.
    suffix = f"-{wrapper.split()[0]}" if wrapper else ""
    # Two lanes may use one folder at the same time.
    log = ROOT / folder / "meson-logs" / f"testlog-{suites[0]}{suffix}.json"
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
    whole = Count().took(entry["name"].rpartition(":")[2], entry.get("duration", 0.0))
    if entry["result"] in ("OK", "EXPECTEDFAIL"):
        return _gtest_cases(report, output) if report else whole.add(passed_if(True))
    if entry["result"] == "SKIP":
        lines = [line for line in output.splitlines() if line.strip()]
        return skipped(f"{entry['name']}: {lines[-1] if lines else 'no reason given'}")
    # A program that crashed has not reported the case that crashed it.
    total = _gtest_cases(report, output) if report else whole
    return total if total.failed else total.add(Count(failed=1))


def _gtest_cases(report: Path, output: str) -> Count:
    total = Count()
    for group in json.loads(report.read_text())["testsuites"]:
        for case in group["testsuite"]:
            total.took(f"{group['name']}.{case['name']}", float(case["time"].rstrip("s")))
            if case["result"] == "SKIPPED":
                total.skipped += 1
            elif case["status"] == "RUN":
                total.add(passed_if("failures" not in case))
    # GoogleTest 1.12 has the reasons in its text only, on the line after the place.
    reasons = Counter(re.findall(r": Skipped\n(.*)", output))
    total.note = "; ".join(f"{report.stem}: {count} times: {reason or 'no reason given'}" for reason, count in reasons.items())
    return total


def plain_suite(name: str) -> Callable[[], Count]:
    # What is also in suite cpp is run and counted there.
    return lambda: meson_suites("build", name, without="cpp") if build("build") else passed_if(False)


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


# Enough for a report to name functions and lines, and a fraction of the room of everything that a debugger could show.
LINES_ONLY = ("-Dc_args=-g1", "-Dcpp_args=-g1")
CLANG = {"CC": "clang-19", "CXX": "clang++-19"}
# The plain suites of each sanitizer; its options as Meson calls them.
SANITIZERS = {"asan": "address,undefined", "tsan": "thread"}


def _sanitized_build(name: str) -> Tuple[Tuple[str, ...], Dict[str, object]]:
    """What to build for a sanitizer, as arguments of `build`."""
    settings = (f"-Db_sanitize={SANITIZERS[name]}", "-Db_lundef=false", "-Doptimization=1", *JOINED, *LINES_ONLY)
    return (f"build-{name}", *settings), {"suites": ("unit", "model", "capi", "conformance"), **CLANG}


def sanitized(name: str, **environment: str) -> Callable[[], Count]:
    def suite() -> Count:
        # g++ 12 does not follow fences under the thread sanitizer, and took longer under the others.
        if not shutil.which("clang++-19"):
            return lacking("clang++-19 is not installed")
        words, named = _sanitized_build(name)
        if not build(*words, **named):
            return passed_if(False)
        folder = words[0]
        # Thread sanitizer needs its shadow memory where address randomisation may have put something else.
        wrapper = "setarch -R" if name == "tsan" else ""
        total = meson_suites(folder, "unit", "model", "capi", wrapper=wrapper, **environment)
        # Through hvd.h only: hvd.hpp's own part of these runs is in its unit tests.
        return total.add(meson_suites(folder, "conformance", without="cpp", wrapper=wrapper, **environment))

    return suite


FUZZ_BUILD: Tuple[Tuple[str, ...], Dict[str, object]] = (
    ("build-fuzz", "-Dfuzz=true", *JOINED, *LINES_ONLY),
    {"target": "fuzz_targets", **CLANG},
)


def fuzz() -> Count:
    total = meson_suites("build", "fuzz") if build("build") else passed_if(False)
    if not shutil.which("clang++-19"):
        return total.add(lacking("search for new inputs: clang++-19 is not installed"))
    words, named = FUZZ_BUILD
    if not build(*words, **named):
        return total.add(passed_if(False))
    return total.add(meson_suites("build-fuzz", "fuzz-search")).add(_fuzz_python())


def ahead_of(suite: str) -> None:
    """Builds what the fuzzers or a sanitizer need."""
    if shutil.which("clang++-19"):
        words, named = FUZZ_BUILD if suite == "fuzz" else _sanitized_build(suite)
        build.ahead(*words, **named)


def _fuzz_python() -> Count:
    """libFuzzer over what the launcher reads in Python."""
    if importlib.util.find_spec("atheris") is None:
        return lacking("search for new inputs in Python: atheris is not installed")
    tests = ROOT / "tests" / "fuzz"
    with tempfile.TemporaryDirectory() as found:
        command = [sys.executable, tests / "hosts.py", "-max_total_time=20", "-timeout=5", f"-artifact_prefix={found}/crash-"]
        return passed_if(run([*command, found, tests / "corpus" / "hosts"], PYTHONPATH=str(ROOT / "bindings" / "python")))
