# SPDX-License-Identifier: Apache-2.0
"""horovodrun report: reads what a job has left and says where its time went."""

import argparse
import os
import sys
from typing import List

from ..command_line.flags import fail
from .analysis import Analysis, analyse
from .page import page
from .palette import PARTS
from .records import ReportError
from .words import duration, percent

_DESCRIPTION = """\
Says which rank makes a job slow, by how much and why, from the records that the job has left in FOLDER (--output-filename),
and writes one HTML page with everything else: steps divided into compute, waiting and moving, a chart per rank, fusion,
the costliest tensors, bandwidth.

examples:
  horovodrun -np 4 --output-filename log python train.py     the job
  horovodrun report log                                      the verdict, and log/report.html
  horovodrun report log -o slow.html                         the page elsewhere
  horovodrun report log -o -                                 no page, the verdict only

Exit code: 0, or 2 if FOLDER has no records that a report can be made of.
"""


def build_parser() -> argparse.ArgumentParser:
    """The command line of horovodrun report."""
    parser = argparse.ArgumentParser(
        prog="horovodrun report",
        usage="horovodrun report FOLDER [-o FILE]",
        description=_DESCRIPTION,
        allow_abbrev=False,
        formatter_class=lambda prog: argparse.RawDescriptionHelpFormatter(prog, max_help_position=34, width=118),
    )
    parser.error = fail
    parser.add_argument("folder", metavar="FOLDER", help="what --output-filename has named: it has rank.N/records.jsonl")
    parser.add_argument("-o", "--output", metavar="FILE", help="the HTML page; default FOLDER/report.html; - writes none")
    return parser


def main(argv: List[str]) -> int:
    """Runs horovodrun report; returns its exit code."""
    args = build_parser().parse_args(argv)
    try:
        found = analyse(args.folder)
    except ReportError as error:
        return fail(str(error))
    print(summary(found), end="")
    if args.output == "-":
        return 0
    name = args.output or os.path.join(args.folder, "report.html")
    try:
        with open(name, "w", encoding="utf-8") as file:
            file.write(page(found))
    except OSError as error:
        return fail(f"{name}: {(error.strerror or str(error)).lower()}; -o names another file")
    print(f"\nThe whole report: {name}")
    sys.stdout.flush()
    return 0


def summary(found: Analysis) -> str:
    """The report in a few lines of text."""
    lines = [found.verdict]
    lines += [finding.sentence for finding in found.findings[1:]]
    if found.findings:
        lines.append(f"  {found.findings[0].cause.name}: {found.findings[0].cause.advice}")
    what = "steps" if found.steps.found else "slices of time"
    lines += ["", f"{found.steps.count} {what} of {duration(found.steps.total / found.steps.count)}; the mean of each rank:", ""]
    lines.append("rank  " + "".join(f"{part.name:>20}" for part in PARTS))
    for rank in found.rows:
        mean = found.mean(rank)
        cells = [f"{duration(value)} ({percent(value / mean.total)})" if value else duration(value) for value in mean]
        lines.append(f"{rank:>4}  " + "".join(f"{cell:>20}" for cell in cells))
    return "\n".join(lines) + "\n"
