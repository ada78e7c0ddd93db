# SPDX-License-Identifier: Apache-2.0
"""Limits of time in tests. They are for a machine that does nothing else; HVD_TEST_TIME_SCALE=3 allows three times as long."""

import os


def scaled(seconds):
    """The limit on this machine."""
    return seconds * float(os.environ.get("HVD_TEST_TIME_SCALE") or 1)
