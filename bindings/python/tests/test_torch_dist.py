# SPDX-License-Identifier: Apache-2.0
"""The backend hvd of torch.distributed, and compiled graphs, in jobs of horovodrun and of torchrun."""

import os
import shutil
import subprocess
import sys
from importlib.util import find_spec

import pytest
from conftest import WORKERS, sizes_of_jobs

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(
    not torch.distributed.is_available(), reason="this PyTorch is built without torch.distributed"
)
needs_custom_operations = pytest.mark.skipif(
    not hasattr(torch.library, "custom_op"), reason="this PyTorch has no torch.library.custom_op, it came with 2.4"
)
IN_TURN = ("torch_dist_ops.py", "torch_dist_answers.py", "torch_dist_models.py")
# What PyTorch brings along for these is not in every version.
NEWER = ("torch_dist_hooks.py", "torch_dist_pipeline.py") * (find_spec("torch.distributed.pipelining") is not None)
# Goes the ways that are for earlier versions of PyTorch, whichever is installed. Three ranks can wait in a circle there.
OLDER = ("torch_dist_ops.py older",)
# aot_eager traces, takes gradients apart and runs the graphs without a C++ compiler.
COMPILED = ("torch_compile.py aot_eager",)
JOBS = {ranks: IN_TURN + OLDER * (ranks == 3) + NEWER * (ranks in (2, 4)) for ranks in sizes_of_jobs(on_ctypes=2)}


def _cases():
    for ranks, workers in JOBS.items():
        yield from ((ranks, worker) for worker in workers)
        yield pytest.param(ranks, *COMPILED, marks=needs_custom_operations)


@pytest.mark.parametrize("ranks, worker", list(_cases()))
def test_worker(in_one_job, native, ranks, worker):
    workers = JOBS[ranks] + COMPILED * hasattr(torch.library, "custom_op")
    in_one_job(ranks, workers, worker, native)


def test_torchrun():
    """PyTorch's launcher: its store is where the ranks meet, nothing of ours is set up before."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("HOROVOD_RANK", "HOROVOD_SIZE"))}
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    done = subprocess.run(
        [*command, str(WORKERS / "torch_dist_ops.py")], env=clean, capture_output=True, text=True, timeout=180
    )
    text = done.stdout + done.stderr
    assert done.returncode == 0 and text.count("torch_dist_ops: ok") == 2, text


@pytest.mark.parametrize("how", ["late", "never"])
def test_the_store_is_reached_by_all_or_the_error_says_who_did_not(horovodrun, how):
    """A program that ends at once on rank 0 left the others to look for its store, for half an hour."""
    assert horovodrun(2, "torch_dist_store.py", how, timeout=60).text.count("torch_dist_store: ok") == 2


@needs_custom_operations
@pytest.mark.skipif(shutil.which("g++") is None, reason="inductor needs g++")
@pytest.mark.skipif(os.environ.get("HVD_PYTHON_NATIVE") == "ctypes", reason="the compiler is slow; runs on the other native layer")
def test_compiled_by_inductor(horovodrun, tmp_path):
    env = {"TORCHINDUCTOR_CACHE_DIR": str(tmp_path)}
    assert horovodrun(2, "torch_compile.py", "inductor", env=env, timeout=400).text.count("torch_compile: ok") == 2
