# SPDX-License-Identifier: Apache-2.0
"""Operations on JAX arrays outside and inside of jit: values, groups, handles, order, and gradients against their formulas."""

import functools
import os
import time

import jax
import numpy as np
from errors import check_no_handle, check_no_set, operations, raises
from jax import numpy as jnp

import horovod.jax as hvd
from horovod.jax import _build

REDUCED = ["uint8", "int8", "int32", "float16", "bfloat16", "float32"]
MOVED = [*REDUCED, "int16", "bool"]


def part(rank, shape, dtype):
    count = int(np.prod(shape))
    return ((np.arange(count) * (rank + 1)) % 3 + rank % 2).reshape(shape).astype(jnp.dtype(dtype))


def same(found, wanted):
    """References are made by NumPy, for which nothing has to be compiled."""
    assert isinstance(found, jax.Array), type(found)
    wanted = np.asarray(wanted)
    if wanted.dtype in (np.float64, np.int64):
        wanted = wanted.astype(jnp.dtype(wanted.dtype.kind + "4"))  # 64 bits are off
    assert found.dtype == wanted.dtype and found.shape == wanted.shape, (found, wanted)
    assert np.array_equal(np.asarray(found), np.asarray(wanted)), (found, wanted)


def close(found, wanted):
    np.testing.assert_allclose(np.asarray(found), np.asarray(wanted), rtol=1e-5, atol=1e-6)


def total(shape, dtype):
    return sum(part(r, shape, "float32") for r in range(hvd.size())).astype(jnp.dtype(dtype))


def everything(parts, rows, deal):
    """One of each operation, as a dict of results."""
    found = {}
    for dtype in REDUCED:
        for shape in [(), (4,), (3, 2), (0, 2)]:
            found[f"sum {dtype} {shape}"] = hvd.allreduce(parts[f"{dtype} {shape}"], op=hvd.Sum)
        found[f"reducescatter {dtype}"] = hvd.reducescatter(rows[dtype], op=hvd.Sum)
    for dtype in MOVED:
        found[f"allgather {dtype}"] = hvd.allgather(parts[f"{dtype} (3, 2)"])
        found[f"gather {dtype}"] = hvd.gather(parts[f"{dtype} (3, 2)"], 0)
        found[f"broadcast {dtype}"] = hvd.broadcast(parts[f"{dtype} (4,)"], hvd.size() - 1, name=f"b.{dtype}")
        found[f"alltoall {dtype}"] = hvd.alltoall(deal[dtype])
    for op in ("Average", "Min", "Max", "Product"):
        found[op] = hvd.allreduce(parts["float32 (4,)"], op=getattr(hvd, op), prescale_factor=2.0, postscale_factor=0.5)
    found["fp16"] = hvd.allreduce(parts["float32 (4,)"], op=hvd.Sum, compression=hvd.Compression.fp16)
    found["scalars"] = hvd.allgather(parts["float32 ()"])
    group = [parts["float32 (4,)"], parts["int32 (3, 2)"]]
    found["group"], found["second"] = hvd.grouped_allreduce(group, op=hvd.Sum, name="g")
    found["gathered"], found["too"] = hvd.grouped_allgather(group)
    (found["scattered"],) = hvd.grouped_reducescatter([rows["float32"]], op=hvd.Sum)
    return found


def check_values():
    rank, size = hvd.rank(), hvd.size()
    shapes = [(), (4,), (3, 2), (0, 2)]
    parts = {f"{dtype} {shape}": jnp.asarray(part(rank, shape, dtype)) for dtype in MOVED for shape in shapes}
    rows = {dtype: jnp.asarray(part(rank, (2 * size + 1, 2), dtype)) for dtype in REDUCED}
    deal = {dtype: jnp.asarray(part(rank, (size,), dtype)) for dtype in MOVED}
    every = [part(r, (4,), "float32") for r in range(size)]
    first = 3 if rank == 0 else 2
    begin = 2 * rank + min(rank, 1)
    for run in (everything, jax.jit(everything)):
        found = run(parts, rows, deal)
        for dtype in REDUCED:
            for shape in shapes:
                same(found[f"sum {dtype} {shape}"], total(shape, dtype))
            same(found[f"reducescatter {dtype}"], total((2 * size + 1, 2), dtype)[begin : begin + first])
        for dtype in MOVED:
            same(found[f"allgather {dtype}"], np.concatenate([part(r, (3, 2), dtype) for r in range(size)]))
            gathered = found[f"allgather {dtype}"]
            same(found[f"gather {dtype}"], np.asarray(gathered)[: len(gathered) if rank == 0 else 0])
            same(found[f"broadcast {dtype}"], part(size - 1, (4,), dtype))
            same(found[f"alltoall {dtype}"], np.stack([part(r, (size,), dtype)[rank] for r in range(size)]))
        close(found["Average"], sum(every) / size)
        close(found["Min"], functools.reduce(np.minimum, every))
        close(found["Max"], functools.reduce(np.maximum, every))
        close(found["Product"], functools.reduce(np.multiply, every) * 2.0 ** (size - 1))
        same(found["fp16"], sum(every))
        same(found["scalars"], np.stack([part(r, (), "float32") for r in range(size)]))
        same(found["group"], sum(every))
        same(found["second"], total((3, 2), "int32"))
        same(found["gathered"], np.concatenate(every))
        same(found["scattered"], found["reducescatter float32"])


def check_outside_of_jit():
    rank, size = hvd.rank(), hvd.size()
    wanted = np.concatenate([np.full((r + 1, 2), r, np.int32) for r in range(size)])
    same(hvd.allgather(np.full((rank + 1, 2), rank)), wanted)
    same(hvd.gather(np.full((rank + 1, 2), rank), size - 1), wanted if rank == size - 1 else wanted[:0])
    output, received = hvd.alltoall(np.arange(float(size)), splits=[1] * size)
    same(output, np.full((size,), float(rank)))
    same(received, np.ones(size, np.int32))
    handles = [hvd.allreduce_async(np.full(3, float(i)), op=hvd.Sum, name=f"h{i}") for i in range(20)]
    for i, handle in reversed(list(enumerate(handles))):
        same(hvd.synchronize(handle), np.full(3, float(i * size)))
    assert hvd.synchronize(handles[0]) is None
    raises(ValueError, "unknown", hvd.poll, handles[0])
    assert hvd.allreduce(2.0 * rank, op=hvd.Max) == 2.0 * (size - 1)
    for operation in operations(hvd):
        raises(TypeError, "is not an array", operation, object())
    raises(TypeError, "float is not a list of tensors", hvd.grouped_allreduce, 3.0)
    check_no_set(hvd, jnp.ones(4))
    check_no_handle(hvd)
    raises(TypeError, "under jit", jax.jit(lambda x: int(hvd.allreduce_async(x))), jnp.ones(1))
    raises(NotImplementedError, "splits", jax.jit(lambda x: hvd.alltoall(x, splits=[1] * size)), jnp.ones(size))
    if size > 1:
        raises(ValueError, "evenly", jax.jit(hvd.alltoall), jnp.ones(size + 1))


def check_order():
    """Many in flight: named ones in opposite orders on the ranks, unnamed ones in the order of the program and of its runs."""
    rank, size = hvd.rank(), hvd.size()
    count = 200 if size == 2 else 60  # compiling takes 15 ms for each

    @jax.jit
    def opposite(x):
        numbers = range(count) if rank % 2 else reversed(range(count))
        found = {i: hvd.allreduce(x * i, op=hvd.Sum, name=f"opposite.{i}") for i in numbers}
        again = {i: hvd.allreduce(found[i], op=hvd.Sum, name=f"again.{i}") for i in sorted(range(9), reverse=bool(rank % 2))}
        return [found[i] for i in range(count)], again

    found, again = opposite(jnp.ones(5))
    for i, one in enumerate(found):
        same(one, np.full(5, float(i * size)))
    for i, one in again.items():
        same(one, np.full(5, float(i * size * size)))

    @jax.jit
    def step(x):
        def body(carry, one):
            carry = hvd.allreduce(carry + one, op=hvd.Average)
            return carry, hvd.allreduce(one, op=hvd.Sum)

        return jax.lax.scan(body, x, jnp.arange(4.0))

    inner = jax.jit(lambda x: hvd.allreduce(x, op=hvd.Sum))
    twice = jax.jit(lambda x: (inner(x), inner(x + 1)))
    runs = [(step(jnp.zeros(()) + i), twice(jnp.full(2, float(i)))) for i in range(10)]
    for i, ((last, sums), pair) in enumerate(runs):
        same(last, i + 6.0)
        same(sums, np.arange(4.0) * size)
        same(pair[0], np.full(2, float(i * size)))
        same(pair[1], np.full(2, float((i + 1) * size)))
    same(hvd.allreduce(jnp.ones(1), op=hvd.Sum), np.full(1, float(size)))
    chosen = jax.jit(lambda x: jax.lax.cond(x.sum() > 0, lambda y: hvd.allreduce(y, op=hvd.Sum), lambda y: y, x))
    same(chosen(jnp.ones(2)), np.full(2, float(size)))


def check_vmap():
    rank, size = hvd.rank(), hvd.size()
    rows = np.arange(6.0, dtype=np.float32).reshape(3, 2) + rank
    for wrap in (lambda f: f, jax.jit):
        same(wrap(jax.vmap(lambda x: hvd.allreduce(x, op=hvd.Sum), 1, 1))(rows), sum(rows - rank + r for r in range(size)))
        same(wrap(jax.vmap(lambda x: hvd.broadcast(x, 0)))(rows), rows - rank)
        gathered = wrap(jax.vmap(hvd.allgather))(rows)
        same(gathered, np.stack([np.concatenate([row - rank + r for r in range(size)]) for row in rows]))
        root = wrap(jax.vmap(lambda x: hvd.gather(x, 0)))(rows)
        same(root, np.asarray(gathered)[:, : 2 * size if rank == 0 else 0])
        scalars = wrap(jax.vmap(hvd.allgather))(rows[:, 0])
        same(scalars, np.stack([rows[:, 0] - rank + r for r in range(size)], 1))
        dealt = wrap(jax.vmap(lambda x: hvd.reducescatter(x, op=hvd.Sum)))(jnp.ones((3, size)))
        same(dealt, np.full((3, 1), float(size)))


def check_gradients():
    rank, size = hvd.rank(), hvd.size()
    up, mean_up = jnp.arange(1.0, 5.0) * (rank + 1), jnp.arange(1.0, 5.0) * (size + 1) / 2
    x = jnp.arange(4.0)

    def gradient(function, at, upstream):
        loss = lambda t: jnp.vdot(function(t), upstream)  # noqa: E731
        outside, inside = jax.grad(loss)(at), jax.jit(jax.grad(loss))(at)
        close(outside, inside)
        return inside

    close(gradient(lambda t: hvd.allreduce(t, op=hvd.Sum, name="x"), x, up), mean_up * size)
    close(gradient(hvd.allreduce, x, up), mean_up)
    close(gradient(lambda t: hvd.allreduce(t, op=hvd.Sum, prescale_factor=0.5, postscale_factor=4.0), x, up), mean_up * size * 2)
    close(gradient(lambda t: hvd.allreduce(t, compression=hvd.Compression.bf16), x, jnp.ones(4)), jnp.ones(4))
    for op in (hvd.Max, hvd.Min):
        wanted = mean_up * size * (rank == (size - 1 if op == hvd.Max else 0))
        close(gradient(lambda t: hvd.allreduce(t, op=op), x + rank, up), wanted)
    others = np.prod([r + 1.0 for r in range(size) if r != rank])
    close(gradient(lambda t: hvd.allreduce(t, op=hvd.Product), jnp.full(4, rank + 1.0), up), mean_up * size * others)
    zero = gradient(lambda t: hvd.allreduce(t, op=hvd.Product), jnp.zeros(4), up)
    close(zero, mean_up * (size == 1))

    ups = jnp.arange(2.0 * size) * (rank + 1)
    averaged = jnp.arange(2.0 * size) * (size + 1) / 2
    close(gradient(hvd.allgather, jnp.ones(2), ups), averaged[2 * rank : 2 * rank + 2])
    uneven = size * (size + 1) // 2
    start = rank * (rank + 1) // 2
    found = jax.grad(lambda t: jnp.vdot(hvd.allgather(t), jnp.arange(float(uneven)) * (rank + 1)))(jnp.ones(rank + 1))
    close(found, (jnp.arange(float(uneven)) * (size + 1) / 2)[start : start + rank + 1])
    roots = jnp.arange(2.0 * size)
    on_root = lambda t: hvd.gather(t, 0)  # noqa: E731
    close(gradient(on_root, jnp.ones(2), roots if rank == 0 else roots[:0]), roots[2 * rank : 2 * rank + 2])
    weights = jnp.arange(float(uneven))
    found = jax.grad(lambda t: jnp.vdot(on_root(t), weights if rank == 0 else weights[:0]))(jnp.ones(rank + 1))
    close(found, weights[start : start + rank + 1])
    close(gradient(lambda t: hvd.broadcast(t, size - 1), x, up), mean_up if rank == size - 1 else jnp.zeros(4))
    close(gradient(hvd.alltoall, jnp.ones(size), jnp.full(size, rank + 1.0)), jnp.arange(1.0, size + 1))
    for op, factor in ((hvd.Sum, size), (hvd.Average, 1)):
        scattered = functools.partial(hvd.reducescatter, op=op, prescale_factor=2.0)
        close(gradient(scattered, jnp.ones(size), jnp.full(1, rank + 1.0)), jnp.arange(1.0, size + 1) * factor * 2)
        mine = 2 if rank == 0 else 1
        close(gradient(scattered, jnp.ones(size + 1), jnp.ones(mine)), jnp.full(size + 1, 2.0 * factor))
    values, own, weights = jnp.full(size, rank + 1.0), jnp.full(1, rank + 1.0), jnp.arange(1.0, size + 1)
    close(gradient(lambda t: hvd.reducescatter(t, op=hvd.Max), values, own), weights * (rank == size - 1))
    close(gradient(lambda t: hvd.reducescatter(t, op=hvd.Product), values, own), weights * others)
    mixed = jax.grad(lambda t: hvd.grouped_allreduce([t, jnp.arange(3)], op=hvd.Sum)[0].sum())(x)
    close(mixed, jnp.full(4, float(size)))
    remat = jax.checkpoint(lambda t: jnp.sin(hvd.allreduce(t)).sum())
    close(jax.jit(jax.grad(remat))(x), jnp.cos(x))


def check_sets():
    rank, size = hvd.rank(), hvd.size()
    if size < 2:
        return
    evens = hvd.add_process_set(range(0, size, 2))
    compiled = jax.jit(lambda x: hvd.allreduce(x, op=hvd.Sum, process_set=evens))
    if rank % 2 == 0:
        same(compiled(jnp.ones(2)), jnp.full(2, float(len(evens.ranks))))
        same(hvd.allgather(jnp.full(1, rank), process_set=evens), jnp.arange(0, size, 2))
    hvd.barrier()
    hvd.remove_process_set(evens)
    other = hvd.add_process_set([size - 1])  # gets the id of the former
    if rank % 2 == 0:
        text = str(raises(Exception, "", lambda: compiled(jnp.ones(2)).block_until_ready()))
        assert "other ranks now" in text or "not registered" in text, text
    raises(ValueError, "not registered", hvd.allreduce, jnp.ones(1), process_set=evens)
    hvd.barrier()
    hvd.remove_process_set(other)


def check_trees():
    rank, size = hvd.rank(), hvd.size()
    tree = {"w": jnp.full((2, 2), float(rank)), "b": [jnp.ones(1) * rank, jnp.arange(3)]}
    mean = (size - 1) / 2
    for run in (hvd.allreduce_gradients, jax.jit(hvd.allreduce_gradients)):
        found = run(tree)
        close(found["w"], jnp.full((2, 2), mean))
        close(found["b"][0], jnp.full(1, mean))
    predivided = hvd.allreduce_gradients(tree, gradient_predivide_factor=4.0)
    close(predivided["w"], jnp.full((2, 2), mean))
    sent = hvd.broadcast_parameters(tree, root_rank=size - 1)
    same(sent["w"], jnp.full((2, 2), size - 1.0))
    same(sent["b"][1], jnp.arange(3))
    assert hvd.broadcast_object({"rank": rank}, size - 1) == {"rank": size - 1}
    assert hvd.allgather_object(rank) == list(range(size))
    assert hvd.allreduce_gradients({}) == {}
    assert hvd.join() in range(size)


raises(ValueError, "not been initialized", hvd.allreduce, jnp.ones(1))
hvd.init()
assert (_build.handlers() is None) == (os.environ.get("HVD_JAX_FFI") == "0")
CHECKS = (check_values, check_outside_of_jit, check_order, check_vmap, check_gradients, check_sets, check_trees)
for check in CHECKS:
    check()
# A program that was compiled for one context works in the next.
compiled_once = jax.jit(lambda x: hvd.allreduce(x, op=hvd.Sum))
same(compiled_once(jnp.ones(1)), jnp.full(1, float(hvd.size())))
# Rank 0 is in no hurry; the others leave without a look at their last result.
if hvd.rank() == 0:
    time.sleep(0.3)
late, ranks = compiled_once(jnp.ones(1)), hvd.size()
hvd.shutdown()
same(late, jnp.full(1, float(ranks)))
raises(Exception, "not been initialized", lambda: compiled_once(jnp.ones(1)).block_until_ready())
hvd.init()
same(compiled_once(jnp.ones(1)), jnp.full(1, float(hvd.size())))
print("jax_ops: ok")
