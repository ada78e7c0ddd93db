# SPDX-License-Identifier: Apache-2.0
"""Training with ``tf.keras`` that goes on after a failure; see horovod/_keras/elastic.py."""

from horovod._keras import elastic as _elastic
from horovod._keras.versions import tf_keras
from horovod.common.elastic import State  # noqa: F401 - part of the module's interface
from horovod.common.exceptions import HorovodInternalError, HostsUpdatedInterrupt  # noqa: F401
from horovod.elastic import ObjectState  # noqa: F401

globals().update(_elastic.make(tf_keras()))
run = _elastic.run(tf_keras())
