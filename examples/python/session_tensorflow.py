# SPDX-License-Identifier: Apache-2.0
"""A program of TensorFlow 1: sessions, hooks, checkpoints by rank 0 from which it goes on. Digits of scikit-learn.

    horovodrun -np 2 -H localhost:2 python examples/python/session_tensorflow.py --checkpoints /tmp/train_logs
"""

import argparse
import tempfile

import numpy as np
import tensorflow.compat.v1 as tf
from sklearn.datasets import load_digits

import horovod.tensorflow as hvd

tf.disable_v2_behavior()


def model_of(images):
    """Two dense layers, as class scores."""
    first = tf.get_variable("first", [64, 48])
    second = tf.get_variable("second", [48, 10])
    return tf.matmul(tf.nn.relu(tf.matmul(images, first)), second)


def train(steps, checkpoints):
    """Trains up to that global step; returns the step it began with, and the share of correctly named images."""
    digits = load_digits()
    images, labels = digits.data.astype("float32") / 16, digits.target
    random = np.random.default_rng(hvd.rank())
    with tf.Graph().as_default():
        # Pin GPU to be used to process local rank (one GPU per process)
        config = tf.ConfigProto()
        config.gpu_options.allow_growth = True
        config.gpu_options.visible_device_list = str(hvd.local_rank())

        shown, wanted = tf.placeholder(tf.float32, [None, 64]), tf.placeholder(tf.int64, [None])
        scores = model_of(shown)
        loss = tf.losses.sparse_softmax_cross_entropy(wanted, scores)
        correct = tf.reduce_mean(tf.cast(tf.equal(tf.argmax(scores, 1), wanted), tf.float32))
        step = tf.train.get_or_create_global_step()

        opt = tf.train.AdagradOptimizer(0.05 * hvd.size())
        # Add Horovod Distributed Optimizer
        opt = hvd.DistributedOptimizer(opt)
        # Add hook to broadcast variables from rank 0 to all other processes during initialization.
        hooks = [hvd.BroadcastGlobalVariablesHook(0), tf.train.StopAtStepHook(last_step=steps)]
        # Make training operation
        train_op = opt.minimize(loss, global_step=step)
        # Save checkpoints only on worker 0 to prevent other workers from corrupting them.
        checkpoint_dir = checkpoints if hvd.rank() == 0 else None

        with tf.train.MonitoredTrainingSession(checkpoint_dir=checkpoint_dir, config=config, hooks=hooks) as mon_sess:
            began = mon_sess.run(step)
            accuracy = 0.0
            while not mon_sess.should_stop():
                rows = random.integers(0, len(labels), 32)
                # Perform synchronous training.
                _, accuracy = mon_sess.run([train_op, correct], {shown: images[rows], wanted: labels[rows]})
    return began, accuracy


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--checkpoints", help="folder; without it the program makes one, and goes on from it once")
    options = parser.parse_args()

    hvd.init()
    with tempfile.TemporaryDirectory() as folder:
        began, accuracy = train(options.steps, options.checkpoints or folder)
        print(f"rank {hvd.rank()}: steps {began} to {options.steps}, accuracy {accuracy:.2%}", flush=True)
        if not options.checkpoints:
            began, accuracy = train(2 * options.steps, folder)
            print(f"rank {hvd.rank()}: steps {began} to {2 * options.steps}, accuracy {accuracy:.2%}", flush=True)
            # The hook gives everybody what rank 0 has read from its checkpoint, the step too.
            assert began == options.steps, began


if __name__ == "__main__":
    main()
