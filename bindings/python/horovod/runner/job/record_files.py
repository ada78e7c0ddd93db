# SPDX-License-Identifier: Apache-2.0
"""Where the records of a job stay after its end: the flight records of all ranks, the stacks that were taken, and samples.

Agents leave them, compressed, in the job's private folder (on_host/records.py), which ends with the job. They go to the folder of
--output-filename, or if the job has failed to a folder of their own among temporary files, of which the last few are kept.
"""

import json
import os
import re
import stat
import time
import zlib
from typing import Callable, List, Optional, Tuple

from ..on_host.private_dir import remove_tree
from .output import rank_folder

LEFT = re.compile(r"(records|samples)\.\d+\.z|stack\.\d+")  # names of files that agents leave
_NAME = re.compile(r"hvd-records-\d{8}-\d{6}-\d+")
_KEPT = 5


def place(private: str, ranks: int, output_folder: Optional[str], offset_of: Callable[[int], Tuple[int, int]]) -> Optional[str]:
    """Moves what the ranks have left; returns the folder, None if there was nothing. ``offset_of(rank)``: what has to be added to the
    times of a rank for rank 0's clock, and the longest error, in ns. OSError if the folder cannot be written."""
    found = [rank for rank in range(ranks) if os.path.exists(os.path.join(private, f"records.{rank}.z"))]
    if not found:
        return None
    folder = output_folder or _new_folder()
    for rank in found:
        own = rank_folder(folder, rank, ranks)
        try:
            _copy(os.path.join(private, f"records.{rank}.z"), os.path.join(own, "records.jsonl"), *offset_of(rank))
            samples = os.path.join(private, f"samples.{rank}.z")
            if os.path.exists(samples):
                _unpack(samples, os.path.join(own, "samples.jsonl"))
        except (ValueError, zlib.error):
            continue  # its host went away while it sent a file
        stacks = os.path.join(private, f"stack.{rank}")
        if os.path.exists(stacks):
            with open(stacks, "rb") as file, open(os.path.join(own, "stacks.txt"), "wb") as copy:
                copy.write(file.read())
    return folder


def _copy(source: str, target: str, offset: int, error: int) -> None:
    """The first line is completed: the rank's host does not know the clock of rank 0."""
    with open(source, "rb") as file:
        first, _, rest = zlib.decompress(file.read()).partition(b"\n")
    head = {**json.loads(first), "clock_offset": offset, "clock_error": error}
    with open(target, "wb") as copy:
        copy.write(json.dumps(head).encode() + b"\n")
        copy.write(rest)


def _unpack(source: str, target: str) -> None:
    with open(source, "rb") as file, open(target, "wb") as copy:
        copy.write(zlib.decompress(file.read()))


def _new_folder() -> str:
    base = next((base for base in (os.environ.get("TMPDIR"), "/tmp") if base and os.path.isdir(base)), ".")
    for old in _older(base)[: -_KEPT + 1]:
        remove_tree(old)
    path = os.path.join(base, f"hvd-records-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}")
    os.mkdir(path, 0o700)
    return path


def _older(base: str) -> List[str]:
    """Folders of this user that earlier jobs have left, the oldest first."""
    found = []
    for name in os.listdir(base):
        path = os.path.join(base, name)
        if _NAME.fullmatch(name):
            try:
                info = os.lstat(path)
            except OSError:
                continue
            if stat.S_ISDIR(info.st_mode) and info.st_uid == os.getuid():
                found.append((info.st_mtime, path))
    return [path for _, path in sorted(found)]
