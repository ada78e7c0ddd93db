#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Lint: the variables of libhvd that outlive a call and are not read-only are those that core/adr/0001-no-globals.md lists.

    check_globals.py BUILD/capi/libhvd.so.1     a library with its symbol table

A thread-local variable counts too, and so does one that is written only when it is made. Variables of the C++ runtime and
of OpenSSL, which are linked in, do not: only names in the namespace hvd are looked at.
"""
import argparse
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "core/adr/0001-no-globals.md"
ROW = re.compile(r"^\| `(core/[\w/.]+)` \| ((?:`\w+`(?:, )?)+) \|", re.M)
SKIPPED = 77


def listed() -> list[tuple[str, str]]:
    """(file, variable) of every row of the table."""
    return [(path, name) for path, names in ROW.findall(PAGE.read_text()) for name in re.findall(r"`(\w+)`", names)]


def in_library(library: str) -> set[str]:
    """The variables of namespace hvd in sections that the program can write."""
    command = ["nm", "--format=sysv", "-C", "--defined-only", library]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found = set()
    for line in output.splitlines():
        fields = [field.strip() for field in line.split("|")]
        if len(fields) < 7 or fields[-1] not in (".bss", ".data", ".tbss", ".tdata"):
            continue
        whole = fields[0].removeprefix("guard variable for ")
        if whole.startswith("hvd::"):
            found.add(whole)
    return found


def last_part(whole: str) -> str:
    return re.sub(r"\[.*\]$", "", whole).rpartition("::")[2]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("library", help="libhvd with its symbol table, for example build/capi/libhvd.so.1")
    library = parser.parse_args().library
    found, rows = in_library(library), listed()
    if not found:
        print(f"skipped: {library} has no symbol table")
        return SKIPPED
    page = PAGE.relative_to(ROOT)
    expected, present = Counter(name for _, name in rows), Counter(last_part(whole) for whole in found)
    faults = [f"{whole}: not in the table of {page}" for whole in sorted(found)
              if present[last_part(whole)] > expected[last_part(whole)]]
    faults += [f"{page}: {name}: the library has no such variable" for name in sorted(expected - present)]
    for path, name in rows:
        if not re.search(rf"\b{name}\b", (ROOT / path).read_text()):
            faults.append(f"{page}: {path} has no {name}")
    print(*(f"check_globals: {fault}" for fault in faults), f"check_globals: {len(found)} variables", sep="\n")
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
