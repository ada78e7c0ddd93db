# SPDX-License-Identifier: Apache-2.0
"""What a look at a running job has found, as text."""
