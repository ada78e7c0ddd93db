# SPDX-License-Identifier: Apache-2.0
"""Images per second of a convolutional network on synthetic data, as the mean over iterations.

    horovodrun -np 2 python examples/python/synthetic_benchmark_tensorflow.py --model MobileNetV2 --batch-size 8
"""

import argparse
import timeit

import numpy as np
import tensorflow as tf

import horovod.tensorflow as hvd


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="MobileNetV2", help="a class of tf.keras.applications")
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--image-size", type=int, default=64)
    parser.add_argument("--num-warmup-batches", type=int, default=2)
    parser.add_argument("--num-batches-per-iter", type=int, default=5)
    parser.add_argument("--num-iters", type=int, default=5)
    parser.add_argument("--fp16-allreduce", action="store_true", help="gradients travel as float16")
    options = parser.parse_args()

    hvd.init()
    gpus = tf.config.list_physical_devices("GPU")
    if gpus:
        tf.config.set_visible_devices(gpus[hvd.local_rank()], "GPU")
    shape = (options.image_size, options.image_size, 3)
    model = getattr(tf.keras.applications, options.model)(weights=None, input_shape=shape)
    optimizer = tf.keras.optimizers.SGD(0.01)
    compression = hvd.Compression.fp16 if options.fp16_allreduce else hvd.Compression.none
    images = tf.random.uniform([options.batch_size, *shape])
    labels = tf.random.uniform([options.batch_size], 0, 999, tf.int64)
    hvd.broadcast_variables(model.variables, root_rank=0)

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.keras.losses.sparse_categorical_crossentropy(labels, model(images, training=True)))
        tape = hvd.DistributedGradientTape(tape, compression=compression)
        optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))

    timeit.timeit(step, number=options.num_warmup_batches)
    rates = []
    for _ in range(options.num_iters):
        seconds = timeit.timeit(step, number=options.num_batches_per_iter)
        rates.append(options.batch_size * options.num_batches_per_iter / seconds)
    if hvd.rank() == 0:
        mean, spread = np.mean(rates), 1.96 * np.std(rates)
        print(f"{options.model}: {mean:.1f} +- {spread:.1f} images/s on each of {hvd.size()} ranks, {mean * hvd.size():.1f} in total")


if __name__ == "__main__":
    main()
