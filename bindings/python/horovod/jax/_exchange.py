# SPDX-License-Identifier: Apache-2.0
"""Operations inside traced functions: one JAX primitive whose ordered effect keeps them in the program's order.

A program has two calls for each: one starts the operation, one gives out its results. The order holds for the first calls
only, so many operations are in flight, and ranks that order theirs differently (by name) do not wait for each other.
"""

import dataclasses
import threading
import typing

import jax
import numpy as np
from jax import numpy as jnp
from jax._src import core, dispatch, effects
from jax._src.interpreters import ad, batching, mlir

from horovod._arrays import dtype_code
from horovod._native import constants
from horovod._submit import scattered_rows
from horovod.common import basics
from horovod.jax import _eager, _runtime
from horovod.jax._schedule import gate_of


@dataclasses.dataclass(frozen=True)
class Call:
    """What an operation does, apart from its arrays."""

    kind: int
    name: typing.Optional[str]
    process_set: typing.Any
    grouped: bool = False
    reduce_op: int = constants.SUM
    root: int = 0
    prescale: float = 1.0
    postscale: float = 1.0

    @property
    def label(self):
        """Kind and name, for messages."""
        text = ("grouped_" if self.grouped else "") + constants.KIND_NAMES[self.kind]
        return text if self.name is None else f"{text}.{self.name}"

    def options(self):
        """Named arguments of :func:`horovod._submit.submit`."""
        return {"reduce_op": self.reduce_op, "root": self.root, "prescale": self.prescale, "postscale": self.postscale,
                "grouped": self.grouped}  # fmt: skip


class _Order(effects.Effect):
    """Operations of one program start one after another, and those of its next run after them."""

    def __str__(self):
        return "horovod"


order = _Order()
for _kinds in (effects.lowerable_effects, effects.ordered_effects, effects.control_flow_allowed_effects,
               effects.custom_derivatives_allowed_effects, effects.remat_allowed_effects):  # fmt: skip
    _kinds.add_type(_Order)

exchange_p = core.Primitive("horovod")
exchange_p.multiple_results = True


def _result_shape(call, shape):
    """The shape of a result on this rank; under jit every rank's input has the same shape."""
    ranks = call.process_set.ranks
    if call.kind in constants.SAME_SHAPE:
        return shape
    if call.kind in (constants.ALLGATHER, constants.GATHER):
        takers = len(ranks) if call.kind == constants.ALLGATHER or basics.rank() == call.root else 0
        return (takers * shape[0], *shape[1:]) if shape else (takers,)
    if not shape:
        raise ValueError(f"{call.label}: a scalar has no rows to deal out")
    if call.kind == constants.ALLTOALL:
        if shape[0] % len(ranks):
            raise ValueError(f"{call.label}: {shape[0]} rows cannot be dealt out evenly to {len(ranks)} ranks")
        return shape
    rows = scattered_rows(shape[0], call.process_set)
    if rows is None:
        raise ValueError(f"{call.label}: this rank is not in {call.process_set}")
    return (rows, *shape[1:])


# Outside of programs each element has a byte of its own; inside XLA packs them as it likes.
_OF_LESS_THAN_A_BYTE = ("int2", "uint2", "int4", "uint4", "float4_e2m1fn")


def _check_dtype(call, dtype):
    """TypeError while tracing, with the dtypes that there are."""
    dtype_code(dtype)
    if dtype.name in _OF_LESS_THAN_A_BYTE:
        raise TypeError(f"{call.label}: under jit arrays of {dtype} cannot be sent; array.astype(jax.numpy.int8) can")


@exchange_p.def_effectful_abstract_eval
def _abstract(*inputs, call):
    for one in inputs:
        _check_dtype(call, np.dtype(one.dtype))
    return [core.ShapedArray(_result_shape(call, one.shape), one.dtype) for one in inputs], {order}


@exchange_p.def_impl
def _now(*arrays, call):
    """Outside of jit, as in ``jax.grad`` of a function that is not compiled: the engine's own exceptions are raised."""
    return _eager.run(call, arrays)


def _batched(arrays, dims, *, call):
    """Under vmap: elements of all examples travel together, in one operation."""
    elementwise = call.kind in constants.SAME_SHAPE
    moved, places = [], []
    for array, dim in zip(arrays, dims):
        if not isinstance(dim, int):  # not mapped
            moved.append(array)
            places.append(dim)
        elif elementwise:
            moved.append(jnp.moveaxis(array, dim, 0))
            places.append(0)
        else:  # rows stay the first dimension
            array = jnp.moveaxis(array, dim, -1 if array.ndim == 1 else min(1, array.ndim - 1))
            moved.append(array[None] if array.ndim == 1 else array)
            places.append(1)
    return exchange_p.bind(*moved, call=call), places


batching.primitive_batchers[exchange_p] = _batched


def _lower(context, *operands, call):
    if _runtime.handlers() is None or tuple(context.module_context.platforms) != ("cpu",):
        return _lower_to_python(context, operands, call)
    token = core.abstract_token
    inner = context.replace(avals_in=[*context.avals_in, token], avals_out=[_TICKET, token])
    ticket, token = _started(inner, *operands, context.tokens_in.get(order), **_attributes(call))
    _hand_on(context, token)
    gate = gate_of(context.module_context, token)
    waiting = context.replace(avals_in=[_TICKET, core.abstract_token])
    return gate.waited(_done(waiting, ticket, gate.operation.result))


_started = jax.ffi.ffi_lowering("hvd_jax_start", has_side_effect=True)
_done = jax.ffi.ffi_lowering("hvd_jax_done", has_side_effect=True)
_TICKET = core.ShapedArray((2,), np.dtype(np.uint32))  # 64 bits also where JAX has its own off


def _hand_on(context, token):
    context.set_tokens_out(context.tokens_in.update_tokens(mlir.TokenSet({order: token})))


def _attributes(call):
    whole_job = call.process_set.process_set_id == 0
    if "\0" in (call.name or ""):
        raise ValueError(f"the name {call.name!r} has a null character")
    return {
        "kind": np.int32(call.kind),
        "grouped": np.int32(call.grouped),
        "name": call.name or "",
        "label": call.label,
        "set": np.int32(call.process_set.process_set_id),
        "ranks": np.array([] if whole_job else call.process_set.ranks, dtype=np.int32),
        "reduce_op": np.int32(call.reduce_op),
        "root": np.int32(call.root),
        "prescale": np.float64(call.prescale),
        "postscale": np.float64(call.postscale),
    }


def _lower_to_python(context, operands, call):
    """The same two calls as callbacks, where there is no compiler and where the program runs on another device."""
    from jax._src.callback import emit_python_callback

    def start(*arrays):
        return (_eager.ticket(call, arrays),)

    def done(ticket):
        results = _eager.redeem(call, ticket)
        for result, wanted in zip(results, context.avals_out):
            if result.shape != wanted.shape:
                raise ValueError(
                    f"{call.label}: the result has shape {result.shape}, compiled for {wanted.shape}: "
                    "under jit every rank's array must have the same shape"
                )
        return tuple(results)

    starting = context.replace(avals_out=[_TICKET])
    tickets, token, _keep = emit_python_callback(
        starting, start, context.tokens_in.get(order), list(operands), starting.avals_in, starting.avals_out,
        has_side_effect=True,
    )  # fmt: skip
    _hand_on(context, token)
    gate = gate_of(context.module_context, token)
    waiting = context.replace(avals_in=[_TICKET])
    results, _token, _keep = emit_python_callback(
        waiting, done, gate.operation.result, list(tickets), waiting.avals_in, waiting.avals_out, has_side_effect=True
    )
    return gate.waited(results)


mlir.register_lowering(exchange_p, _lower, cacheable=False)


def settle():
    """Waits for programs in flight, so that what is started next comes after their operations on every rank.

    A program that failed has said so by its results. Its failure is forgotten here: later programs would inherit it.
    """
    tokens = dispatch.runtime_tokens
    if order in tokens.current_tokens:
        try:
            tokens.block_until_ready()
        except Exception:  # noqa: BLE001 - whoever reads the results of that program gets the error
            tokens.clear()


@basics.before_shutdown
def _finish(seconds):
    """Other ranks may need programs whose results nobody has read, as the last step."""
    tokens = list(dispatch.runtime_tokens.current_tokens.values())
    if order in dispatch.runtime_tokens.current_tokens:
        waiting = threading.Thread(target=lambda: [_ended(token) for token in tokens], daemon=True)
        waiting.start()
        waiting.join(seconds)
        dispatch.runtime_tokens.clear()


def _ended(token):
    try:
        token.block_until_ready()
    except Exception:  # noqa: BLE001 - whoever reads the results of that program gets the error
        return


def _jvp(_primals, _tangents, *, call):
    raise NotImplementedError(f"{call.label}: forward-mode derivatives are not supported, reverse mode is (jax.grad)")


ad.primitive_jvps[exchange_p] = _jvp
