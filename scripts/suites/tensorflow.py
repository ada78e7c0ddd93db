# SPDX-License-Identifier: Apache-2.0
"""TensorFlow and Keras, in an environment of their own: tests, pages of docs, examples."""

from typing import List

from suites.count import ROOT, Count
from suites.environments import Environment

ENVIRONMENT = Environment("tensorflow", "tensorflow-cpu>=2.21,<2.22", "jax", "scikit-learn")
TESTS = ROOT / "bindings" / "python" / "tests"
# Enough of each to see that it works.
_ARGUMENTS = {
    "digits_tensorflow.py": ["--epochs", "2"],
    "digits_keras.py": ["--epochs", "2"],
    "synthetic_benchmark_tensorflow.py": [
        "--batch-size", "4", "--image-size", "32", "--num-warmup-batches", "1", "--num-batches-per-iter", "2", "--num-iters", "2",
    ],
    "session_tensorflow.py": ["--steps", "60"],
    "words_tensorflow.py": ["--steps", "60"],
}


def tensorflow_suite() -> Count:
    total = ENVIRONMENT.tests(TESTS / "test_tensorflow.py")
    for example in sorted((ROOT / "examples" / "python" / "tensorflow").glob("*.py")):
        words: List[object] = [example, *_ARGUMENTS.get(example.name, [])]
        total.add(ENVIRONMENT.program(*words, ranks=2, TF_CPP_MIN_LOG_LEVEL="2"))
    return total
