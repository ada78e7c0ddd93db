#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Lint: a file stays under 400 lines, a function under 60 and a class under 400 lines and 25 fields; over 600, 100, 600 and 40 fails
unless listed with a reason.

C and C++ functions and classes are found by their braces, Python's by its own parser; of other languages the files are measured only.
A field is what a C++ class declares with a name that ends in _, or what a Python class assigns to self. Unused exceptions fail too.
"""
import ast
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("core", "capi/src", "capi/include", "bindings", "examples", "tests", "benchmarks", "scripts")
FILE_LIMITS, FUNCTION_LIMITS, FIELD_LIMITS = (400, 600), (60, 100), (25, 40)  # wished, allowed
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


CLASS_HEAD = re.compile(r"\b(?:class|struct)\s+(?:HVD_\w+(?:\([^)]*\))?\s+)*([\w:]+)\s*(?:final\s*)?(?::[^;{]*)?$")
FIELD = re.compile(r"\b(\w+_)\s*(?:HVD_\w+\([^)]*\)\s*)*(?:=[^;]*|\[[^;]*)?$")


def c_classes(text: str) -> list[tuple[str, int, int]]:
    """(name, number of lines, number of fields) of each class. Fields of several lines count once."""
    found, head, line = [], "", 1
    open_braces: list[tuple[str, int, int] | None] = []  # per brace the class: (name, start line, fields)
    for char in blank(text):
        line += char == "\n"
        if char == "{":
            match = CLASS_HEAD.search(head.strip())
            initialised = FIELD.search(head.strip()) and open_braces and open_braces[-1]
            if initialised:  # a field with braces
                name, start, fields = open_braces[-1]
                open_braces[-1] = (name, start, fields + 1)
            open_braces.append((match.group(1), line, 0) if match else None)
            head = ""
        elif char == "}":
            closed = open_braces.pop() if open_braces else None
            if closed:
                found.append((closed[0], line - closed[1] + 1, closed[2]))
            head = ""
        elif char == ";":
            if open_braces and open_braces[-1] and FIELD.search(head.strip()):
                name, start, fields = open_braces[-1]
                open_braces[-1] = (name, start, fields + 1)
            head = ""
        else:
            head += char
    return found


def python_classes(text: str) -> list[tuple[str, int, int]]:
    """The same for Python."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ClassDef):
            fields = {each.attr for each in ast.walk(node) if isinstance(each, ast.Attribute)
                      and isinstance(each.ctx, ast.Store) and isinstance(each.value, ast.Name) and each.value.id == "self"}
            found.append((node.name, node.end_lineno - node.lineno + 1, len(fields)))
    return found


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


def measure(path: Path) -> list[tuple[str, int, str, tuple[int, int]]]:
    """(what, size, unit, limits) for a file and each of its functions and classes."""
    text = path.read_text()
    name = str(path.relative_to(ROOT))
    rows = [(name, text.count("\n"), "lines", FILE_LIMITS)]
    if path.suffix == ".py":
        functions, classes = python_functions(text), python_classes(text)
    elif path.suffix in C_LIKE:
        functions, classes = c_functions(text), c_classes(text)
    else:
        return rows
    rows += [(f"{name}:{function}", size, "lines", FUNCTION_LIMITS) for function, _, size in functions]
    rows += [(f"{name}:{each}", size, "lines", FILE_LIMITS) for each, size, _ in classes]
    return rows + [(f"{name}:{each}", fields, "fields", FIELD_LIMITS) for each, _, fields in classes]


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
    classes = """
class HVD_CAPABILITY("role") A final : public B {
  int f() const { return x_; }
  int x_ = 1;
  std::map<int, int> y_ HVD_GUARDED_BY(m_);
  std::atomic<int> z_{0};
  struct Inner { int a; };
};
"""
    assert set(c_classes(classes)) == {("A", 7, 3), ("Inner", 1, 0)}, c_classes(classes)
    assert python_classes("class A:\n  def f(self):\n    self.x = self.y\n") == [("A", 3, 1)]


def main() -> int:
    self_test()
    listed, used, failed, warned, count = exceptions(), set(), 0, 0, 0
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix not in C_LIKE | FILES_ONLY | {".py"} or not path.is_file():
                continue
            count += 1
            for what, size, unit, (wished, allowed) in measure(path):
                if size > allowed and what in listed:
                    used.add(what)
                elif size > allowed:
                    print(f"check_size: {what}: {size} {unit}, {allowed} at most")
                    failed += 1
                elif size > wished:
                    print(f"check_size: warning: {what}: {size} {unit}, {wished} wished")
                    warned += 1
    for what in sorted(set(listed) - used):
        print(f"check_size: size_exceptions.txt: {what} is not needed any more")
        failed += 1
    print(f"check_size: {count} files, {failed} failed, {warned} warned")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
