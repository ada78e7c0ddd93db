# SPDX-License-Identifier: Apache-2.0
"""Horovod's errors, which TensorFlow tells as errors of its own, as Horovod's again."""

import tensorflow as tf

from horovod.common import basics, elastic
from horovod.common.exceptions import HorovodInternalError

# What an operation of ours fails with, and what TensorFlow says of those that waited for it.
_KINDS = (
    tf.errors.UnknownError,
    tf.errors.DeadlineExceededError,
    tf.errors.CancelledError,
    tf.errors.AbortedError,
    tf.errors.FailedPreconditionError,
)


def _cause(error):
    return basics.failure() or _of_operation(error)


def _of_operation(error):
    """The HorovodInternalError of one operation, in a job that goes on; or None."""
    kinds = (tf.errors.UnknownError, tf.errors.DeadlineExceededError)
    return HorovodInternalError(error.message) if isinstance(error, kinds) and "Horovod" in error.message else None


as_horovods = elastic.telling(_KINDS, _cause)
