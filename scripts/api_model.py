#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads the public C header into a model: constants, structs with offsets, callbacks and prototypes.

The header is the only source of truth. Gates compare the model with a golden copy, the layout test compares it with what
the compiler lays out, and bindings are generated from it.

    api_model.py                    prints the model as JSON
    api_model.py --header FILE      of another header
    api_model.py --names            prints the functions by section, as capi/hvd.map lists them
"""
import argparse
import json
import os
import re
import subprocess
import sys
from pathlib import Path

from pycparser import c_ast, c_generator, c_parser

ROOT = Path(__file__).resolve().parent.parent
HEADER = ROOT / "capi" / "include" / "hvd" / "hvd.h"

# Not part of the contract: guards, decoration, and numbers that every release changes.
NOT_CONSTANTS = {"HVD_H", "HVD_VERSION_H", "HVD_API"}
RELEASE_CONSTANTS = {
    "HVD_VERSION",
    "HVD_VERSION_MAJOR",
    "HVD_VERSION_MINOR",
    "HVD_VERSION_PATCH",
    "HVD_VERSION_STRING",
}

# LP64, the data model of every platform that is supported: (size, alignment).
SCALARS = {
    "char": (1, 1),
    "int8_t": (1, 1),
    "uint8_t": (1, 1),
    "int16_t": (2, 2),
    "uint16_t": (2, 2),
    "int": (4, 4),
    "int32_t": (4, 4),
    "uint32_t": (4, 4),
    "int64_t": (8, 8),
    "uint64_t": (8, 8),
    "size_t": (8, 8),
    "float": (4, 4),
    "double": (8, 8),
}


class ModelError(Exception):
    """The header has something that the model does not describe, so no gate would see a change of it."""


def preprocess(header: Path, *flags: str) -> str:
    """Runs the C preprocessor on `header` and returns its output."""
    compiler = os.environ.get("HVD_MODEL_CC", "gcc")
    # pycparser reads plain C99, so compiler extensions in the system headers are defined away.
    command = [compiler, "-E", "-std=c99", "-D__attribute__(x)=", "-D__extension__=", "-D__restrict=", *flags, str(header)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def macro_bodies(header: Path) -> dict[str, str]:
    """The object-like HVD_ macros of the header, unexpanded."""
    bodies = {}
    for line in preprocess(header, "-dM").splitlines():
        match = re.match(r"#define (HVD_\w+) (.*)$", line)
        if match and match.group(1) not in NOT_CONSTANTS:
            bodies[match.group(1)] = match.group(2).strip()
    return bodies


def evaluate(name: str, bodies: dict[str, str], depth: int = 0):
    """The value of a constant macro: an integer or a string."""
    if depth > 20:
        raise ModelError(f"{name}: macro refers to itself")
    body = re.sub(r"HVD_\w+", lambda m: repr(evaluate(m.group(0), bodies, depth + 1)), bodies[name])
    if re.fullmatch(r'"[^"\\]*"', body):
        return body[1:-1]
    body = re.sub(r"\b(0[xX][0-9a-fA-F]+|\d+)[uUlL]*\b", r"\1", body)
    if not re.fullmatch(r"[0-9a-fA-FxX\s()+\-*|<>&]+", body):
        raise ModelError(f"{name}: not a constant that the model can evaluate: {bodies[name]}")
    return int(eval(body, {"__builtins__": {}}))  # only digits and operators are left


def split_initializer(body: str) -> list[str]:
    """The top-level values of "{ a, {b, c}, d }"."""
    inner = body.strip()
    if not (inner.startswith("{") and inner.endswith("}")):
        raise ModelError(f"not a brace initializer: {body}")
    values, depth, current = [], 0, ""
    for char in inner[1:-1]:
        depth += (char in "({") - (char in ")}")
        if char == "," and depth == 0:
            values.append(" ".join(current.split()))
            current = ""
        else:
            current += char
    return [*values, " ".join(current.split())]


def section_starts(header: Path) -> list[tuple[int, str]]:
    """(line, title) of each "---- N. Title ----" comment."""
    starts = []
    for number, line in enumerate(header.read_text().splitlines(), 1):
        match = re.match(r"/\* -+ (\d+\. .*?) -+ \*/", line)
        if match:
            starts.append((number, match.group(1)))
    return starts


class HeaderReader(c_ast.NodeVisitor):
    """Collects the declarations that stand in the public header itself, not in what it includes."""

    def __init__(self, header: Path):
        self.header = header
        self.generator = c_generator.CGenerator()
        self.aliases: dict[str, str] = {}
        self.callbacks: dict[str, dict] = {}
        self.structs: dict[str, dict] = {}
        self.opaque: list[str] = []
        self.functions: dict[str, dict] = {}
        self.sizes = dict(SCALARS)

    def mine(self, node) -> bool:
        return node.coord is not None and Path(node.coord.file).resolve() == self.header.resolve()

    def type_text(self, node) -> str:
        """A type as C text without the name it declares."""
        return " ".join(self.generator.visit(c_ast.Typename(None, [], None, node)).split())

    def prototype(self, declaration: c_ast.FuncDecl) -> dict:
        parameters = []
        for parameter in declaration.args.params if declaration.args else []:
            if isinstance(parameter, c_ast.EllipsisParam):
                raise ModelError("a function with variable arguments")
            text = self.type_text(anonymous(parameter.type))
            if text != "void":
                parameters.append({"name": parameter.name, "type": text})
        return {"returns": self.type_text(anonymous(declaration.type)), "parameters": parameters}

    def size_of(self, node) -> tuple[int, int]:
        if isinstance(node, c_ast.PtrDecl):
            return 8, 8
        if isinstance(node, c_ast.ArrayDecl):
            size, alignment = self.size_of(node.type)
            return size * int(node.dim.value), alignment
        if isinstance(node, c_ast.TypeDecl) and isinstance(node.type, c_ast.IdentifierType):
            name = " ".join(node.type.names)
            if name in self.sizes:
                return self.sizes[name]
        raise ModelError(f"a field type without a known size: {self.type_text(node)}")

    def read_struct(self, struct: c_ast.Struct) -> None:
        fields, offset, widest = [], 0, 1
        for declaration in struct.decls:
            if declaration.bitsize is not None:
                raise ModelError(f"{struct.name}.{declaration.name}: a bit-field")
            size, alignment = self.size_of(declaration.type)
            if offset % alignment:
                raise ModelError(f"{struct.name}: padding before {declaration.name}")
            text = self.type_text(anonymous(declaration.type))
            fields.append({"name": declaration.name, "type": text, "offset": offset, "size": size})
            offset, widest = offset + size, max(widest, alignment)
        if offset % widest:
            raise ModelError(f"{struct.name}: padding at the end")
        sized = fields[0]["name"] == "struct_size" and fields[0]["type"] == "uint32_t"
        kind = "sized" if sized else "frozen"
        self.structs[struct.name] = {"kind": kind, "size": offset, "fields": fields}
        self.sizes[struct.name] = (offset, widest)

    def visit_Typedef(self, node) -> None:
        if not self.mine(node):
            return
        target = node.type
        if isinstance(target, c_ast.PtrDecl) and isinstance(target.type, c_ast.FuncDecl):
            self.callbacks[node.name] = self.prototype(target.type)
            self.sizes[node.name] = (8, 8)
        elif isinstance(target, c_ast.TypeDecl) and isinstance(target.type, c_ast.Struct):
            if target.type.decls is None:
                self.opaque.append(node.name)
            else:
                self.read_struct(target.type)
        elif isinstance(target, c_ast.TypeDecl) and isinstance(target.type, c_ast.IdentifierType):
            self.aliases[node.name] = " ".join(target.type.names)
            self.sizes[node.name] = self.sizes[self.aliases[node.name]]
        else:
            raise ModelError(f"{node.name}: a typedef of a kind that the ABI rules exclude")

    def visit_Decl(self, node) -> None:
        if not self.mine(node):
            return
        if not isinstance(node.type, c_ast.FuncDecl):
            raise ModelError(f"{node.name}: only functions and types belong in the header")
        self.functions[node.name] = {"line": node.coord.line, **self.prototype(node.type)}

    def visit_FuncDef(self, node) -> None:
        if self.mine(node):
            raise ModelError(f"{node.decl.name}: an inline function has no symbol that a binding could call")


def anonymous(node):
    """A copy of a declarator without its name, so that printing it gives the type alone."""
    if isinstance(node, c_ast.TypeDecl):
        return c_ast.TypeDecl(None, node.quals, node.align, node.type)
    if isinstance(node, c_ast.PtrDecl):
        return c_ast.PtrDecl(node.quals, anonymous(node.type))
    if isinstance(node, c_ast.ArrayDecl):
        return c_ast.ArrayDecl(anonymous(node.type), node.dim, node.dim_quals)
    if isinstance(node, c_ast.FuncDecl):
        types = [c_ast.Typename(None, [], None, anonymous(parameter.type)) for parameter in node.args.params]
        return c_ast.FuncDecl(c_ast.ParamList(types), anonymous(node.type))
    raise ModelError(f"a declarator of a kind that the ABI rules exclude: {type(node).__name__}")


def read_model(header: Path = HEADER) -> dict:
    """The whole model of a header, in a form that JSON can hold and that does not depend on paths."""
    reader = HeaderReader(header)
    reader.visit(c_parser.CParser().parse(preprocess(header), str(header)))

    bodies = macro_bodies(header)
    initializers = {name: split_initializer(body) for name, body in bodies.items() if name.endswith("_INIT")}
    constants = {name: evaluate(name, bodies) for name in bodies if not name.endswith("_INIT")}

    starts = section_starts(header)
    for function in reader.functions.values():
        titles = [title for line, title in starts if line < function["line"]]
        function["section"] = titles[-1] if titles else ""
        del function["line"]
    return {
        "version": {name: constants[name] for name in sorted(RELEASE_CONSTANTS) if name in constants},
        "constants": {name: constants[name] for name in sorted(constants) if name not in RELEASE_CONSTANTS},
        "aliases": dict(sorted(reader.aliases.items())),
        "opaque": sorted(reader.opaque),
        "callbacks": dict(sorted(reader.callbacks.items())),
        "structs": dict(sorted(reader.structs.items())),
        "initializers": dict(sorted(initializers.items())),
        "functions": dict(reader.functions.items()),
    }


def to_json(model: dict) -> str:
    """The model as text, stable enough to be compared line by line in a review."""
    text = json.dumps(model, indent=1, ensure_ascii=True)
    # A field or a parameter is one line, so that a diff shows one line per change.
    collapse = lambda match: "{" + " ".join(match.group(1).split()) + "}"
    return re.sub(r"\{\n([^{}\[\]]*(?:\[\d+\][^{}\[\]]*)?)\n *\}(?=,?\n *[\]{])", collapse, text) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description="prints the model of the public C header")
    parser.add_argument("--header", type=Path, default=HEADER)
    parser.add_argument("--names", action="store_true", help="only the function names, by section")
    arguments = parser.parse_args()
    model = read_model(arguments.header)
    if not arguments.names:
        sys.stdout.write(to_json(model))
        return 0
    section = None
    for name, function in model["functions"].items():
        if function["section"] != section:
            section = function["section"]
            print(f"    /* {section} */")
        print(f"    {name};")
    return 0


if __name__ == "__main__":
    sys.exit(main())
