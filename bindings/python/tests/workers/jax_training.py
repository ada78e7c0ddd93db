# SPDX-License-Identifier: Apache-2.0
"""Training with the optimizers of optax ends where training of one process with all the data does."""

import gc
import warnings

import jax
import numpy as np
import optax
from errors import raises
from jax import numpy as jnp

import horovod.jax as hvd

ROWS = 12  # divisible by 1, 2, 3 and 4


def parameters(seed):
    first, second = jax.random.split(jax.random.key(seed))
    return {"w1": jax.random.normal(first, (4, 5)), "w2": jax.random.normal(second, (5, 2)), "b": jnp.zeros(2)}


def loss_of(params, x, y):
    return jnp.mean((jnp.tanh(x @ params["w1"]) @ params["w2"] + params["b"] - y) ** 2)


def batch(step):
    rows = np.random.default_rng(step).normal(size=(ROWS, 6)).astype(np.float32)
    return rows[:, :4], rows[:, 4:]


def own(array):
    rows = ROWS // hvd.size()
    return array[hvd.rank() * rows : (hvd.rank() + 1) * rows]


def train(optimizer, params, steps, part):
    state = optimizer.init(params)

    @jax.jit
    def step_of(params, state, x, y):
        loss, gradients = jax.value_and_grad(loss_of)(params, x, y)
        updates, state = optimizer.update(gradients, state, params)
        return optax.apply_updates(params, updates), state, loss

    for step in range(steps):
        params, state, _loss = step_of(params, state, *map(part, batch(step)))
    return params, state


def close(found, wanted, rtol=1e-4):
    for one, other in zip(jax.tree_util.tree_leaves(found), jax.tree_util.tree_leaves(wanted)):
        np.testing.assert_allclose(np.asarray(one), np.asarray(other), rtol=rtol, atol=1e-5)


def check_equality():
    started = hvd.broadcast_parameters(parameters(hvd.rank()), root_rank=0)
    close(started, parameters(0), rtol=0)
    make = lambda: optax.chain(optax.clip_by_global_norm(0.5), optax.adamw(0.05))  # noqa: E731
    wanted, _state = train(make(), parameters(0), 5, lambda a: a)
    found, state = train(hvd.DistributedOptimizer(make()), started, 5, own)
    close(found, wanted)
    halves, _state = train(hvd.DistributedOptimizer(make(), compression=hvd.Compression.fp16), started, 5, own)
    close(halves, wanted, rtol=0.05)
    digests = hvd.allgather_object([np.asarray(leaf).tobytes() for leaf in jax.tree_util.tree_leaves(found)])
    assert all(one == digests[0] for one in digests)
    again = hvd.broadcast_optimizer_state(state, root_rank=0)
    assert jax.tree_util.tree_structure(again) == jax.tree_util.tree_structure(state)


def check_accumulation():
    """Two passes per step: the sum of their gradients, reduced once."""
    wrapped = hvd.DistributedOptimizer(optax.sgd(0.1), backward_passes_per_step=2)
    found, _state = train(wrapped, parameters(0), 4, own)
    params = parameters(0)
    for pair in ((0, 1), (2, 3)):
        gradients = [jax.grad(loss_of)(params, *batch(step)) for step in pair]
        params = jax.tree_util.tree_map(lambda p, a, b: p - 0.1 * (a + b), params, *gradients)
    close(found, params)
    raises(ValueError, "not above 0", hvd.DistributedOptimizer, optax.sgd(0.1), backward_passes_per_step=0)
    raises(ValueError, "predivide", jax.jit(lambda t: hvd.allreduce_gradients(t, op=hvd.Sum, gradient_predivide_factor=2.0)),
           jnp.ones(1))  # fmt: skip


def check_result_is_not_kept():
    """optax's optimizers cannot be changed, so this is told."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        train(hvd.DistributedOptimizer(optax.sgd(0.1)), parameters(0), 1, own)
        gc.collect()
        assert not any("was dropped" in str(one.message) for one in caught), caught
        hvd.DistributedOptimizer(optax.sgd(0.1))
        gc.collect()
    assert sum("DistributedOptimizer: its result was dropped" in str(one.message) for one in caught) == 1, caught
    raises(TypeError, "not a ProcessSet", hvd.DistributedOptimizer, optax.sgd(0.1), process_set=0)


def check_two_optimizers():
    """The gradients of two models, and of one twice, are on their way at the same time in one program."""
    optimizers = [hvd.DistributedOptimizer(optax.sgd(rate)) for rate in (0.1, 0.2)]
    params = [parameters(0), parameters(1)]

    @jax.jit
    def step(params, x, y):
        gradients = [jax.grad(loss_of)(one, x, y) for one in params]
        found = []
        for optimizer, one, gradient in zip(optimizers, params, gradients):
            updates, _state = optimizer.update(gradient, optimizer.init(one), one)
            found.append(optax.apply_updates(one, updates))
        return found, [hvd.allreduce_gradients(gradients[0]) for _ in range(2)]

    found, averages = step(params, *map(own, batch(0)))
    for one, rate, after in zip(params, (0.1, 0.2), found):
        gradient = jax.grad(loss_of)(one, *batch(0))
        close(after, jax.tree_util.tree_map(lambda p, g, rate=rate: p - rate * g, one, gradient))
    for average in averages:
        close(average, jax.grad(loss_of)(params[0], *batch(0)))


def check_loss_over_ranks():
    """The gradient through an allreduce inside of the loss: statistics over the whole batch, as in batch normalisation."""
    x = batch(0)[0]

    def normalised(rows, mean):
        return jnp.mean(jnp.sum((rows - mean(rows)) ** 2 * jnp.arange(1.0, 5.0), axis=1))

    wanted = jax.grad(lambda rows: normalised(rows, lambda r: r.mean(0)))(jnp.asarray(x))
    found = jax.jit(jax.grad(lambda rows: normalised(rows, lambda r: hvd.allreduce(r.mean(0)))))(jnp.asarray(own(x)))
    close(found / hvd.size(), own(wanted))


hvd.init()
for check in (check_equality, check_accumulation, check_result_is_not_kept, check_two_optimizers, check_loss_over_ranks):
    check()
print("jax_training: ok")
