# SPDX-License-Identifier: Apache-2.0
"""Trees of arrays: gradients are averaged, parameters are sent; and objects."""

import jax

from horovod import _objects
from horovod.common.basics import Average
from horovod.common.process_sets import global_process_set
from horovod.jax import mpi_ops
from horovod.jax._exchange import settle
from horovod.jax.compression import Compression


def allreduce_gradients(
    tree,
    name=None,
    compression=Compression.none,
    op=Average,
    gradient_predivide_factor=1.0,
    process_set=global_process_set,
):
    """The tree with every array reduced over the ranks, as one operation. Works under jit.

    ``gradient_predivide_factor`` divides before and multiplies after the sum, which must be an Average.
    """
    if gradient_predivide_factor != 1.0 and op != Average:
        raise ValueError("allreduce_gradients: gradient_predivide_factor needs op=Average")
    leaves, structure = jax.tree_util.tree_flatten(tree)
    if not leaves:
        return tree
    reduced = mpi_ops.grouped_allreduce(
        leaves,
        name=name,
        compression=compression,
        op=op,
        prescale_factor=1.0 / gradient_predivide_factor,
        postscale_factor=gradient_predivide_factor,
        process_set=process_set,
    )
    return jax.tree_util.tree_unflatten(structure, reduced)


def broadcast_parameters(params, root_rank=0, process_set=global_process_set):
    """The tree with the arrays that ``root_rank`` has: parameters, the state of an optimizer.

    Arrays are named by their place in the tree, and ranks whose trees differ are told so.
    """
    leaves, structure = jax.tree_util.tree_flatten_with_path(params)
    paths = [f"parameters{jax.tree_util.keystr(path)}" for path, _leaf in leaves]
    if any(isinstance(leaf, jax.core.Tracer) for _path, leaf in leaves):
        found = [mpi_ops.broadcast(leaf, root_rank, path, process_set) for path, (_path, leaf) in zip(paths, leaves)]
    else:
        handles = [mpi_ops.broadcast_async(leaf, root_rank, path, process_set) for path, (_path, leaf) in zip(paths, leaves)]
        found = [mpi_ops.synchronize(handle) for handle in handles]
    return jax.tree_util.tree_unflatten(structure, found)


broadcast_optimizer_state = broadcast_parameters


def broadcast_object(obj, root_rank=0, name=None, process_set=global_process_set):
    """The object of ``root_rank``, pickled on the way."""
    settle()
    return _objects.broadcast_object(obj, root_rank, name, process_set)


def allgather_object(obj, name=None, process_set=global_process_set):
    """The objects of all ranks of the set as a list, in the order of ranks."""
    settle()
    return _objects.allgather_object(obj, name, process_set)
