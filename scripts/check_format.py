#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Lint: C and C++ sources are formatted as .clang-format says.

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
SKIPPED = 77


def clang_format() -> str:
    """The program, or an empty string."""
    for name in ("clang-format-19", "clang-format"):
        path = shutil.which(name)
        if path and " 19." in subprocess.run([path, "--version"], capture_output=True, text=True).stdout:
            return path
    return ""


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
    print(f"check_format: {len(files)} files, {len(bad)} not formatted")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
