# SPDX-License-Identifier: Apache-2.0
"""200 allreduces in one tf.function, on two ranks in opposite orders, with one thread of TensorFlow between operations.

Neither may the operations wait for that thread, nor the thread for them.
"""

import tensorflow as tf

import horovod.tensorflow as hvd

COUNT = 200

tf.config.threading.set_inter_op_parallelism_threads(1)
hvd.init()
rank, size = hvd.rank(), hvd.size()
variables = [tf.Variable(tf.fill([4], float(number + rank))) for number in range(COUNT)]


@tf.function
def step():
    order = range(COUNT) if rank == 0 else reversed(range(COUNT))
    found = {number: hvd.allreduce(variables[number], op=hvd.Sum, name=f"t{number}") for number in order}
    return [found[number] for number in range(COUNT)]


for _ in range(3):
    results = step()
    for number in range(COUNT):
        wanted = sum(number + other for other in range(size))
        assert results[number].numpy().tolist() == [wanted] * 4, (number, results[number])
hvd.shutdown()
print("tensorflow_order: ok")
