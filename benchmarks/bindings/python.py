# SPDX-License-Identifier: Apache-2.0
"""What a call of the Python package takes: a synchronous allreduce of float32 in place on one rank, in batches whose median
counts, through hvd.allreduce_ and through the native layer below it, which HVD_PYTHON_NATIVE chooses. With --peer the same through
mpi4py, on the MPI that it finds, instead."""

import argparse
import json
import statistics
import time

import numpy as np

BATCHES, CALLS = 41, 2000
FLOAT32 = 7  # as the library counts dtypes
SIZES = (8, 4096)


def own_calls():
    import horovod as hvd
    from horovod._native import constants
    from horovod.common import basics

    hvd.init(rank=0, size=1)
    submit = basics.session().submit

    def through_native(array):
        tensors = ((array.ctypes.data, FLOAT32, array.shape),)
        return lambda: submit(constants.ALLREDUCE, False, tensors, tensors, "gradient", 0, hvd.Sum, 0, 1.0, 1.0, None, array).wait()

    def through_package(array):
        return lambda: hvd.allreduce_(array, op=hvd.Sum, name="gradient")

    return {"native": through_native, "package": through_package}


def peers_calls():
    from mpi4py import MPI

    return {"package": lambda array: lambda: MPI.COMM_WORLD.Allreduce(MPI.IN_PLACE, array, op=MPI.SUM)}


def batch(call):
    began = time.perf_counter_ns()
    for _ in range(CALLS):
        call()
    return (time.perf_counter_ns() - began) / CALLS


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--peer", action="store_true", help="mpi4py in place of horovod")
    ways = peers_calls() if arguments.parse_args().peer else own_calls()
    for size in SIZES:
        calls = {layer: way(np.zeros(size // 4, dtype=np.float32)) for layer, way in ways.items()}
        taken = {layer: [] for layer in calls}
        for _ in range(1 + BATCHES):  # in turns; the first is for warming up
            for layer, call in calls.items():
                taken[layer].append(batch(call))
        for layer, times in taken.items():
            print(json.dumps({"layer": layer, "bytes": size, "api_ns": round(statistics.median(times[1:]), 1)}), flush=True)


if __name__ == "__main__":
    main()
