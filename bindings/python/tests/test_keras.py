# SPDX-License-Identifier: Apache-2.0
"""Keras 3 on PyTorch and on JAX in jobs of two ranks: on those that are installed where the tests run."""

import importlib.util

import pytest
from elastic_kills import many_deaths, one_run

# Not by importing it here, where its backend would be TensorFlow.
if importlib.util.find_spec("keras") is None:
    pytest.skip("Keras is not installed", allow_module_level=True)
BACKENDS = [name for name in ("torch", "jax") if importlib.util.find_spec(name)]


@pytest.mark.parametrize("backend", BACKENDS)
def test_keras_on(horovodrun, backend):
    env = {"KERAS_BACKEND": backend}
    result = horovodrun(2, "in_turn.py", "keras_backends.py", "keras_optimizer_traps.py", env=env)
    assert result.text.count("keras_backends: ok") == result.text.count("keras_optimizer_traps: ok") == 2, result.text
    assert horovodrun(2, "elastic_keras.py", "horovod.keras", env=env).text.count("elastic_keras: ok") == 2


def test_help(horovodrun):
    result = horovodrun(2, "documented.py", "horovod.keras", env={"KERAS_BACKEND": BACKENDS[0]})
    assert result.text.count("documented: ok") == 2, result.text


def test_random_kills():
    # Processes start slowly here, so a job has steps enough that new ones take part.
    backend = {"KERAS_BACKEND": "tensorflow" if importlib.util.find_spec("tensorflow") else BACKENDS[0]}
    why, _killed, _times = one_run(1, "keras", 200, backend)
    assert why == ""


@pytest.mark.skipif(importlib.util.find_spec("tensorflow") is None, reason="where TensorFlow is; test_elastic.py has PyTorch's")
def test_many_deaths():
    """Half a minute: each of 100 deaths waits for a commit after the one before."""
    wrong, killed, _times = many_deaths(1, "keras", 100, {"KERAS_BACKEND": "tensorflow"})
    assert wrong == {} and killed >= 100
