# SPDX-License-Identifier: Apache-2.0
"""What an operation inside a compiled JAX program costs, by itself and among many.

    horovodrun -np 2 python benchmarks/bench_jax.py            # on a quiet machine

Prints, for rank 0, the median microseconds of a program with 1, 20 and 200 allreduces of 100 floats, of one with all of them
as a group, and of one with a single allreduce of 16 MB; beside them the same from outside of jit.
"""

import argparse
import statistics
import time

import jax
from jax import numpy as jnp

import horovod.jax as hvd


def median_us(function, repeats):
    jax.block_until_ready(function())
    taken = []
    for _ in range(repeats):
        began = time.perf_counter()
        jax.block_until_ready(function())
        taken.append((time.perf_counter() - began) * 1e6)
    return statistics.median(taken)


def separate(arrays):
    return [hvd.allreduce(array, name=str(i)) for i, array in enumerate(arrays)]


def grouped(arrays):
    return hvd.grouped_allreduce(arrays, name="group")


def outside(arrays):
    return [hvd.synchronize(handle) for handle in [hvd.allreduce_async(a, name=str(i)) for i, a in enumerate(arrays)]]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=100)
    options = parser.parse_args()
    hvd.init()
    cases = [(count, 100) for count in (1, 20, 200)] + [(1, 4 << 20)]
    for count, elements in cases:
        arrays = [jnp.ones(elements) for _ in range(count)]
        for title, function in (("jit", jax.jit(separate)), ("jit, group", jax.jit(grouped)), ("outside", outside)):
            took = median_us(lambda function=function, arrays=arrays: function(arrays), options.repeats)
            if hvd.rank() == 0:
                print(f"{count:4d} x {4 * elements:9d} bytes  {title:10}  {took:9.0f} us  {took / count:7.1f} us each", flush=True)


if __name__ == "__main__":
    main()
