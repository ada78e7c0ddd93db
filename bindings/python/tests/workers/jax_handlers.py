# SPDX-License-Identifier: Apache-2.0
"""Says what a program under jit calls: the compiled handlers, and their file, or callbacks into Python."""

import jax
from jax import numpy as jnp

import horovod.jax as hvd
from horovod.jax import _build

hvd.init()
program = jax.jit(lambda x: hvd.allreduce(x, op=hvd.Sum))
ones = jnp.ones(3)
assert program(ones)[0] == hvd.size()
library = _build.handlers()
assert ("hvd_jax_start" in program.lower(ones).as_text()) == (library is not None)
print(f"handlers: {library._name if library else 'callbacks'}.")
hvd.shutdown()
