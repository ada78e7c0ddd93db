#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Lint: C and C++ sources are formatted as .clang-format says, and no line of them is longer than 100.

    check_format.py         checks; exit 77 (skipped) without clang-format 19: other versions format differently
    check_format.py --fix   rewrites
"""
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("core", "capi/src", "capi/include", "bindings", "examples", "tests", "benchmarks")
SUFFIXES = {".h", ".hpp", ".c", ".cc"}
LONGEST = 100  # clang-format leaves text in strings and between its off and on as it is
SKIPPED = 77


def clang_format() -> str:
    """The program, or an empty string."""
    for name in ("clang-format-19", "clang-format"):
        path = shutil.which(name)
        if path and " 19." in subprocess.run([path, "--version"], capture_output=True, text=True).stdout:
            return path
    return ""


def too_long(path: Path) -> list[str]:
    """The file's lines over the limit, as file:line. Tables (.def) keep a row per line, however long."""
    lines = path.read_text().split("\n")
    return [f"{path.relative_to(ROOT)}:{n}" for n, line in enumerate(lines, 1) if len(line) > LONGEST]


def main() -> int:
    program = clang_format()
    if not program:
        print("skipped: clang-format 19 is not installed")
        return SKIPPED
    files = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*")) if path.suffix in SUFFIXES]
    if "--fix" in sys.argv[1:]:
        return subprocess.run([program, "-i", *map(str, files)]).returncode
    said = subprocess.run([program, "--dry-run", *map(str, files)], capture_output=True, text=True).stderr
    named = {match.group(1) for match in re.finditer(r"^(\S+?):\d+:\d+: (?:warning|error):", said, flags=re.M)}
    bad = sorted(str(Path(name).relative_to(ROOT)) for name in named)
    for name in bad:
        print(f"check_format: {name}: run scripts/check_format.py --fix")
    long = [place for path in files for place in too_long(path)]
    for place in long:
        print(f"check_format: {place}: longer than {LONGEST} characters")
    print(f"check_format: {len(files)} files, {len(bad)} not formatted, {len(long)} lines too long")
    return 1 if bad or long else 0


if __name__ == "__main__":
    sys.exit(main())
