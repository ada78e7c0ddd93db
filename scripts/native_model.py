# SPDX-License-Identifier: Apache-2.0
"""What the generators of native layers share: the types of the header's model taken apart, and writing or comparing a file.

A native layer is the lowest layer of a binding: constants, structs and prototypes of hvd.h in the binding's language, and nothing
else. Its generator knows the language; scripts/api_model.py knows the header.
"""
import argparse
import re
from pathlib import Path
from typing import NamedTuple

import api_model

ROOT = api_model.ROOT
HEADER = "hvd/hvd.h"


class CType(NamedTuple):
    """A C type as text in the model says it: `const hvd_tensor *` is ("hvd_tensor", 1, 0)."""

    base: str
    pointers: int
    length: int  # of an array; 0: no array


def parse_type(text: str) -> CType:
    """The parts of a type; function pointers inside structs have the base "function" and are one pointer."""
    if "(*)" in text:
        return CType("function", 1, 0)
    array = re.search(r"\[(\d+)\]$", text)
    words = re.sub(r"\[\d+\]$", "", text).replace("*", " * ").split()
    names = [word for word in words if word not in ("const", "*")]
    if len(names) != 1:
        raise api_model.ModelError(f"a type that no native layer describes: {text}")
    return CType(names[0], words.count("*"), int(array.group(1)) if array else 0)


def scalar_of(base: str, model: dict) -> str:
    """The C scalar behind a name: "int32_t" for hvd_status; names of structs and opaque types stay."""
    return model["aliases"].get(base, base)


def constants_of(model: dict, prefix: str) -> dict:
    """The constants whose names begin with a prefix, without it, in the order of their numbers, away from zero."""
    found = {name[len(prefix) :]: value for name, value in model["constants"].items() if name.startswith(prefix)}
    return dict(sorted(found.items(), key=lambda item: (item[1] < 0, abs(item[1]))))


# The constants of hvd.h that number one thing, by that thing. Every constant stands here, or no native layer would have it.
GROUPS = {
    "status": ("OK", "PENDING"),  # and everything that begins with ERR_
    "dtype": ("UINT8", "INT8", "UINT16", "INT16", "INT32", "INT64", "FLOAT16", "FLOAT32", "FLOAT64", "BOOL", "BFLOAT16",
              "UINT32", "UINT64", "COMPLEX64", "COMPLEX128", "BYTES", "COMPLEX32", "FLOAT8_E3M4", "FLOAT8_E4M3",
              "FLOAT8_E4M3B11FNUZ", "FLOAT8_E4M3FN", "FLOAT8_E4M3FNUZ", "FLOAT8_E5M2", "FLOAT8_E5M2FNUZ", "FLOAT8_E8M0FNU",
              "FLOAT4_E2M1FN", "INT2", "UINT2", "INT4", "UINT4"),  # fmt: skip
    "reduce_op": ("AVERAGE", "SUM", "ADASUM", "MIN", "MAX", "PRODUCT"),
    "device_type": ("CPU", "CUDA"),
    "members": ("MEMBERS_REMOVED", "MEMBERS_ADDED"),
    "log_level": ("LOG_ERROR", "LOG_WARN", "LOG_INFO", "LOG_DEBUG", "LOG_TRACE"),
}


def grouped_constants(model: dict) -> dict[str, dict[str, int]]:
    """Group -> name without HVD_ -> number. A constant that no group knows is an error."""
    left = constants_of(model, "HVD_")
    groups = {}
    for group, names in GROUPS.items():
        chosen = [name for name in left if name in names or (group == "status" and name.startswith("ERR_"))]
        missing = set(names) - set(chosen)
        if missing:
            raise api_model.ModelError(f"{group}: the header has no {' '.join(sorted(missing))}")
        groups[group] = {name: left.pop(name) for name in chosen}
    if left:
        raise api_model.ModelError(f"constants of no group in scripts/native_model.py: {' '.join(left)}")
    return groups


def struct_order(model: dict) -> list[str]:
    """Structs so that each comes after those it points to."""
    order: list[str] = []
    while len(order) < len(model["structs"]):
        for name, struct in model["structs"].items():
            needs = {parse_type(field["type"]).base for field in struct["fields"]} & set(model["structs"])
            if name not in order and needs <= set(order):
                order.append(name)
    return order


def generate(program: str, description: str, files) -> int:
    """The command line of a generator; `files` takes the model and returns path below the root -> text."""
    parser = argparse.ArgumentParser(prog=program, description=description)
    parser.add_argument("--check", action="store_true", help="only compare with what is checked in")
    check = parser.parse_args().check
    stale = 0
    for name, text in files(api_model.read_model()).items():
        path: Path = ROOT / name
        if not check:
            path.write_text(text)
        elif not path.exists() or path.read_text() != text:
            print(f"{program}: {name} is not what it is made from says; run scripts/{program}.py")
            stale += 1
        else:
            print(f"{program}: {name} is current")
    return 1 if stale else 0
