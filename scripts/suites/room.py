# SPDX-License-Identifier: Apache-2.0
"""Room on the disk: all suites together need more than some machines have free, and each needs its environment and build once."""

import shutil
from pathlib import Path
from typing import Dict, List

from suites.count import ROOT
from suites.environments import FOLDER
from suites.frameworks import JAX, MXNET, TENSORFLOW, TENSORFLOW_BEFORE, TENSORFLOW_OLD, TENSORFLOW_OLDEST

# With so much free nothing is removed: later runs go faster by what earlier ones left.
ENOUGH = 10 << 30

# A whole run from nothing takes 20 GB, of which 6.3 are PyTorch's, there before the first suite.
_ALL_SUITES = 14e9

# What no suite after this one, in the order of a whole run, looks into.
_LEFT_BY: Dict[str, List[Path]] = {
    "jax": [FOLDER / JAX.name],
    "tensorflow": [FOLDER / each.name for each in (TENSORFLOW, TENSORFLOW_BEFORE, TENSORFLOW_OLD, TENSORFLOW_OLDEST)],
    "mxnet": [FOLDER / MXNET.name],
    "spark": [ROOT / "build-spark"],
    "languages": [ROOT / "build-julia", ROOT / "build-jvm"],
    "fuzz": [ROOT / "build-fuzz"],
    "asan": [ROOT / "build-asan"],
}


def say_room() -> None:
    """Before a whole run: says so if it may end for want of disk."""
    free = shutil.disk_usage(ROOT).free
    if free < _ALL_SUITES:
        print(f"   {free / 1e9:.1f} GB of disk are free; all suites from nothing take {_ALL_SUITES / 1e9:.0f}", flush=True)


def make_room(suite: str) -> None:
    """After a suite: removes what it leaves if the disk is nearly full, and says so."""
    for folder in _LEFT_BY.get(suite, []):
        free = shutil.disk_usage(ROOT).free
        if free < ENOUGH and folder.is_dir():
            shutil.rmtree(folder, ignore_errors=True)
            print(f"   removed {folder.relative_to(ROOT)}: only {free / 1e9:.1f} GB of disk were free", flush=True)
