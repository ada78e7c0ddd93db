#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""ABI gate 2: the header against its golden model.

Everything in the golden model must still be there and mean the same: constants and prototypes equal, sized structs and
their initializers a prefix of today's, frozen structs equal. Additions are allowed, and reported until the golden model has
them (scripts/update_golden.py).

    check_abi.py               compares
    check_abi.py --self-test   damages copies of the header and checks that each damage is found
"""
import argparse
import json
import re
import shutil
import sys
import tempfile
from pathlib import Path

import api_model

ROOT = Path(__file__).resolve().parent.parent
GOLDEN = ROOT / "capi" / "abi" / "hvd-1.api.json"


def types_of(prototype: dict) -> str:
    """A prototype without parameter names: they may be improved at any time."""
    return f"{prototype['returns']} ({', '.join(item['type'] for item in prototype['parameters'])})"


def struct_breaks(name: str, old: dict, new: dict) -> list[str]:
    """What changed in a struct that an old caller would notice."""
    if new["kind"] != old["kind"]:
        return [f"struct {name}: was {old['kind']}, is {new['kind']}"]
    if old["kind"] == "frozen" and new["size"] != old["size"]:
        return [f"struct {name}: frozen at {old['size']} bytes, is {new['size']}"]
    found = []
    for index, field in enumerate(old["fields"]):
        now = new["fields"][index] if index < len(new["fields"]) else None
        if now != field:
            found.append(f"struct {name}: field {index} was {field}, is {now}")
    return found


def breaks(old: dict, new: dict) -> list[str]:
    """Every change from `old` to `new` that breaks a program built against `old`."""
    found = []
    for kind in ("constants", "aliases"):
        for name, value in old[kind].items():
            if new[kind].get(name) != value:
                found.append(f"{name}: was {value!r}, is {new[kind].get(name)!r}")
    for name in old["opaque"]:
        if name not in new["opaque"]:
            found.append(f"{name}: was opaque, is not any more")
    for kind in ("callbacks", "functions"):
        for name, prototype in old[kind].items():
            now = types_of(new[kind][name]) if name in new[kind] else "absent"
            if now != types_of(prototype):
                found.append(f"{name}: was {types_of(prototype)}, is {now}")
    for name, struct in old["structs"].items():
        found += struct_breaks(name, struct, new["structs"][name]) if name in new["structs"] else [f"struct {name}: absent"]
    for name, values in old["initializers"].items():
        now = new["initializers"].get(name, [])
        if now[: len(values)] != values:
            found.append(f"{name}: was {values}, is {now}")
    return found


def additions(old: dict, new: dict) -> list[str]:
    """Names that `new` has and `old` lacks, and structs that have grown."""
    found = []
    for kind in ("constants", "aliases", "opaque", "callbacks", "functions", "structs", "initializers"):
        found += [f"{name}: new" for name in new[kind] if name not in old[kind]]
    for name, struct in old["structs"].items():
        if new["structs"].get(name, struct)["size"] > struct["size"]:
            found.append(f"struct {name}: grown from {struct['size']} to {new['structs'][name]['size']} bytes")
    return found


# (name, pattern, replacement): damage that the gate must find.
MUTATIONS = [
    ("renumbered define", r"#define HVD_ERR_TIMEOUT \(-22\)", "#define HVD_ERR_TIMEOUT (-23)"),
    ("removed define", r"#define HVD_LOG_TRACE 4\n", ""),
    ("swapped dtypes", r"#define HVD_INT32 4", "#define HVD_INT32 5"),
    ("field inserted in the middle of a sized struct", r"(  int64_t timeout_ns;      /\* 0: the option op_timeout)",
     r"  int64_t inserted;\n\1"),
    ("field removed from a sized struct", r"  int32_t sys_errno;[^\n]*\n", "  int32_t pad;\n"),
    ("field reordered", r"int32_t rank, size; ", "int32_t size, rank; "),
    ("field type changed, size kept", r"  double prescale;", "  int64_t prescale;"),
    ("frozen struct grown", r"  uint64_t reserved\[2\];", "  uint64_t reserved[3];"),
    ("frozen struct renamed field", r"  const char \*value;\n\} hvd_option", "  const char *text;\n} hvd_option"),
    ("removed function", r"HVD_API int32_t hvd_has_feature\(const char \*name\);\n", ""),
    ("changed parameter type", r"hvd_wait\(hvd_handle \*handle, int64_t timeout_ns", "hvd_wait(hvd_handle *handle, int32_t timeout_ns"),
    ("changed return type", r"HVD_API int32_t hvd_process_set_id\(", "HVD_API int64_t hvd_process_set_id("),
    ("parameter added", r"hvd_context_free\(hvd_context \*context\)", "hvd_context_free(hvd_context *context, int32_t flags)"),
    ("lost const", r"hvd_process_set_size\(const hvd_process_set \*set\)", "hvd_process_set_size(hvd_process_set *set)"),
    ("callback changed", r"\(void \*user_data, hvd_handle \*handle, hvd_status status\)", "(hvd_handle *handle, void *user_data, hvd_status status)"),
    ("callback in a struct changed", r"\(\*remove\)\(void \*self, const char \*key\)", "(*remove)(void *self, char *key)"),
    ("default changed", r"HVD_SUM, 0, 1\.0, 1\.0", "HVD_AVERAGE, 0, 1.0, 1.0"),
    ("alias widened", r"typedef int32_t hvd_status;", "typedef int64_t hvd_status;"),
    ("opaque type exposed", r"typedef struct hvd_handle hvd_handle;", "typedef struct hvd_handle { int64_t id; } hvd_handle;"),
]

# Changes that must pass: the ways in which the ABI may grow.
GROWTH = [
    ("sized struct grown at its end", r"\n\} hvd_op_options;", "\n  int64_t later;\n} hvd_op_options;"),
    ("new function", r"(HVD_API uint32_t hvd_version\(void\);)", r"\1\nHVD_API uint32_t hvd_later(void);"),
    ("new constant", r"(#define HVD_LOG_TRACE 4)", r"\1\n#define HVD_LOG_LATER 5"),
    ("parameter renamed", r"hvd_has_feature\(const char \*name\)", "hvd_has_feature(const char *feature)"),
]


def model_of_changed_header(pattern: str, replacement: str) -> dict:
    """The model of a copy of the header in which `pattern`, which must occur exactly once, is replaced."""
    changed, count = re.subn(pattern, replacement, api_model.HEADER.read_text())
    if count != 1:
        raise SystemExit(f"check_abi: self test out of date: {pattern} occurs {count} times in hvd.h")
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(api_model.HEADER.parent / "version.h", folder)
        header = Path(folder) / "hvd.h"
        header.write_text(changed)
        return api_model.read_model(header)


def self_test() -> int:
    """Proves that the gate finds what it is for and allows what it must."""
    original, failures = api_model.read_model(), 0
    for name, pattern, replacement in MUTATIONS:
        try:
            found = breaks(original, model_of_changed_header(pattern, replacement))
        except api_model.ModelError as error:  # padding, for instance: refused before it is compared
            found = [str(error)]
        print(f"{'found  ' if found else 'MISSED '} {name}: {found[0] if found else ''}")
        failures += not found
    for name, pattern, replacement in GROWTH:
        found = breaks(original, model_of_changed_header(pattern, replacement))
        print(f"{'REFUSED' if found else 'allowed'} {name}: {found[0] if found else ''}")
        failures += bool(found)
    return 1 if failures else 0


def main() -> int:
    parser = argparse.ArgumentParser(description="compares the public header with its golden model")
    parser.add_argument("--golden", type=Path, default=GOLDEN)
    parser.add_argument("--self-test", action="store_true")
    arguments = parser.parse_args()
    if arguments.self_test:
        return self_test()
    golden, today = json.loads(arguments.golden.read_text()), api_model.read_model()
    found, added = breaks(golden, today), additions(golden, today)
    for line in found:
        print(f"check_abi: broken: {line}")
    for line in added:
        print(f"check_abi: not in {arguments.golden.name} yet: {line}; run scripts/update_golden.py")
    print(f"check_abi: {len(today['functions'])} functions, {len(today['constants'])} constants, {len(today['structs'])} structs")
    return 1 if found or added else 0


if __name__ == "__main__":
    sys.exit(main())
