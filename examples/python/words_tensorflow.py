# SPDX-License-Identifier: Apache-2.0
"""Word vectors by skip-grams with negative samples: gradients of embeddings are sparse.

    horovodrun -np 2 python examples/python/words_tensorflow.py

The text is the descriptions of the data sets that come with scikit-learn.
"""

import argparse
import re
from collections import Counter

import numpy as np
import tensorflow as tf
from sklearn import datasets

import horovod.tensorflow as hvd

SIZE, WINDOW, NEGATIVES, BATCH = 32, 2, 8, 128


def read_words():
    """The text as numbers of words, those that are there at least three times."""
    loaders = (datasets.load_digits, datasets.load_iris, datasets.load_wine, datasets.load_breast_cancer, datasets.load_diabetes)
    words = [word for loader in loaders for word in re.findall(r"[a-z]+", loader().DESCR.lower())]
    known = [word for word, times in Counter(words).most_common() if times >= 3]
    number = {word: index for index, word in enumerate(known)}
    return known, np.array([number[word] for word in words if word in number])


def batch_of(text, random):
    """Words, and for each a word beside it."""
    middle = random.integers(WINDOW, len(text) - WINDOW, BATCH)
    distance = random.integers(1, WINDOW + 1, BATCH) * random.choice([-1, 1], BATCH)
    return text[middle], text[middle + distance]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=400)
    options = parser.parse_args()

    hvd.init()
    gpus = tf.config.list_physical_devices("GPU")
    if gpus:
        tf.config.set_visible_devices(gpus[hvd.local_rank()], "GPU")
    known, text = read_words()
    random = np.random.default_rng(hvd.rank())
    tf.random.set_seed(hvd.rank())
    vectors = tf.Variable(tf.random.uniform([len(known), SIZE], -0.5, 0.5) / SIZE)
    contexts = tf.Variable(tf.zeros([len(known), SIZE]))
    hvd.broadcast_variables([vectors, contexts], root_rank=0)

    @tf.function
    def step(words, beside, others):
        with tf.GradientTape() as tape:
            own = tf.gather(vectors, words)
            near = tf.reduce_sum(own * tf.gather(contexts, beside), 1)
            far = tf.matmul(own, tf.gather(contexts, others), transpose_b=True)
            loss = tf.reduce_mean(tf.nn.softplus(-near)) + tf.reduce_mean(tf.nn.softplus(far)) * NEGATIVES
        gradients = hvd.DistributedGradientTape(tape).gradient(loss, [vectors, contexts])
        for variable, gradient in zip((vectors, contexts), gradients):
            variable.scatter_sub(tf.IndexedSlices(5.0 * gradient.values, gradient.indices))
        return loss

    losses = []
    for _ in range(options.steps):
        words, beside = batch_of(text, random)
        losses.append(float(step(words, beside, random.integers(0, len(known), NEGATIVES))))
    first, last = (float(hvd.allreduce(tf.reduce_mean(part), name="loss")) for part in (losses[:10], losses[-10:]))
    if hvd.rank() == 0:
        print(f"{len(known)} words, loss {first:.3f} to {last:.3f}")
    assert last < first, (first, last)
    sums = hvd.allgather(tf.reshape(tf.reduce_sum(tf.abs(vectors)), [1]), name="sums").numpy()
    assert (sums == sums[0]).all(), sums


if __name__ == "__main__":
    main()
