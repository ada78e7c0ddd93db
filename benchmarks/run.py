# SPDX-License-Identifier: Apache-2.0
"""Measures the engine beside the yardstick S and its peers, in alternating batches, and prints a table.

One batch is: probe, then S, engine, Open MPI, the slower peers, then S, engine, Open MPI again, probe. A batch whose probes
differ by more than 1.5 is dropped: the machine changed under it. docs/benchmarks.md has the method.
"""
from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
from pathlib import Path

import machine
import programs
import report

ROOT = Path(__file__).resolve().parent.parent
STEADY = 1.5
TWICE = ("slots", "hvd", "open_mpi")
ONCE = ("torch_gloo", "hvd_numpy", "hvd_torch")
START = {name: getattr(programs, name) for name in TWICE + ONCE}


def parse() -> argparse.Namespace:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--np", type=int, choices=(2, 4), action="append", help="ranks; default: 2 and 4")
    arguments.add_argument("--quick", action="store_true", help="one short batch per world size")
    arguments.add_argument("--batches", type=int, help="default: 5, with --quick 1")
    arguments.add_argument("--budget-ms", type=int, help="time per case and program; default: 300, with --quick 40")
    arguments.add_argument("--max-bytes", type=int, default=64 << 20, help="largest tensor")
    arguments.add_argument("--cases", help="of sync,sets,bert,collectives; default: all, with --quick sync,sets")
    arguments.add_argument("--only", help=f"programs, of {','.join(START)}; default: all that can run")
    arguments.add_argument("--no-pin", action="store_true", help="do not bind ranks to cores")
    arguments.add_argument("--no-side-costs", action="store_true", help="leave out idle, memory and init")
    arguments.add_argument("--build", type=Path, default=ROOT / "build-bench" / "benchmarks", help="where the programs are")
    arguments.add_argument("--json", type=Path, help="write all numbers there, for compare.py")
    arguments.add_argument("--markdown", action="store_true", help="print tables as Markdown")
    options = arguments.parse_args()
    options.np = options.np or [2, 4]
    options.batches = options.batches or (1 if options.quick else 5)
    options.budget_ms = options.budget_ms or (40 if options.quick else 300)
    options.cases = options.cases or ("sync,sets" if options.quick else "sync,sets,bert,collectives")
    unknown = set((options.only or "slots").split(",")) - set(START)
    if unknown:
        arguments.error(f"--only: {', '.join(sorted(unknown))} is none of {', '.join(START)}")
    return options


def build(directory: Path) -> None:
    """Builds the default build directory of the benchmarks; a directory given by --build is used as it is."""
    tree = directory.parent
    if directory != ROOT / "build-bench" / "benchmarks":
        return
    meson = [sys.executable, "-m", "mesonbuild.mesonmain"]
    if not (tree / "build.ninja").exists():
        setup = ["setup", str(tree), str(ROOT), "-Dbenchmarks=true", "-Dtests=false", "-Dbuildtype=release"]
        subprocess.run(meson + setup, check=True, stdout=sys.stderr)
    subprocess.run(meson + ["compile", "-C", str(tree)], check=True, stdout=sys.stderr)


def batch(settings: programs.Settings, np: int, names: list[str], not_run: dict[str, str], patience_s: float) -> dict:
    result = {"idle": programs.wait_until_quiet(3 * patience_s), "probes_before": programs.probes(settings), "results": {}}
    order = [n for n in TWICE if n in names] + [n for n in ONCE if n in names] + [n for n in TWICE if n in names]
    for name in order:
        if name in not_run:
            continue
        programs.wait_until_quiet(patience_s)
        try:
            lines = START[name](settings, np)
        except programs.ProgramFailed as failure:
            not_run[name] = str(failure)
            print(f"  {name} failed: {failure}", file=sys.stderr)
            continue
        for line in lines:
            if line["program"] == name:
                result["results"].setdefault(name, {}).setdefault(line["case"], []).append(line["value"])
    result["probes_after"] = programs.probes(settings)
    before, after = result["probes_before"]["L"], result["probes_after"]["L"]
    result["steady"] = max(before, after) <= STEADY * min(before, after)
    return result


def run_size(options: argparse.Namespace, settings: programs.Settings, np: int) -> dict:
    not_run = programs.missing(settings)
    wanted = options.only.split(",") if options.only else list(START)
    not_run = {name: reason for name, reason in not_run.items() if name in wanted}
    names = [name for name in wanted if name not in not_run]
    batches = []
    for number in range(options.batches):
        batches.append(batch(settings, np, names, not_run, 1 if options.quick else 3))
        last = batches[-1]
        state = "steady" if last["steady"] else "dropped: the probe moved"
        print(
            f"{np} ranks, batch {number + 1} of {options.batches}: {state}, L {last['probes_before']['L']:.0f} then "
            f"{last['probes_after']['L']:.0f} ns, machine {last['idle']:.0%} idle at the start",
            file=sys.stderr,
        )
    side_costs = []
    if "hvd" in names and "hvd" not in not_run and not options.no_side_costs:
        programs.wait_until_quiet(10)
        try:
            side_costs = programs.hvd_side_costs(settings, np, 2 if options.quick else 10)
        except programs.ProgramFailed as failure:
            not_run["hvd, beside the operations"] = str(failure)
    return {"np": np, "batches": batches, "side_costs": side_costs, "not_run": not_run}


def main() -> int:
    # An exception instead of the end at once: the programs under way are then stopped with this one.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    options = parse()
    build(options.build)
    settings = programs.Settings(
        build=options.build,
        budget_ms=options.budget_ms,
        max_bytes=options.max_bytes,
        cases=options.cases,
        timeout_s=300,
        pin=not options.no_pin,
    )
    facts = machine.facts()
    print(machine.line(facts))
    runs = []
    for np in options.np:
        runs.append(run_size(options, settings, np))
        print("\n" + report.summary(runs[-1], options.markdown), flush=True)
    if options.json:
        whole = {"format": 1, "machine": facts, "arguments": sys.argv[1:], "runs": runs}
        options.json.write_text(json.dumps(whole, indent=1) + "\n", encoding="utf-8")
    failed = [run for run in runs if any("exit code" in reason or "not finished" in reason for reason in run["not_run"].values())]
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
