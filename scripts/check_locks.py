#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Lint: what core says about its mutexes (core/base/thread_annotations.h) is true of every source that uses them.

    check_locks.py               compiles the sources without output; exit 77 (skipped) without clang 19
    check_locks.py --self-test   checks that clang refuses what the annotations are for
"""
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CORE = ROOT / "core"
COMPILER = "clang++-19"
FLAGS = ["-std=c++20", "-fsyntax-only", "-I", str(CORE), "-I", str(ROOT / "capi" / "include"), "-Wthread-safety", "-Werror=thread-safety"]
SKIPPED = 77
HEADER = '#include "base/mutex.h"\nusing hvd::Mutex, hvd::MutexLock;\n'
GUARDED = """
class Guarded {
 public:
  %s
  int needs_it() HVD_REQUIRES(mutex_) { return value_; }
  Mutex mutex_;
  int value_ HVD_GUARDED_BY(mutex_) = 0;
};
"""
# A member function, and what clang says of it; nothing if it is right.
CASES = [
    ("int get() { MutexLock lock(mutex_); return value_; }", ""),
    ("int get() { if (!mutex_.try_lock()) return 0; MutexLock lock(mutex_, std::adopt_lock); return needs_it(); }", ""),
    ("int get() { return value_; }", "requires holding mutex 'mutex_'"),
    ("int get() { return needs_it(); }", "requires holding mutex 'mutex_'"),
    ("int get() { MutexLock lock(mutex_); lock.unlock(); return value_; }", "requires holding mutex 'mutex_'"),
    ("int get() { mutex_.try_lock(); return value_; }", "requires holding mutex 'mutex_'"),
    ("void keep() { mutex_.lock(); }", "still held at the end of function"),
    ("void twice() { MutexLock one(mutex_); MutexLock two(mutex_); }", "already held"),
]


def said_of(*words: object, text: str = "") -> str:
    """What clang says; nothing if it compiles."""
    command = [COMPILER, *FLAGS, *map(str, words)]
    result = subprocess.run(command, input=text, capture_output=True, text=True)
    return "" if result.returncode == 0 else result.stderr or f"exit {result.returncode}"


def self_test() -> int:
    wrong = 0
    for function, expected in CASES:
        said = said_of("-x", "c++", "-", text=HEADER + GUARDED % function)
        if bool(said) != bool(expected) or expected not in said:
            print(f"check_locks: self test: {function}: expected {expected or 'no fault'!r}, clang said:\n{said}")
            wrong += 1
    print(f"check_locks: self test, {len(CASES)} cases, {wrong} wrong")
    return 1 if wrong else 0


def users_of_mutexes() -> list[Path]:
    """The sources of core that use an annotated mutex, or include a header that does: what it guards is private to its class."""
    texts = {path: path.read_text() for path in sorted(CORE.rglob("*")) if path.suffix in (".h", ".cc")}

    def includers(header: str) -> set[Path]:
        return {path for path, text in texts.items() if f'#include "{header}"' in text}

    users = includers("base/mutex.h")
    for header in [path for path in users if path.suffix == ".h"]:
        users |= includers(str(header.relative_to(CORE)))
    return sorted(path for path in users if path.suffix == ".cc")


def main() -> int:
    if not shutil.which(COMPILER):
        print(f"skipped: {COMPILER} is not installed")
        return SKIPPED
    if "--self-test" in sys.argv[1:]:
        return self_test()
    sources = users_of_mutexes()
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        faults = [said for said in pool.map(said_of, sources) if said]
    print(*faults, sep="", end="")
    print(f"check_locks: {len(sources)} sources, {len(faults)} with faults")
    return 1 if faults or not sources else 0


if __name__ == "__main__":
    sys.exit(main())
