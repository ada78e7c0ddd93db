# SPDX-License-Identifier: Apache-2.0
"""Suites in an environment of their own: frameworks whose packages do not agree with those of the other tests.

    TENSORFLOW = Environment("tensorflow", "tensorflow-cpu", "scikit-learn")

    def tensorflow_suite() -> Count:
        return TENSORFLOW.tests("bindings/python/tests/test_tensorflow.py")

Environments stay in build-envs/<name> and are made anew when their packages change. ``AHEAD`` of run_tests.py makes them
while other suites run: ``"tensorflow": TENSORFLOW.ahead``.
"""

import json
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Optional, Sequence, Tuple

from suites.ahead import once
from suites.count import ROOT, Count, captured, lacking, passed_if, run, say, start
from suites.package import pytest, wheel
from suites.room import ahead_fits, free, leave

FOLDER = ROOT / "build-envs"
# What the tests import beside the framework, and what the package itself needs.
_EVERYWHERE = ("pytest", "cloudpickle", "pyyaml", "msgpack")


class Environment:
    """A virtual environment with packages of PyPI and this project."""

    def __init__(self, name: str, *packages: str, alone: Tuple[str, ...] = ()) -> None:
        """``alone``: packages to be installed without what they ask for."""
        self.name, self.packages, self.alone = name, packages, alone

    def python(self) -> Tuple[Optional[Path], str]:
        """Its Python, made and brought up to date at the first call of a run; or None and why its packages cannot be had."""
        return _ready(self.name, self.packages, self.alone)

    def ahead(self) -> None:
        """Makes it in the background."""
        _ready.ahead(self.name, self.packages, self.alone)  # type: ignore[attr-defined]

    def leave(self) -> None:
        """When no suite needs it any more."""
        leave(FOLDER / self.name)

    def tests(self, *arguments: object, **environment: str) -> Count:
        """Runs pytest there with these files and options, such as ``-k`` and ``-m``."""
        python, lacks = self.python()
        if python is None:
            return lacking(lacks)
        return pytest(*arguments, python=python, **environment)

    def program(self, *words: object, ranks: int = 0, launch: Sequence[str] = (), time_limit: float = 300,
                **environment: str) -> Count:  # fmt: skip
        """Runs a Python program there, alone or as a job of ranks, and counts it as one test. Output is shown if it failed.
        ``launch``: further options of horovodrun."""
        python, lacks = self.python()
        if python is None:
            return lacking(lacks)
        launcher = [python, "-m", "horovod.runner.launch", "-np", ranks, *launch] if ranks else []
        command = [str(word) for word in (*launcher, python, *words)]
        began = time.monotonic()
        code, output = captured(command, time_limit, **environment)
        words_said = " ".join(os.path.relpath(word, ROOT) if os.path.isabs(word) else word for word in command[1:])
        print(f"   {'ok    ' if code == 0 else 'FAILED'} {self.name}: {words_said}", flush=True)
        if code != 0:
            print(output, flush=True)
        return passed_if(code == 0).took(words_said, time.monotonic() - began)


@once
def _ready(name: str, packages: Tuple[str, ...], alone: Tuple[str, ...]) -> Tuple[Optional[Path], str]:
    folder = FOLDER / name
    python = folder / "bin" / "python"
    wanted = json.dumps([sys.version, *packages, *alone, *_EVERYWHERE])
    stamp = folder / "packages.json"
    if not stamp.is_file() or stamp.read_text() != wanted:
        began = time.monotonic()
        fault = _made(folder, packages, alone)
        say(f"   environment {name}: {time.monotonic() - began:.0f} s")
        if fault:
            # What of it is there would take the room that the next suites need.
            shutil.rmtree(folder, ignore_errors=True)
            return None, f"{', '.join(packages)} could not be installed in {FOLDER.name}/{name}: {fault}"
        stamp.write_text(wanted)
    package = wheel()
    installed = folder / "wheel"
    if not installed.is_file() or installed.read_text() != package.parent.name:
        # Without its dependencies, which are here and of which pip would take newer ones than the framework bears.
        fault = _pip(python, "--force-reinstall", "--no-deps", package)
        if fault:
            raise ValueError(f"{package.name} could not be installed in {FOLDER.name}/{name}: {fault}")
        installed.write_text(package.parent.name)
    return python, ""


def _made(folder: Path, packages: Sequence[str], alone: Sequence[str]) -> str:
    """Makes an environment anew; what went wrong, if anything did."""
    shutil.rmtree(folder, ignore_errors=True)
    if not run([sys.executable, "-m", "venv", folder]):
        return "python -m venv failed"
    python = folder / "bin" / "python"
    return _pip(python, *packages, *_EVERYWHERE) or (_pip(python, "--no-deps", *alone) if alone else "")


def _pip(python: Path, *words: object) -> str:
    """Installs; the end of what pip says of a failure and the room that was left, nothing if all is well."""
    # What pip keeps for the next time would take the room that the packages need.
    keep = [] if ahead_fits() else ["--no-cache-dir"]
    command = [python, "-m", "pip", "install", "-q", "--disable-pip-version-check", *keep, *words]
    with tempfile.TemporaryFile("w+", errors="replace") as output:
        if start(command, output, {}):
            return ""
        output.seek(0)
        said = [line for line in output.read().splitlines() if line.strip()]
    say("\n".join(f"   {line}" for line in said[-20:]))
    return f"{said[-1] if said else 'pip says nothing'}; {free() / 1e9:.1f} GB of disk are free"
