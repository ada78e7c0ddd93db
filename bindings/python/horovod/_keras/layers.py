# SPDX-License-Identifier: Apache-2.0
"""What belongs to the layers of a Keras model."""


def layer_weights(keras, who, local_layers):
    """The trainable weights of a layer or of a collection of layers; ValueError for anything else."""
    if local_layers is None:
        return []
    layers = [local_layers] if isinstance(local_layers, keras.layers.Layer) else list(local_layers)
    for layer in layers:
        if not isinstance(layer, keras.layers.Layer):
            raise ValueError(f"{who}: local_layers: {type(layer).__name__} is not a layer of Keras")
    return [variable for layer in layers for variable in layer.trainable_weights]
