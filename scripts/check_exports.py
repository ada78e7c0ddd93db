#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""ABI gate 1: what the library exports equals the symbol map equals the header; soname and needed libraries are as promised."""
import argparse
import re
import subprocess
import sys
from pathlib import Path

import api_model

ROOT = Path(__file__).resolve().parent.parent

# Everything a machine with a C++ runtime has. A library beyond these would have to be installed by every user.
ALLOWED_NEEDED = (
    r"libstdc\+\+\.so\.6",
    r"libgcc_s\.so\.1",
    r"libm\.so\.6",
    r"libc\.so\.6",
    r"libpthread\.so\.0",
    r"librt\.so\.1",
    r"libdl\.so\.2",
    r"ld-linux-[\w-]+\.so\.[12]",
)
SANITIZER_NEEDED = (r"lib[atu]b?san\.so\.\d+", r"libubsan\.so\.\d+", r"libclang_rt\.[\w-]+\.so")


def parse_map(path: Path) -> dict[str, list[str]]:
    """Node name -> names exported by it. Refuses wildcards among the exports."""
    text = re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.S)
    nodes = {}
    for name, body in re.findall(r"(\w[\w.]*)\s*\{(.*?)\}\s*[\w.]*\s*;", text, flags=re.S):
        exported, _, rest = body.partition("local:")
        names = [item.strip() for item in exported.replace("global:", "").split(";") if item.strip()]
        wild = [item for item in names if not re.fullmatch(r"\w+", item)]
        if wild:
            raise SystemExit(f"{path.name}: node {name} exports by pattern: {' '.join(wild)}; spell the names out")
        if not nodes and rest.split() != ["*;"]:
            raise SystemExit(f"{path.name}: node {name} does not hide everything else with 'local: *;'")
        nodes[name] = names
    if not nodes:
        raise SystemExit(f"{path.name}: no version node found")
    return nodes


def exported_symbols(library: Path) -> dict[str, str]:
    """Symbol -> version node, of the dynamic symbols that the library defines."""
    command = ["nm", "-D", "--defined-only", "--with-symbol-versions", str(library)]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    symbols = {}
    for line in output.splitlines():
        fields = line.split()
        name, _, version = fields[-1].partition("@")
        if fields[-2] == "A":  # the version node itself
            continue
        symbols[name] = version.lstrip("@")
    return symbols


def dynamic_section(library: Path) -> tuple[str, list[str]]:
    """(soname, needed libraries)."""
    output = subprocess.run(["readelf", "-dW", str(library)], check=True, capture_output=True, text=True).stdout
    soname = re.findall(r"\(SONAME\).*\[(.*?)\]", output)
    return (soname[0] if soname else ""), re.findall(r"\(NEEDED\).*\[(.*?)\]", output)


def differences(left_name: str, left: set, right_name: str, right: set) -> list[str]:
    """One line per name that only one side has."""
    return [f"{name}: in {left_name}, not in {right_name}" for name in sorted(left - right)] + [
        f"{name}: in {right_name}, not in {left_name}" for name in sorted(right - left)
    ]


def check(library: Path, map_file: Path, header: Path, sanitized: bool) -> list[str]:
    """Every fault found, one line each."""
    nodes = parse_map(map_file)
    in_map = {name: node for node, names in nodes.items() for name in names}
    exported = exported_symbols(library)
    declared = api_model.read_model(header)
    faults = differences("header", set(declared["functions"]), map_file.name, set(in_map))
    faults += differences(map_file.name, set(in_map), "library", set(exported))
    if sum(len(names) for names in nodes.values()) != len(in_map):
        faults.append(f"{map_file.name}: a name is listed twice")
    for name in sorted(set(in_map) & set(exported)):
        if exported[name] != in_map[name]:
            faults.append(f"{name}: version {exported[name] or 'none'} in the library, {in_map[name]} in {map_file.name}")

    soname, needed = dynamic_section(library)
    wanted = f"libhvd.so.{declared['version']['HVD_VERSION_MAJOR']}"
    if soname != wanted:
        faults.append(f"soname: {soname or 'none'}, expected {wanted}")
    allowed = ALLOWED_NEEDED + (SANITIZER_NEEDED if sanitized else ())
    for item in needed:
        if not any(re.fullmatch(pattern, item) for pattern in allowed):
            faults.append(f"needs {item}, which is not one of the libraries that every machine has")
    print(f"{library.name}: {len(exported)} symbols, soname {soname}, needs {' '.join(needed)}")
    return faults


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("library", type=Path)
    parser.add_argument("--map", type=Path, default=ROOT / "capi" / "hvd.map")
    parser.add_argument("--header", type=Path, default=api_model.HEADER)
    parser.add_argument("--sanitized", action="store_true", help="sanitizer runtimes are allowed too")
    arguments = parser.parse_args()
    faults = check(arguments.library, arguments.map, arguments.header, arguments.sanitized)
    for fault in faults:
        print(f"check_exports: {fault}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
