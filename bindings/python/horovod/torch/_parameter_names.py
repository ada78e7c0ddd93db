# SPDX-License-Identifier: Apache-2.0
"""Names of an optimizer's parameters, the same on every rank."""

import collections

import torch
from torch.utils.weak import WeakTensorKeyDictionary

from horovod.common.process_sets import ByRegistration

# For each name the parameters that have had it so far, each with its number, and how many there were.
_numbers = ByRegistration(lambda: collections.defaultdict(lambda: (WeakTensorKeyDictionary(), [0])))


def parameter_names(optimizer, named_parameters):
    """A dict from parameter to name. Without ``named_parameters`` names are made of the places in the optimizer."""
    positions = {
        parameter: position_name(g, i)
        for g, group in enumerate(optimizer.param_groups)
        for i, parameter in enumerate(group["params"])
    }
    if named_parameters is None:
        return positions
    pairs = list(named_parameters)
    for pair in pairs:
        if not (isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[1], torch.Tensor)):
            raise ValueError("named_parameters: not a sequence of (name, parameter), as model.named_parameters() gives")
    counts = collections.Counter(name for name, _parameter in pairs)
    twice = sorted(name for name, count in counts.items() if count > 1)
    if twice:
        raise ValueError(f"named_parameters: names are not unique: {', '.join(twice)}")
    names = {parameter: name for name, parameter in pairs}
    unnamed = [position for parameter, position in positions.items() if parameter not in names]
    if unnamed:
        missing = f"{len(unnamed)} of {len(positions)} parameters of the optimizer are missing"
        raise ValueError(f"named_parameters: {missing}")
    return {parameter: names[parameter] for parameter in positions}


def position_name(group, index):
    """The name of a parameter that has only a place."""
    return f"allreduce.noname.{group}.{index}"


def distinct(name, parameter, process_set):
    """The name, with ``.2``, ``.3``, … if other parameters of this process had it before.

    Two models whose layers have the same names can so be trained at once: their gradients may be on their way at the
    same time. Numbers follow the order of wrapping, which is the same on every rank of the set; a parameter keeps its
    number when it is wrapped again, and a number is never given twice, so that it depends on no garbage collector.
    """
    numbers, given = _numbers[process_set][name]
    number = numbers.get(parameter)
    if number is None:
        given[0] += 1
        number = numbers[parameter] = given[0]
    return name if number == 1 else f"{name}.{number}"
