# SPDX-License-Identifier: Apache-2.0
"""Training with ``tf.keras`` that goes on after a failure; see horovod/_keras/elastic.py."""

from horovod._keras import elastic
from horovod._keras.versions import tf_keras

globals().update(elastic.make(tf_keras()))
