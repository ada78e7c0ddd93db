# SPDX-License-Identifier: Apache-2.0
"""That hvd.hpp reaches all of hvd.h, and that each of its headers compiles on its own, in every standard and without exceptions.

A function, a field of a struct that may grow, a dtype or a reduce op that the headers do not use must be listed here with the
reason; so must nothing that they do use.
"""

import json
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent.parent
INCLUDE = ROOT / "bindings" / "cpp" / "include"
INCLUDES = [f"-I{INCLUDE}", f"-I{ROOT / 'capi' / 'include'}"]
FLAGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Werror", "-fsyntax-only", "-x", "c++", "-"]

NOT_USED = {
    "hvd_process_set_world": "its pointer ends with the context; Context::world() asks hvd_process_set_find for a reference",
    "hvd_dtype_size": "element types are C++ types, and sizeof tells their size",
    "hvd_init_options.flags": "must be 0",
    "hvd_membership.reserved": "must be 0",
    "HVD_CUDA": "spans are memory of the host; tensors on a device by hvd.h",
    "hvd_op_options.stream": "as HVD_CUDA",
    **dict.fromkeys(
        "HVD_BYTES HVD_COMPLEX32 HVD_FLOAT8_E3M4 HVD_FLOAT8_E4M3 HVD_FLOAT8_E4M3B11FNUZ HVD_FLOAT8_E4M3FN HVD_FLOAT8_E4M3FNUZ "
        "HVD_FLOAT8_E5M2 HVD_FLOAT8_E5M2FNUZ HVD_FLOAT8_E8M0FNU HVD_FLOAT4_E2M1FN HVD_INT2 HVD_UINT2 HVD_INT4 HVD_UINT4".split(),
        "C++ has no type for it; it is only moved, and bytes can be",
    ),
}


def unreached() -> list:
    """Faults. Of structs those that may grow and that users of hvd.hpp do not see: a new field needs a place there."""
    model = json.loads((ROOT / "capi" / "abi" / "hvd-1.api.json").read_text())
    code = re.sub(r"//.*", "", "\n".join(path.read_text() for path in INCLUDE.rglob("*.hpp")))
    patterns = {name: rf"\b{name}\b" for name in model["functions"]}
    patterns.update({name: rf"\b{name}\b" for name in re.findall(r"^#define (HVD_\w+) \d+", _section_3(), flags=re.M)})
    for struct in ("hvd_error", "hvd_init_options", "hvd_topology", "hvd_membership", "hvd_op_options"):
        fields = [field["name"] for field in model["structs"][struct]["fields"] if field["name"] != "struct_size"]
        patterns.update({f"{struct}.{field}": rf"\.{field}\b" for field in fields})
    missing = {name for name, pattern in patterns.items() if not re.search(pattern, code)}
    faults = [f"{name} of hvd.h is not used by hvd.hpp, and no reason is listed" for name in sorted(missing - set(NOT_USED))]
    return faults + [f"{name} is listed as not used, but is, or does not exist" for name in sorted(set(NOT_USED) - missing)]


def _section_3() -> str:
    """dtypes and reduce ops as hvd.h lists them."""
    header = (ROOT / "capi" / "include" / "hvd" / "hvd.h").read_text()
    return header[header.index("---- 3. Data"):header.index("typedef struct hvd_tensor")]


def compilations() -> list:
    """(title, command, text)"""
    jobs = []
    headers = sorted(path.relative_to(INCLUDE).as_posix() for path in INCLUDE.rglob("*.hpp"))
    whole = "#include <hvd/hvd.hpp>\n#include <hvd/hvd.hpp>\n"
    for compiler, ways in {"g++": ("-std=c++20", "-std=c++23", "-fno-exceptions"),
                           "clang++-19": ("-std=c++20", "-DHVD_NO_EXCEPTIONS")}.items():  # fmt: skip
        if not shutil.which(compiler):
            print(f"{compiler} is not installed and not tried")
            continue
        for way in ways:
            standard = [] if way.startswith("-std") else ["-std=c++20"]
            jobs.append((f"{compiler} {way}", [compiler, *INCLUDES, way, *standard, *FLAGS], whole))
    jobs += [(f"{name} on its own", ["g++", *INCLUDES, "-std=c++20", *FLAGS], f"#include <{name}>\n") for name in headers]
    return jobs


def older_standards() -> list:
    """Faults: what a program in C++17 is told is one error, which says what to change."""
    command = ["g++", *INCLUDES, "-std=c++17", *FLAGS]
    done = subprocess.run(command, input="#include <hvd/hvd.hpp>\nint main() {}\n", capture_output=True, text=True)
    errors = re.findall(r"error: .*", done.stderr)
    good = len(errors) == 1 and "hvd.hpp needs C++20: compile with -std=c++20" in errors[0]
    return [] if good else [f"-std=c++17: {done.stderr or 'compiles'}"]


def compiles(job: tuple) -> str:
    title, command, text = job
    done = subprocess.run(command, input=text, capture_output=True, text=True)
    return "" if done.returncode == 0 else f"{title}: {done.stderr or done.returncode}"


def main() -> int:
    faults = unreached() + older_standards()
    jobs = compilations()
    with ThreadPoolExecutor(2) as pool:
        faults += [said for said in pool.map(compiles, jobs) if said]
    installed = (INCLUDE.parent / "meson.build").read_text()
    faults += [f"{path.name} is not installed" for path in INCLUDE.rglob("*.hpp") if f"'{path.relative_to(INCLUDE.parent)}'" not in installed]
    print(*faults, sep="\n")
    print(f"check_reach: {len(jobs)} compilations, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
