# SPDX-License-Identifier: Apache-2.0
"""Fixtures: a job of several ranks started by the launcher, and one rank in a process of its own."""

import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

WORKERS = Path(__file__).resolve().parent / "workers"
# Set HVD_PYTHON_NATIVE to run everything on one native layer; without it both are tried where they differ.
NATIVE_LAYERS = [os.environ["HVD_PYTHON_NATIVE"]] if os.environ.get("HVD_PYTHON_NATIVE") else ["ctypes", "pybind11"]


def sizes_of_jobs(on_ctypes):
    """1 to 4 ranks; on ctypes alone one size. What depends on the size is the same above every native layer."""
    return (on_ctypes,) if NATIVE_LAYERS == ["ctypes"] else (1, 2, 3, 4)


def sections_of(*pages):
    """The workers that run the Python code in pages of docs, one for each section."""
    found = runpy.run_path(str(WORKERS / "doc_section.py"))["sections"]
    return tuple(f"doc_section.py {page} {title}" for page in pages for title in found(page))


def _environment(native, extra):
    environment = dict(os.environ, OMP_NUM_THREADS="1", PYTHONUNBUFFERED="1")
    if native:
        environment["HVD_PYTHON_NATIVE"] = native
    for name in ("HOROVOD_RANK", "HOROVOD_SIZE", "HOROVOD_RENDEZVOUS"):
        environment.pop(name, None)
    environment.update(extra or {})
    return environment


def _run(command, environment, timeout, expect):
    result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=timeout)
    text = f"{' '.join(map(str, command))}\nexit code {result.returncode}\n{result.stdout}\n{result.stderr}"
    if expect is not None:
        assert result.returncode == expect, text
    result.text = text
    return result


@pytest.fixture(scope="session")
def horovodrun():
    """run(np, worker, *arguments): a job of np ranks of one file of tests/workers; its exit code must be ``expect``.

    ``flags`` are horovodrun's.
    """

    def run(ranks, worker, *arguments, native=None, env=None, timeout=120, expect=0, flags=()):
        launcher = [sys.executable, "-m", "horovod.runner.launch", "-np", str(ranks), *flags]
        command = [*launcher, sys.executable, str(WORKERS / worker), *arguments]
        return _run(command, _environment(native, env), timeout, expect)

    return run


@pytest.fixture
def alone():
    """run(worker, *arguments): one rank without a launcher."""

    def run(worker, *arguments, native=None, env=None, timeout=60, expect=0):
        return _run([sys.executable, str(WORKERS / worker), *arguments], _environment(native, env), timeout, expect)

    return run


@pytest.fixture(scope="session")
def in_one_job(horovodrun):
    """in_one_job(ranks, workers, worker): one job runs the workers in turn; in it, this one must be ok on every rank.

    The first call for some ranks and workers starts the job, later ones look at what it wrote. A worker that follows
    one that failed was not run, and says so.
    """
    jobs = {}

    def start(ranks, workers, native, settings, timeout):
        try:
            env = dict(settings)
            result = horovodrun(ranks, "in_turn.py", *workers, native=native, env=env, timeout=timeout, expect=None)
        except subprocess.TimeoutExpired as error:
            written = [part.decode("utf-8", "replace") for part in (error.stdout, error.stderr) if part]
            return None, "\n".join([str(error), *written])
        return result.returncode, result.text

    def check(ranks, workers, worker, native=None, env=None, timeout=300):
        key = ranks, workers, native, tuple(sorted((env or {}).items()))
        if key not in jobs:
            jobs[key] = start(*key, timeout)
        exit_code, text = jobs[key]
        failed = next((name for name in workers if text.count(f"{name}: done") != ranks), None)
        if failed and workers.index(failed) < workers.index(worker):
            pytest.fail(f"{worker}: not run, because {failed} failed before it")
        assert failed != worker, text
        if worker == workers[-1]:
            assert exit_code == 0 and "Exception ignored" not in text, text

    return check


@pytest.fixture(params=NATIVE_LAYERS)
def native(request):
    """Each native layer that is to be tested."""
    return request.param
