# SPDX-License-Identifier: Apache-2.0
"""A job, seen from horovodrun: its own agents on every host, or mpirun."""
