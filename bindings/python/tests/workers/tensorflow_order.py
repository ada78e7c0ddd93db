# SPDX-License-Identifier: Apache-2.0
"""200 allreduces in one tf.function, then in one run of a session, on ranks in opposite orders, with one thread between operations.

Neither may the operations wait for that thread, nor the thread for them.
"""

import tensorflow as tf

import horovod.tensorflow as hvd

COUNT = 200

tf.config.threading.set_inter_op_parallelism_threads(1)
hvd.init()
rank, size = hvd.rank(), hvd.size()
variables = [tf.Variable(tf.fill([4], float(number + rank))) for number in range(COUNT)]


def sums(tensors):
    order = range(COUNT) if rank == 0 else reversed(range(COUNT))
    found = {number: hvd.allreduce(tensors[number], op=hvd.Sum, name=f"t{number}") for number in order}
    return [found[number] for number in range(COUNT)]


def check(results):
    for number in range(COUNT):
        wanted = sum(number + other for other in range(size))
        assert results[number].tolist() == [wanted] * 4, (number, results[number])


step = tf.function(lambda: sums(variables))
for _ in range(3):
    check([result.numpy() for result in step()])
with tf.Graph().as_default():
    placeholders = [tf.compat.v1.placeholder(tf.float32, [4]) for _ in range(COUNT)]
    results = sums(placeholders)
    doubled = hvd.allreduce(tf.add_n(results), op=hvd.Sum, name="of_results")  # needs the results of all others
    values = {placeholder: [float(number + rank)] * 4 for number, placeholder in enumerate(placeholders)}
    with tf.compat.v1.Session(config=tf.compat.v1.ConfigProto(inter_op_parallelism_threads=1)) as session:
        for _ in range(3):
            found, last = session.run([results, doubled], values)
            check(found)
            assert last.tolist() == (size * sum(found)).tolist(), last
hvd.shutdown()
print("tensorflow_order: ok")
