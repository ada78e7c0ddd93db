# SPDX-License-Identifier: Apache-2.0
"""Horovod's errors, which a compiled program of JAX tells as errors of its own, as Horovod's again."""

import re

import jax

from horovod._native import constants
from horovod.common import basics, elastic
from horovod.common.exceptions import HorovodInternalError, from_status

_NUMBERS = {name: number for number, name in constants.STATUS_NAMES.items()}


def _cause(error):
    told = re.search(r"(HVD_ERR_\w+): (.*)", str(error))
    internal = told and (basics.failure() or from_status(_NUMBERS.get(told[1], -80), -1, 0, told[2]))
    return internal if isinstance(internal, HorovodInternalError) else None


as_horovods = elastic.telling(jax.errors.JaxRuntimeError, _cause)
