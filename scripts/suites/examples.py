# SPDX-License-Identifier: Apache-2.0
"""Runs what stands in examples/python as a user does. Other languages run theirs in suites of their own."""

import os
import sys
import time
from typing import List

from suites.count import BIN, ROOT, Count, captured, passed_if
from suites.frameworks import OF_JAX, OF_MXNET, OF_TENSORFLOW
from suites.package import install


# Enough of each to see that it works; without an entry an example runs as it is.
_ARGUMENTS = {
    "digits_torch.py": ["--epochs", "3"],
    "synthetic_benchmark_torch.py": [
        "--batch-size", "4", "--image-size", "32", "--num-warmup-batches", "2", "--num-batches-per-iter", "2",
        "--num-iters", "3",
    ],
    "transformer_torch.py": ["--steps", "100"],
}
_RANKS = {"process_sets.py": 4, "two_models_torch.py": 3, "uneven_inputs_torch.py": 3}
# The suites of these frameworks run theirs.
_ELSEWHERE = (*OF_TENSORFLOW, *OF_JAX, *OF_MXNET)
_NOT_ALONE = ("process_sets.py", "two_models_torch.py")


def examples() -> Count:
    if not install():
        return passed_if(False)
    total = Count()
    horovodrun = BIN / "horovodrun"
    for example in sorted((ROOT / "examples" / "python").glob("*.py")):
        if example.name.endswith(_ELSEWHERE):
            continue
        command: List[object] = [sys.executable, example, *_ARGUMENTS.get(example.name, [])]
        if example.name not in _NOT_ALONE:
            total.add(_example(command))
        total.add(_example([horovodrun, "-np", str(_RANKS.get(example.name, 2)), *command]))
        if example.name == "elastic_torch.py":
            total.add(_example([horovodrun, "-np", "3", "--min-np", "1", *command, "--fail"]))
    return total


def _example(command: List[object]) -> Count:
    began = time.monotonic()
    code, output = captured(command, 300)
    words = " ".join(os.path.relpath(word, ROOT) if os.path.isabs(str(word)) else str(word) for word in command)
    print(f"   {'ok    ' if code == 0 else 'FAILED'} {words}", flush=True)
    if code != 0:
        print(output)
    return passed_if(code == 0).took(words, time.monotonic() - began)
