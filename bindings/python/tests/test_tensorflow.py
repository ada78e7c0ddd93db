# SPDX-License-Identifier: Apache-2.0
"""The TensorFlow workers of tests/workers in jobs of 1 to 3 ranks, the page docs/tensorflow.md, and jobs that fail."""

import runpy

import pytest
from conftest import WORKERS

pytest.importorskip("tensorflow")

EVERYWHERE = ("tensorflow_ops.py", "tensorflow_training.py", "tensorflow_keras.py")
SECTIONS_OF = runpy.run_path(str(WORKERS / "doc_section.py"))["sections"]
SECTIONS = tuple(f"doc_section.py tensorflow.md {title}" for title in SECTIONS_OF("tensorflow.md"))
JOBS = {1: EVERYWHERE[:2], 2: (*EVERYWHERE, "tensorflow_data.py", *SECTIONS), 3: EVERYWHERE}


@pytest.mark.parametrize("ranks, worker", [(ranks, worker) for ranks, workers in JOBS.items() for worker in workers])
def test_worker(in_one_job, ranks, worker):
    in_one_job(ranks, JOBS[ranks], worker, timeout=240)


def test_order_and_failures(horovodrun):
    """200 operations in opposite orders, with one thread between operations; then ranks that disagree, and one that is killed."""
    result = horovodrun(3, "in_turn.py", "tensorflow_order.py", "tensorflow_failures.py", expect=None)
    assert result.text.count("tensorflow_order: ok") == 3, result.text
    assert result.text.count("tensorflow_failures: ok") == 2, result.text


def test_keras_2(horovodrun):
    pytest.importorskip("tf_keras")
    result = horovodrun(2, "tensorflow_keras2.py", env={"TF_USE_LEGACY_KERAS": "1"})
    assert result.text.count("tensorflow_keras2: ok") == 2, result.text


def test_without_library(horovodrun):
    """The same results from the operations in Python."""
    result = horovodrun(2, "tensorflow_ops.py", env={"HVD_TENSORFLOW_OPS": "python"}, timeout=240)
    assert result.text.count("tensorflow_ops: ok") == 2, result.text
