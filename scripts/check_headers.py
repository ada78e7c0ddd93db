#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compiles headers alone.

    check_headers.py --public     capi/include in every C and C++ standard it promises, with every compiler found
    check_headers.py --internal   every header of core/ and capi/src that the build does not prove to compile alone already,
                                  by being the first include of the source file of the same name
"""
import argparse
import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
STRICT = ["-Wall", "-Wextra", "-Wpedantic", "-Wpadded", "-Werror"]
C_STANDARDS = ["c99", "c11", "c17"]
CXX_STANDARDS = ["c++11", "c++14", "c++17", "c++20"]
# Uses every _INIT macro, because a macro that nobody expands is never compiled.
USE = """#include <hvd/hvd.h>
#include <hvd/hvd.h>
int main(void) {
  hvd_error error = HVD_ERROR_INIT;
  hvd_store store = HVD_STORE_INIT;
  hvd_init_options init = HVD_INIT_OPTIONS_INIT;
  hvd_topology topology = HVD_TOPOLOGY_INIT;
  hvd_op_options options = HVD_OP_OPTIONS_INIT;
  return (int)(error.struct_size + store.struct_size + init.struct_size + topology.struct_size + options.struct_size) == 0;
}
"""


def compile_text(words: list[str], text: str) -> str:
    """Compiles `text` from standard input without output; what the compiler said, or nothing."""
    result = subprocess.run([*words, "-fsyntax-only", "-"], input=text, capture_output=True, text=True)
    return "" if result.returncode == 0 else result.stderr or f"exit {result.returncode}"


def public_jobs() -> list[tuple[str, list[str], str]]:
    """(title, command, text) for every compiler and standard."""
    jobs = []
    pairs = [("gcc", "c", C_STANDARDS), ("clang", "c", C_STANDARDS), ("clang-19", "c", C_STANDARDS),
             ("g++", "c++", CXX_STANDARDS), ("clang++", "c++", CXX_STANDARDS), ("clang++-19", "c++", CXX_STANDARDS)]  # fmt: skip
    for compiler, language, standards in pairs:
        if not shutil.which(compiler):
            print(f"{compiler}: not installed, its standards are not tried")
            continue
        for standard in standards:
            command = [compiler, "-x", language, f"-std={standard}", *STRICT, "-I", str(ROOT / "capi" / "include")]
            jobs.append((f"{compiler} {standard}", command, USE))
    return jobs


def proven_by_build(header: Path) -> bool:
    """Whether x.cc beside x.h includes x.h before anything else."""
    source = header.with_suffix(".cc")
    if not source.exists():
        return False
    first = re.search(r'^#include ["<]([^">]+)[">]', source.read_text(), flags=re.M)
    return first is not None and Path(first.group(1)).name == header.name


def internal_jobs() -> list[tuple[str, list[str], str]]:
    """(title, command, text) for every internal header."""
    compiler = os.environ.get("HVD_HEADER_CXX", "g++")
    folders = [ROOT / "core", ROOT / "capi" / "src", ROOT / "tests" / "support"]
    flags = ["-x", "c++", "-std=c++20", "-Wall", "-Wextra", "-Werror", "-Wno-unused-function", "-Wno-unused-const-variable"]
    for folder in [*folders, ROOT / "tests", ROOT / "capi" / "include"]:
        flags += ["-I", str(folder)]
    headers = sorted(path for folder in folders if folder.exists() for path in folder.rglob("*.h"))
    unproven = [path for path in headers if not proven_by_build(path)]
    print(f"{len(headers) - len(unproven)} headers are the first include of their source file")
    return [(str(path.relative_to(ROOT)), [compiler, *flags], f'#include "{path}"\n') for path in unproven]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    choice = parser.add_mutually_exclusive_group(required=True)
    choice.add_argument("--public", action="store_true")
    choice.add_argument("--internal", action="store_true")
    arguments = parser.parse_args()
    jobs = public_jobs() if arguments.public else internal_jobs()
    if not jobs:
        print("check_headers: nothing to compile")
        return 1
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        results = list(pool.map(lambda job: compile_text(job[1], job[2]), jobs))
    failed = [(job[0], said) for job, said in zip(jobs, results) if said]
    for title, said in failed:
        print(f"check_headers: {title}:\n{said}")
    print(f"check_headers: {len(jobs)} compilations, {len(failed)} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
