# SPDX-License-Identifier: Apache-2.0
"""Runs workers and looks at what they say.

HVD_GPU_TEST_DEVICE=cpu is a rehearsal: the same workers on CPU tensors, which shows mistakes of the tests and nothing of the GPU.
"""

import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
WORKERS = Path(__file__).resolve().parent / "workers"
REHEARSAL = os.environ.get("HVD_GPU_TEST_DEVICE") == "cpu"
EXPECTS_KERNELS = bool(os.environ.get("HVD_GPU_EXPECT_KERNELS"))  # the library was built with kernels of ours


def why_no_gpu():
    """The reason why nothing can run on a GPU here; "" if it can."""
    try:
        import torch
    except ImportError as error:
        return f"no PyTorch: {error}"
    if torch.version.cuda is None:
        return f"PyTorch {torch.__version__} is built without CUDA"
    return "" if torch.cuda.is_available() else "no GPU: torch.cuda.is_available() is False"


class Result:
    """How a job ended, and all it said."""

    def __init__(self, exit_code, text):
        self.exit_code, self.text = exit_code, text

    def says(self, text, times=1):
        """Fails unless that stands at least so often in what the job said."""
        assert self.text.count(text) >= times, f"{text!r} stands there {self.text.count(text)} times, not {times}\n{self.text}"

    def goes_through(self, way):
        """Fails unless the job said that its tensors go that way. A rehearsal has no such tensors."""
        if not REHEARSAL:
            self.says(f"tensors of CUDA device 0 go through {way}")


def run(command, env, timeout, expect):
    environment = {name: text for name, text in os.environ.items() if not name.startswith(("HOROVOD_", "NCCL_DEBUG"))}
    environment.update(OMP_NUM_THREADS="1", PYTHONUNBUFFERED="1", HOROVOD_LOG_LEVEL="info", **(env or {}))
    words = [str(word) for word in command]
    # In a session of its own: what it has started ends with it.
    with subprocess.Popen(words, env=environment, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace", start_new_session=True) as done:  # fmt: skip
        try:
            said = done.communicate(timeout=timeout)[0]
        except subprocess.TimeoutExpired:
            os.killpg(done.pid, signal.SIGKILL)
            pytest.fail(f"{' '.join(words)}\nnot done after {timeout} s\n{done.communicate()[0]}", pytrace=False)
    text = f"{' '.join(words)}\nexit code {done.returncode}\n{said}"
    if expect is not None and done.returncode != expect:
        pytest.fail(text, pytrace=False)
    return Result(done.returncode, text)


def find_sanitizer():
    """compute-sanitizer, where CUDA's toolkits have it; it is seldom on PATH."""
    homes = [os.environ[name] for name in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(name)]
    homes += sorted(map(str, Path("/usr/local").glob("cuda*"))) + sorted(map(str, Path("/opt/nvidia").glob("*")))
    compiler = shutil.which("nvcc")
    homes += [str(Path(compiler).resolve().parents[1])] if compiler else []
    folders = [f"{home}/{below}" for home in homes for below in ("bin", "compute-sanitizer", "extras/compute-sanitizer")]
    return shutil.which("compute-sanitizer", path=os.pathsep.join([os.environ.get("PATH", os.defpath), *folders]))


def under_sanitizer(start):
    """Fails if the job, which ``start(command, timeout)`` runs by that command, touches memory of the device outside of
    allocations."""
    program = find_sanitizer()
    assert program, "compute-sanitizer is neither on PATH nor in CUDA_HOME, /usr/local/cuda* or /opt/nvidia; --quick goes without"
    command = [program, "--tool", "memcheck", "--error-exitcode", "9", "--report-api-errors", "no"]
    result = start(command, 600)
    refused = re.search(r"^=+ Error: .*not supported.*", result.text, flags=re.M)
    if refused and "Invalid __" not in result.text:
        pytest.skip(f"compute-sanitizer can not run here: {refused.group(0)}")
    assert result.exit_code == 0, result.text
    result.says("ERROR SUMMARY: 0 errors")
    return result
