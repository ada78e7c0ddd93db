#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Lint: the include table of core/layers.txt, and where #if may stand; core/ARCHITECTURE.md describes each layer, below
those that it may include.

    check_layers.py               checks core/ and capi/src
    check_layers.py --picture     draws the picture of the layers in core/ARCHITECTURE.md anew
    check_layers.py --self-test   checks that the rules catch what they are for
"""
import argparse
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "core/ARCHITECTURE.md"
PICTURE = re.compile(r"<!-- picture: layers -->\n(```.*?```\n)", re.S)
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
        wrong = below(table, layer) & set(rows[rows.index(layer) + 1 :])
        found += [f"core/ARCHITECTURE.md: row `{other}/` stands below `{layer}/`, which may include it" for other in sorted(wrong)]
    if not PICTURE.search(page) or PICTURE.search(page)[1] != picture(table):
        found.append("core/ARCHITECTURE.md: another picture of the layers; scripts/check_layers.py --picture draws it")
    return found


def below(table: Table, layer: str) -> set[str]:
    """The layers that this one may include something of."""
    names = {target if target in table.allowed else table.layer_of(target) for target in table.allowed[layer]} - {""}
    return (set(table.allowed) if "*" in table.allowed[layer] else names) - {layer}


def picture(table: Table) -> str:
    """The layers in rows: each stands above all that it may include, as low as it can."""
    layers = [layer for layer in table.allowed if not layer.startswith("capi/")]
    rows: list[list[str]] = []
    placed: set[str] = set()
    while len(placed) < len(layers):
        row = [layer for layer in layers if layer not in placed and below(table, layer) & set(layers) <= placed]
        if not row:
            break  # in circles, which are told besides
        rows.insert(0, row)
        placed |= set(row)
    width = max(map(len, layers)) + 3
    return "```text\n" + "".join("".join(f"{layer:{width}}" for layer in row).rstrip() + "\n" for row in rows) + "```\n"


def self_test(table: Table) -> int:
    """Each line must be judged as stated."""
    cases = [
        ("base/a.h", '#include "engine/engine.h"', True),
        ("kernels/a.cc", '#include "base/status.h"', False),
        ("engine/a.cc", '#include "backend/backend.h"', False),
        ("engine/a.cc", '#include "negotiation/member.h"', False),
        ("negotiation/a.cc", '#include "base/status.h"', False),
        ("negotiation/a.cc", '#include "base/threads.h"', True),
        ("negotiation/a.cc", '#include "topology/topology.h"', True),
        ("negotiation/a.cc", '#include "engine/operation.h"', True),
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
    small = Table("a:\nb/c: a\nb: b/c\nd: a/header.h\n")
    drawn = f"<!-- picture: layers -->\n{picture(small)}"
    wrong += drawn.split("```")[1].split() != ["text", "b", "b/c", "d", "a"]
    pages = [("| `a/` | x |\n| `b/c/`, `d/` | x |\n| `b/` |\n", 0), ("| `b/c/` |\n| `a/` |\n| `b/` |\n| `d/` |\n", 1),
             ("| `a/` |\n| `e/` |\n", 4)]
    wrong += sum(len(page_faults(small, page + drawn)) != expected for page, expected in pages)
    wrong += len(page_faults(small, pages[0][0])) != 1
    print(f"check_layers: self test, {len(cases) + 3 + len(pages)} cases, {wrong} wrong")
    return 1 if wrong else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--self-test", action="store_true")
    parser.add_argument("--picture", action="store_true")
    arguments = parser.parse_args()
    table = Table((ROOT / "core" / "layers.txt").read_text())
    if arguments.self_test:
        return self_test(table)
    if arguments.picture:
        PAGE.write_text(PICTURE.sub(lambda _: f"<!-- picture: layers -->\n{picture(table)}", PAGE.read_text()))
    faults, count = table.cycles() + page_faults(table, PAGE.read_text()), 0
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
