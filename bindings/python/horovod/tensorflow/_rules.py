# SPDX-License-Identifier: Apache-2.0
"""The gradients of the operations, by kind. ``gradients`` fills them in: they are made of operations themselves."""

_rules = {}


def add(kind, rule):
    """``rule(attributes, inputs, gradients)``, for an alltoall with the splits received, is the gradient of this kind."""
    _rules[kind] = rule


def gradient_of(kind):
    """A function that calls the rule of this kind, which may be added later."""

    def gradient(*given):
        return _rules[kind](*given)

    return gradient
