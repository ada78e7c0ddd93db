# SPDX-License-Identifier: Apache-2.0
"""hvd.elastic of JAX in a job of fixed members: trees are restored, also donated ones, and errors in programs are Horovod's."""

import functools

import jax
import numpy as np
from errors import raises
from jax import numpy as jnp

import horovod.jax as hvd

hvd.init()
RANK, SIZE = hvd.rank(), hvd.size()
STEPS = 12


@functools.partial(jax.jit, donate_argnums=0)
def update(params, number):
    wanted = number % 3 + RANK
    gradients = jax.tree_util.tree_map(lambda value: 2 * (value - wanted), params)
    gradients = hvd.allreduce_gradients(gradients, name="gradients")
    return jax.tree_util.tree_map(lambda value, gradient: value - 0.1 * gradient, params, gradients)


def trained(faults=()):
    """The parameters after all steps, and the steps at which training began."""
    left, begun = dict(faults), []

    @hvd.elastic.run
    def train(state):
        begun.append(state.step)
        while state.step < STEPS:
            fault = left.pop(state.step, None)
            if fault is not None:
                fault()
            state.params = jax.block_until_ready(update(state.params, state.step))
            state.step += 1
            if state.step % 2 == 0:
                state.commit()
        return state.params

    params = {"a": jnp.array([float(RANK), 1.0]), "b": [jnp.array(2.0)]}
    return train(hvd.elastic.JaxState(params=params, step=0)), begun


def by_itself():
    if RANK == SIZE - 1:
        raise hvd.elastic.HorovodInternalError("this rank alone")


def other_shape():
    jax.block_until_ready(jax.jit(lambda x: hvd.allreduce(x, name="other"))(jnp.ones(3 + RANK)))
    by_itself()  # alone there are no shapes that differ


def check_goes_on():
    expected, begun = trained()
    assert begun == [0], begun
    found, begun = trained({5: by_itself, 9: other_shape})
    assert begun == [0, 4, 8], begun
    for one, other in zip(jax.tree_util.tree_leaves(found), jax.tree_util.tree_leaves(expected)):
        np.testing.assert_allclose(one, other, rtol=1e-5)  # sums of three ranks may be in another order
        for theirs in hvd.allgather_object(np.asarray(one)):
            np.testing.assert_array_equal(one, theirs)


def check_state():
    """Random keys, arrays of NumPy, and what is no array, in one tree."""
    key = jax.random.key(RANK)
    state = hvd.elastic.JaxState(tree={"key": key, "host": np.full(2, RANK), "name": f"rank {RANK}", "none": None}, count=[RANK])
    state.tree["host"][:] = 9
    state.tree["key"] = jax.random.key(99)
    state.count.append(1)
    state.restore()
    assert state.tree["name"] == f"rank {RANK}" and state.count == [RANK] and (state.tree["host"] == RANK).all()
    assert (jax.random.key_data(state.tree["key"]) == jax.random.key_data(key)).all()
    state.sync()
    state.tree["host"] = None
    state.restore()
    assert state.tree["name"] == "rank 0" and state.count == [0] and (np.asarray(state.tree["host"]) == 0).all()
    assert (jax.random.key_data(state.tree["key"]) == jax.random.key_data(jax.random.key(0))).all()


def check_errors_of_others():
    @hvd.elastic.run
    def train(state):
        jax.block_until_ready(jax.jit(lambda: jax.pure_callback(lambda: {}["mine"], jax.ShapeDtypeStruct((), "float32")))())

    raises(jax.errors.JaxRuntimeError, "mine", train, hvd.elastic.JaxState())


for check in (check_goes_on, check_state, check_errors_of_others):
    check()
print("elastic_jax: ok")
