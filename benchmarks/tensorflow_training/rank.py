# SPDX-License-Identifier: Apache-2.0
"""What every rank of a job of run.py does when told to: training steps with one way of averaging, and operations in a graph."""
from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import time

import numpy as np
import tensorflow as tf

from models import CASES


def training_step(name, gradients_of):
    """A function that makes a step. ``gradients_of(tape, loss, variables)`` averages over the ranks."""
    shapes, loss, input_shape = CASES[name].build()
    random = np.random.default_rng(3)
    variables = [tf.Variable(random.normal(size=shape).astype("float32") * 0.05) for shape in shapes]
    inputs = tf.constant(random.normal(size=input_shape).astype("float32"))
    labels = tf.constant(random.integers(0, 10, input_shape[0]), tf.int64)

    def step():
        with tf.GradientTape() as tape:
            value = loss(variables, inputs, labels)
        for variable, gradient in zip(variables, gradients_of(tape, value, variables)):
            variable.assign_sub(0.01 * gradient)
        return value

    return step


def times_of(step, steps):
    """Milliseconds of each step."""
    taken = []
    for _ in range(steps):
        began = time.perf_counter_ns()
        step()
        taken.append((time.perf_counter_ns() - began) / 1e6)
    return taken


def with_horovod(options):
    """Steps with hvd, and what an operation in a graph costs beside the same call of the engine."""
    import horovod.tensorflow as hvd

    hvd.init()

    def averaged(tape, loss, variables):
        return hvd.DistributedGradientTape(tape).gradient(loss, variables)

    steps = {name: tf.function(training_step(name, averaged)) for name in options.models}
    return hvd.rank(), steps, lambda times: overhead(hvd, times)


def alone(options):
    """Steps without communication."""

    def local(tape, loss, variables):
        return tape.gradient(loss, variables)

    return int(os.environ["HOROVOD_RANK"]), {name: tf.function(training_step(name, local)) for name in options.models}, dict


def with_strategy(options):
    """Steps with TensorFlow's own MultiWorkerMirroredStrategy."""
    rank = int(os.environ["HOROVOD_RANK"])
    workers = [f"127.0.0.1:{port}" for port in options.ports]
    os.environ["TF_CONFIG"] = json.dumps({"cluster": {"worker": workers}, "task": {"type": "worker", "index": rank}})
    kinds = tf.distribute.experimental.CommunicationImplementation
    ring = tf.distribute.experimental.CommunicationOptions(implementation=kinds.RING)
    strategy = tf.distribute.MultiWorkerMirroredStrategy(communication_options=ring)

    def averaged(tape, loss, variables):
        context = tf.distribute.get_replica_context()
        return context.all_reduce(tf.distribute.ReduceOp.MEAN, tape.gradient(loss, variables))

    steps = {name: training_step(name, averaged) for name in options.models}
    return rank, {name: tf.function(lambda step=step: strategy.run(step)) for name, step in steps.items()}, dict


def overhead(hvd, times):
    """Microseconds per tensor of 200 small ones, so many times: as graph, and as calls of the engine on arrays, in turns."""
    import horovod

    variables = [tf.Variable(tf.ones([4])) for _ in range(200)]
    arrays = [np.ones(4, np.float32) for _ in range(200)]
    ways = {
        "grouped graph": tf.function(lambda: hvd.grouped_allreduce([v.read_value() for v in variables], op=hvd.Sum, name="g")),
        "grouped engine": lambda: horovod.grouped_allreduce(arrays, op=horovod.Sum, name="e"),
        "single graph": tf.function(lambda: [hvd.allreduce(v, op=hvd.Sum, name=f"s{i}") for i, v in enumerate(variables)]),
        "single engine": lambda: [
            handle.wait()
            for handle in [horovod.allreduce_async(a, op=horovod.Sum, name=f"n{i}") for i, a in enumerate(arrays)]
        ],
    }
    taken = {name: [] for name in ways}
    for _ in range(times):
        for name, way in ways.items():
            taken[name] += times_of(way, 2)
    return {name: 1000 * statistics.median(times[4:]) / len(arrays) for name, times in taken.items()}


def obey(order, steps, more):
    """The answer to an order of run.py: [model, number of steps], of which 0 means to warm up, or ["overhead", times]."""
    name, count = order
    if name == "overhead":
        return more(count)
    case = CASES[name]
    return times_of(steps[name], max(count // case.share, 5) if count else case.warm_up)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--way", choices=("horovod", "strategy", "alone"), required=True)
    parser.add_argument("--models", nargs="+", required=True)
    parser.add_argument("--ports", type=int, nargs="+", required=True, help="of the strategy's servers")
    parser.add_argument("--driver", type=int, required=True, help="the port where run.py says what to do")
    options = parser.parse_args()
    tf.config.threading.set_intra_op_parallelism_threads(1)
    start = {"horovod": with_horovod, "strategy": with_strategy, "alone": alone}[options.way]
    rank, steps, more = start(options)
    with socket.create_connection(("127.0.0.1", options.driver)) as connection:
        lines = connection.makefile("rw", encoding="utf-8")
        print(json.dumps(rank), file=lines, flush=True)
        for line in lines:
            print(json.dumps(obey(json.loads(line), steps, more)), file=lines, flush=True)
    if options.way == "strategy":
        os._exit(0)  # the strategy's server waits for the other workers when it ends


if __name__ == "__main__":
    main()
