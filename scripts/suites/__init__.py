# SPDX-License-Identifier: Apache-2.0
"""The suites of scripts/run_tests.py, one module per kind of tests."""
