# SPDX-License-Identifier: Apache-2.0
"""The command line of horovodrun timeline. Imports nothing heavy."""

import argparse
import os
import sys
from typing import List

from ..command_line.flags import fail
from . import merge

_DESCRIPTION = """\
Puts the timelines of a job's ranks into one file.

  horovodrun -np 4 --timeline-filename /tmp/run.json python train.py
                                  rank 0 writes /tmp/run.json, rank 1 /tmp/run.rank1.json, and so on
  horovodrun timeline merge all.json /tmp/run*.json
                                  one file with the operations of all ranks

Open all.json at https://ui.perfetto.dev (the file stays on your machine) or in chrome://tracing. Each rank is a process,
each tensor a row in it. For every operation a row shows

  NEGOTIATE_ALLREDUCE  from the rank's call until all ranks had called: long on a rank that waits for others. At its end
                       stands who came last (last_rank) and how much later than the first (spread_us).
  ALLREDUCE            from then on, and in it QUEUE, which is the wait for operations before it, and HVD_ALLREDUCE, in
                       which data moves. At its end stands how much of that was waiting for another rank (waited_us),
                       moving (moved_us), adding (reduced_us) and copying (copied_us).

Files of several hosts must be copied to one place first. Times are those of rank 0's clock; the last line printed says
how far the clocks of other hosts may be off.
"""


def build_parser() -> argparse.ArgumentParser:
    """The flags of horovodrun timeline."""
    parser = argparse.ArgumentParser(
        prog="horovodrun timeline",
        usage="horovodrun timeline merge OUT FILE...",
        description=_DESCRIPTION,
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.error = fail
    parser.add_argument("action", choices=["merge"], help="what to do")
    parser.add_argument("out", metavar="OUT", help="the file to write; an existing one is replaced")
    parser.add_argument("files", metavar="FILE", nargs="+", help="the files of the ranks, in any order")
    return parser


def main(argv: List[str]) -> int:
    """Runs horovodrun timeline; returns its exit code."""
    args = build_parser().parse_args(argv)
    if os.path.realpath(args.out) in map(os.path.realpath, args.files):
        fail(f"timeline merge: {args.out} is to be written and is one of the files to read; give OUT another name")
    try:
        merged = merge.merge([merge.read(path) for path in args.files])
        merge.write(merged, args.out)
    except merge.TimelineError as error:
        fail(f"timeline merge: {error}")
    except OSError as error:
        fail(f"timeline merge: cannot write {args.out}: {error.strerror}")
    for line in notices(merged):
        sys.stderr.write(f"horovodrun: timeline merge: {line}\n")
    print(summary(args.out, merged))
    return 0


def summary(path: str, merged: merge.Merged) -> str:
    """What has been written."""
    ranks = f"{len(merged.ranks)} rank{'s' if len(merged.ranks) > 1 else ''}"
    clocks = "all of one host, by one clock"
    if merged.hosts > 1:
        clocks = f"of {merged.hosts} hosts, whose clocks agree to {merged.error / 1000:.0f} us or better"
    if merged.not_compared:
        clocks = f"of {merged.hosts} hosts, whose clocks have not all been compared"
    return f"{path}: {ranks} {clocks}"


def notices(merged: merge.Merged) -> List[str]:
    """What a reader of the file ought to know, a line each."""
    lines = []
    if merged.missing:
        lines.append(f"no file of {_ranks(merged.missing)}")
    if merged.not_compared:
        lines.append(
            f"the clock of {_ranks(merged.not_compared)} was not compared with rank 0's, so these times follow the clock of the "
            "day and may be off by milliseconds; HOROVOD_TIMELINE must be set on all ranks when they start"
        )
    return lines


def _ranks(numbers: List[int]) -> str:
    return ("rank " if len(numbers) == 1 else "ranks ") + ", ".join(map(str, numbers))
