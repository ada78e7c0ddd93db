# SPDX-License-Identifier: Apache-2.0
"""One rank does something else: every rank gets the engine's text as an exception. The argument says what happens."""

import os
import signal
import sys
import time

import jax
import numpy as np
from errors import raises
from jax import numpy as jnp

import horovod.jax as hvd

hvd.init()
RANK, SIZE, CASE = hvd.rank(), hvd.size(), sys.argv[1]


def told(function):
    error = raises(Exception, "", function)
    return type(error).__name__, str(error)


def mismatch():
    """Shapes differ; the engine goes on, and so does the process."""
    x = jnp.ones(3 if RANK == 1 else 2)
    compiled = jax.jit(lambda x: (hvd.allreduce(x, name="other"), hvd.allreduce(x[:1], op=hvd.Sum, name="fine")))
    kind, text = told(lambda: jax.block_until_ready(compiled(x)))
    assert kind == "JaxRuntimeError" and "HVD_ERR_MISMATCH" in text and "allreduce" in text and "other" in text, (kind, text)
    assert "[3]" in text and "[2]" in text, text
    hvd.barrier()  # forgets the failure
    same = compiled(jnp.ones(2))
    assert np.array_equal(same[0], np.ones(2)) and same[1][0] == SIZE, same
    kind, text = told(lambda: hvd.allreduce(x, name="outside"))
    assert kind == "HorovodMismatchError" and "outside" in text, (kind, text)
    rows = told(lambda: jax.jit(hvd.allgather)(jnp.ones(min(RANK, 1) + 1)).block_until_ready())[1]
    assert "same shape" in rows, rows
    hvd.barrier()


def killed():
    """The survivors name the rank that is gone, from inside of a compiled program, and leave in order."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # so that a slow machine has time to speak, see the guardian
    step = jax.jit(lambda x: hvd.allreduce(x, op=hvd.Sum, name="step"))
    step(jnp.ones(4)).block_until_ready()
    if RANK == 1:
        time.sleep(0.3)
        os.kill(os.getpid(), signal.SIGKILL)
    began = time.monotonic()
    kind, text = told(lambda: step(jnp.ones(4)).block_until_ready())
    assert "HVD_ERR_PEER_LOST" in text and "rank 1 (host " in text and "signal 9" in text, (kind, text)
    assert time.monotonic() - began < 20
    kind, text = told(lambda: hvd.allreduce(jnp.ones(1)))
    assert kind == "HorovodPeerLostError" and "rank 1" in text, (kind, text)
    hvd.shutdown()
    print("told of the killed rank")


{"mismatch": mismatch, "killed": killed}[CASE]()
print("jax_failures: ok")
