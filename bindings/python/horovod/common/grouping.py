# SPDX-License-Identifier: Apache-2.0
"""The argument ``groups`` of tapes and optimizers: which gradients travel as one operation."""

import warnings

from horovod.common.util import split_list


def checked_groups(who, groups, num_groups, key):
    """None, a number above 0, or a list of lists of keys, ``key(variable)``; ValueError for anything else.

    ``num_groups``: the older name of a number in ``groups``; 0 if it was not given.
    """
    if num_groups:
        warnings.warn("num_groups is deprecated; use groups", DeprecationWarning, stacklevel=5)
        groups = num_groups if groups is None else groups
    if groups is None:
        return None
    if isinstance(groups, int) and not isinstance(groups, bool) and groups >= 0:
        return groups or None
    if not (isinstance(groups, (list, tuple)) and all(isinstance(part, (list, tuple)) for part in groups)):
        raise ValueError(f"{who}: groups is neither a number above 0 nor a list of lists of variables")
    keys = [[key(variable) for variable in part] for part in groups]
    if len({own for part in keys for own in part}) != sum(len(part) for part in keys):
        raise ValueError(f"{who}: a variable is twice in groups")
    return keys


def parts_of(groups, place):
    """Lists of the numbers in ``place`` (a dict from key to number) that travel together; who is in no group travels alone."""
    if isinstance(groups, int):
        return [part for part in split_list(list(place.values()), groups) if part]
    left = dict(place)
    parts = [[left.pop(key) for key in keys if key in left] for keys in groups]
    return [part for part in parts if part] + [[number] for number in left.values()]
