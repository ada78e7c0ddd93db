# SPDX-License-Identifier: Apache-2.0
"""Horovod's errors, which a compiled program of JAX tells as errors of its own, as Horovod's again."""

import functools
import re

import jax

from horovod._native import constants
from horovod.common import basics
from horovod.common.exceptions import HorovodInternalError, from_status

_NUMBERS = {name: number for number, name in constants.STATUS_NAMES.items()}


def as_horovods(func):
    """``func``, whose errors of Horovod's operations are HorovodInternalErrors. Errors of other operations stay what they are."""

    @functools.wraps(func)
    def wrapper(*args, **kwargs):
        try:
            return func(*args, **kwargs)
        except jax.errors.JaxRuntimeError as error:
            told = re.search(r"(HVD_ERR_\w+): (.*)", str(error))
            if told is None:
                raise
            internal = basics.failure() or from_status(_NUMBERS.get(told[1], -80), -1, 0, told[2])
            if not isinstance(internal, HorovodInternalError):
                raise
            raise internal from error

    return wrapper
