# SPDX-License-Identifier: Apache-2.0
"""Tensors on one real GPU: through NCCL where there is one rank, through host memory where ranks share it."""

import importlib.util
import json
import sys
from pathlib import Path

import pytest
from jobs import EXPECTS_KERNELS, REHEARSAL, ROOT, run, under_sanitizer

NCCL, NATIVE = {"HOROVOD_GPU_OPERATIONS": "nccl"}, {"HOROVOD_GPU_OPERATIONS": "native"}
needs_gpu = pytest.mark.skipif(REHEARSAL, reason="a rehearsal on the CPU")


def never_nccl(result):
    assert "go through NCCL" not in result.text, result.text


def test_operations_through_nccl(alone):
    result = alone("operations.py", env=NCCL)
    result.says("operations: ok")
    result.goes_through("NCCL")


@needs_gpu
def test_nccl_is_asked(alone):
    """NCCL writes down each of its calls; the sum of int16, which it has not, is no reason to leave it."""
    result = alone("operations.py", "--small", env={**NCCL, "NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "COLL"})
    for call in ("AllReduce", "AllGather", "Broadcast", "ReduceScatter"):
        result.says(f"{call}: opCount")


@pytest.mark.parametrize("kernels", ["auto", "none"])
def test_every_operation_through_nccl(alone, tmp_path, kernels):
    """By NCCL's own log of each: what it can do it was asked for, and only that; with kernels of ours and without."""
    log = {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "COLL", "NCCL_DEBUG_FILE": str(tmp_path / "asked")}
    result = alone("through_nccl.py", env={**NCCL, **log, "HOROVOD_CUDA_KERNELS": kernels})
    result.says("through_nccl: ok")
    result.goes_through("NCCL")
    if not REHEARSAL:
        without = kernels == "none" or not EXPECTS_KERNELS
        result.says("without kernels: " if without else "with kernels of ours")
        result.says("without kernels of ours" if without else "with kernels of ours")


def test_operations_of_one_rank_through_host_memory(alone):
    result = alone("operations.py", env=NATIVE)
    result.says("operations: ok")
    never_nccl(result)


@pytest.mark.parametrize("ranks", [2, 4])
def test_operations_on_a_shared_gpu(job, ranks):
    result = job(ranks, "operations.py")
    result.says("operations: ok", times=ranks)
    result.goes_through("host memory")
    if not REHEARSAL:
        result.says("share a GPU")


@pytest.mark.parametrize("native", ["ctypes", "pybind11"])
def test_both_ways_into_the_library(job, native):
    """The package's extension and its replacement without one."""
    if native == "pybind11" and importlib.util.find_spec("horovod._hvd") is None:
        pytest.skip("the package was built without its extension")
    result = job(2, "operations.py", "--small", env={"HVD_PYTHON_NATIVE": native})
    result.says("operations: ok", times=2)
    result.goes_through("host memory")


def test_order_through_nccl(alone):
    result = alone("ordering.py", *([] if REHEARSAL else ["--host-goes-on"]), env=NCCL)
    result.says("ordering: ok")
    result.goes_through("NCCL")


def test_order_through_host_memory(alone):
    result = alone("ordering.py", env=NATIVE)
    result.says("ordering: ok")
    never_nccl(result)


@pytest.mark.parametrize("ranks", [2, 4])
def test_order_on_a_shared_gpu(job, ranks):
    result = job(ranks, "ordering.py")
    result.says("ordering: ok", times=ranks)
    result.goes_through("host memory")


def test_errors_of_one_rank_through_nccl(alone):
    result = alone("errors.py", env=NCCL)
    result.says("errors: ok")
    result.goes_through("NCCL")


def test_errors_of_one_rank_through_host_memory(alone):
    result = alone("errors.py", env=NATIVE)
    result.says("errors: ok")
    never_nccl(result)


def test_errors_of_two_ranks(job):
    result = job(2, "errors.py")
    result.says("errors: ok", times=2)
    result.goes_through("host memory")


def test_survivors_name_the_killed_rank(job, tmp_path):
    result = job(3, "killed.py", tmp_path, expect=None)
    assert result.exit_code != 0, result.text
    pid = int((tmp_path / "pid").read_text())
    for survivor in (0, 2):
        file = tmp_path / f"{survivor}.json"
        assert file.is_file(), f"rank {survivor} was told nothing\n{result.text}"
        told = json.loads(file.read_text())
        assert told["second"][:2] == [1, pid] and f"rank 1 (host localhost, pid {pid})" in told["second"][2], told
        assert told["first"] == "no error" or told["first"][:2] == [1, pid], told
        assert told["seconds"] < 20, told


@pytest.mark.parametrize("settings", [NCCL, NATIVE], ids=["nccl", "native"])
def test_training_of_one_rank(alone, settings):
    result = alone("training.py", env=settings)
    result.says("training: ok")
    if settings is NCCL:
        result.goes_through("NCCL")


def test_training_of_two_ranks(job):
    result = job(2, "training.py")
    result.says("training: ok", times=2)
    result.goes_through("host memory")


def nccl_of_pip():
    """The folder of the libnccl.so.2 that PyTorch has, where that came by pip."""
    found = importlib.util.find_spec("nvidia.nccl") if importlib.util.find_spec("nvidia") else None
    folders = [Path(place) / "lib" for place in found.submodule_search_locations] if found else []
    return next((str(folder) for folder in folders if (folder / "libnccl.so.2").exists()), "")


@needs_gpu
@pytest.mark.parametrize("ranks", [1, 2])
def test_cupy(job, ranks):
    if importlib.util.find_spec("cupy") is None:
        pytest.skip("CuPy is not installed")
    folder = nccl_of_pip()
    result = job(ranks, "cupy_arrays.py", env={"HOROVOD_NCCL_LIBRARY": folder} if folder else {})
    result.says("cupy_arrays: ok", times=ranks)
    if ranks == 1 and folder:
        result.goes_through("NCCL")


@needs_gpu
@pytest.mark.parametrize("ranks", [1, 2])
def test_dlpack(job, ranks):
    job(ranks, "dlpack_arrays.py").says("dlpack_arrays: ok", times=ranks)


EXAMPLES = {"transformer_torch.py": ["--steps", "100"], "synthetic_benchmark_torch.py": ["--num-iters", "3"]}
FEW = ("allreduce_torch.py", "two_models_torch.py")  # stays on the CPU; needs two GPUs


@pytest.mark.parametrize("name", sorted(path.name for path in (ROOT / "examples" / "python").glob("*_torch.py") if path.name not in FEW))
def test_example(gpu, name):
    """As one rank: examples give each rank a GPU of its own."""
    path = ROOT / "examples" / "python" / name
    if "sklearn" in path.read_text() and importlib.util.find_spec("sklearn") is None:
        pytest.skip("scikit-learn is not installed")
    run([sys.executable, path, *EXAMPLES.get(name, [])], {}, timeout=240, expect=0)


@needs_gpu
@pytest.mark.slow
@pytest.mark.parametrize("settings", [NCCL, NATIVE], ids=["nccl", "native"])
def test_no_invalid_access(alone, settings):
    """Each tensor is an allocation of its own, because PyTorch keeps none. The first kernels take long under it."""
    env = {**settings, "PYTORCH_NO_CUDA_MEMORY_CACHING": "1", "HOROVOD_START_TIMEOUT": "200"}
    result = under_sanitizer(
        lambda under, timeout: alone("operations.py", "--small", under=under, env=env, timeout=timeout, expect=None)
    )
    result.says("operations: ok")
    if settings is NCCL:
        result.goes_through("NCCL")
    else:
        never_nccl(result)
