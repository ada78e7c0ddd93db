#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Lint: the import table of bindings/python/horovod/layers.txt, and that no modules import each other.

    check_package_layers.py               checks the Python package
    check_package_layers.py --self-test   checks that the rules catch what they are for
"""
import argparse
import ast
import sys
from pathlib import Path
from typing import Iterator

from check_layers import Table

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "bindings" / "python" / "horovod"
LATE = " late"


class Parts:
    """The table, and which part a module belongs to."""

    def __init__(self, text: str):
        self.table = Table(text)
        rows = self.table.allowed
        self.late = {part.removesuffix(LATE): rows.pop(part) for part in list(rows) if part.endswith(LATE)}

    def part_of(self, module: str) -> str:
        """The part of `torch/mpi_ops` or, for a package, of `torch`; an empty string if it has none."""
        if f"{module}/__init__" in self.table.allowed:
            return f"{module}/__init__"
        if module.startswith("runner/on_host/"):
            return "runner/on_host"
        if "/" not in module and module not in self.table.allowed:
            return "operations"
        return self.table.layer_of(module + "/")

    def may_import(self, part: str, other: str, late: bool) -> bool:
        return other == part or other in self.table.allowed[part] or (late and other in self.late.get(part, []))


def imports(text: str, modules: set[str]) -> Iterator[tuple[int, str, bool]]:
    """(line, module of the package, whether inside a function) for each import of this package."""
    tree = ast.parse(text)
    inside = {id(node) for function in ast.walk(tree) if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef))
              for node in ast.walk(function)}
    for node in ast.walk(tree):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            if node.level:
                yield node.lineno, ".", id(node) in inside
                continue
        for name in names:
            if name.split(".")[0] != "horovod":
                continue
            words = name.split(".")[1:]
            while words and "/".join(words) not in modules:
                words.pop()
            yield node.lineno, "/".join(words) or "__init__", id(node) in inside


def faults_of(parts: Parts, modules: set[str], path: str, text: str) -> list[str]:
    """The faults of one file; `path` is relative to horovod/."""
    own = parts.part_of(module_of(path))
    if not own:
        return [f"{path}: its folder is not in layers.txt"]
    found = []
    for line, module, late in imports(text, modules):
        if module == ".":
            found.append(f"{path}:{line}: imports without the package's name")
        elif not parts.may_import(own, parts.part_of(module), late):
            found.append(f"{path}:{line}: {own} may not import {module}" + ("" if late else " when it is loaded"))
    return found


def circles(found: dict[str, set[str]]) -> list[str]:
    """A fault for each circle of modules that import each other, also inside functions: `found` has what each module imports."""
    state: dict[str, int] = {}  # 1: on the way, 2: done
    faults = []

    def visit(module: str, way: list[str]) -> None:
        state[module] = 1
        for other in sorted(found.get(module, ())):
            if state.get(other) == 1:
                circle = [*way[way.index(other):], other]
                faults.append("modules import each other: " + " -> ".join(circle))
            elif other not in state:
                visit(other, [*way, other])
        state[module] = 2

    for module in sorted(found):
        if module not in state:
            visit(module, [module])
    return faults


def module_of(path: str) -> str:
    """`torch/mpi_ops` for torch/mpi_ops.py, `torch` for its __init__."""
    return path.removesuffix(".py").removesuffix("/__init__")


def self_test(parts: Parts, modules: set[str]) -> int:
    """Each import must be judged as stated."""
    cases = [
        ("torch/mpi_ops.py", "from horovod import _ops", False),
        ("torch/mpi_ops.py", "from horovod.common.basics import size", False),
        ("torch/mpi_ops.py", "from horovod.torch import distributed", True),
        ("torch/mpi_ops.py", "def f():\n    from horovod.torch import distributed", True),
        ("torch/__init__.py", "from horovod.torch import distributed", False),
        ("tensorflow/optimizer.py", "from horovod.tensorflow.keras import callbacks", True),
        ("tensorflow/optimizer.py", "def f():\n    from horovod.tensorflow.keras import callbacks", False),
        ("torch/mpi_ops.py", "import horovod.tensorflow", True),
        ("torch/mpi_ops.py", "def f():\n    import horovod.tensorflow", True),
        ("common/basics.py", "from horovod._native import native", False),
        ("common/basics.py", "from horovod import _ops", True),
        ("common/exceptions.py", "from horovod.common import basics", True),
        ("_native/library.py", "from horovod.common.exceptions import from_status", False),
        ("_native/library.py", "from horovod.common import basics", True),
        ("_ops.py", "import horovod.torch", True),
        ("_ops.py", "from horovod import _handles", False),
        ("_keras/state.py", "import horovod.tensorflow", True),
        ("_keras/state.py", "def f():\n    import horovod.tensorflow", False),
        ("_keras/state.py", "from . import values", True),
        ("elsewhere/module.py", "", True),
    ]
    wrong = 0
    for path, text, expected in cases:
        if bool(faults_of(parts, modules, path, text)) != expected:
            print(f"check_package_layers: self test: {path}: {text!r}: expected {'a fault' if expected else 'no fault'}")
            wrong += 1
    graphs = [({"a": {"b"}, "b": {"c"}, "c": set()}, 0), ({"a": {"b"}, "b": {"c"}, "c": {"a"}}, 1), ({"a": {"b"}, "b": {"a", "c"}}, 1)]
    for graph, expected in graphs:
        if len(circles(graph)) != expected:
            print(f"check_package_layers: self test: {graph}: expected {expected} circles, found {circles(graph)}")
            wrong += 1
    print(f"check_package_layers: self test, {len(cases) + len(graphs)} cases, {wrong} wrong")
    return 1 if wrong else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--self-test", action="store_true")
    parts = Parts((PACKAGE / "layers.txt").read_text())
    every = {path.relative_to(PACKAGE).as_posix(): path for path in sorted(PACKAGE.rglob("*.py"))}
    modules = {module_of(name) for name in every}
    if parser.parse_args().self_test:
        return self_test(parts, modules)
    files = {name: path for name, path in every.items() if not name.startswith("runner/")}
    faults = parts.table.cycles()
    for name, path in files.items():
        faults += faults_of(parts, modules, name, path.read_text())
    faults += circles({
        module_of(name): {other for _line, other, _late in imports(path.read_text(), modules) if other in modules} - {module_of(name)}
        for name, path in every.items()
    })
    for fault in faults:
        print(f"check_package_layers: {fault}")
    print(f"check_package_layers: {len(files)} files, {len(faults)} faults")
    return 1 if faults or not files else 0


if __name__ == "__main__":
    sys.exit(main())
