# SPDX-License-Identifier: Apache-2.0
"""Which Keras a module works with: the package ``keras``, or what ``tf.keras`` is."""


def is_keras_3(keras):
    """Whether it is Keras 3, which runs on several backends."""
    return int(getattr(keras, "__version__", "2").split(".")[0]) >= 3


def backend_of(keras):
    """``tensorflow``, ``torch`` or ``jax``."""
    return keras.backend.backend() if is_keras_3(keras) else "tensorflow"


def tf_keras():
    """The module behind ``tf.keras``: Keras 3, or the package tf_keras if TF_USE_LEGACY_KERAS asks for it."""
    import tensorflow as tf

    keras = tf.keras
    return keras._load() if hasattr(keras, "_load") else keras
