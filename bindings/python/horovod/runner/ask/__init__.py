# SPDX-License-Identifier: Apache-2.0
"""Asking a running job of this user: horovodrun status and horovodrun stacks."""
