# SPDX-License-Identifier: Apache-2.0
"""Callbacks for ``fit`` of the package ``keras``; see horovod/_keras/callbacks.py for what they do."""

import keras

from horovod._keras import callbacks as _callbacks

globals().update(_callbacks.make(keras))
