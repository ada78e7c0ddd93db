# SPDX-License-Identifier: Apache-2.0
"""horovodrun status and horovodrun stacks: what the ranks of a running job do."""

import argparse
import json
import shutil
import sys
from typing import List, Optional

from ..command_line.flags import fail
from ..view import stacks as listed_stacks
from ..view import table
from .jobs import AskError, Found, ask, running

_TEXTS = {
    "status": ("one line for each rank of a running job, and who is waited for", """\
The columns: rank; host; pid; state of the process (computing, waiting, stopped by a signal, blocked in the kernel); the last operation
that the rank has completed, and how long ago; the operation it waits in, and for how long."""),
    "stacks": ("what each rank of a running job does, with its stack", """\
Python ranks that have called hvd.init() write their stacks themselves, even if a thread does not give the GIL back. Java ranks are asked
with jstack or jcmd of their JDK; of other processes gdb or eu-stack shows the native frames, if the host has one of them."""),
}


def status(argv: List[str]) -> int:
    """Runs `horovodrun status`; returns its exit code."""
    return _show("status", argv)


def stacks(argv: List[str]) -> int:
    """Runs `horovodrun stacks`; returns its exit code."""
    return _show("stacks", argv)


def _show(name: str, argv: List[str]) -> int:
    head, more = _TEXTS[name]
    parser = argparse.ArgumentParser(
        prog=f"horovodrun {name}", usage=f"horovodrun {name} [JOB]", allow_abbrev=False,
        description=f"Shows {head}.\n\n{more}\n\nExit code: 0, 1 if no job of this user runs here or it does not answer, 2 wrong call.",
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.error = fail
    parser.add_argument("job", nargs="?", type=int, metavar="JOB", help="the process number of its horovodrun; default: the only job")
    parser.add_argument("--json", action="store_true", help="print everything as one JSON object")
    args = parser.parse_args(argv)
    try:
        answer = ask(_choose(running(), args.job, name), name == "stacks")
    except AskError as error:
        sys.stderr.write(f"horovodrun: {error}\n")
        return 1
    if args.json:
        print(json.dumps(answer))
        return 0
    width = max(table.WIDTH, min(160, shutil.get_terminal_size((table.WIDTH, 24)).columns))
    lines = table.screen(answer, width) if name == "status" else listed_stacks.listing(answer, width)
    print("\n".join(lines))
    return 0


def _choose(jobs: List[Found], wanted: Optional[int], name: str) -> Found:
    """The job that is meant; an AskError lists them if that is not clear."""
    listed = " ".join(str(job.pid) for job in jobs)
    if wanted is not None:
        for job in jobs:
            if job.pid == wanted:
                return job
        raise AskError(f"job {wanted}: no such job of this user on this machine" + (f"; there are {listed}" if jobs else ""))
    if not jobs:
        raise AskError("no job of this user runs on this machine (ask where its horovodrun was started)")
    if len(jobs) > 1:
        titles = [f"  horovodrun {name} {job.pid}   {_title(job)}" for job in jobs]
        raise AskError("\n".join([f"{len(jobs)} jobs run here; say which one:", *titles]))
    return jobs[0]


def _title(job: Found) -> str:
    try:
        with open(f"/proc/{job.pid}/cmdline", "rb") as file:
            words = file.read().decode("utf-8", "replace").split("\0")
    except OSError:
        return ""
    return " ".join(words).strip()[:100]
