# SPDX-License-Identifier: Apache-2.0
"""Training steps that reduce gradients are not for XLA, which has no way to wait for other ranks."""

import functools


def keep_out_of_xla(keras, is_distributed):
    """Makes ``compile(jit_compile="auto")``, the default of Keras 3, choose no XLA for models whose optimizer ``is_distributed``.

    ``jit_compile=True`` gives a warning of Keras that the model does not support it.
    """
    try:
        from keras.src.trainers import trainer
    except ImportError:
        return
    before = getattr(trainer, "model_supports_jit", None)
    if before is None or getattr(before, "_hvd", False) or keras.backend.backend() != "tensorflow":
        return

    @functools.wraps(before)
    def model_supports_jit(model):
        return not is_distributed(getattr(model, "optimizer", None)) and before(model)

    model_supports_jit._hvd = True
    trainer.model_supports_jit = model_supports_jit
