# SPDX-License-Identifier: Apache-2.0
"""A training program for an elastic job, whose result does not depend on how many ranks there are, nor on which of them die.

    elastic_job.py numpy|torch|jax|tensorflow|keras STEPS

Every process says its number and pid, so that a test can kill it, and at its end what it has come to.
"""

import os
import sys
import time

import numpy as np

print(f"worker {os.environ['HOROVOD_WORKER']} pid {os.getpid()}", flush=True)
FLAVOUR, STEPS = sys.argv[1], int(sys.argv[2])
PAUSE = 0.02  # so that a step lasts as long as what is tested takes

if FLAVOUR == "torch":
    import torch

    import horovod.torch as hvd
elif FLAVOUR == "jax":
    from jax import numpy as jnp

    import horovod.jax as hvd
elif FLAVOUR == "tensorflow":
    import tensorflow as tf

    import horovod.tensorflow as hvd
elif FLAVOUR == "keras":
    import keras

    import horovod.keras as hvd
else:
    import horovod as hvd

hvd.init()


class OfNumPy:
    digits = 9

    def state(self):
        return hvd.elastic.ObjectState(weights=np.zeros(3), step=0)

    def step(self, state):
        gradient = (state.weights - np.arange(3.0)) * (1 + state.step % 3)
        state.weights = state.weights - 0.05 * hvd.allreduce(gradient, name="gradient")

    def weights(self, state):
        return state.weights


class OfTorch:
    digits = 9

    def state(self):
        model = torch.nn.Linear(3, 1, bias=False).double()
        torch.nn.init.zeros_(model.weight)
        sgd = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.5)
        optimizer = hvd.DistributedOptimizer(sgd, model.named_parameters())
        sampler = hvd.elastic.ElasticSampler(range(1000), shuffle=False)
        return hvd.elastic.TorchState(model=model, optimizer=optimizer, sampler=sampler, step=0)

    def step(self, state):
        state.optimizer.zero_grad()
        ((state.model.weight - torch.arange(3.0)) ** 2).sum().mul(0.5 * (1 + state.step % 3)).backward()
        state.optimizer.step()
        state.sampler.record_batch(state.step, 1)

    def weights(self, state):
        return state.model.weight.detach().numpy().ravel()


class OfJax:
    digits = 4  # of float32

    def state(self):
        return hvd.elastic.JaxState(weights=jnp.zeros(3), step=0)

    def step(self, state):
        gradient = (state.weights - jnp.arange(3.0)) * (1 + state.step % 3)
        state.weights = state.weights - 0.05 * hvd.allreduce(gradient, name="gradient")

    def weights(self, state):
        return np.asarray(state.weights)


class OfTensorFlow:
    digits = 4

    def state(self):
        self.variable = tf.Variable(tf.zeros(3))
        return hvd.elastic.TensorFlowState([self.variable], step=0)

    def step(self, state):
        with hvd.DistributedGradientTape(tf.GradientTape()) as tape:
            loss = tf.reduce_sum((self.variable - tf.range(3.0)) ** 2) * (0.5 * (1 + state.step % 3))
        self.variable.assign_sub(0.05 * tape.gradient(loss, self.variable))

    def weights(self, _state):
        return self.variable.numpy()


class OfKeras:
    digits = 4

    def state(self):
        model = keras.Sequential([keras.layers.Input((3,)), keras.layers.Dense(1, use_bias=False, kernel_initializer="zeros")])
        model.compile(hvd.DistributedOptimizer(keras.optimizers.SGD(0.1)), "mse")
        return hvd.elastic.KerasState(model, step=0)

    def step(self, state):
        state.model.train_on_batch(np.eye(3) * (1 + state.step % 3), np.arange(3.0)[:, None])

    def weights(self, state):
        return np.asarray(state.model.get_weights()[0]).ravel()


ways = {"numpy": OfNumPy, "torch": OfTorch, "jax": OfJax, "tensorflow": OfTensorFlow, "keras": OfKeras}
way = ways[FLAVOUR]()


@hvd.elastic.run
def train(state):
    print(f"begins at step {state.step}", flush=True)
    while state.step < STEPS:
        way.step(state)
        state.step += 1
        time.sleep(PAUSE)
        state.commit()
        if state.step % 4 == 0:
            print(f"at step {state.step}", flush=True)
    return way.weights(state)


found = train(way.state())
print(f"came to {' '.join(f'{number:.{way.digits}f}' for number in found)} as rank {hvd.rank()} of {hvd.size()}", flush=True)
