# SPDX-License-Identifier: Apache-2.0
"""A program as three ranks of a real mpirun; HVD_MPIRUN names another one than that on PATH."""

import os
import shutil
import subprocess
from typing import Optional

SKIPPED = 77
RANKS = 3
TIME_LIMIT = 50


def find_mpirun() -> Optional[str]:
    """None, and the reason printed, where there is none."""
    mpirun = shutil.which(os.environ.get("HVD_MPIRUN", "mpirun"))
    if mpirun is None:
        print("skipped: mpirun is not here; Debian's package openmpi-bin has it")
    return mpirun


def under_mpirun(mpirun: str, *command: str) -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    return subprocess.run([mpirun, "--oversubscribe", "-np", str(RANKS), *command],
                          env=environment, capture_output=True, text=True, timeout=TIME_LIMIT)  # fmt: skip
