# SPDX-License-Identifier: Apache-2.0
"""Whether a rank has others to work with."""

from horovod.common import basics


def has_others(process_set, who):
    """Whether this rank is in the set with other ranks. ValueError before init, or if the set is not registered."""
    basics.size()
    if process_set.process_set_id is None:
        raise ValueError(f"{who}: {process_set} is not registered")
    return process_set.included() and process_set.size() > 1
