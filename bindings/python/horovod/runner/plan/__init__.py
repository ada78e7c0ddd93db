# SPDX-License-Identifier: Apache-2.0
"""Who runs where, and with which environment."""
