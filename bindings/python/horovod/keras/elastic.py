# SPDX-License-Identifier: Apache-2.0
"""Training with the package ``keras`` that goes on after a failure; see horovod/_keras/elastic.py."""

import keras

from horovod._keras import elastic as _elastic
from horovod.common.elastic import State  # noqa: F401 - part of the module's interface
from horovod.common.exceptions import HorovodInternalError, HostsUpdatedInterrupt  # noqa: F401
from horovod.elastic import ObjectState  # noqa: F401

globals().update(_elastic.make(keras))
run = _elastic.run(keras)
