# SPDX-License-Identifier: Apache-2.0
"""Compares two runs saved by `run.py --json`: which cases of the engine got slower or faster than the noise explains.

A case is compared by its ratio to the yardstick S where both runs have it, because S moves with the machine as the engine
does; otherwise by its time. The noise of a case is how far its own batches lie apart, at least --band. Exit code 1 if a case
got slower.
"""
from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Optional

from report import Measured, case_title, format_us, render

ENGINE = ("hvd", "hvd_numpy", "hvd_torch")


def load(path: Path) -> dict[int, Measured]:
    whole = json.loads(path.read_text(encoding="utf-8"))
    if whole.get("format") != 1:
        raise SystemExit(f"{path}: format is {whole.get('format')}, this program reads 1")
    return {run["np"]: Measured(run["np"], run["batches"]) for run in whole["runs"]}


def spread(measured: Measured, program: str, case: str) -> float:
    """Largest over smallest of what the batches say, less one: of the ratios to S, or of the times where there is no S."""
    known = measured.ratios(program, "slots", case) or [value for value in measured.per_batch(program, case) if value]
    return max(known) / min(known) - 1 if known else 0.0


def change(old: Measured, new: Measured, program: str, case: str) -> Optional[float]:
    """New over old, less one."""
    values = [run.ratio(program, "slots", case) for run in (old, new)]
    if None in values:
        values = [run.best(program, case) for run in (old, new)]
    return values[1] / values[0] - 1 if values[0] and values[1] else None


def compare(old: Measured, new: Measured, band: float) -> tuple[list[list[str]], int]:
    rows = [[f"{new.np} ranks", "program", "old µs", "new µs", "change", "noise", "verdict"]]
    slower = 0
    for program in ENGINE:
        for case in new.cases():
            moved = change(old, new, program, case)
            if moved is None:
                continue
            noise = max(band, spread(old, program, case), spread(new, program, case))
            verdict = "slower" if moved > noise else "faster" if moved < -noise / (1 + noise) else ""
            slower += verdict == "slower"
            times = [format_us(run.best(program, case)) for run in (old, new)]
            rows.append([case_title(case), program, *times, f"{moved:+.0%}", f"{noise:.0%}", verdict])
    return rows, slower


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("old", type=Path)
    arguments.add_argument("new", type=Path)
    arguments.add_argument("--band", type=float, default=0.10, help="smallest change that counts; default 0.10")
    options = arguments.parse_args()
    old, new = load(options.old), load(options.new)
    sizes = sorted(set(old) & set(new))
    if not sizes:
        raise SystemExit("the two runs have no world size in common")
    slower = 0
    for np in sizes:
        rows, count = compare(old[np], new[np], options.band)
        slower += count
        print(render(rows, markdown=False) + "\n")
    print(f"{slower} slower" if slower else "nothing slower")
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(main())
