# SPDX-License-Identifier: Apache-2.0
"""Frameworks in environments of their own: their tests and their examples, which have the framework at the end of the name."""

from typing import Dict, List, Sequence

from suites.count import ROOT, Count
from suites.environments import Environment

TESTS = ROOT / "bindings" / "python" / "tests"
EXAMPLES = ROOT / "examples" / "python"

# tf_keras, which is Keras 2, asks for the package tensorflow with CUDA's kernels, which is twice as large; tensorflow-cpu serves it.
TENSORFLOW = Environment("tensorflow", "tensorflow-cpu>=2.21,<2.22", "jax", "scikit-learn", alone=("tf_keras>=2.21,<2.22",))
TENSORFLOW_BEFORE = Environment("tensorflow-before", "tensorflow-cpu>=2.20,<2.21")
# The last one whose tf.keras is Keras 2.
TENSORFLOW_OLD = Environment("tensorflow-old", "tensorflow-cpu>=2.15,<2.16")
# The first one with asynchronous kernels in its C interface.
TENSORFLOW_OLDEST = Environment("tensorflow-oldest", "tensorflow-cpu>=2.13,<2.14")
TENSORFLOWS = (TENSORFLOW, TENSORFLOW_BEFORE, TENSORFLOW_OLD, TENSORFLOW_OLDEST)
JAX = Environment("jax", "jax>=0.10", "optax", "scikit-learn")
# MXNet 1.9.1, the last one, uses names that NumPy 1.24 has dropped.
MXNET = Environment("mxnet", "mxnet==1.9.1", "numpy==1.23.5", "scikit-learn")
OF_TENSORFLOW, OF_JAX, OF_MXNET = ("_tensorflow.py", "_keras.py"), ("_jax.py",), ("_mxnet.py",)

# Enough of each to see that it works.
_ARGUMENTS: Dict[str, List[str]] = {
    "digits_tensorflow.py": ["--epochs", "2"],
    "digits_keras.py": ["--epochs", "2"],
    "synthetic_benchmark_tensorflow.py": [
        "--batch-size", "4", "--image-size", "32", "--num-warmup-batches", "1", "--num-batches-per-iter", "2", "--num-iters", "2",
    ],
    "session_tensorflow.py": ["--steps", "60"],
    "words_tensorflow.py": ["--steps", "60"],
}
# Options of horovodrun, for one job each; without an entry there are none.
_LAUNCH: Dict[str, List[List[str]]] = {"session_tensorflow.py": [["-H", "localhost:2"], ["--gloo"]]}
# Arguments of examples that also run as elastic jobs, in which a rank dies.
_ELASTIC = {"elastic_jax.py": ["--fail"], "elastic_keras.py": ["--fail"]}


def tensorflow_suite() -> Count:
    tests = ("test_tensorflow.py", "test_keras.py")
    quiet = {"TF_CPP_MIN_LOG_LEVEL": "2"}
    total = _suite(TENSORFLOW, tests, OF_TENSORFLOW, (2,), **quiet)
    # The operations themselves are tested on newer ones than the last two, other numbers of ranks on the newest one.
    for environment, chosen in (
        (TENSORFLOW_BEFORE, "[2-tensorflow or failures"),
        (TENSORFLOW_OLD, "keras_2 or failures"),
        (TENSORFLOW_OLDEST, "keras_2 or failures or without"),
    ):
        total.add(environment.tests(TESTS / "test_tensorflow.py", "-k", chosen, **quiet))
        environment.leave()
    return total


def jax_suite() -> Count:
    return _suite(JAX, ("test_jax.py",), OF_JAX, (0, 2))


def mxnet_suite() -> Count:
    return _suite(MXNET, ("test_mxnet.py",), OF_MXNET, (0, 2))


def _suite(environment: Environment, tests: Sequence[str], examples: Sequence[str], ranks: Sequence[int],
           **variables: str) -> Count:
    """Its tests, then its examples as jobs of so many ranks; 0: without a launcher. No suite after it needs the environment."""
    total = environment.tests(*(TESTS / name for name in tests))
    for example in sorted(EXAMPLES.glob("*.py")):
        if example.name.endswith(tuple(examples)):
            for count in ranks:
                for launch in _LAUNCH.get(example.name, [[]]):
                    words = [example, *_ARGUMENTS.get(example.name, [])]
                    total.add(environment.program(*words, ranks=count, launch=launch, **variables))
            if example.name in _ELASTIC:
                words = [example, *_ELASTIC[example.name]]
                total.add(environment.program(*words, ranks=3, launch=["--min-np", "1"], **variables))
    environment.leave()
    return total
