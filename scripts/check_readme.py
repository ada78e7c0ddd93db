#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Lint: the README is short, its examples are files that the tests run, and no page or message tells anyone to install
PyPI's horovod, which is another project. Whether links lead somewhere is seen by check_docs.py.

A block that is an example is preceded by a line `<!-- example: path -->` and is that file, byte by byte, without the
lines that only tell the licence. With --fix, the blocks are written anew from the files.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
LONGEST = 200
BLOCK = re.compile(r"<!-- example: (?P<path>\S+) -->\n```(?P<language>\w+)\n(?P<text>.*?)```\n", re.S)
PYPI = re.compile(r"pip\d? install\b[^\n`#]*?\s['\"]?horovod(?=[\[\s'\"`=<>]|$)", re.M)
LICENCE = re.compile(r"(#|//|/\*) SPDX-License-Identifier: .*\n")


def shown(path: Path) -> str:
    """The file as the README shows it."""
    return LICENCE.sub("", path.read_text(), count=1)


def faults() -> list:
    text = README.read_text()
    found = []
    if len(text.splitlines()) > LONGEST:
        found.append(f"README.md: {len(text.splitlines())} lines, at most {LONGEST} are allowed")
    blocks = list(BLOCK.finditer(text))
    if not blocks:
        found.append("README.md: no example block")
    if len(blocks) != text.count("<!-- example:"):
        found.append("README.md: an example marker is not followed by a block")
    for block in blocks:
        path = ROOT / block["path"]
        if not path.is_file():
            found.append(f"README.md: example {block['path']}: no such file")
        elif block["text"] != shown(path):
            found.append(f"README.md: example {block['path']}: block differs from the file; scripts/check_readme.py --fix")
    pages = [README, ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
    programs = [path for folder in ("bindings/python/horovod", "examples") for path in sorted((ROOT / folder).rglob("*.py"))]
    for page in pages + programs:
        for command in PYPI.finditer(page.read_text()):
            found.append(f"{page.relative_to(ROOT)}: `{command[0]}` installs another project; pip install . in the clone")
    return found


def fix() -> None:
    def anew(block):
        return f"<!-- example: {block['path']} -->\n```{block['language']}\n{shown(ROOT / block['path'])}```\n"

    README.write_text(BLOCK.sub(anew, README.read_text()))


if __name__ == "__main__":
    if "--fix" in sys.argv[1:]:
        fix()
    problems = faults()
    print(*problems, sep="\n", end="\n" if problems else "")
    sys.exit(bool(problems))
