# SPDX-License-Identifier: Apache-2.0
"""The records of a rank as a file: a line about the rank, then a line for each operation, each a JSON object. Standard library only,
see frames.py.

The file is compressed, because it may go through ssh. The launcher unpacks it to where the user finds it (job/record_files.py), and
docs/observability.md says what is in it.
"""

import json
import os
import time
import zlib

import flight

VERSION = 1


def name(rank):
    """The name of the file in the job's folder."""
    return f"records.{rank}.z"


def write(path, descriptor, place):
    """Writes the file from a rank's flight memory; False if there is nothing to write. ``place``: host and local rank."""
    memory = flight.Flight(descriptor)
    header = memory.header()
    if header is None:
        return False
    found, lost = memory.records()
    head = {"hvd_records": VERSION, "rank": header["rank"], "size": header["size"], "host": place[0], "local_rank": place[1],
            "pid": header["pid"], "clock_offset": 0, "clock_error": 0, "unix_at_zero": time.time() - time.monotonic(), "truncated": lost}
    encode = json.JSONEncoder(separators=(",", ":")).encode
    text = "".join(f"{encode(line)}\n" for line in [head, *found])
    with open(path, "wb") as file:
        file.write(zlib.compress(text.encode("utf-8", "replace"), 1))
    return True


def write_all(folder, ranks):
    """Writes a file for each of ``ranks``, which are (number, descriptor, place); a full disk is no error, and leaves files out.

    A rank takes some hundredths of a second, and nobody waits for the job's end gladly: every core takes a part.
    """
    count = max(1, min(len(os.sched_getaffinity(0)), len(ranks) // 2))
    helpers = []
    for part in range(1, count):
        try:
            pid = os.fork()
        except OSError:
            _write_part(folder, ranks[part::count])  # no processes left: it takes a little longer
            continue
        if pid == 0:
            try:
                _write_part(folder, ranks[part::count])
            finally:
                os._exit(0)
        helpers.append(pid)
    _write_part(folder, ranks[::count])
    for pid in helpers:
        os.waitpid(pid, 0)
    return [name(rank) for rank, _, _ in ranks if os.path.exists(os.path.join(folder, name(rank)))]


def _write_part(folder, ranks):
    for rank, descriptor, place in ranks:
        path = os.path.join(folder, name(rank))
        try:
            write(path, descriptor, place)
        except OSError:
            if os.path.exists(path):
                os.unlink(path)  # half a file
