# SPDX-License-Identifier: Apache-2.0
"""Names of an optimizer's parameters, the same on every rank."""

import collections

import torch


def parameter_names(optimizer, named_parameters):
    """A dict from parameter to name. Without ``named_parameters`` names are made of the places in the optimizer."""
    positions = {
        parameter: f"allreduce.noname.{g}.{i}"
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
        raise ValueError(f"named_parameters: {len(unnamed)} of {len(positions)} parameters of the optimizer are missing")
    return {parameter: names[parameter] for parameter in positions}
