# SPDX-License-Identifier: Apache-2.0
"""Ways to a Keras optimizer other than the result of DistributedOptimizer: all of them step with what all ranks reduced.

On tf.keras, or on the backend of Keras 3 that KERAS_BACKEND names.
"""

import copy
import os
import pickle

import numpy as np
from errors import raises
from small_keras import alone_on_all, close, fit, model_with

if os.environ.get("KERAS_BACKEND", "tensorflow") == "tensorflow":
    import tensorflow as tf

    import horovod.tensorflow.keras as hvd

    keras = tf.keras
else:
    import keras

    import horovod.keras as hvd

IS_KERAS_3 = hasattr(keras, "ops")


def made(rate=0.05):
    return keras.optimizers.SGD(rate, momentum=0.9)


def check_trained(optimizer, what):
    model = model_with(keras, optimizer)
    fit(model)
    close(model.get_weights(), wanted, what)


def check_result_is_not_kept():
    optimizer = made()
    hvd.DistributedOptimizer(optimizer)
    check_trained(optimizer, "the original is stepped")


def check_made_by_others():
    optimizer = hvd.DistributedOptimizer(made(), gradient_predivide_factor=2.0)
    check_trained(type(optimizer).from_config(optimizer.get_config()), "from_config")
    if not IS_KERAS_3:  # its own optimizers can neither be pickled nor be copied as a whole
        check_trained(copy.copy(hvd.DistributedOptimizer(made())), "copy")
        return
    for way in (copy.copy, copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))):
        again = way(hvd.DistributedOptimizer(made(), gradient_predivide_factor=2.0))
        assert type(again).__name__ == "SGD" and isinstance(again, keras.optimizers.SGD)
        check_trained(again, way)
    alone = hvd.add_process_set([0])
    again = pickle.loads(pickle.dumps(hvd.DistributedOptimizer(made(), process_set=alone)))
    assert again._hvd_reduction.process_set is alone
    assert pickle.loads(pickle.dumps(hvd.ProcessSet([0]))).ranks == [0]
    hvd.remove_process_set(alone)
    passes = pickle.loads(pickle.dumps(hvd.DistributedOptimizer(made(), backward_passes_per_step=2)))
    assert passes.gradient_accumulation_steps == 2 and passes._hvd_factor == 2.0


def check_learning_rate():
    """Set where the program has kept the original, or by a callback."""
    optimizer = made(1.0)
    wrapped = hvd.DistributedOptimizer(optimizer)
    model = model_with(keras, wrapped)
    optimizer.learning_rate = 0.05
    fit(model)
    close(model.get_weights(), wanted, "learning rate of the original")


def check_reading_is_local():
    """On one rank alone: were it a collective, the others' next operation would not fit."""
    optimizer = hvd.DistributedOptimizer(made())
    model = model_with(keras, optimizer)
    fit(model)
    if hvd.rank() == 0:
        repr(optimizer), str(optimizer), optimizer.get_config(), dict(vars(optimizer)), hash(optimizer)
        optimizer.learning_rate.numpy(), optimizer.iterations.numpy()
        [variable.numpy() for variable in optimizer.variables]
        for name in dir(optimizer):
            getattr(optimizer, name, None)
        if IS_KERAS_3:
            pickle.dumps(optimizer)
    close(model.get_weights(), wanted, "after reading")


def check_what_is_no_optimizer():
    for wrong in ("sgd", None, 3.0, keras.optimizers.SGD):
        raises(TypeError, "is not an optimizer of Keras", hvd.DistributedOptimizer, wrong)
    for wrong in (0, None, "x"):
        raises(TypeError, "not a ProcessSet", hvd.DistributedOptimizer, made(), process_set=wrong)


hvd.init()
wanted = alone_on_all(keras, made())
check_result_is_not_kept()
check_made_by_others()
check_learning_rate()
check_reading_is_local()
check_what_is_no_optimizer()
assert float(hvd.allreduce(np.float32(1.0), op=hvd.Sum)) == hvd.size()
hvd.shutdown()
print("keras_optimizer_traps: ok")
