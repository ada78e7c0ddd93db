# SPDX-License-Identifier: Apache-2.0
"""What ``horovod.keras`` and ``horovod.tensorflow.keras`` share, for Keras 2 and for Keras 3 on any of its backends."""
