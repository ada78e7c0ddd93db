# SPDX-License-Identifier: Apache-2.0
"""Training with the package ``keras`` that goes on after a failure; see horovod/_keras/elastic.py."""

import keras

from horovod._keras import elastic

globals().update(elastic.make(keras))
