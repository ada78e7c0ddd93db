# SPDX-License-Identifier: Apache-2.0
"""The JAX workers of tests/workers in jobs of 1 to 3 ranks, with the compiled handlers and with callbacks into Python."""

import pytest
from conftest import sections_of

pytest.importorskip("jax")

WORKERS = ("jax_ops.py", "jax_training.py")
JOBS = {ranks: WORKERS + ("jax_failures.py mismatch",) * (ranks > 1) for ranks in (1, 2, 3)}
# Most of the time goes into compiling, which need not be good here; the jobs of two ranks have what users have.
QUICK = {"XLA_FLAGS": "--xla_backend_optimization_level=0"}
SECTIONS = sections_of("jax.md")


@pytest.mark.parametrize("ranks, worker", [(ranks, worker) for ranks, workers in JOBS.items() for worker in workers])
def test_worker(in_one_job, ranks, worker):
    in_one_job(ranks, JOBS[ranks], worker, env=None if ranks == 2 else QUICK)


@pytest.mark.parametrize("worker", JOBS[2])
def test_callbacks(in_one_job, worker):
    in_one_job(2, JOBS[2], worker, env={**QUICK, "HVD_JAX_FFI": "0"})


def test_no_compiler_is_said_once(alone, tmp_path):
    env = {**QUICK, "CXX": str(tmp_path / "none"), "XDG_CACHE_HOME": str(tmp_path)}
    text = alone("jax_training.py", env=env).text
    assert text.count("there is no C++ compiler") == 1 and "jax_training: ok" in text, text
    text = alone("jax_training.py", env={**env, "HVD_JAX_FFI": "1"}, expect=1).text
    assert "ImportError: horovod.jax: HVD_JAX_FFI=1, but there is no C++ compiler" in text, text


def test_killed_rank_is_named(horovodrun):
    result = horovodrun(3, "jax_failures.py", "killed", expect=None)
    assert result.returncode != 0 and result.text.count("told of the killed rank") == 2, result.text


@pytest.mark.parametrize("section", SECTIONS)
def test_page(in_one_job, section):
    in_one_job(2, SECTIONS, section)
