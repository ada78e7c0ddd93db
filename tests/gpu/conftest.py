# SPDX-License-Identifier: Apache-2.0
"""Fixtures: jobs of several ranks on one GPU, or a skip with the reason where there is none."""

import sys

import pytest
from jobs import REHEARSAL, WORKERS, run, why_no_gpu


def pytest_configure(config):
    config.addinivalue_line("markers", "slow: takes minutes; scripts/test-gpu --quick leaves it out")


@pytest.fixture(scope="session")
def gpu():
    """Skips what needs a GPU where there is none."""
    why = "" if REHEARSAL else why_no_gpu()
    if why:
        pytest.skip(why)


@pytest.fixture(scope="session")
def job(gpu):
    """job(ranks, worker, *arguments): the ranks share the GPU; the exit code must be ``expect`` if it is not None."""

    def start(ranks, worker, *arguments, env=None, timeout=240, expect=0):
        launcher = [sys.executable, "-m", "horovod.runner.launch", "-np", ranks]
        return run([*launcher, sys.executable, WORKERS / worker, *arguments], env, timeout, expect)

    return start


@pytest.fixture(scope="session")
def alone(gpu):
    """alone(worker, *arguments): one rank without a launcher; ``under``: a command that runs it."""

    def start(worker, *arguments, under=(), env=None, timeout=240, expect=0):
        return run([*under, sys.executable, WORKERS / worker, *arguments], env, timeout, expect)

    return start
