# SPDX-License-Identifier: Apache-2.0
"""Every dtype of JAX outside and inside of jit, random keys of both styles, and that the advice of an error works."""

import jax
import numpy as np
from errors import raises
from jax import numpy as jnp

import horovod.jax as hvd

REDUCED = "uint16 uint32 uint64 int64 float64 complex64 complex128".split()
# The dtypes that this version of JAX has.
MOVED = [*REDUCED, *(
    name for name in (
        "float8_e3m4 float8_e4m3 float8_e4m3b11fnuz float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz float8_e8m0fnu"
    ).split() if hasattr(jnp, name)
)]
# Each element has a byte of its own, but not in programs of XLA.
OF_LESS_THAN_A_BYTE = [name for name in "int2 uint2 int4 uint4 float4_e2m1fn".split() if hasattr(jnp, name)]


def part(rank, count, dtype):
    numbers = np.arange(count) % 2 + rank % 2
    return (numbers * (1 + 2j) if dtype.startswith("complex") else numbers).astype(jnp.dtype(dtype))


def same(found, wanted):
    assert isinstance(found, jax.Array) and (found.dtype, found.shape) == (wanted.dtype, wanted.shape), (found, wanted)
    assert np.asarray(found).tobytes() == wanted.tobytes(), (found, wanted)


def everything(own):
    moved = {
        name: (hvd.allgather(one), hvd.broadcast(one, hvd.size() - 1), hvd.alltoall(one)) for name, one in own.items()
    }
    return moved, {name: hvd.allreduce(one, op=hvd.Sum) for name, one in own.items() if name in REDUCED}


def check_dtypes():
    rank, size = hvd.rank(), hvd.size()
    for run, names in ((everything, MOVED + OF_LESS_THAN_A_BYTE), (jax.jit(everything), MOVED)):
        moved, reduced = run({name: jnp.asarray(part(rank, size, name)) for name in names})
        for name in names:
            parts = [part(r, size, name) for r in range(size)]
            same(moved[name][0], np.concatenate(parts))
            same(moved[name][1], parts[-1])
            same(moved[name][2], np.stack([one[rank] for one in parts]))
            if name in REDUCED:
                same(reduced[name], sum(parts[1:], parts[0]))
    own = jnp.full(2, 1 + 2j) * (rank + 1)
    found = jax.grad(lambda t: jnp.real(jnp.vdot(jnp.full(2, 3 - 1j), hvd.allreduce(t, op=hvd.Sum))))(own)
    np.testing.assert_allclose(found, size * jax.grad(lambda t: jnp.real(jnp.vdot(jnp.full(2, 3 - 1j), t)))(own))


def check_refusals():
    low = jnp.ones(2, jnp.float8_e5m2)
    for run in (hvd.allreduce, jax.jit(hvd.allreduce)):
        raises(Exception, "convert the input, for example to float32", lambda: jax.block_until_ready(run(low)))
        same(run(low.astype(jnp.float32)), np.ones(2, np.float32))
    complex_max = jax.jit(lambda x: hvd.allreduce(x, op=hvd.Max))
    raises(Exception, "average and sum are", lambda: jax.block_until_ready(complex_max(jnp.ones(2, jnp.complex64))))
    if OF_LESS_THAN_A_BYTE:
        small = jnp.ones(2, OF_LESS_THAN_A_BYTE[0])
        inside = jax.jit(lambda x: hvd.broadcast(x, 0))
        raises(TypeError, "array.astype(jax.numpy.int8) can", inside, small)
        same(inside(small.astype(jnp.int8)), np.ones(2, np.int8))


def same_keys(found, wanted):
    assert found.dtype == wanted.dtype and found.shape == wanted.shape, (found, wanted)
    assert np.array_equal(jax.random.key_data(found), jax.random.key_data(wanted))
    jax.random.normal(found if found.ndim == 0 else found[0], (2,))


def keys_of(rank):
    return [jax.random.key(rank), jax.random.key(rank, impl="rbg"), jax.random.split(jax.random.key(rank), 3)]


def check_keys():
    rank, size = hvd.rank(), hvd.size()
    last = keys_of(size - 1)
    for run in (hvd.broadcast, jax.jit(hvd.broadcast, static_argnums=1)):
        for own, wanted in zip(keys_of(rank), last):
            same_keys(run(own, size - 1), wanted)
        same(run(jax.random.PRNGKey(rank), 0), np.asarray(jax.random.PRNGKey(0)))
        same(run(jax.random.key_data(jax.random.key(rank)), 0), np.asarray(jax.random.key_data(jax.random.key(0))))
    same_keys(hvd.synchronize(hvd.broadcast_async(jax.random.key(rank), size - 1)), last[0])
    every = jnp.stack([jax.random.key(r) for r in range(size)])
    for run in (hvd.allgather, jax.jit(hvd.allgather)):
        same_keys(run(jax.random.key(rank)), every)
        same_keys(run(jax.random.split(jax.random.key(rank))), jnp.concatenate([jax.random.split(key) for key in every]))
    dealt, received = hvd.alltoall(jax.random.split(jax.random.key(rank), size), splits=[1] * size)
    same_keys(dealt, jnp.stack([jax.random.split(key, size)[rank] for key in every]))
    same(received, np.ones(size, np.int32))
    state = {"w": jnp.full(2, float(rank)), "new": jax.random.key(rank), "old": jax.random.PRNGKey(rank)}
    for run in (hvd.broadcast_parameters, jax.jit(hvd.broadcast_parameters, static_argnums=1)):
        sent = run(state, 0)
        same_keys(sent["new"], jax.random.key(0))
        same(sent["old"], np.asarray(jax.random.PRNGKey(0)))
        same(sent["w"], np.zeros(2, sent["w"].dtype))
    rows = jax.vmap(lambda key: hvd.broadcast(key, 0))(jax.random.split(jax.random.key(rank)))
    same_keys(rows, jax.random.split(jax.random.key(0)))
    raises(TypeError, "random keys can be sent, not reduced", hvd.allreduce, jax.random.key(0))


jax.config.update("jax_enable_x64", True)
hvd.init()
for check in (check_dtypes, check_refusals, check_keys):
    check()
jax.config.update("jax_enable_x64", False)  # as the next worker of this job finds it
print("jax_dtypes: ok")
