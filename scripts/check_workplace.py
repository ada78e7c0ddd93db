#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Lint: the repository stands alone, and says nothing it does not mean.

No absolute path of a developer's machine, no address of a package mirror, no unfinished marker, an SPDX line first in every
source file, no trailing white space, a newline at the end.
"""
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SELF = Path(__file__).name

# Written in pieces, so that this file does not contain what it forbids.
FORBIDDEN = [
    (re.compile(r"(?<![\w.$}])/(?:work|home|root|mnt|Users)/\w"), "an absolute path of one machine"),
    (re.compile(r"\.\./" + r"shared\b"), "a path outside the repository"),
    (re.compile(r"\b(?:TO" + r"DO|FIX" + r"ME|XX" + r"X|HA" + r"CK)\b"), "an unfinished marker"),
    (re.compile(r"https?://(?:[\w-]+\.)*(?:nexus|artifactory|mirror|proxy)[\w.-]*", re.I), "an address of a package mirror"),
    (re.compile(r"--(?:extra-)?index-url|PIP_" + r"INDEX_URL|--trusted-host"), "a choice of package registry"),
]
SPDX = re.compile(r"SPDX-License-Identifier: Apache-2\.0")
NEED_SPDX = {".py", ".c", ".cc", ".h", ".hpp", ".inc", ".def", ".sh", ".build", ".options", ".map", ".txt", ".toml", ".cmake"}
DATA = {".json", ".abi", ".png", ".npz", ".lock"}


def tracked_files() -> list[Path]:
    """What belongs to the repository: git's list, with files not added yet; without git everything but build products."""
    command = ["git", "-C", str(ROOT), "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    try:
        result = subprocess.run(command, capture_output=True)
        names = [name for name in result.stdout.decode().split("\0") if name] if result.returncode == 0 else None
    except FileNotFoundError:
        names = None
    if names is None:
        names = [str(path.relative_to(ROOT)) for path in ROOT.rglob("*")]
    skipped = (".venv/", ".git/", "build", "__pycache__")
    paths = [ROOT / name for name in names if not name.startswith(skipped) and "__pycache__" not in name]
    return [path for path in paths if path.is_file() and not path.is_symlink()]


def faults_of(path: Path, text: str) -> list[str]:
    """The faults of one text file."""
    name, found = str(path.relative_to(ROOT)), []
    if path.suffix in DATA or "corpus" in path.parts:
        lines = []
    else:
        lines = text.splitlines()
        first = "\n".join(lines[:2])
        if (path.suffix in NEED_SPDX or path.name == "meson.build") and text.strip() and not SPDX.search(first):
            found.append(f"{name}:1: no SPDX line")
        if text and not text.endswith("\n"):
            found.append(f"{name}: no newline at the end")
    for number, line in enumerate(lines, 1):
        if line != line.rstrip():
            found.append(f"{name}:{number}: white space at the end")
    if path.name != SELF:
        for number, line in enumerate(text.splitlines(), 1):
            for pattern, what in FORBIDDEN:
                if pattern.search(line):
                    found.append(f"{name}:{number}: {what}: {pattern.search(line).group(0)}")
    return found


def self_test() -> None:
    """Each rule finds its example and leaves the harmless one alone."""
    probe = ROOT / "probe.md"
    bad = ["see /wo" + "rk/main", "x ../sha" + "red/design", "# TO" + "DO: later", "pip --index-" + "url x"]
    for line in bad:
        assert faults_of(probe, line + "\n"), f"not found: {line}"
    for line in ["/tmp/x", "framework/a", "127.0.0.1", "$HOME/mnt/x", "1.0.0"]:
        assert not faults_of(probe, line + "\n"), f"wrongly found: {line}"


def main() -> int:
    self_test()
    faults, count = [], 0
    for path in tracked_files():
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue
        faults += faults_of(path, text)
        count += 1
    for fault in faults:
        print(f"check_workplace: {fault}")
    print(f"check_workplace: {count} files, {len(faults)} faults")
    return 1 if faults or not count else 0


if __name__ == "__main__":
    sys.exit(main())
