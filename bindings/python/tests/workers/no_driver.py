# SPDX-License-Identifier: Apache-2.0
"""An array that says it is on a CUDA device, where there is no driver."""

import numpy as np

import horovod as hvd


class Array:
    __cuda_array_interface__ = {"version": 3, "shape": (4,), "typestr": "<f4", "data": (4096, False), "strides": None}


hvd.init()
try:
    hvd.allreduce(Array(), name="x")
except NotImplementedError as error:
    assert "there is no CUDA driver on this machine" in str(error) and "CPU tensors are not affected" in str(error), error
else:
    raise AssertionError("not refused")
assert hvd.allreduce(np.ones(4), op=hvd.Sum).sum() == 4
print("no_driver: ok")
