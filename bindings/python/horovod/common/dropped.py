# SPDX-License-Identifier: Apache-2.0
"""A warning where a program has not kept the result of a function that cannot change what it was given."""

import sys
import warnings
import weakref


def use_of(result, text):
    """A function to call when ``result`` is used. If that ends before it was used once, a RuntimeWarning says ``text``."""
    uses = set()
    weakref.finalize(result, _warn, uses, text).atexit = False
    return lambda: uses.add(True)


def _warn(uses, text):
    if not uses and not sys.is_finalizing():
        warnings.warn(text, RuntimeWarning, stacklevel=2)
