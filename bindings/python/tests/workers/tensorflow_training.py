# SPDX-License-Identifier: Apache-2.0
"""Tapes and optimizers: training on all ranks equals training in one process on their data."""

import gc
import warnings

import numpy as np
import tensorflow as tf
from errors import raises

import horovod.tensorflow as hvd

ROWS, STEPS = 4, 3


def data_of(rank, step):
    random = np.random.default_rng(100 * step + rank)
    return random.normal(size=(ROWS, 5)).astype(np.float32), random.normal(size=(ROWS, 2)).astype(np.float32)


def weights():
    random = np.random.default_rng(7)
    shapes = [(5, 8), (8,), (8, 2), (2,)]
    return [tf.Variable(random.normal(size=shape).astype(np.float32), name=f"w{i}") for i, shape in enumerate(shapes)]


def loss_of(w, inputs, targets):
    hidden = tf.nn.relu(tf.matmul(inputs, w[0]) + w[1])
    return tf.reduce_mean((tf.matmul(hidden, w[2]) + w[3] - targets) ** 2)


def alone_on_all():
    """The weights that one process gets from the batches of all ranks."""
    w = weights()
    for step in range(STEPS):
        parts = [data_of(rank, step) for rank in range(hvd.size())]
        with tf.GradientTape() as tape:
            loss = loss_of(w, *[np.concatenate(part) for part in zip(*parts)])
        for variable, gradient in zip(w, tape.gradient(loss, w)):
            variable.assign_sub(0.1 * gradient)
    return w


def close(found, wanted, what):
    for index, (one, other) in enumerate(zip(found, wanted)):
        np.testing.assert_allclose(tf.convert_to_tensor(one).numpy(), tf.convert_to_tensor(other).numpy(), rtol=1e-4, atol=1e-5, err_msg=f"{what}: {index}")


def check_tape():
    wanted = alone_on_all()
    ways = {
        "plain": {},
        "one group": {"groups": 1},
        "groups": {"groups": lambda w: [[w[0], w[2]], [w[1]]]},
        "predivide": {"gradient_predivide_factor": 2.0},
        "fp16": {"compression": hvd.Compression.fp16},
    }
    for what, options in ways.items():
        for graph in (False, True):
            w = weights()
            chosen = {key: value(w) if callable(value) and key == "groups" else value for key, value in options.items()}

            def train(inputs, targets):
                with tf.GradientTape() as tape:
                    loss = loss_of(w, inputs, targets)
                tape = hvd.DistributedGradientTape(tape, **chosen)
                for variable, gradient in zip(w, tape.gradient(loss, w)):
                    variable.assign_sub(0.1 * gradient)

            step = tf.function(train) if graph else train
            for number in range(STEPS):
                step(*data_of(hvd.rank(), number))
            if what == "fp16":
                assert np.abs(w[0].numpy() - wanted[0].numpy()).max() < 0.01
            else:
                close(w, wanted, f"{what}, {'graph' if graph else 'eager'}")


def check_tape_details():
    rank, size = hvd.rank(), hvd.size()
    a, b, unused = tf.Variable(1.0 + rank), tf.Variable(2.0), tf.Variable(3.0)
    with hvd.DistributedGradientTape(tf.GradientTape(persistent=True)) as tape:
        loss = a * b
    tape.register_local_source(b)
    found = tape.gradient(loss, [a, b, unused])
    assert float(found[0]) == 2.0 and abs(float(found[1]) - (1.0 + rank) / size) < 1e-6 and found[2] is None, found
    assert float(tape.gradient(loss, a, use_generic_names=True)) == 2.0
    assert set(tape.gradient(loss, {"a": a, "b": b})) == {"a", "b"}
    local, reduced = tape.get_local_and_global_gradients(loss, [a, b])
    assert local[0][0] is b and reduced[0][0] is a and float(reduced[0][1]) == 2.0
    table = tf.Variable(tf.ones([6, 2]))
    for as_dense in (False, True):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.gather(table, [rank, 5]))
        found = hvd.DistributedGradientTape(tape, sparse_as_dense=as_dense).gradient(loss, table)
        assert isinstance(found, tf.Tensor) == as_dense
        dense = tf.convert_to_tensor(found).numpy()
        wanted = np.zeros((6, 2))
        wanted[:size], wanted[5] = 1.0 / size, 1.0
        np.testing.assert_allclose(dense, wanted, rtol=1e-6)
    layer = tf.keras.layers.Dense(1, use_bias=False)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(layer(tf.fill([1, 1], rank + 1.0)))
    partial = hvd.PartialDistributedGradientTape(tape, local_layers=layer, scale_local_gradients=False)
    assert float(partial.gradient(loss, layer.trainable_weights)[0][0, 0]) == rank + 1.0
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        hvd.DistributedGradientTape(tf.GradientTape())
        gc.collect()
    assert sum("DistributedGradientTape: its result was dropped" in str(one.message) for one in caught) == 1, caught
    raises(ValueError, "not a layer", hvd.PartialDistributedGradientTape, tf.GradientTape(), local_layers=[1])
    raises(ValueError, "predivide", hvd.DistributedGradientTape, tf.GradientTape(), op=hvd.Sum, gradient_predivide_factor=2.0)
    raises(ValueError, "groups", hvd.DistributedGradientTape, tf.GradientTape(), groups=[1])


def run_in_session(optimizer_of, steps=STEPS, passes=1):
    """The weights after training by a session of TensorFlow 1."""
    with tf.Graph().as_default():
        w = [tf.compat.v1.get_variable(f"w{i}", initializer=v) for i, v in enumerate(START)]
        inputs = tf.compat.v1.placeholder(tf.float32, [None, 5])
        targets = tf.compat.v1.placeholder(tf.float32, [None, 2])
        counter = tf.compat.v1.train.get_or_create_global_step()
        train = optimizer_of(w).minimize(loss_of(w, inputs, targets), global_step=counter)
        with tf.compat.v1.train.MonitoredTrainingSession(hooks=[hvd.BroadcastGlobalVariablesHook(0)]) as session:
            for number in range(steps):
                for _ in range(passes):
                    session.run(train, dict(zip((inputs, targets), data_of(hvd.rank(), number))))
            assert session.run(counter) == steps * passes
            return session.run(w)


def result_is_not_kept(_weights):
    optimizer = tf.compat.v1.train.GradientDescentOptimizer(0.1)
    hvd.DistributedOptimizer(optimizer)
    raises(ValueError, "already", hvd.DistributedOptimizer, optimizer)
    return optimizer


def check_sessions():
    wanted = alone_on_all()
    v1 = tf.compat.v1.train
    sgd = lambda rate: v1.GradientDescentOptimizer(rate)  # noqa: E731
    close(run_in_session(lambda w: hvd.DistributedOptimizer(sgd(0.1))), wanted, "session")
    close(run_in_session(lambda w: hvd.DistributedOptimizer(sgd(0.1), groups=[[w[0], w[1]]])), wanted, "groups")
    close(run_in_session(result_is_not_kept), wanted, "the original is stepped")
    # The same batch twice: the sum has twice the gradient, the average once.
    twice = {"backward_passes_per_step": 2}
    close(run_in_session(lambda w: hvd.DistributedOptimizer(sgd(0.05), **twice), passes=2), wanted, "passes")
    averaged = {**twice, "average_aggregated_gradients": True}
    close(run_in_session(lambda w: hvd.DistributedOptimizer(sgd(0.1), **averaged), passes=2), wanted, "averaged passes")
    found = run_in_session(lambda w: hvd.DistributedOptimizer(sgd(0.1), op=hvd.Adasum))
    alike = hvd.allgather(tf.reshape(found[0], [1, -1]), name="adasum").numpy()
    np.testing.assert_allclose(alike[0], alike[-1], rtol=1e-5)
    if hvd.size() == 1:
        close(found, wanted, "Adasum alone")
    found = run_in_session(lambda w: hvd.DistributedOptimizer(sgd(0.1), op=hvd.Adasum, backward_passes_per_step=2), passes=2)
    alike = hvd.allgather(tf.reshape(found[0], [1, -1]), name="adasum_passes").numpy()
    np.testing.assert_allclose(alike[0], alike[-1], rtol=1e-5)
    raises(ValueError, "graph", hvd.DistributedOptimizer, sgd(0.1), backward_passes_per_step=2)
    raises(ValueError, "op 2", hvd.DistributedOptimizer, tf.keras.optimizers.SGD(), op=hvd.Adasum)


if __name__ == "__main__":
    hvd.init()
    START = [variable.numpy() for variable in weights()]
    check_tape()
    check_tape_details()
    check_sessions()
    hvd.shutdown()
    print("tensorflow_training: ok")
