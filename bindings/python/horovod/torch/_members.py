# SPDX-License-Identifier: Apache-2.0
"""Whether a rank has others to work with."""

from horovod.common import basics
from horovod.common.process_sets import checked


def has_others(process_set, who):
    """Whether this rank is in the set with other ranks. ValueError before init, or if the set is not registered."""
    basics.size()
    return checked(process_set, who).included() and process_set.size() > 1


def set_of(ranks):
    """The registered process set of these ranks; ValueError if there is none."""
    for process_set in basics.session()._registered:
        if process_set.ranks == ranks:
            return process_set
    raise ValueError(f"process set of the ranks {ranks}: not registered")
