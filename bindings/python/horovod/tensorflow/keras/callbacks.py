# SPDX-License-Identifier: Apache-2.0
"""Callbacks for ``fit`` of ``tf.keras``; see horovod/_keras/callbacks.py for what they do."""

from horovod._keras import callbacks as _callbacks
from horovod._keras.versions import tf_keras

globals().update(_callbacks.make(tf_keras()))
