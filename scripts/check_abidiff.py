#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""ABI gate 3: the built library against a golden dump of its binary interface (abidw), compared with abidiff.

The dump covers what a client can see: exported functions and the types of the public headers. Types of the inside are
left out by --headers-dir, so the dump does not depend on the engine, and compilers agree on it.

    check_abidiff.py LIBRARY              compares; exit 77 (skipped) if abidiff is not installed
    check_abidiff.py LIBRARY --generate   writes capi/abi/hvd-1.abi (needs a build with debug information)

No suppression file on purpose: in abidiff 2.2.0 a suppression of "data member inserted at end" also hides an insertion in
the middle when one side is a dump. Growth is therefore shown, and accepted by regenerating the dump in the same change.
"""
import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from check_exports import exported_symbols

ROOT = Path(__file__).resolve().parent.parent
GOLDEN = ROOT / "capi" / "abi" / "hvd-1.abi"
HEADERS = ROOT / "capi" / "include" / "hvd"
SKIPPED = 77  # how a test tells meson that it could not run

# abidiff's exit bits.
ERROR, USAGE, CHANGE, INCOMPATIBLE = 1, 2, 4, 8


def has_debug_information(library: Path) -> bool:
    output = subprocess.run(["readelf", "-SW", str(library)], check=True, capture_output=True, text=True).stdout
    return ".debug_info" in output


def dump(library: Path, headers: Path) -> str:
    """The binary interface of a library as abidw describes it, without anything that depends on the machine."""
    command = ["abidw", "--headers-dir", str(headers), "--drop-private-types", "--drop-undefined-syms",
               "--exported-interfaces-only", "--no-corpus-path", "--no-comp-dir-path", "--no-show-locs",
               "--no-elf-needed", "--type-id-style", "hash", str(library)]  # fmt: skip
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    # Where the sources lay on the machine that made the dump says nothing about the interface.
    return re.sub(r"(<abi-instr [^>]*?path=')[^']*/", r"\1", text)


def generate(library: Path, golden: Path, headers: Path) -> None:
    """Writes the golden dump."""
    if not has_debug_information(library):
        raise SystemExit(f"{library}: no debug information; build with -Dbuildtype=debug")
    text = dump(library, headers)
    golden.write_text(text)
    print(f"wrote {golden.name}: {len(text.splitlines())} lines")


def golden_symbols(golden: Path) -> set[str]:
    """The function symbols that a dump lists."""
    block = re.search(r"<elf-function-symbols>(.*?)</elf-function-symbols>", golden.read_text(), flags=re.S)
    return set(re.findall(r"<elf-symbol name='(\w+)'", block.group(1))) if block else set()


def compare_symbols(library: Path, golden: Path) -> int:
    """What can still be compared without debug information."""
    missing = sorted(golden_symbols(golden) - set(exported_symbols(library)))
    print(f"{library.name} has no debug information: symbols compared, types not")
    for name in missing:
        print(f"check_abidiff: {name}: in {golden.name}, not in the library")
    return 1 if missing or not golden_symbols(golden) else 0


def compare(library: Path, golden: Path, headers: Path) -> int:
    """Runs abidiff on two dumps and judges its exit bits."""
    # Dump against dump: given a library and --headers-dir, abidiff 2.2.0 takes the types of the golden dump, which has no
    # locations, for private ones, and then filters every change of them out.
    with tempfile.NamedTemporaryFile("w", suffix=".abi") as today:
        today.write(dump(library, headers))
        today.flush()
        command = ["abidiff", "--no-added-syms", str(golden), today.name]
        result = subprocess.run(command, capture_output=True, text=True)
    sys.stdout.write(result.stdout)
    sys.stdout.write(result.stderr)
    if result.returncode & (ERROR | USAGE):
        print(f"check_abidiff: abidiff itself failed with {result.returncode}")
    elif result.returncode & INCOMPATIBLE:
        print("check_abidiff: programs built against the golden interface would break")
    elif result.returncode & CHANGE:
        print("check_abidiff: the interface has changed; if that is meant, run scripts/update_golden.py in the same change")
    return 1 if result.returncode else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library", type=Path)
    parser.add_argument("--golden", type=Path, default=GOLDEN)
    parser.add_argument("--headers", type=Path, default=HEADERS, help="folder of the headers the library was built with")
    parser.add_argument("--generate", action="store_true")
    arguments = parser.parse_args()
    if arguments.generate:
        generate(arguments.library, arguments.golden, arguments.headers)
        return 0
    if not shutil.which("abidiff"):
        print("skipped: abidiff is not installed (Debian package abigail-tools)")
        return SKIPPED
    if not has_debug_information(arguments.library):
        return compare_symbols(arguments.library, arguments.golden)
    return compare(arguments.library, arguments.golden, arguments.headers)


if __name__ == "__main__":
    sys.exit(main())
