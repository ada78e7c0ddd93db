# SPDX-License-Identifier: Apache-2.0
"""``horovodrun -np N python -m horovod.tensorflow.data.compute_worker FILE``: a job whose ranks make data for others."""

import argparse
import secrets

from horovod import _objects
from horovod.common import basics
from horovod.tensorflow.data._registry import ComputeService
from horovod.tensorflow.data.compute_service import TfDataServiceConfig, compute_worker_fn


def main(dispatchers, dispatcher_side, configfile, timeout):
    """Makes the registry on rank 0, writes the configuration, and works until a trainer ends it.

    A program that has called ``hvd.init()`` itself stays initialized.
    """
    callers = basics.is_initialized()
    basics.init()
    rank, size = basics.rank(), basics.size()
    if size % dispatchers:
        raise ValueError(f"compute_worker: {size} ranks cannot be shared by {dispatchers} dispatchers")
    service = config = None
    if rank == 0:
        key = secrets.token_bytes(32)
        service = ComputeService(dispatchers, size // dispatchers, key)
        config = TfDataServiceConfig(dispatchers, size // dispatchers, dispatcher_side, service.addresses(), key, timeout)
        config.write(configfile)
    config = _objects.broadcast_object(config and config.to_dict(), name="compute_worker")
    compute_worker_fn(TfDataServiceConfig.from_dict(config))
    if not callers:
        basics.shutdown()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("configfile", help="where trainers find the configuration")
    parser.add_argument("--dispatchers", type=int, default=1)
    parser.add_argument("--dispatcher-side", choices=("compute", "training"), default="compute")
    parser.add_argument("--timeout", type=int, default=60, help="seconds that others may take to arrive")
    options = parser.parse_args()
    main(options.dispatchers, options.dispatcher_side, options.configfile, options.timeout)
