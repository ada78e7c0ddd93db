# SPDX-License-Identifier: Apache-2.0
"""How the launcher reaches a host: the agent there, and ssh."""
