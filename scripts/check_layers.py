#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Lint: the include table of core/layers.txt, and where #if may stand; core/ARCHITECTURE.md describes each layer, below
those that it may include.

    check_layers.py               checks core/ and capi/src
    check_layers.py --self-test   checks that the rules catch what they are for
"""
import argparse
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCES = {".h", ".cc", ".c", ".inc"}  # .def files are X-macro tables: their #ifndef is how they work


class Table:
    """layers.txt, parsed."""

    def __init__(self, text: str):
        self.allowed: dict[str, list[str]] = {}
        self.conditional: list[str] = []
        for line in text.splitlines():
            line = line.partition("#")[0].strip()
            if not line:
                continue
            layer, _, targets = line.partition(":")
            if layer == "conditional":
                self.conditional = targets.split()
            else:
                self.allowed[layer.strip()] = targets.split()

    def layer_of(self, path: str) -> str:
        """The longest layer that is a prefix of a path, or an empty string."""
        fitting = [layer for layer in self.allowed if path.startswith(layer + "/")]
        return max(fitting, key=len, default="")

    def may_include(self, layer: str, included: str) -> bool:
        targets = self.allowed[layer]
        own = self.layer_of(included)
        if own == layer or included in targets:
            return True
        if "*" in targets:
            return own in self.allowed and not own.startswith("capi")
        return (own or included.split("/")[0]) in targets

    def cycles(self) -> list[str]:
        """Layers that reach themselves through the table."""
        edges = {}
        for layer, targets in self.allowed.items():
            names = self.allowed if "*" in targets else [self.layer_of(item + "/") or item for item in targets]
            edges[layer] = {name for name in names if name in self.allowed and name != layer}
        found = []
        for start in edges:
            seen, work = set(), list(edges[start])
            while work:
                node = work.pop()
                if node not in seen:
                    seen.add(node)
                    work.extend(edges[node])
            if start in seen and "*" not in self.allowed[start] and start != "capi/src":
                found.append(f"layers.txt: {start} can be reached from itself")
        return found


def faults_of(table: Table, path: str, text: str) -> list[str]:
    """The faults of one file; `path` is relative to core/, or starts with capi/src/."""
    layer = table.layer_of(path)
    if not layer:
        return [f"{path}: in no layer of layers.txt"]
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        include = re.match(r'\s*#\s*include\s+(?:"([^"]+)"|<(hvd/[^>]+)>)', line)
        if include:
            target = include.group(1) or include.group(2)
            if "/" not in target and layer == "capi/src":
                continue  # a folder of its own outside the include root of core: neighbours are named plainly
            if "/" not in target:
                found.append(f'{path}:{number}: include "{target}" without its layer')
            elif not table.may_include(layer, target):
                found.append(f"{path}:{number}: {layer} may not include {target}")
        elif re.match(r"\s*#\s*(if|ifdef|ifndef|elif)\b", line) and path not in table.conditional:
            found.append(f"{path}:{number}: conditional compilation outside the files listed in layers.txt: {line.strip()}")
    return found


def page_faults(table: Table, page: str) -> list[str]:
    """The rows of the page's table against the layers."""
    rows = [name for row in re.findall(r"^\| (`[\w/`, ]+/`) \|", page, re.M) for name in re.findall(r"`([\w/]+)/`", row)]
    layers = [layer for layer in table.allowed if not layer.startswith("capi/")]
    found = [f"core/ARCHITECTURE.md: no row `{layer}/`" for layer in layers if layer not in rows]
    found += [f"core/ARCHITECTURE.md: row `{row}/` is no layer of layers.txt" for row in rows if row not in table.allowed]
    for layer in set(layers) & set(rows):
        below = {table.layer_of(target) or target for target in table.allowed[layer]} & set(rows[rows.index(layer) + 1 :])
        found += [f"core/ARCHITECTURE.md: row `{other}/` stands below `{layer}/`, which may include it" for other in sorted(below)]
    return found


def self_test(table: Table) -> int:
    """Each line must be judged as stated."""
    cases = [
        ("base/a.h", '#include "engine/wire.h"', True),
        ("kernels/a.cc", '#include "base/status.h"', False),
        ("engine/a.cc", '#include "backend/backend.h"', False),
        ("engine/a.cc", '#include "backend/host/host_backend.h"', True),
        ("engine/a.cc", '#include "backend/registry.h"', True),
        ("engine/a.cc", '#include "collectives/slots.h"', True),
        ("transport/shm/a.cc", '#include "rendezvous/store.h"', False),
        ("transport/shm/a.cc", '#include "rendezvous/file_store.h"', True),
        ("collectives/a.cc", '#include "backend/backend.h"', True),
        ("context/a.cc", '#include "backend/host/host_backend.h"', False),
        ("context/a.cc", "#include <hvd/hvd.h>", True),
        ("capi/src/a.cc", "#include <hvd/hvd.h>", False),
        ("capi/src/a.cc", '#include "transport/fabric.h"', True),
        ("engine/a.cc", "#ifdef HAVE_MPI", True),
        ("kernels/dispatch.cc", "#if defined(__x86_64__)", False),
        ("base/a.h", "# if 0", True),
        ("elsewhere/a.h", "", True),
        ("base/a.h", '#include "status.h"', True),
        ("capi/src/a.cc", '#include "boundary.h"', False),
    ]
    wrong = 0
    for path, line, expected in cases:
        if bool(faults_of(table, path, line)) != expected:
            print(f"check_layers: self test: {path}: {line}: expected {'a fault' if expected else 'no fault'}")
            wrong += 1
    looped = Table("a: b\nb: a\n")
    wrong += not looped.cycles()
    pages = [("| `a/` | x |\n| `b/c/`, `d/` | x |\n", 0), ("| `b/c/` |\n| `a/` |\n| `d/` |\n", 1), ("| `a/` |\n| `e/` |\n", 3)]
    small = Table("a:\nb/c: a\nd: a/header.h\n")
    wrong += sum(len(page_faults(small, page)) != expected for page, expected in pages)
    print(f"check_layers: self test, {len(cases) + 1 + len(pages)} cases, {wrong} wrong")
    return 1 if wrong else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--self-test", action="store_true")
    table = Table((ROOT / "core" / "layers.txt").read_text())
    if parser.parse_args().self_test:
        return self_test(table)
    faults, count = table.cycles() + page_faults(table, (ROOT / "core/ARCHITECTURE.md").read_text()), 0
    for base, prefix in ((ROOT / "core", ""), (ROOT / "capi" / "src", "capi/src/")):
        for path in sorted(item for item in base.rglob("*") if item.suffix in SOURCES):
            faults += faults_of(table, prefix + str(path.relative_to(base)), path.read_text())
            count += 1
    for fault in faults:
        print(f"check_layers: {fault}")
    print(f"check_layers: {count} files, {len(faults)} faults")
    return 1 if faults or not count else 0


if __name__ == "__main__":
    sys.exit(main())
