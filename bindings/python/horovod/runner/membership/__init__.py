# SPDX-License-Identifier: Apache-2.0
"""Who belongs to an elastic job: decided by a state machine without clocks, processes and sockets."""
