# SPDX-License-Identifier: Apache-2.0
"""What a rank has written about its end: one line from the engine, one from the Python package. Standard library only, see
frames.py.

  blames RANK of SIZE at SECONDS       another rank's end made its operations fail (core/base/fault_record.h)
  raised at SECONDS TYPE: TEXT         an exception that nobody caught (horovod/common/faults.py)

Seconds are of the monotonic clock, which processes of one host share.
"""

import os
import re

VARIABLE = "HOROVOD_FAULT_FILE"
_BLAMES = re.compile(r"^blames (-?\d+) of (\d+) at ([\d.]+)$", re.MULTILINE)
_RAISED = re.compile(r"^raised at ([\d.]+) (.*)$", re.MULTILINE)
_LONGEST = 1 << 13


def path(folder, rank):
    """Where a rank writes it."""
    return os.path.join(folder, f"fault.{rank}")


def read(folder, rank, began):
    """What a rank that has ended tells, as items of a message, in seconds since `began`."""
    try:
        with open(path(folder, rank), "rb") as file:
            text = file.read(_LONGEST).decode("utf-8", "replace")
    except OSError:
        return {}
    told = {}
    blames, raised = _BLAMES.search(text), _RAISED.search(text)
    if blames:
        told["blames"] = [int(blames.group(1)), int(blames.group(2)), float(blames.group(3)) - began]
    if raised:
        told["raised"] = [float(raised.group(1)) - began, raised.group(2)]
    return told
