# SPDX-License-Identifier: Apache-2.0
"""horovodrun timeline: what can be done with the files of a timeline."""
