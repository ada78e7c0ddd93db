# SPDX-License-Identifier: Apache-2.0
"""The doctor's probe on a host. Standard library only: it travels through ssh, see ../../on_host."""
