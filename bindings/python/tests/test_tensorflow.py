# SPDX-License-Identifier: Apache-2.0
"""The TensorFlow workers of tests/workers in jobs of 1 to 3 ranks, the page docs/tensorflow.md, and jobs that fail."""

import importlib.metadata
import runpy

import pytest
from conftest import WORKERS
from elastic_kills import many_deaths, one_run

pytest.importorskip("tensorflow")

# Up to 2.15, TensorFlow brings Keras 2; from then on TF_USE_LEGACY_KERAS=1 takes it from the package tf_keras.
HAS_KERAS_2 = importlib.metadata.version("keras").startswith("2.")
EVERYWHERE = ("tensorflow_ops.py", "tensorflow_training.py", "tensorflow_keras2.py" if HAS_KERAS_2 else "tensorflow_keras.py")
DOCUMENTED = ("documented.py horovod.tensorflow", "documented.py horovod.tensorflow.keras")
SECTIONS_OF = runpy.run_path(str(WORKERS / "doc_section.py"))["sections"]
SECTIONS = tuple(f"doc_section.py tensorflow.md {title}" for title in SECTIONS_OF("tensorflow.md"))
ELASTIC = ("elastic_tensorflow.py", "elastic_keras.py horovod.tensorflow.keras")
JOBS = {
    1: EVERYWHERE[:2],
    2: (*EVERYWHERE, "keras_optimizer_traps.py", "tensorflow_data.py", *ELASTIC, *DOCUMENTED, *SECTIONS),
    3: (*EVERYWHERE, ELASTIC[0]),
}


@pytest.mark.parametrize("ranks, worker", [(ranks, worker) for ranks, workers in JOBS.items() for worker in workers])
def test_worker(in_one_job, ranks, worker):
    in_one_job(ranks, JOBS[ranks], worker, timeout=480)  # most of the time goes into tracing and compiling functions


def test_order_and_failures(horovodrun):
    """200 operations in opposite orders, with one thread between operations; then ranks that disagree, a node that fails, a rank killed."""
    result = horovodrun(3, "in_turn.py", "tensorflow_order.py", "tensorflow_failures.py", expect=None, timeout=240)
    assert result.text.count("tensorflow_order: ok") == 3, result.text
    assert result.text.count("tensorflow_failures: ok") == 2, result.text


def test_keras_2(horovodrun):
    if not HAS_KERAS_2:
        pytest.importorskip("tf_keras")
    env = {} if HAS_KERAS_2 else {"TF_USE_LEGACY_KERAS": "1"}
    result = horovodrun(2, "in_turn.py", "tensorflow_keras2.py", "keras_optimizer_traps.py", env=env, timeout=240)
    assert result.text.count("tensorflow_keras2: ok") == result.text.count("keras_optimizer_traps: ok") == 2, result.text


def test_without_library(horovodrun):
    """The same from the operations in Python, in functions with one thread between operations, and in sessions."""
    workers = ("tensorflow_order.py", "tensorflow_ops.py", "tensorflow_training.py", "tensorflow_failures.py")
    env = {"HVD_TENSORFLOW_OPS": "python"}
    result = horovodrun(2, "in_turn.py", *workers, env=env, expect=None, timeout=240)
    assert result.text.count("tensorflow_training: ok") == 2, result.text
    assert result.text.count("tensorflow_failures: ok") == 1, result.text  # the other rank was killed


def test_random_kills():
    # Processes start slowly here, so a job has steps enough that new ones take part.
    why, _killed, _times = one_run(1, "tensorflow", 200)
    assert why == ""


def test_many_deaths():
    """Half a minute: each of 100 deaths waits for a commit after the one before. 100 more are in test_keras.py."""
    wrong, killed, _times = many_deaths(1, "tensorflow", 100)
    assert wrong == {} and killed >= 100
