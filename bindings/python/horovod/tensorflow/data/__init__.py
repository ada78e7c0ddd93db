# SPDX-License-Identifier: Apache-2.0
"""tf.data's service on ranks of a job of its own; see ``compute_service``."""
