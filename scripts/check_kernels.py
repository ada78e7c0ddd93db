#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Test: nvcc compiles every kernel of core/device/cuda for each GPU that the library has code for, without spilled registers or a
stack, and without anything that the driver would have to find elsewhere.

    check_kernels.py NVCC      NVCC is empty where there is none; then it is skipped, with exit code 77
"""
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "core" / "device" / "cuda"
ARCHITECTURES = ("sm_80", "sm_90")


def kernels():
    """The names in kernels.def."""
    return re.findall(r"^HVD_KERNEL\((\w+),", (FOLDER / "kernels.def").read_text(), re.M)


def faults_of(nvcc, architecture):
    """What is wrong with the code for one GPU."""
    with tempfile.TemporaryDirectory() as folder:
        code = Path(folder) / "kernels.cubin"
        command = [nvcc, "-std=c++20", "-O3", "-I", ROOT / "core", f"-arch={architecture}", "-cubin", "-Xptxas", "-v",
                   "-Werror", "all-warnings", "-o", code, FOLDER / "kernels.cu"]  # fmt: skip
        done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode != 0:
            return [f"{architecture}: nvcc fails:\n{done.stdout}"]
        symbols = subprocess.run(["readelf", "-sW", code], stdout=subprocess.PIPE, text=True, check=True).stdout
    found = [f"{architecture}: {name} is not in the code" for name in kernels() if not re.search(rf"FUNC +GLOBAL .* {name}$", symbols, re.M)]
    found += [f"{architecture}: {line.split()[-1]} has to be found elsewhere" for line in symbols.splitlines() if re.search(r" UND \w", line)]
    # In ptxas's words: "0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads", once for each kernel.
    costs = re.findall(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", done.stdout)
    if len(costs) != len(kernels()):
        found.append(f"{architecture}: ptxas tells of {len(costs)} kernels, there are {len(kernels())}")
    if any(int(number) for cost in costs for number in cost):
        found.append(f"{architecture}: a kernel has a stack or spills registers:\n{done.stdout}")
    return found


def main():
    nvcc = sys.argv[1] if len(sys.argv) > 1 else ""
    if not nvcc:
        print("skipped: nvcc 12.8 or later is not installed; the library has no kernels for GPUs")
        return 77
    found = [fault for architecture in ARCHITECTURES for fault in faults_of(nvcc, architecture)]
    print("\n".join(found) or f"{len(kernels())} kernels for {' and '.join(ARCHITECTURES)}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
