#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Lint: the import table of bindings/python/horovod/runner/layers.txt.

    check_runner_layers.py               checks the runner
    check_runner_layers.py --self-test   checks that the rules catch what they are for
"""
import argparse
import ast
import sys
from pathlib import Path
from typing import Iterator

from check_layers import Table

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "bindings" / "python" / "horovod"


def imports(path: str, text: str) -> Iterator[tuple[int, str, bool]]:
    """(line, what, whether by plain name) for each import; `runner/job/task` for a module of the runner."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names, inside = [alias.name for alias in node.names], False
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names, inside = [f"{node.module}.{alias.name}" for alias in node.names], False
        elif isinstance(node, ast.ImportFrom):
            folder = path.split("/")[: -node.level]
            start = ".".join(folder + (node.module.split(".") if node.module else []))
            names, inside = [f"{start}.{alias.name}" for alias in node.names], True
        else:
            continue
        for name in names:
            inside_too = name.startswith("horovod.runner.")
            yield node.lineno, name.removeprefix("horovod." if inside_too else "").replace(".", "/"), not (inside or inside_too)


def faults_of(table: Table, travels: list[str], modules: set[str], path: str, text: str) -> list[str]:
    """The faults of one file; `path` is relative to horovod/, `modules` are all of the runner's, as `runner/job/task`."""
    folder = path.rpartition("/")[0]
    if folder not in table.allowed:
        return [f"{path}: its folder is not in layers.txt"]
    found = []
    stem = Path(path).stem
    if folder in travels and stem in sys.stdlib_module_names:
        found.append(f"{path}: has the name of a module of the standard library")
    neighbours = [layer for layer in (folder, *table.allowed[folder]) if layer in travels]
    for line, what, plain in imports(path, text):
        top = what.split("/")[0]
        if folder in travels:
            near = any(f"{layer}/{top}" in modules for layer in neighbours)
            if not plain or not (near or top in sys.stdlib_module_names):
                found.append(f"{path}:{line}: imports {what}, which does not travel with it")
        elif (not plain or top == "horovod") and not table.may_include(folder, what + "/"):
            found.append(f"{path}:{line}: {folder} may not import {what}")
    return found


def self_test(table: Table, travels: list[str], modules: set[str]) -> int:
    """Each import must be judged as stated."""
    cases = [
        ("runner/launch.py", "from .doctor.command import main", False),
        ("runner/job/job.py", "from ..agents import remote", False),
        ("runner/job/job.py", "from .. import on_host", False),
        ("runner/job/job.py", "from ..command_line.flags import fail", True),
        ("runner/job/job.py", "from ..launch import main", True),
        ("runner/job/job.py", "def f():\n    from .. import launch", True),
        ("runner/job/job.py", "import horovod.runner.function.run_task", True),
        ("runner/job/job.py", "from horovod.runner.plan import hosts", False),
        ("runner/job/job.py", "import horovod", True),
        ("runner/plan/hosts.py", "from ..on_host import frames", True),
        ("runner/plan/hosts.py", "import yaml", False),
        ("runner/agents/agent.py", "from ..job.output import say", True),
        ("runner/doctor/judge.py", "from ..job.output import say", True),
        ("runner/doctor/ranks/view.py", "from horovod._native import library", False),
        ("runner/command_line/check_build.py", "from horovod._native import native", False),
        ("runner/on_host/guardian.py", "import frames", False),
        ("runner/on_host/guardian.py", "import frames, socket, os.path", False),
        ("runner/on_host/guardian.py", "from . import frames", True),
        ("runner/on_host/guardian.py", "import numpy", True),
        ("runner/on_host/guardian.py", "import horovod", True),
        ("runner/on_host/guardian.py", "import facts", True),
        ("runner/on_host/socket.py", "", True),
        ("runner/doctor/on_host/probe.py", "import frames\nimport facts", False),
        ("runner/doctor/on_host/probe.py", "from horovod.runner.on_host import frames", True),
        ("runner/elsewhere/a.py", "", True),
    ]
    wrong = 0
    for path, text, expected in cases:
        if bool(faults_of(table, travels, modules, path, text)) != expected:
            print(f"check_runner_layers: self test: {path}: {text!r}: expected {'a fault' if expected else 'no fault'}")
            wrong += 1
    print(f"check_runner_layers: self test, {len(cases)} cases, {wrong} wrong")
    return 1 if wrong else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--self-test", action="store_true")
    table = Table((PACKAGE / "runner" / "layers.txt").read_text())
    travels = table.allowed.pop("travels")
    files = {path.relative_to(PACKAGE).as_posix(): path for path in sorted((PACKAGE / "runner").rglob("*.py"))}
    modules = {name.removesuffix(".py") for name in files}
    if parser.parse_args().self_test:
        return self_test(table, travels, modules)
    faults = table.cycles()
    for name, path in files.items():
        faults += faults_of(table, travels, modules, name, path.read_text())
    for fault in faults:
        print(f"check_runner_layers: {fault}")
    print(f"check_runner_layers: {len(files)} files, {len(faults)} faults")
    return 1 if faults or not files else 0


if __name__ == "__main__":
    sys.exit(main())
