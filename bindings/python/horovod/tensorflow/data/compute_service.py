# SPDX-License-Identifier: Apache-2.0
"""Data sets that are made by other processes than those that train, on TensorFlow's own tf.data service.

A job of workers is started by ``horovodrun -np 4 python -m horovod.tensorflow.data.compute_worker FILE``; it writes its
configuration to FILE. Trainers read it:

    config = TfDataServiceConfig.read(FILE, wait_for_file_creation=True)
    with tf_data_service(config, hvd.rank()):
        dataset = dataset.repeat().batch(32).send_to_data_service(config, hvd.rank(), hvd.size())
"""

import contextlib
import dataclasses
import json
import os
import socket
import tempfile
import time

import tensorflow as tf

from horovod.common import basics
from horovod.tensorflow.data._registry import ComputeClient

_service = tf.data.experimental.service


@dataclasses.dataclass(frozen=True)
class TfDataServiceConfig:
    """How many dispatchers there are, on which side, and where the registry is that knows them."""

    dispatchers: int
    workers_per_dispatcher: int
    dispatcher_side: str
    addresses: list
    key: bytes
    timeout: int = 60

    def to_dict(self):
        """As values for JSON; the key in hexadecimal."""
        return {**dataclasses.asdict(self), "key": self.key.hex()}

    @staticmethod
    def from_dict(config):
        """The opposite of :meth:`to_dict`."""
        return TfDataServiceConfig(**{**config, "key": bytes.fromhex(config["key"])})

    def write(self, filename):
        """Writes it, readable by this user only, so that readers see all of it or nothing."""
        folder = os.path.dirname(os.path.abspath(filename))
        descriptor, temporary = tempfile.mkstemp(dir=folder)
        with os.fdopen(descriptor, "w") as file:
            json.dump(self.to_dict(), file)
        os.replace(temporary, filename)

    @staticmethod
    def read(filename, wait_for_file_creation=False):
        """Reads what :meth:`write` wrote, and waits for the file if asked to."""
        while wait_for_file_creation and not os.path.exists(filename):
            time.sleep(1)
        with open(filename) as file:
            return TfDataServiceConfig.from_dict(json.load(file))

    def compute_client(self, verbose=1):
        """A client of the registry."""
        return ComputeClient(self.addresses, self.key, verbose, self.timeout)


def _here():
    """This host's name for others."""
    return socket.gethostname() if basics.is_initialized() and basics.cross_size() > 1 else "localhost"


def _start_dispatcher(client, number):
    dispatcher = _service.DispatchServer(_service.DispatcherConfig(port=0))
    port = dispatcher.target.rpartition(":")[2]
    client.register_dispatcher(number, f"grpc://{_here()}:{port}")
    return dispatcher


@contextlib.contextmanager
def tf_data_service(config, rank):
    """Inside the block the data service is there; gives the address of this rank's dispatcher. Rank 0 ends it."""
    client = config.compute_client()
    number = rank if config.dispatchers > 1 else 0
    dispatcher = None
    if config.dispatcher_side == "training" and (rank == 0 or config.dispatchers > 1):
        dispatcher = _start_dispatcher(client, number)
    number %= config.dispatchers
    address = client.wait_for_dispatcher_registration(number, config.timeout)
    client.wait_for_dispatcher_worker_registration(number, config.timeout)
    try:
        yield address
    finally:
        if basics.is_initialized() and basics.size() > 1:
            from horovod import _ops

            _ops.barrier(name="tf_data_service")  # nobody needs the data any more
        if rank == 0:
            client.shutdown()
        if dispatcher is not None:
            dispatcher._stop()
            dispatcher.join()


def send_to_data_service(
    dataset, config, rank, size=None, processing_mode="distributed_epoch", reuse_dataset=False, round_robin=False
):
    """The data set, made by the workers. ``reuse_dataset``: all ranks read one job's elements, each element once.

    ``round_robin``: ranks take turns, for which ``size`` is needed.
    """
    if config.dispatcher_side == "training" and not round_robin and size is None and config.dispatchers > 1:
        raise RuntimeError("send_to_data_service: several dispatchers on the training side need size")
    number = rank % config.dispatchers
    address = config.compute_client().wait_for_dispatcher_registration(number, config.timeout)
    options = {"job_name": "job" if reuse_dataset or round_robin else f"job-{rank}"}
    if round_robin:
        if size is None:
            raise ValueError("send_to_data_service: round_robin needs size")
        options.update(consumer_index=rank, num_consumers=size)
    return dataset.apply(_service.distribute(processing_mode=processing_mode, service=address, **options))


tf.data.Dataset.send_to_data_service = send_to_data_service


def compute_worker_fn(config):
    """What every rank of the job of workers does, until the service is shut down."""
    rank, size = basics.rank(), basics.size()
    if size % config.dispatchers:
        raise ValueError(f"compute_worker_fn: {size} ranks cannot be shared by {config.dispatchers} dispatchers")
    client = config.compute_client()
    dispatcher = None
    if config.dispatcher_side == "compute" and rank < config.dispatchers:
        dispatcher = _start_dispatcher(client, rank)
    number = rank // config.workers_per_dispatcher
    address = client.wait_for_dispatcher_registration(number, config.timeout).replace("grpc://", "")
    worker = _service.WorkerServer(_service.WorkerConfig(dispatcher_address=address, worker_address=f"{_here()}:%port%", port=0))
    client.register_worker_for_dispatcher(number, rank)
    client.wait_for_shutdown()
    worker._stop()
    worker.join()
    if dispatcher is not None:
        dispatcher._stop()
        dispatcher.join()
