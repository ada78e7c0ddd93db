# SPDX-License-Identifier: Apache-2.0
"""Arrays on a CUDA device, on a stand-in for its driver: threads as streams, memory that the host can not touch."""

import contextlib
import ctypes
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
STAND_IN = ROOT / "tests" / "unit" / "device"
COMPILER = shutil.which("c++")


@pytest.fixture(scope="module")
def card(tmp_path_factory):
    """The environment in which the stand-in is the driver that loads."""
    if COMPILER is None:
        pytest.skip("no C++ compiler to build the driver's stand-in with")
    folder = tmp_path_factory.mktemp("driver")
    sources = sorted(STAND_IN.glob("fake_cuda*.cc"))
    command = [COMPILER, "-std=c++20", "-O1", "-fPIC", "-shared", "-pthread", f"-I{ROOT / 'core'}", *map(str, sources)]
    subprocess.run([*command, "-Wl,-soname,libcuda.so.1,-z,defs", "-o", str(folder / "libcuda.so.1")], check=True)
    return {"LD_LIBRARY_PATH": str(folder)}


def test_alone(alone, native, card):
    assert "device_arrays: ok" in alone("device_arrays.py", native=native, env=card).text


@pytest.mark.parametrize("ranks", [2, 3])
def test_several_ranks_on_one_device(horovodrun, native, card, ranks):
    assert horovodrun(ranks, "device_arrays.py", native=native, env=card).text.count("device_arrays: ok") == ranks


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_dlpack(horovodrun, native, card, ranks):
    assert horovodrun(ranks, "dlpack_on_card.py", native=native, env=card).text.count("dlpack_on_card: ok") == ranks


@pytest.mark.parametrize("ranks", [1, 2])
def test_dlpack_beside_the_other_interface(horovodrun, native, card, ranks):
    assert horovodrun(ranks, "two_interfaces.py", native=native, env=card).text.count("two_interfaces: ok") == ranks


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_tensors_of_pytorch(horovodrun, native, card, ranks):
    pytest.importorskip("torch")
    assert horovodrun(ranks, "torch_on_card.py", native=native, env=card).text.count("torch_on_card: ok") == ranks


def test_no_driver(alone, native):
    with contextlib.suppress(OSError):
        ctypes.CDLL("libcuda.so.1")
        pytest.skip("there is a CUDA driver on this machine")
    assert "no_driver: ok" in alone("no_driver.py", native=native).text
