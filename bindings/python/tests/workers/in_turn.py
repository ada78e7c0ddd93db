# SPDX-License-Identifier: Apache-2.0
"""Runs several workers in one job, because importing PyTorch takes longer than most of them.

Each argument is a worker with its arguments: "torch_compile.py aot_eager"; each that went well is said to be done.
"""

import runpy
import sys
from pathlib import Path

for line in sys.argv[1:]:
    name, *arguments = line.split()
    sys.argv = [name, *arguments]
    runpy.run_path(str(Path(__file__).with_name(name)), run_name="__main__")
    print(f"{line}: done")
