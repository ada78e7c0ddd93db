# SPDX-License-Identifier: Apache-2.0
"""hvd.elastic of TensorFlow in a job of fixed members: errors of operations in functions are Horovod's, and the result is right."""

import numpy as np
import tensorflow as tf
from errors import raises

import horovod.tensorflow as hvd

hvd.init()
RANK, SIZE = hvd.rank(), hvd.size()
STEPS = 12


def trained(state_of, variables, faults=()):
    """The values after all steps, and the steps at which training began."""
    left, begun = dict(faults), []

    @tf.function
    def step(number):
        wanted = tf.cast(number % 3 + RANK, tf.float32)
        with hvd.DistributedGradientTape(tf.GradientTape()) as tape:
            loss = sum(tf.reduce_sum((variable - wanted) ** 2) for variable in variables)
        for variable, gradient in zip(variables, tape.gradient(loss, variables)):
            variable.assign_sub(0.1 * gradient)

    @hvd.elastic.run
    def train(state):
        begun.append(state.step)
        while state.step < STEPS:
            fault = left.pop(state.step, None)
            if fault is not None:
                fault()
            step(tf.constant(state.step))
            state.step += 1
            if state.step % 2 == 0:
                state.commit()

    train(state_of(variables))
    return [variable.numpy() for variable in variables], begun


def made():
    return [tf.Variable([float(RANK), 1.0]), tf.Variable([[2.0]])]


def by_itself():
    if RANK == SIZE - 1:
        raise hvd.elastic.HorovodInternalError("this rank alone")


def of_variables(variables):
    return hvd.elastic.TensorFlowState(variables, step=0)


def check_goes_on():
    expected, begun = trained(of_variables, made())
    assert begun == [0], begun
    found, begun = trained(of_variables, made(), {5: by_itself, 9: by_itself})
    assert begun == [0, 4, 8], begun
    for one, other in zip(found, expected):
        np.testing.assert_allclose(one, other, rtol=1e-5)  # sums of three ranks may be in another order
        for theirs in hvd.allgather_object(one):
            np.testing.assert_array_equal(one, theirs)


def check_errors_of_others():
    """An error of TensorFlow that is none of Horovod's reaches the caller."""

    @hvd.elastic.run
    def train(state):
        tf.raw_ops.Assert(condition=False, data=["mine"])

    raises(tf.errors.InvalidArgumentError, "mine", train, of_variables(made()))


def check_needs_variables():
    raises(ValueError, "pass the variables", hvd.elastic.TensorFlowState)


def check_session():
    """A graph of TensorFlow 1."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        variable = tf.compat.v1.get_variable("v", initializer=float(RANK + 3))
        session.run(tf.compat.v1.global_variables_initializer())
        state = hvd.elastic.TensorFlowState(session=session, step=1)
        more = variable.assign_add(1.0)
        session.run(more)
        state.restore()
        assert session.run(variable) == RANK + 3
        state.sync()
        assert session.run(variable) == 3.0
        session.run(more)
        state.save()
        session.run(more)
        state.restore()
        assert session.run(variable) == 4.0


for check in (check_goes_on, check_errors_of_others, check_needs_variables, check_session):
    check()
print("elastic_tensorflow: ok")
