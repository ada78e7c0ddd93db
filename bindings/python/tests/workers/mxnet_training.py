# SPDX-License-Identifier: Apache-2.0
"""DistributedTrainer and DistributedOptimizer end where training of one process with all the data does."""

import copy
import pickle
import warnings

import mxnet as mx
import numpy as np
from errors import raises

import horovod.mxnet as hvd

ROWS = 12  # divisible by 1, 2 and 3
COUNT = [0]


def network():
    COUNT[0] += 1
    net = mx.gluon.nn.HybridSequential(prefix=f"net{COUNT[0]}_")
    net.add(mx.gluon.nn.Dense(5, in_units=4, activation="tanh"), mx.gluon.nn.Dense(2, in_units=5))
    net.initialize()
    generator = np.random.default_rng(5)
    for _name, parameter in sorted(net.collect_params().items()):
        parameter.set_data(mx.nd.array(generator.normal(size=parameter.shape)))
    return net


def batch(step):
    return np.random.default_rng(step).normal(size=(ROWS, 6)).astype("float32")


def own(array):
    rows = ROWS // hvd.size()
    return array[hvd.rank() * rows : (hvd.rank() + 1) * rows]


def train(net, trainer, part, steps=4):
    loss_of = mx.gluon.loss.L2Loss()
    for step in range(steps):
        rows = part(batch(step))
        with mx.autograd.record():
            loss = loss_of(net(mx.nd.array(rows[:, :4])), mx.nd.array(rows[:, 4:]))
        loss.backward()
        trainer.step(len(rows))
    return [p.data().asnumpy() for _name, p in sorted(net.collect_params().items())]


def close(found, wanted, rtol=1e-4):
    for one, other in zip(found, wanted):
        np.testing.assert_allclose(one, other, rtol=rtol, atol=1e-5)


def check_trainer():
    options = {"learning_rate": 0.1, "momentum": 0.9}
    net = network()
    wanted = train(net, mx.gluon.Trainer(net.collect_params(), "sgd", options, kvstore=None), lambda a: a)
    choices = [{}, {"num_groups": 2}, {"gradient_predivide_factor": 2.0}, {"prefix": "other."}]
    for choice in choices:
        net = network()
        hvd.broadcast_parameters(net.collect_params(), root_rank=0)
        found = train(net, hvd.DistributedTrainer(net.collect_params(), "sgd", options, **choice), own)
        close(found, wanted)
    net = network()
    halves = train(net, hvd.DistributedTrainer(net.collect_params(), "sgd", options, compression=hvd.Compression.fp16), own)
    close(halves, wanted, rtol=0.05)
    net = network()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        wrapped = hvd.DistributedOptimizer(mx.optimizer.SGD(**options))
        close(train(net, hvd.DistributedTrainer(net.collect_params(), wrapped), own), wanted)
    assert any("DistributedOptimizer" in str(one.message) for one in caught)
    if hvd.size() > 1:
        alone = hvd.add_process_set([0])
        net = network()
        found = train(net, hvd.DistributedTrainer(net.collect_params(), "sgd", options, process_set=alone), own)
        lone = network()
        close(found, train(lone, mx.gluon.Trainer(lone.collect_params(), "sgd", options, kvstore=None), own))
        hvd.allgather_object(None)
        hvd.remove_process_set(alone)


def check_optimizer():
    """The optimizer on its own: one weight, and several at once."""
    rank, size = hvd.rank(), hvd.size()
    mean = (size + 1) / 2
    for groups in (0, 2):
        plain = mx.optimizer.SGD(learning_rate=0.5)
        optimizer = hvd.DistributedOptimizer(plain, num_groups=groups, gradient_predivide_factor=4.0)
        assert optimizer.lr == 0.5
        optimizer.set_learning_rate(1.0)
        assert plain.learning_rate == 1.0
        weights, gradients = [mx.nd.zeros(2) for _ in range(3)], [mx.nd.full((2,), (rank + 1) * (i + 1)) for i in range(3)]
        states = [optimizer.create_state(i, weight) for i, weight in enumerate(weights)]
        optimizer.update([0, 1, 2], weights, gradients, states)
        for i, weight in enumerate(weights):
            np.testing.assert_allclose(weight.asnumpy(), -mean * (i + 1))
    weight, gradient = mx.nd.zeros(1), mx.nd.full((1,), rank + 1)
    optimizer.update(7, weight, gradient, optimizer.create_state(7, weight))
    np.testing.assert_allclose(weight.asnumpy(), -mean)
    optimizer.update_multi_precision(7, weight, mx.nd.full((1,), rank + 1), optimizer.create_state_multi_precision(7, weight))
    np.testing.assert_allclose(weight.asnumpy(), -2 * mean)


def check_ways_to_it():
    """Whatever refers to the optimizer, and its copies, step with what all ranks reduced, at the rate that the trainer sets."""
    options = {"learning_rate": 0.1, "momentum": 0.9}
    lone = network()
    wanted = train(lone, mx.gluon.Trainer(lone.collect_params(), "sgd", options, kvstore=None), lambda a: a)

    def check(optimizer):
        net = network()
        close(train(net, mx.gluon.Trainer(net.collect_params(), optimizer, kvstore=None), own), wanted)

    optimizer = mx.optimizer.SGD(**options)
    hvd.DistributedOptimizer(optimizer)  # whose result is not kept
    check(optimizer)
    assert type(optimizer).__name__ == "SGD" and isinstance(optimizer, hvd.DistributedOptimizer)
    for way in (copy.copy, copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))):
        again = way(hvd.DistributedOptimizer(mx.optimizer.SGD(**options)))
        assert again._hvd_process_set is hvd.global_process_set
        check(again)
    if hvd.rank() == 0:  # alone: nothing that reads communicates
        repr(optimizer), optimizer.learning_rate, pickle.dumps(optimizer), vars(optimizer)
    raises(ValueError, "already", hvd.DistributedOptimizer, optimizer)
    raises(TypeError, "'sgd' is not an mxnet.optimizer.Optimizer", hvd.DistributedOptimizer, "sgd")
    plain = mx.optimizer.SGD(**options)
    raises(TypeError, "not a ProcessSet", hvd.DistributedOptimizer, plain, process_set=0)
    assert type(plain) is mx.optimizer.SGD


hvd.init()
check_trainer()
check_ways_to_it()
check_optimizer()
print("mxnet_training: ok")
