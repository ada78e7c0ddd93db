# SPDX-License-Identifier: Apache-2.0
"""Keras 3 on PyTorch and on JAX in jobs of two ranks: on those that are installed where the tests run."""

import importlib.util

import pytest
from elastic_kills import one_run

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
    wrong = [why for seed in (1, 2) for why, _killed, _times in [one_run(seed, "keras", 200, backend)] if why]
    assert wrong == []
