# SPDX-License-Identifier: Apache-2.0
"""Gradients of the operations, in Horovod's convention: where an operation averages, the loss of the job is the mean of the
ranks' losses. So the gradient of an allgather is averaged over the ranks, not summed.
"""

import dataclasses
import functools

import jax
import numpy as np
from jax import numpy as jnp

from horovod._native import constants
from horovod.jax._exchange import exchange_p

_SMOOTH = (constants.AVERAGE, constants.SUM, constants.ADASUM)


def _of(call, arrays, cotangents):
    """The gradients of an operation's inputs, as a tuple; integers have none."""
    places = [place for place, array in enumerate(arrays) if jnp.issubdtype(array.dtype, jnp.inexact)]
    gradients = [np.zeros(array.shape, jax.dtypes.float0) for array in arrays]
    if places:
        found = _RULES[call.kind](call, [arrays[place] for place in places], [cotangents[place] for place in places])
        for place, gradient in zip(places, found):
            gradients[place] = gradient
    return tuple(gradients)


def _again(call, arrays, suffix="gradient", **changes):
    name = None if call.name is None else f"{call.name}.{suffix}"
    return exchange_p.bind(*arrays, call=dataclasses.replace(call, name=name, **changes))


def _average(call, arrays):
    return _again(call, arrays, kind=constants.ALLREDUCE, reduce_op=constants.AVERAGE, prescale=1.0, postscale=1.0)


def _of_allreduce(call, arrays, cotangents):
    if call.reduce_op in _SMOOTH:
        return _again(call, cotangents)
    return _of_choice(call, arrays, _again(call, cotangents, reduce_op=constants.SUM, prescale=1.0, postscale=1.0))


def _of_choice(call, arrays, total):
    """Of Min, Max and Product, where ``total`` is the gradient of what all ranks made of the arrays."""
    call = dataclasses.replace(call, kind=constants.ALLREDUCE)
    scaled = [array * np.asarray(call.prescale, array.dtype) for array in arrays]
    rule = _of_product if call.reduce_op == constants.PRODUCT else _of_extremum
    factor = call.prescale * call.postscale
    return [one * part * np.asarray(factor, one.dtype) for one, part in zip(total, rule(call, scaled))]


def _of_extremum(call, arrays):
    """Goes to the rank that had it; ranks that had it together share it."""
    plain = {"prescale": 1.0, "postscale": 1.0}
    chosen = [(a == e).astype(a.dtype) for a, e in zip(arrays, _again(call, arrays, "extremum", **plain))]
    counts = _again(call, chosen, "count", reduce_op=constants.SUM, **plain)
    return [one / jnp.maximum(count, 1) for one, count in zip(chosen, counts)]


def _of_product(call, arrays):
    """The product of the others' values."""
    plain = {"prescale": 1.0, "postscale": 1.0}
    zero = [array == 0 for array in arrays]
    zeros = _again(call, [one.astype(a.dtype) for one, a in zip(zero, arrays)], "zeros", reduce_op=constants.SUM, **plain)
    filled = [jnp.where(one, 1, array) for one, array in zip(zero, arrays)]
    products = _again(call, filled, "product", **plain)
    others = [jnp.where(one, product, product / array) for one, product, array in zip(zero, products, filled)]
    return [jnp.where(count == one, other, 0) for count, one, other in zip(zeros, zero, others)]


def _of_allgather(call, arrays, cotangents):
    """This rank's rows of the average. Under jit all ranks have as many; outside they are asked."""
    found = []
    for array, averaged in zip(arrays, _average(call, cotangents)):
        rows = array.shape[0] if array.ndim else 1
        compiled = isinstance(averaged, jax.core.Tracer) and averaged.shape[0] == rows * len(call.process_set.ranks)
        counts = _row_counts(call, rows, compiled)
        found.append(_own_rows(call, array, averaged, counts))
    return found


def _row_counts(call, rows, compiled):
    """The rows that every rank has, of which this one has ``rows``."""
    if compiled:
        return [rows] * len(call.process_set.ranks)
    asked = dataclasses.replace(call, kind=constants.ALLGATHER, name=None, grouped=False)
    return np.asarray(exchange_p.bind(jnp.asarray([rows], jnp.int32), call=asked)[0]).tolist()


def _own_rows(call, array, gathered, counts):
    place = call.process_set.rank()
    begin = sum(counts[:place])
    return gathered[begin : begin + counts[place]].reshape(array.shape)


def _of_gather(call, arrays, cotangents):
    """This rank's rows of the root's. All ranks get all of them: dealing out different parts has no shape under jit."""
    (array,), (cotangent,) = arrays, cotangents
    counts = _row_counts(call, array.shape[0] if array.ndim else 1, isinstance(cotangent, jax.core.Tracer))
    is_root = call.process_set.ranks[call.process_set.rank()] == call.root
    whole = cotangent if is_root else jnp.zeros((sum(counts), *cotangent.shape[1:]), cotangent.dtype)
    (everywhere,) = _again(call, [whole], kind=constants.BROADCAST)
    return [_own_rows(call, array, everywhere, counts)]


def _of_broadcast(call, _arrays, cotangents):
    averaged = _average(call, cotangents)
    is_root = call.process_set.ranks[call.process_set.rank()] == call.root
    return averaged if is_root else [jnp.zeros_like(one) for one in averaged]


def _of_alltoall(call, _arrays, cotangents):
    return _again(call, cotangents)


def _of_reducescatter(call, arrays, cotangents):
    if call.reduce_op not in _SMOOTH:
        return _of_choice(call, arrays, _gathered(call, arrays, cotangents))
    factor = call.prescale * call.postscale * (len(call.process_set.ranks) if call.reduce_op == constants.SUM else 1)
    return _gathered(call, arrays, [one * np.asarray(factor, one.dtype) for one in cotangents])


def _gathered(call, arrays, parts):
    """What the ranks have of their rows of ``arrays``, together."""
    ranks = len(call.process_set.ranks)
    plain = {"kind": constants.ALLGATHER, "reduce_op": constants.SUM, "prescale": 1.0, "postscale": 1.0}
    if all(array.shape[0] % ranks == 0 for array in arrays):
        return _again(call, parts, **plain)
    # Ranks have different numbers of rows, for which a compiled allgather has no shape: pad to the most.
    padded, most = [], [-(-array.shape[0] // ranks) for array in arrays]
    for one, rows in zip(parts, most):
        padded.append(jnp.pad(one, [(0, rows - one.shape[0])] + [(0, 0)] * (one.ndim - 1)))
    gathered = _again(call, padded, **plain)
    found = []
    for array, whole, rows in zip(arrays, gathered, most):
        counts = [array.shape[0] // ranks + (rank < array.shape[0] % ranks) for rank in range(ranks)]
        found.append(jnp.concatenate([whole[rank * rows : rank * rows + count] for rank, count in enumerate(counts)]))
    return found


_RULES = {
    constants.ALLREDUCE: _of_allreduce,
    constants.ALLGATHER: _of_allgather,
    constants.BROADCAST: _of_broadcast,
    constants.GATHER: _of_gather,
    constants.ALLTOALL: _of_alltoall,
    constants.REDUCESCATTER: _of_reducescatter,
}


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def exchange(call, arrays):
    """The results of one operation, as a tuple. Can be differentiated."""
    return tuple(exchange_p.bind(*arrays, call=call))


def _forward(call, arrays):
    return tuple(exchange_p.bind(*arrays, call=call)), arrays


def _backward(call, arrays, cotangents):
    return (_of(call, arrays, cotangents),)


exchange.defvjp(_forward, _backward)
