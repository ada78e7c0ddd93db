# SPDX-License-Identifier: Apache-2.0
"""Frameworks in environments of their own: their tests and their examples."""

from suites.count import ROOT, Count
from suites.environments import Environment

TESTS = ROOT / "bindings" / "python" / "tests"
EXAMPLES = ROOT / "examples" / "python"

JAX = Environment("jax", "jax>=0.10", "optax", "scikit-learn")
# MXNet 1.9.1, the last one, uses names that NumPy 1.24 has dropped.
MXNET = Environment("mxnet", "mxnet==1.9.1", "numpy==1.23.5", "scikit-learn")


def jax_suite() -> Count:
    return _suite(JAX, "test_jax.py", "mlp_jax.py")


def mxnet_suite() -> Count:
    return _suite(MXNET, "test_mxnet.py", "gluon_mxnet.py")


def _suite(environment: Environment, tests: str, example: str) -> Count:
    total = environment.tests(TESTS / tests)
    for ranks in (0, 2):
        total.add(environment.program(EXAMPLES / example, ranks=ranks))
    return total
