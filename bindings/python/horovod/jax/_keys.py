# SPDX-License-Identifier: Apache-2.0
"""Random keys of JAX, which are arrays of numbers in a shell of their own: the numbers travel."""

import jax

from horovod._native import constants


def _is_key(value):
    return isinstance(value, jax.Array) and jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key)


def _numbers_of(call, key):
    """The numbers of a key or of an array of keys, whose rows are keys where rows are dealt out or put together."""
    numbers = jax.random.key_data(key)
    return numbers[None] if key.ndim == 0 and call.kind != constants.BROADCAST else numbers


def taken(call, values):
    """(arrays of numbers, a function that makes a list of results, keys where keys were given)."""
    kinds = [jax.random.key_impl(value) if _is_key(value) else None for value in values]
    if not any(kind is not None for kind in kinds):
        return values, list
    if call.kind in constants.REDUCING:
        raise TypeError(f"{call.label}: random keys can be sent, not reduced; broadcast gives all ranks the key of one")
    data = [value if kind is None else _numbers_of(call, value) for value, kind in zip(values, kinds)]

    def keys_again(arrays):
        # An alltoall with splits has one array more than was given.
        kinds_of = [*kinds, *[None] * (len(arrays) - len(kinds))]
        return [
            array if kind is None else jax.random.wrap_key_data(array, impl=kind) for array, kind in zip(arrays, kinds_of)
        ]

    return data, keys_again
