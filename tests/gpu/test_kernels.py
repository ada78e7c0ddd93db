# SPDX-License-Identifier: Apache-2.0
"""The library's kernels by themselves: benchmarks/gpu/kernels, which scripts/test-gpu builds, compares their values with the CPU's."""

import os

import pytest
from jobs import EXPECTS_KERNELS, REHEARSAL, run, under_sanitizer

PROGRAM = os.environ.get("HVD_GPU_KERNELS", "")
STAND_IN = os.environ.get("HVD_GPU_STAND_IN", "")  # in a rehearsal: the folder of the driver
pytestmark = [
    pytest.mark.skipif(not PROGRAM, reason="benchmarks/gpu/kernels is not built"),
    pytest.mark.usefixtures("gpu"),
]


def check(under=(), timeout=240):
    options, env = (["--kernels", PROGRAM], {"LD_LIBRARY_PATH": STAND_IN}) if REHEARSAL else ([], {})
    result = run([*under, PROGRAM, "--check", *options], env, timeout, expect=None)
    if result.exit_code == 77 and not EXPECTS_KERNELS:
        pytest.skip(result.text.splitlines()[-1])
    return result


def test_values():
    result = check()
    assert result.exit_code == 0, result.text
    result.says("values: ")


@pytest.mark.skipif(REHEARSAL, reason="a rehearsal on the CPU")
@pytest.mark.slow
def test_no_invalid_access():
    under_sanitizer(check).says("values: ")
