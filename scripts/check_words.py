#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Lint: how many clauses of the comments in core/ open with a word that names nothing.

    check_words.py                the share of such clauses, by folder and in the worst files; fails above LIMIT
    check_words.py core/base      the same for these folders or files, with each such clause and its line
    check_words.py --self-test    checks the measure itself

A clause ends at `.`, `;`, `:`, `!` or `?`. It opens badly with a pronoun ("it", "those", "one that", "what", "whoever") or
with "of": a reader has to look for the subject elsewhere. LIMIT is what was measured last, so that the share can only fall:
who brings it down lowers LIMIT too. The goal is 5 %.
"""
import re
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import Iterator

ROOT = Path(__file__).resolve().parent.parent
SOURCES = {".h", ".cc", ".cu", ".def", ".inc"}
LIMIT = 6.4  # per cent
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
    """(line, clause, whether it opens badly) of the comments of a file."""
    found = [piece for number, lines in comments(path.read_text()) for piece in clauses(number, lines)]
    return [(number, clause, opens_badly(clause)) for number, clause in found if "SPDX" not in clause]


def sources_of(names: list[str]) -> list[Path]:
    paths = [Path(name).resolve() for name in names] or [ROOT / "core"]
    found = [file for path in paths for file in ([path] if path.is_file() else path.rglob("*"))]
    return sorted(file for file in found if file.suffix in SOURCES)


def share(bad: int, all_of_them: int) -> float:
    return 100 * bad / all_of_them if all_of_them else 0.0


def self_test() -> int:
    text = ('// Of those, two open badly. "It" does not; it does: what follows too.\n// A clause may\n// go on: one.\n'
            'int x;  // a word about x; those\nauto url = "http://x"; \n')
    found = [opens_badly(clause) for number, lines in comments(text) for _, clause in clauses(number, lines)]
    expected = [True, False, True, True, False, True, False, True]
    print(f"check_words: self-test: {'right' if found == expected else f'expected {expected}, found {found}'}")
    return found != expected


def main(names: list[str]) -> int:
    if names == ["--self-test"]:
        return self_test()
    bad, total = Counter(), Counter()
    lines = defaultdict(list)
    for path in sources_of(names):
        name = path.relative_to(ROOT)
        folder = "/".join(name.parts[:2])
        for number, clause, is_bad in measured(path):
            for key in (name, folder, "all"):
                total[key] += 1
                bad[key] += is_bad
            if is_bad:
                lines[name].append(f"{name}:{number}: {clause[:100]}")
    if names:
        print(*(line for found in lines.values() for line in found), sep="\n")
    for folder in sorted(key for key in total if isinstance(key, str) and key != "all"):
        print(f"{folder:20} {share(bad[folder], total[folder]):5.1f} %  {bad[folder]:4} of {total[folder]} clauses")
    for name in sorted(lines, key=lambda name: -bad[name])[:WORST]:
        print(f"  {bad[name]:3} of {total[name]:3}  {name}")
    whole = share(bad["all"], total["all"])
    print(f"check_words: {whole:.1f} % of {total['all']} clauses open with a pronoun or \"of\"; limit {LIMIT} %, goal 5 %")
    return not names and whole > LIMIT


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
