#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Lint: the subject of a commit, which is the first line of its message, has at most 72 characters; lists of commits cut longer
ones off. Whatever needs more room stands in the body, behind an empty line.

    check_subject.py FILE         checks the message in this file; pre-commit calls it so before each commit
    check_subject.py --self-test  checks that long subjects are found
"""
import subprocess
import sys
import tempfile
from pathlib import Path

MOST = 72


def fault(message: str) -> str:
    """What is wrong with a message, or an empty string. Git leaves out the lines that begin with #."""
    lines = [line for line in message.splitlines() if not line.startswith("#")]
    while lines and not lines[0].strip():
        lines.pop(0)
    if lines and len(lines[0]) > MOST:
        return f"the subject has {len(lines[0])} characters, at most {MOST} are allowed: {lines[0]}"
    if len(lines) > 1 and lines[1].strip():
        return f"an empty line has to stand between the subject and the body: {lines[1]}"
    return ""


def self_test() -> int:
    long, short = "x" * (MOST + 1), "x" * MOST
    faulty = [long, f"# a comment\n\n{long}\n", f"{short}\nbody\n"]
    good = ["", short, f"{short}\n\n{long}\n", f"{short}\n# {long}\n"]
    wrong = [message for message in faulty if not fault(message)] + [message for message in good if fault(message)]
    with tempfile.TemporaryDirectory() as folder:
        for name, message, expected in (("long", long, 1), ("short", short, 0)):
            path = Path(folder) / name
            path.write_text(message)
            if subprocess.run([sys.executable, __file__, str(path)], capture_output=True).returncode != expected:
                wrong.append(name)
    for message in wrong:
        print(f"check_subject: self-test: wrong about {message!r}")
    return 1 if wrong else 0


def main() -> int:
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    if len(sys.argv) != 2:
        print(__doc__)
        return 2
    found = fault(Path(sys.argv[1]).read_text())
    if found:
        print(f"check_subject: {found}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
