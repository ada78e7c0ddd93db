#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Lint: a file stays under 400 lines and a function under 60; over 600 and over 100 fails unless listed with a reason.

C and C++ functions are found by their braces, Python's by its own parser; of other languages the files are measured only. Unused
exceptions fail too.
"""
import ast
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("core", "capi/src", "capi/include", "bindings", "examples", "tests", "benchmarks", "scripts")
FILE_WARN, FILE_FAIL, FUNCTION_WARN, FUNCTION_FAIL = 400, 600, 60, 100
C_LIKE = {".h", ".hpp", ".c", ".cc", ".cpp", ".inc"}
FILES_ONLY = {".java", ".scala", ".jl", ".rs"}
NOT_FUNCTIONS = {"if", "for", "while", "switch", "catch", "do", "else", "return", "namespace", "struct", "class", "enum", "union"}


def blank(text: str) -> str:
    """The text with comments, strings and preprocessor lines replaced by spaces; line breaks stay."""
    token = re.compile(
        r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|(?<![0-9A-Za-z_])\'(?:\\.|[^\'\\\n])+\''
        r"|^[ \t]*#(?:[^\n\\]|\\\n|\\.)*",
        re.S | re.M,
    )
    return token.sub(lambda match: re.sub(r"[^\n]", " ", match.group(0)), text)


def function_name(head: str) -> str:
    """The function whose body starts after `head`, the text since the last ; { or }; empty if it is no function."""
    head = head.strip()
    if not head or head.endswith("=") or ")" not in head:
        return ""
    first = re.match(r"\w+", head)
    if first and first.group(0) in NOT_FUNCTIONS:
        return ""
    names = re.findall(r"([\w~:]+|operator\S+)\s*\(", head)
    return names[0] if names and names[0] not in NOT_FUNCTIONS else ""


def c_functions(text: str) -> list[tuple[str, int, int]]:
    """(name, first line, number of lines) of each outermost function body."""
    found, head, line = [], "", 1
    depth, function = 0, None  # function: (name, start line, depth outside)
    for char in blank(text):
        if char == "\n":
            line += 1
        if char == "{":
            name = "" if function else function_name(head)
            if name:
                function = (name, line - head.strip().count("\n"), depth)
            depth, head = depth + 1, ""
        elif char == "}":
            depth, head = depth - 1, ""
            if function and depth == function[2]:
                found.append((function[0], function[1], line - function[1] + 1))
                function = None
        elif char == ";":
            head = ""
        else:
            head += char
    return found


def python_functions(text: str) -> list[tuple[str, int, int]]:
    """The same for Python."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, kinds)]
    return [(node.name, node.lineno, node.end_lineno - node.lineno + 1) for node in nodes]


def exceptions() -> dict[str, str]:
    """Path or path:function -> reason."""
    listed = {}
    for line in (ROOT / "scripts" / "size_exceptions.txt").read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            name, _, reason = line.partition(" ")
            if not reason.strip():
                raise SystemExit(f"size_exceptions.txt: {name}: no reason given")
            listed[name] = reason.strip()
    return listed


def measure(path: Path) -> list[tuple[str, int, int, int]]:
    """(what, size, warn limit, fail limit) for a file and each of its functions."""
    text = path.read_text()
    name = str(path.relative_to(ROOT))
    functions = python_functions(text) if path.suffix == ".py" else c_functions(text) if path.suffix in C_LIKE else []
    rows = [(name, text.count("\n"), FILE_WARN, FILE_FAIL)]
    return rows + [(f"{name}:{function}", size, FUNCTION_WARN, FUNCTION_FAIL) for function, _, size in functions]


def self_test() -> None:
    """The brace reader finds what is a function and nothing else."""
    text = """
namespace a { struct S { int x = f({1}); S() : x{1} { g(); } }; }
// int no() {
int Run::yes(int a,
             int b) const {
  if (a) { auto l = [&] { return "}"; }; }
  return 0;
}
static const int kTable[] = {1, 2};
"""
    found = [(name, size) for name, _, size in c_functions(text)]
    assert ("Run::yes", 5) in found and not any(name in ("no", "if") for name, _ in found), found


def main() -> int:
    self_test()
    listed, used, failed, warned, count = exceptions(), set(), 0, 0, 0
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix not in C_LIKE | FILES_ONLY | {".py"} or not path.is_file():
                continue
            count += 1
            for what, size, warn, fail in measure(path):
                if size > fail and what in listed:
                    used.add(what)
                elif size > fail:
                    print(f"check_size: {what}: {size} lines, {fail} at most")
                    failed += 1
                elif size > warn:
                    print(f"check_size: warning: {what}: {size} lines, {warn} wished")
                    warned += 1
    for what in sorted(set(listed) - used):
        print(f"check_size: size_exceptions.txt: {what} is not needed any more")
        failed += 1
    print(f"check_size: {count} files, {failed} failed, {warned} warned")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
