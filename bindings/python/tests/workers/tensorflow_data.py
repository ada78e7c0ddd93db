# SPDX-License-Identifier: Apache-2.0
"""tf.data's service: a job of one worker makes the data of all ranks of this one, each element once."""

import os
import subprocess
import sys
import tempfile
import threading

import tensorflow as tf
from errors import raises

import horovod.tensorflow as hvd
from horovod.tensorflow.data import compute_worker
from horovod.tensorflow.data._registry import ComputeClient, ComputeService, TimeoutException
from horovod.tensorflow.data.compute_service import TfDataServiceConfig, tf_data_service


def check_registry():
    service = ComputeService(2, 1, b"key")
    client = ComputeClient(service.addresses(), b"key")
    client.register_dispatcher(1, "grpc://somewhere:1")
    assert client.wait_for_dispatcher_registration(1, 5) == "grpc://somewhere:1"
    raises(ValueError, "elsewhere", client.register_dispatcher, 1, "elsewhere")
    raises(IndexError, "dispatcher 2", client.register_dispatcher, 2, "x")
    raises(TimeoutException, "workers", client.wait_for_dispatcher_worker_registration, 1, 0.1)
    client.register_worker_for_dispatcher(1, 7)
    client.wait_for_dispatcher_worker_registration(1, 5)
    raises(TimeoutException, "dispatcher 0", client.wait_for_dispatcher_registration, 0, 0.1)  # sets are not shared
    raises(ConnectionError, "key", ComputeClient(service.addresses(), b"other").shutdown)
    client.shutdown()
    client.wait_for_shutdown(5)
    service.close()


def check_data(file):
    if hvd.rank() == 0:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("HOROVOD_")}
        worker = subprocess.Popen([sys.executable, "-m", "horovod.tensorflow.data.compute_worker", file], env=environment)
    check_numbers(file)
    if hvd.rank() == 0:
        assert worker.wait(60) == 0


def check_own_workers(file):
    """The ranks of this job are the workers, too, and are still initialized when these have ended."""
    worker = threading.Thread(target=compute_worker.main, args=(1, "compute", file, 60), daemon=True)
    worker.start()
    check_numbers(file)
    worker.join(60)
    assert not worker.is_alive() and hvd.is_initialized()
    assert float(hvd.allreduce(tf.ones([]), op=hvd.Sum)) == hvd.size()


def check_numbers(file):
    config = TfDataServiceConfig.read(file, wait_for_file_creation=True)
    assert TfDataServiceConfig.from_dict(config.to_dict()) == config and config.dispatcher_side == "compute"
    with tf_data_service(config, hvd.rank()) as address:
        assert address.startswith("grpc://")
        numbers = tf.data.Dataset.range(40).map(lambda x: x * x)
        numbers = numbers.send_to_data_service(config, hvd.rank(), hvd.size(), reuse_dataset=True)
        own = [int(number) for number in numbers]
    every = sorted(sum(hvd.allgather_object(own), []))
    assert every == [number * number for number in range(40)], every


if __name__ == "__main__":
    hvd.init()
    if hvd.rank() == 0:
        check_registry()
    with tempfile.TemporaryDirectory() as folder:
        shared = hvd.broadcast_object(folder, 0)
        check_data(os.path.join(shared, "config.json"))
        check_own_workers(os.path.join(shared, "own.json"))
        hvd.barrier()
    hvd.shutdown()
    print("tensorflow_data: ok")
