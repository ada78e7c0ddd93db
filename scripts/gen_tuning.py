#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the tables of docs/tuning.md from the sources: options.def, the flags and the config file of horovodrun, and the variables
that the Python package reads. Only a row's last column, which says when to change the setting, is written by hand; it is kept.

  gen_tuning.py           writes the tables anew
  gen_tuning.py --check   lint: the page is as this would write it, and no last column is empty
"""

import argparse
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/tuning.md"
PACKAGE = ROOT / "bindings/python"
sys.path.insert(0, str(PACKAGE))
OPTION = re.compile(r'^HVD_OPTION\((\w+), \w+, ("[^"]*"|[^,]+), .*?,\s*"([^"]*)"\)', re.M | re.S)
READ = re.compile(r'(?:environ(?:\.get)?[\[(]\s*|^_?[A-Z_]+ = )"((?:HVD|HOROVOD)_[A-Z_0-9]+)"', re.M)
TABLE = re.compile(r"<!-- table: (\w+) -->\n(.*?)<!-- end -->\n", re.S)
# Said by a launcher to the ranks, and not by a user: docs/running.md has them.
OF_LAUNCHER = {f"HOROVOD_{name}" for name in "RANK SIZE RENDEZVOUS RUN_FOLDER PARTS_FILE FAULT_FILE FLIGHT_FILE STACK_FILE INIT_PID SECRET_FILE MEMBERSHIP WORKER ELASTIC".split()}
OF_LAUNCHER |= {"HVD_LAUNCHER_MASTER", "HOROVOD_METRICS_JOB_TOKEN"}


def options():
    """name: (default, help) of every option of the engine."""
    text = (ROOT / "core/base/options.def").read_text()
    return {name: (default.strip('"'), meaning) for name, default, meaning in OPTION.findall(text)}


def flags():
    """The flags that --help shows: (names as written, argparse's name, help)."""
    from horovod.runner.command_line.flags import build_parser

    said = (argparse.SUPPRESS, "help", "version", "check_build")
    shown = [action for action in build_parser()._actions if action.option_strings and not {action.help, action.dest} & set(said)]
    return [(", ".join(f"`{name}`" for name in action.option_strings), action.dest, action.help) for action in shown]


def config_keys():
    """argparse's name of a flag: the name in the config file."""
    from horovod.runner.plan.flag_table import FLAGS

    keys = {flag.attribute: f"`{'.'.join(filter(None, flag.key))}`" for flag in FLAGS if flag.key is not None}
    return {**keys, "controller": "`controller`"}


def _cell(text):
    return text.replace("|", "\\|")


def engine_rows():
    by_variable = {}
    keys = config_keys()
    for names, target, meaning in flags():
        for variable in re.findall(r"HOROVOD_[A-Z_]+", meaning):
            by_variable.setdefault(variable, []).extend([names, *([keys[target]] if target in keys else [])])
    for name, (default, meaning) in options().items():
        ways = dict.fromkeys(by_variable.get(f"HOROVOD_{name.upper()}", []))
        yield [f"`{name}`", f"`{default}`" if default else "empty", ", ".join(ways), _cell(meaning)]


def flag_rows():
    keys, variables = config_keys(), {f"HOROVOD_{name.upper()}" for name in options()}
    for names, target, meaning in flags():
        if not variables & set(re.findall(r"HOROVOD_[A-Z_]+", meaning)):
            yield [names, keys.get(target, ""), _cell(meaning)]


def variable_rows():
    found = set()
    for path in (PACKAGE / "horovod").rglob("*.py"):
        found |= set(READ.findall(path.read_text()))
    for name in sorted(found - OF_LAUNCHER - {f"HOROVOD_{option.upper()}" for option in options()}):
        yield [f"`{name}`"]


TABLES = {
    "options": (["option", "default", "flag, config file", "meaning", "when to change it"], engine_rows),
    "flags": (["flag", "config file", "meaning", "default, and when to change it"], flag_rows),
    "variables": (["variable", "default, and when to change it"], variable_rows),
}


def _line(cells):
    return f"| {' | '.join(cells)} |\n"


def table(name, before):
    """The table with the last column of the one ``before``, and the names of rows whose last column is empty."""
    heads, rows = TABLES[name]
    kept = {}
    for line in before.splitlines()[2:]:
        cells = re.split(r"(?<!\\)\|", line.strip().strip("|"))
        kept[cells[0].strip()] = cells[-1].strip()
    lines, empty = [_line(heads), "|" + "---|" * len(heads) + "\n"], []
    for cells in rows():
        when = kept.get(cells[0], "")
        lines.append(_line([*cells, when]))
        empty += [] if when else [cells[0]]
    return "".join(lines), empty


def main():
    before = PAGE.read_text()
    empty = []

    def anew(match):
        text, missing = table(match[1], match[2])
        empty.extend(missing)
        return f"<!-- table: {match[1]} -->\n{text}<!-- end -->\n"

    after = TABLE.sub(anew, before)
    faults = [f"docs/tuning.md: {name}: its last column is empty; it says when to change the setting" for name in empty]
    if sorted(match[1] for match in TABLE.finditer(before)) != sorted(TABLES):
        faults.append(f"docs/tuning.md: has not the tables {', '.join(TABLES)}, each once")
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(after)
    elif after != before:
        faults.append("docs/tuning.md: differs from the sources; scripts/gen_tuning.py writes it anew, the last column by hand")
    print(*faults, sep="\n", end="\n" if faults else "")
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
