#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures what each language's binding adds to a call of the C ABI: a synchronous allreduce in place on one rank.

Every program measures its own API in batches whose median counts; the number of C is that of the C++ program's calls of hvd.h.
That runs before and after each other program, whose time over C counts against the mean of both: the machine's speed changes.
Languages whose tools are missing are left out, and that is said. mpi4py on Open MPI is the peer of Python's native layers.

    meson setup build-bench -Dbenchmarks=true --buildtype=release && ninja -C build-bench
    python benchmarks/bindings/run.py [--build build-bench]
"""
from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
HERE = Path(__file__).resolve().parent
# Microseconds over the C ABI.
GOALS = {"C++": 0.3, "Rust": 0.3, "Java": 1.5, "Julia": 1.0, "ctypes layer": 8.0, "pybind11 layer": 3.0}
WITHOUT_GOAL = ("ctypes", "pybind11", "mpi4py")  # the NumPy interface over each native layer, and the peer
SIZES = (8, 4096)
AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def programs(build: Path) -> dict[str, tuple[list, dict[str, str]]]:
    """Command and environment by what it measures; without those that cannot run here."""
    library = {"HVD_LIBRARY": str(build / "capi" / "libhvd.so.1")}
    python = [sys.executable, HERE / "python.py"]
    found = {
        "C++": ([build / "benchmarks" / "bindings_cpp"], {}),
        "ctypes": (python, {**library, "HVD_PYTHON_NATIVE": "ctypes"}),
        "pybind11": (python, {**library, "HVD_PYTHON_NATIVE": "pybind11"}),
        "mpi4py": ([*python, "--peer"], AS_ROOT),
    }
    if cargo := shutil.which("cargo"):
        rust = {"HVD_LIB_DIR": str(build / "capi"), "HVD_INCLUDE_DIR": str(ROOT / "capi" / "include"),
                "CARGO_TARGET_DIR": str(ROOT / "build-rust")}
        words = ["run", "--release", "--quiet", "--locked", "--manifest-path", ROOT / "bindings" / "rust" / "Cargo.toml"]
        found["Rust"] = ([cargo, *words, "--bin", "bench_bindings"], rust)
    julia = shutil.which("julia") or str(ROOT / "build-julia" / "julia" / "bin" / "julia")
    if Path(julia).exists():
        found["Julia"] = ([julia, f"--project={ROOT / 'bindings' / 'julia'}", HERE / "julia.jl"],
                          {**library, "JULIA_DEPOT_PATH": str(ROOT / "build-julia" / "depot")})
    java = ROOT / "build-jvm" / "hvd-java"
    if shutil.which("java") and (java / "test-classes").is_dir():
        found["Java"] = (["sh", HERE / "java.sh"], library)
    return found


def measure(command: list, environment: dict[str, str]) -> list[dict] | None:
    done = subprocess.run([str(word) for word in command], env={**os.environ, **environment}, capture_output=True, text=True)
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode == 0 and lines:
        return lines
    print(f"{command[0]}: exit code {done.returncode}: {done.stderr.strip()[-300:]}", file=sys.stderr)
    return None


Numbers = dict[tuple[str, int], list[float]]  # by program and bytes, one for each turn


def take_turn(available: dict[str, tuple[list, dict[str, str]]], times: Numbers, over_c: Numbers) -> None:
    """Runs all programs once; adds microseconds per call to `times`, and what they are over those of C to `over_c`."""
    c_before = measure_c(available["C++"], times, over_c)
    for name, (command, environment) in available.items():
        if name == "C++":
            continue
        lines = measure(command, environment) or []
        c_after = measure_c(available["C++"], times, over_c)
        for line in lines:
            key = (f"{name} layer" if line.get("layer") == "native" else name, line["bytes"])
            times.setdefault(key, []).append(line["api_ns"] / 1e3)
            over_c.setdefault(key, []).append(line["api_ns"] / 1e3 - (c_before[key[1]] + c_after[key[1]]) / 2)
        c_before = c_after


def measure_c(program: tuple[list, dict[str, str]], times: Numbers, over_c: Numbers) -> dict[int, float]:
    """Microseconds of a call of hvd.h by bytes; adds them and those of C++, which are measured in the same process."""
    lines = measure(*program)
    if lines is None:
        raise SystemExit("the program of C and C++ does not run; build it as the top of this file says")
    for line in lines:
        times.setdefault(("C", line["bytes"]), []).append(line["native_ns"] / 1e3)
        times.setdefault(("C++", line["bytes"]), []).append(line["api_ns"] / 1e3)
        over_c.setdefault(("C++", line["bytes"]), []).append((line["api_ns"] - line["native_ns"]) / 1e3)
    return {line["bytes"]: line["native_ns"] / 1e3 for line in lines}


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--build", type=Path, default=ROOT / "build-bench", help="a build with -Dbenchmarks=true")
    arguments.add_argument("--turns", type=int, default=3, help="times that all programs run, one after another; medians count")
    arguments.add_argument("--json", type=Path, help="write all numbers there")
    options = arguments.parse_args()
    times: Numbers = {}
    over_c: Numbers = {}
    available = programs(options.build.resolve())
    for _ in range(options.turns):
        take_turn(available, times, over_c)
    middle = {key: statistics.median(values) for key, values in times.items()}
    print_table(middle, {key: statistics.median(values) for key, values in over_c.items()})
    for name in sorted({*GOALS, *WITHOUT_GOAL} - {name for name, _ in middle}):
        print(f"not measured: {name}")
    if options.json:
        options.json.write_text(json.dumps([{"what": name, "bytes": size, "us": value} for (name, size), value in middle.items()]))
    return 0


def print_table(middle: dict[tuple[str, int], float], over_c: dict[tuple[str, int], float]) -> None:
    print(f"{'us per call':18}{'8 B':>9}{'4 KB':>9}   over C {'8 B':>9}{'4 KB':>9}    goal")
    for name in ("C", *GOALS, *WITHOUT_GOAL):
        if (name, SIZES[0]) not in middle:
            continue
        times = [middle[name, size] for size in SIZES]
        line = f"{name:18}" + "".join(f"{time:9.2f}" for time in times)
        if name in GOALS:
            over = [over_c[name, size] for size in SIZES]
            line += "          " + "".join(f"{value:9.2f}" for value in over) + f"    {GOALS[name]}"
            line += " !" if max(over) > GOALS[name] else ""
        print(line)
    print("! is above the goal")


if __name__ == "__main__":
    sys.exit(main())
