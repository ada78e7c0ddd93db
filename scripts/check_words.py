#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Lint: how many clauses open with a word that names nothing, in the comments of core/ and in the
pages of documentation.

    check_words.py                the shares of such clauses, by folder and in the worst files; fails
                                  above a limit
    check_words.py core/base      the same for these folders or files, with each such clause and its
                                  line
    check_words.py --self-test    checks the measure itself

A clause ends at `.`, `;`, `:`, `!` or `?`. A clause opens badly with a pronoun ("it", "those", "one
that", "what", "whoever") or with "of": a reader has to look for the subject elsewhere. Tables, code
and headings of a page do not count. LIMITS are what was measured last, so that the shares can only
fall: a change that brings one down lowers its limit too. The goal is 5 %.
"""
import re
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import Iterator

ROOT = Path(__file__).resolve().parent.parent
SOURCES = {".h", ".cc", ".cu", ".def", ".inc"}
PAGES = ("README.md", "CHANGELOG.md", "core/ARCHITECTURE.md", "capi/ABI.md", "bindings/python/**/ARCHITECTURE.md",
         "docs/*.md", "core/adr/*.md")
LIMITS = {"comments": 1.0, "pages": 4.2}  # per cent
WORST = 10
OPENERS = set("""
    it its they their them this that these those one he she who whoever what whatever which some both none nobody of
""".split())
QUOTED = re.compile(r'"[^"]*"|`[^`]*`')
END = re.compile(r"[.;:!?](?=\s|$)")
FIRST = re.compile(r"[\s\-*(]*([A-Za-z]+)")


def comments(text: str) -> Iterator[tuple[int, list[str]]]:
    """(number of the first line, lines) of each comment; lines of comment that follow one another are one."""
    block: list[str] = []
    for number, line in enumerate([*text.splitlines(), ""], 1):
        whole = re.match(r"\s*//+ ?(.*)", line)
        if whole:
            block.append(whole[1])
            continue
        if block:
            yield number - len(block), block
            block = []
        behind = re.search(r"(?<![:\"'])//+ ?([^\"]*)$", line)
        if behind:
            yield number, [behind[1]]


def paragraphs(text: str) -> Iterator[tuple[int, list[str]]]:
    """(number of the first line, lines) of each paragraph and each point of a list in Markdown."""
    block: list[str] = []
    in_code = False
    for number, line in enumerate([*text.splitlines(), ""], 1):
        fence = line.startswith("```")
        point = re.match(r"\s*(?:[-*]|\d+\.) (.*)", line)
        if line.strip() and not (in_code or fence or point or line.startswith(("#", "|", "<"))):
            block.append(line.strip())
            continue
        if block:
            yield number - len(block), block
        block = [point[1]] if point and not in_code else []
        in_code ^= fence


def clauses(first: int, lines: list[str]) -> Iterator[tuple[int, str]]:
    """(number of the line, text) of each clause that has a word."""
    text = QUOTED.sub(lambda match: "q" * len(match[0]), "\n".join(lines))
    start = 0
    for end in [*(match.end() for match in END.finditer(text)), len(text)]:
        opening = FIRST.match(text, start)
        if opening and opening.end() <= end:
            yield first + text.count("\n", 0, opening.start(1)), text[opening.start(1) : end].replace("\n", " ")
        start = end


def opens_badly(clause: str) -> bool:
    word = FIRST.match(clause)
    return bool(word) and word[1].lower() in OPENERS


def measured(path: Path) -> list[tuple[int, str, bool]]:
    """(line, clause, whether it opens badly) of the comments or of the prose of a file."""
    pieces = (paragraphs if path.suffix == ".md" else comments)(path.read_text())
    found = [piece for number, lines in pieces for piece in clauses(number, lines)]
    return [(number, clause, opens_badly(clause)) for number, clause in found if "SPDX" not in clause]


def files_of(names: list[str]) -> list[Path]:
    if not names:
        pages = [page for pattern in PAGES for page in sorted(ROOT.glob(pattern))]
        return pages + sorted(file for file in (ROOT / "core").rglob("*") if file.suffix in SOURCES)
    paths = [Path(name).resolve() for name in names]
    found = [file for path in paths for file in ([path] if path.is_file() else path.rglob("*"))]
    return sorted(file for file in found if file.suffix in SOURCES | {".md"})


def share(bad: int, all_of_them: int) -> float:
    return 100 * bad / all_of_them if all_of_them else 0.0


def self_test() -> int:
    source = ('// Of those, two open badly. "It" does not; it does: what follows too.\n// A clause may\n'
              '// go on: one.\nint x;  // a word about x; those\nauto url = "http://x"; \n')
    page = "# It\n\nA page. It is\nshort.\n| it | it |\n```sh\nit; it\n```\n- Those points\n  go on. One more.\n1. A point\n"
    wrong = 0
    for cut, text, expected in ((comments, source, [1, 0, 1, 1, 0, 1, 0, 1]), (paragraphs, page, [0, 1, 1, 1, 0])):
        found = [int(opens_badly(clause)) for number, lines in cut(text) for _, clause in clauses(number, lines)]
        if found != expected:
            print(f"check_words: {cut.__name__}: expected {expected}, found {found}")
            wrong += 1
    print(f"check_words: self-test: {wrong} wrong")
    return wrong


def main(names: list[str]) -> int:
    if names == ["--self-test"]:
        return self_test()
    bad, total = Counter(), Counter()
    lines = defaultdict(list)
    for path in files_of(names):
        name = path.relative_to(ROOT)
        kind = "pages" if path.suffix == ".md" else "comments"
        for number, clause, is_bad in measured(path):
            for key in (name, f"{kind} of {'/'.join(name.parts[:-1][:2]) or '.'}", kind):
                total[key] += 1
                bad[key] += is_bad
            if is_bad:
                lines[name].append(f"{name}:{number}: {clause[:100]}")
    if names:
        print(*(line for found in lines.values() for line in found), sep="\n")
    for folder in sorted(key for key in total if isinstance(key, str) and key not in LIMITS):
        print(f"{folder:28} {share(bad[folder], total[folder]):5.1f} %  {bad[folder]:4} of {total[folder]} clauses")
    for name in sorted(lines, key=lambda name: -bad[name])[:WORST]:
        print(f"  {bad[name]:3} of {total[name]:3}  {name}")
    above = False
    for kind, limit in LIMITS.items():
        part = share(bad[kind], total[kind])
        above |= part > limit and not names
        print(f"check_words: {kind}: {part:.1f} % of {total[kind]} clauses open with a pronoun or \"of\"; limit {limit} %, goal 5 %")
    return above


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
