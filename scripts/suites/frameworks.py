# SPDX-License-Identifier: Apache-2.0
"""Frameworks in environments of their own: their tests and their examples."""

from suites.count import ROOT, Count
from suites.environments import Environment

TESTS = ROOT / "bindings" / "python" / "tests"
EXAMPLES = ROOT / "examples" / "python"

JAX = Environment("jax", "jax>=0.10", "optax", "scikit-learn")


def jax_suite() -> Count:
    total = JAX.tests(TESTS / "test_jax.py")
    for ranks in (0, 2):
        total.add(JAX.program(EXAMPLES / "mlp_jax.py", ranks=ranks))
    return total
