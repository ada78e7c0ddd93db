# SPDX-License-Identifier: Apache-2.0
"""Numbers that Python needs: those of the C header, and those that connect Python with the two native layers."""

import re

from horovod._native import kinds
from horovod._native.kinds import *  # noqa: F403 - constants, each in capitals
from horovod._native.numbers import (
    ADASUM,
    AVERAGE,
    CPU,
    CUDA,
    DTYPES,
    MAX,
    MEMBERS_ADDED,
    MEMBERS_REMOVED,
    MIN,
    OK,
    PENDING,
    PRODUCT,
    STATUS_NAMES,
    SUM,
)

__all__ = ["ADASUM", "AVERAGE", "CPU", "CUDA", "DTYPES", "MAX", "MEMBERS_ADDED", "MEMBERS_REMOVED", "MIN", "OK", "PENDING", "PRODUCT", "STATUS_NAMES", "SUM"]
__all__ += [name for name in vars(kinds) if name.isupper()]

DTYPE_NAMES = {code: name for name, code in DTYPES.items()}
REDUCE_OP_NAMES = {AVERAGE: "Average", SUM: "Sum", ADASUM: "Adasum", MIN: "Min", MAX: "Max", PRODUCT: "Product"}
# Bytes per element; what has fewer than eight bits has a byte of its own, as bool has.
DTYPE_SIZES = {code: max(1, int("0" + "".join(re.findall(r"^[a-z]+(\d+)", name))) // 8) for name, code in DTYPES.items()}

# A wait returns to Python this often, so that Ctrl-C is noticed. The first slice is shorter because a signal that
# arrives just before the wait should not cost a whole one.
FIRST_SLICE_NS = 50_000_000
SLICE_NS = 100_000_000
