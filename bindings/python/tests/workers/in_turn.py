# SPDX-License-Identifier: Apache-2.0
"""Runs several workers in one job, because importing PyTorch takes longer than most of them."""

import runpy
import sys
from pathlib import Path

for name in sys.argv[1:]:
    runpy.run_path(str(Path(__file__).with_name(name)), run_name="__main__")
