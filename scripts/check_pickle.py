#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Lint: what turns bytes into running code stands only where it was reviewed.

    check_pickle.py               checks the shipped Python package and its extension
    check_pickle.py --self-test   checks that the rules catch what they are for

Found are pickle and its relatives, eval and exec (also in strings, which may be programs for another process), imports of
modules whose name is computed, torch.load, NumPy's allow_pickle, yaml.load without a safe loader, and commands that go through a
shell. A reviewed place that is not used any more is a fault too.
"""
import argparse
import ast
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "bindings" / "python"

# (file, what it may use): why that is right.
REVIEWED = {
    ("horovod/_codec.py", "pickle"): "reads only what this job's ranks made; refused when HOROVOD_SAFE_OBJECTS is on",
    ("horovod/_codec.py", "cloudpickle"): "writes functions and objects for this job's ranks",
    ("horovod/_codec.py", "import_module"): "horovod.run with HOROVOD_SAFE_OBJECTS: the caller's function by its name",
    ("horovod/__init__.py", "import_module"): "names of a table in the same file",
    ("horovod/common/util.py", "import_module"): "names of a table in the same file",
    ("horovod/runner/launch.py", "import_module"): "names of a table in the same file",
    ("horovod/runner/agents/remote.py", "exec"): "the agent's own sources, through the ssh connection that started the program",
}
MODULES = {"pickle", "_pickle", "cPickle", "cloudpickle", "dill", "marshal", "shelve", "joblib", "jsonpickle"}
BUILTINS = {"eval", "exec", "__import__", "execfile"}
SHELLS = {("os", "system"), ("os", "popen"), ("subprocess", "getoutput"), ("subprocess", "getstatusoutput"),
          ("asyncio", "create_subprocess_shell")}
SAFE_LOADERS = {"SafeLoader", "CSafeLoader", "BaseLoader", "CBaseLoader"}
IN_STRINGS = re.compile(r"(?<![\w.])(eval|exec)\(")
IN_CPP = re.compile(r"\b(?:py|pybind11)::(eval|exec|eval_file)\b|\b(pickle|marshal)\b|\b(PyRun_\w+|PyMarshal_\w+)")


def last_name(node: ast.AST) -> str:
    """`load` of torch.load, `exec` of exec."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _names_a_module(call: ast.Call) -> bool:
    """Whether import_module is given a text that is no module of the list."""
    first = call.args[0] if call.args else None
    return isinstance(first, ast.Constant) and isinstance(first.value, str) and first.value.split(".")[0] not in MODULES


def call_faults(call: ast.Call) -> list[str]:
    """What a call uses that needs a review."""
    name = last_name(call.func)
    owner = last_name(call.func.value) if isinstance(call.func, ast.Attribute) else ""
    keywords = {word.arg: word.value for word in call.keywords}
    found = []
    if owner in ("", "builtins") and name in BUILTINS:
        found.append(name)
    if name in ("run_path", "run_module"):
        found.append(name)
    if name == "import_module" and not _names_a_module(call):
        found.append(name)
    if owner == "torch" and name == "load":
        found.append("torch.load")
    shell = keywords.get("shell")
    if shell is not None and not (isinstance(shell, ast.Constant) and shell.value is False):
        found.append("shell")
    if (owner, name) in SHELLS:
        found.append("shell")
    allowed = keywords.get("allow_pickle")
    if allowed is not None and not (isinstance(allowed, ast.Constant) and allowed.value is False):
        found.append("allow_pickle")
    if owner == "yaml" and "load" in name and not name.startswith("safe_"):
        loader = keywords.get("Loader", call.args[1] if len(call.args) > 1 else None)
        if name not in ("load", "load_all") or last_name(loader) not in SAFE_LOADERS:
            found.append(f"yaml.{name}")
    return found


def python_uses(text: str) -> list[tuple[int, str]]:
    """(line, what) for everything in a Python file that needs a review."""
    found = []
    for node in ast.walk(ast.parse(text)):
        line, names = getattr(node, "lineno", 0), []
        if isinstance(node, ast.Import):
            names = [alias.name.split(".")[0] for alias in node.names if alias.name.split(".")[0] in MODULES]
        elif isinstance(node, ast.ImportFrom):
            module = (node.module or "").split(".")[0]
            imported = {alias.name for alias in node.names}
            names = [module] if module in MODULES and not node.level else []
            names += [f"{module}.{name}" for name in imported if module in ("torch", "yaml") and "load" in name.split("_")]
            names += [name for name in imported if module in ("importlib", "builtins") and name in BUILTINS | {"import_module"}]
        elif isinstance(node, ast.Call):
            names = call_faults(node)
        elif isinstance(node, ast.Name) and node.id in BUILTINS and isinstance(node.ctx, ast.Load):
            names = [node.id]
        elif isinstance(node, ast.Constant) and isinstance(node.value, (str, bytes)):
            value = node.value if isinstance(node.value, str) else node.value.decode("latin-1")
            names = IN_STRINGS.findall(value)
        found += [(line, name) for name in names]
    return sorted(set(found))


def cpp_uses(text: str) -> list[tuple[int, str]]:
    """The same for the extension's C++."""
    return [(number, next(filter(None, match.groups())))
            for number, line in enumerate(text.splitlines(), 1) for match in IN_CPP.finditer(line)]


def faults_of(files: dict[str, str], reviewed: dict[tuple[str, str], str]) -> list[str]:
    """The faults of files, given by path below bindings/python, and of the table."""
    found, used = [], set()
    for path, text in sorted(files.items()):
        for line, what in python_uses(text) if path.endswith(".py") else cpp_uses(text):
            used.add((path, what))
            if (path, what) not in reviewed:
                found.append(f"bindings/python/{path}:{line}: {what} outside the reviewed places of scripts/check_pickle.py")
    found += [f"scripts/check_pickle.py: {path}: {what} is listed and not there" for path, what in sorted(set(reviewed) - used)]
    return found


def self_test() -> int:
    """Each text must be judged as stated."""
    bad = ["import pickle", "import cloudpickle as c", "from pickle import loads", "import os, marshal", "import shelve",
           "from torch import load", "from yaml import unsafe_load", "def f():\n    import _pickle", "eval('1')", "exec(x)",
           "run = exec", "builtins.eval(x)", "__import__('pick' + 'le')", "importlib.import_module(name)",
           "importlib.import_module('pickle')", "from importlib import import_module", "torch.load(f)",
           "torch.load(f, weights_only=True)",
           "np.load(f, allow_pickle=True)", "np.load(f, allow_pickle=x)", "yaml.load(f)", "yaml.load(f, Loader=yaml.Loader)",
           "yaml.load(f, yaml.UnsafeLoader)", "yaml.full_load(f)", "yaml.unsafe_load_all(f)", "run(['-c', 'exec(input())'])",
           "b'x;eval(y)'", "runpy.run_path(p)", "subprocess.run(c, shell=True)", "Popen(c, shell=x)", "os.system(c)", "os.popen(c)"]
    good = ["import json", "np.load(f)", "np.load(f, allow_pickle=False)", "yaml.safe_load(f)",
            "yaml.load(f, Loader=yaml.SafeLoader)", "yaml.load(f, yaml.CSafeLoader)", "importlib.import_module('torch')",
            "model.eval()", "json.load(f)", "re.compile('x')", "'model.eval()'", "library.load()",
            "from . import pickle", "# import pickle", "subprocess.run(['ls'])", "subprocess.run(['ls'], shell=False)"]
    wrong = [f"{text!r}: not found" for text in bad if not faults_of({"horovod/a.py": text}, {})]
    wrong += [f"{text!r}: wrongly found" for text in good if faults_of({"horovod/a.py": text}, {})]
    here = {("horovod/a.py", "pickle"): "a reason"}
    wrong += ["a reviewed place was found"] * bool(faults_of({"horovod/a.py": "import pickle"}, here))
    wrong += ["a place not used any more was not found"] * (not faults_of({"horovod/a.py": ""}, here))
    elsewhere = faults_of({"horovod/b.py": "import pickle", "horovod/a.py": ""}, here)
    wrong += ["another file's review was taken"] * (len(elsewhere) != 2)
    for text in ("py::exec(code);", 'py::module_::import("pickle")', "PyRun_String(a, b, c, d);"):
        wrong += [f"{text}: not found"] * (not faults_of({"src/a.cc": text}, {}))
    print(*(f"check_pickle: self test: {line}" for line in wrong), sep="\n", end="\n" if wrong else "")
    print(f"check_pickle: self test, {len(bad) + len(good) + 6} cases, {len(wrong)} wrong")
    return 1 if wrong else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--self-test", action="store_true")
    if parser.parse_args().self_test:
        return self_test()
    paths = [*(PACKAGE / "horovod").rglob("*.py"), *(PACKAGE / "src").rglob("*.cc"), *(PACKAGE / "src").rglob("*.h")]
    faults = faults_of({str(path.relative_to(PACKAGE)): path.read_text() for path in paths}, REVIEWED)
    print(*(f"check_pickle: {fault}" for fault in faults), sep="\n", end="\n" if faults else "")
    print(f"check_pickle: {len(paths)} files, {len(REVIEWED)} reviewed places, {len(faults)} faults")
    return 1 if faults or not paths else 0


if __name__ == "__main__":
    sys.exit(main())
