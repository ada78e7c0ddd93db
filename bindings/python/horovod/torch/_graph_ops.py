# SPDX-License-Identifier: Apache-2.0
"""The operations as nodes of compiled graphs: ``torch.ops.hvd.*``, with shapes for tracing and gradients.

``horovod.torch`` calls these functions while ``torch.compile`` traces it; the graph then has one node where eager code
starts and awaits an operation. Each node runs what eager code runs. A process set is given by its number.
"""

import functools
import sys
from typing import List, Optional, Tuple

import torch
from torch import Tensor
from torch.library import custom_op

from horovod._native import constants
from horovod._submit import scattered_rows
from horovod.common import basics
from horovod.common.process_sets import set_with_number
from horovod.torch import _start, autograd


# Until then Inductor, where it moves nodes to need less memory, does not look at the places that they are to keep.
_MOVES_NODES = tuple(int(part) for part in torch.__version__.split(".")[:2]) < (2, 15)


def _keep_places():
    """While a program with our nodes is traced: the one that is used then decides."""
    config = sys.modules.get("torch._inductor.config")
    if _MOVES_NODES and hasattr(config, "reorder_for_peak_memory"):
        config.reorder_for_peak_memory = False


def _shapes_of(node):
    """A decorator of the function that makes results of a node, for tracing."""

    def register(function):
        @functools.wraps(function)
        def results(*arguments):
            _keep_places()
            return function(*arguments)

        return node.register_fake(results)

    return register


def _reduction(reduce_op, prescale, postscale):
    return {"reduce_op": reduce_op, "prescale": prescale, "postscale": postscale}


def _rows(tensor):
    return tensor.shape[0] if tensor.dim() else 1


@custom_op("hvd::allreduce", mutates_args=())
def allreduce(
    tensor: Tensor, name: Optional[str], process_set: int, reduce_op: int, prescale: float, postscale: float
) -> Tensor:
    """allreduce into a new tensor."""
    options = _reduction(reduce_op, prescale, postscale)
    return autograd.run(_start.out_of_place(constants.ALLREDUCE, tensor, name, set_with_number(process_set), **options))


@_shapes_of(allreduce)
def _(tensor, name, process_set, reduce_op, prescale, postscale):
    return tensor.new_empty(tensor.shape)


@custom_op("hvd::choice_gradient", mutates_args=())
def choice_gradient(
    tensor: Tensor,
    gradient: Tensor,
    scattered: bool,
    process_set: int,
    reduce_op: int,
    prescale: float,
    postscale: float,
) -> Tensor:
    """The gradient of Min, Max and Product for this rank's tensor; ``scattered``: ``gradient`` is of this rank's rows."""
    gradient_of = autograd.gradient_of_scattered_choice if scattered else autograd.gradient_of_reduced_choice
    return gradient_of(tensor, gradient, set_with_number(process_set), _reduction(reduce_op, prescale, postscale))


@_shapes_of(choice_gradient)
def _(tensor, gradient, scattered, process_set, reduce_op, prescale, postscale):
    return tensor.new_empty(tensor.shape)


def _keep_reduction(ctx, inputs, output):
    """Of one tensor or a list of them: what the gradient needs."""
    tensors = inputs[0] if isinstance(inputs[0], (list, tuple)) else inputs[:1]
    ctx.options, ctx.rows = inputs[2:], [_rows(tensor) for tensor in tensors]
    if ctx.options[1] not in autograd.SMOOTH:
        ctx.save_for_backward(*tensors)


def _allreduce_gradient(ctx, gradient):
    if ctx.options[1] in autograd.SMOOTH:
        result = allreduce(gradient, None, *ctx.options)
    else:
        result = choice_gradient(*ctx.saved_tensors, gradient, False, *ctx.options)
    return result, None, None, None, None, None


allreduce.register_autograd(_allreduce_gradient, setup_context=_keep_reduction)


@custom_op("hvd::grouped_allreduce", mutates_args=())
def grouped_allreduce(
    tensors: List[Tensor], name: Optional[str], process_set: int, reduce_op: int, prescale: float, postscale: float
) -> List[Tensor]:
    """allreduce of several tensors as one operation."""
    options = _reduction(reduce_op, prescale, postscale)
    return list(autograd.run(_start.grouped_allreduce(tensors, name, set_with_number(process_set), **options)))


@_shapes_of(grouped_allreduce)
def _(tensors, name, process_set, reduce_op, prescale, postscale):
    return [tensor.new_empty(tensor.shape) for tensor in tensors]


def _grouped_allreduce_gradient(ctx, gradients):
    if ctx.options[1] in autograd.SMOOTH:
        results = grouped_allreduce(gradients, None, *ctx.options)
    else:
        results = [choice_gradient(*pair, False, *ctx.options) for pair in zip(ctx.saved_tensors, gradients)]
    return results, None, None, None, None, None


grouped_allreduce.register_autograd(_grouped_allreduce_gradient, setup_context=_keep_reduction)


@custom_op("hvd::broadcast", mutates_args=())
def broadcast(tensor: Tensor, root_rank: int, name: Optional[str], process_set: int) -> Tensor:
    """broadcast into a new tensor."""
    return autograd.run(_start.out_of_place(constants.BROADCAST, tensor, name, set_with_number(process_set), root=root_rank))


@_shapes_of(broadcast)
def _(tensor, root_rank, name, process_set):
    return tensor.new_empty(tensor.shape)


def _keep_root(ctx, inputs, output):
    _tensor, ctx.root, _name, ctx.number = inputs


def _broadcast_gradient(ctx, gradient):
    averaged = allreduce(gradient, None, ctx.number, constants.AVERAGE, 1.0, 1.0)
    is_root = basics.rank() == ctx.root
    return (averaged if is_root else torch.zeros_like(averaged)), None, None, None


broadcast.register_autograd(_broadcast_gradient, setup_context=_keep_root)


@custom_op("hvd::allgather", mutates_args=())
def allgather(tensor: Tensor, name: Optional[str], process_set: int) -> Tensor:
    """The tensors of all ranks; only running tells how many rows that is."""
    return autograd.run(_start.allgather(tensor, name, set_with_number(process_set)))


@_shapes_of(allgather)
def _(tensor, name, process_set):
    rows = torch.library.get_ctx().new_dynamic_size()
    return tensor.new_empty((rows, *tensor.shape[1:]))


@custom_op("hvd::allgather_gradient", mutates_args=())
def allgather_gradient(gradient: Tensor, rows: int, process_set: int) -> Tensor:
    """This rank's rows of the averaged gradient."""
    return autograd.own_rows(gradient, rows, set_with_number(process_set)).clone()


@_shapes_of(allgather_gradient)
def _(gradient, rows, process_set):
    return gradient.new_empty((rows, *gradient.shape[1:]))


def _keep_rows(ctx, inputs, output):
    tensor, _name, ctx.number = inputs
    ctx.rows, ctx.shape = _rows(tensor), tensor.shape


allgather.register_autograd(
    lambda ctx, gradient: (allgather_gradient(gradient, ctx.rows, ctx.number).view(ctx.shape), None, None),
    setup_context=_keep_rows,
)


@custom_op("hvd::grouped_allgather", mutates_args=())
def grouped_allgather(tensors: List[Tensor], name: Optional[str], process_set: int) -> List[Tensor]:
    """allgather of several tensors as one operation."""
    return list(autograd.run(_start.grouped_allgather(tensors, name, set_with_number(process_set))))


@_shapes_of(grouped_allgather)
def _(tensors, name, process_set):
    context = torch.library.get_ctx()
    return [tensor.new_empty((context.new_dynamic_size(), *tensor.shape[1:])) for tensor in tensors]


def _keep_all_rows(ctx, inputs, output):
    tensors, _name, ctx.number = inputs
    ctx.rows, ctx.shapes = [_rows(tensor) for tensor in tensors], [tensor.shape for tensor in tensors]


def _grouped_allgather_gradient(ctx, gradients):
    parts = [allgather_gradient(gradient, rows, ctx.number) for gradient, rows in zip(gradients, ctx.rows)]
    return [part.view(shape) for part, shape in zip(parts, ctx.shapes)], None, None


grouped_allgather.register_autograd(_grouped_allgather_gradient, setup_context=_keep_all_rows)


@custom_op("hvd::gather", mutates_args=())
def gather(tensor: Tensor, root_rank: int, name: Optional[str], process_set: int) -> Tuple[Tensor, Tensor]:
    """The rows of all ranks on the root, none elsewhere, and how many came from each rank."""
    return autograd.run(_start.gather(tensor, root_rank, name, set_with_number(process_set)))


@_shapes_of(gather)
def _(tensor, root_rank, name, process_set):
    rows = torch.library.get_ctx().new_dynamic_size()
    received = torch.empty(len(set_with_number(process_set).ranks), dtype=torch.int32)
    return tensor.new_empty((rows, *tensor.shape[1:])), received


@custom_op("hvd::gather_gradient", mutates_args=())
def gather_gradient(gradient: Tensor, received: Tensor, rows: int, process_set: int) -> Tensor:
    """This rank's rows of the root's gradient."""
    shape = (rows, *gradient.shape[1:])
    return autograd.sent_rows(gradient, received, shape, set_with_number(process_set))


@_shapes_of(gather_gradient)
def _(gradient, received, rows, process_set):
    return gradient.new_empty((rows, *gradient.shape[1:]))


def _keep_gathered(ctx, inputs, output):
    tensor, _root, _name, ctx.number = inputs
    ctx.rows, ctx.shape = _rows(tensor), tensor.shape
    ctx.save_for_backward(output[1])


def _gather_gradient(ctx, gradient, _received):
    (received,) = ctx.saved_tensors
    back = gather_gradient(gradient.contiguous(), received, ctx.rows, ctx.number)
    return back.view(ctx.shape), None, None, None


gather.register_autograd(_gather_gradient, setup_context=_keep_gathered)


@custom_op("hvd::alltoall", mutates_args=())
def alltoall(tensor: Tensor, splits: Optional[Tensor], name: Optional[str], process_set: int) -> Tuple[Tensor, Tensor]:
    """The rows received, and how many came from each rank."""
    return autograd.run(_start.alltoall(tensor, splits, name, set_with_number(process_set)))


@_shapes_of(alltoall)
def _(tensor, splits, name, process_set):
    rows = tensor.shape[0] if splits is None else torch.library.get_ctx().new_dynamic_size()
    received = torch.empty(len(set_with_number(process_set).ranks), dtype=torch.int32)
    return tensor.new_empty((rows, *tensor.shape[1:])), received


@custom_op("hvd::alltoall_gradient", mutates_args=())
def alltoall_gradient(gradient: Tensor, received: Tensor, rows: int, process_set: int) -> Tensor:
    """The rows of the gradient, back where their rows came from."""
    back, _splits = autograd.run(_start.alltoall(gradient, received, None, set_with_number(process_set)))
    unsent = rows - back.shape[0]
    return torch.cat([back, back.new_zeros((unsent, *back.shape[1:]))]) if unsent else back


@_shapes_of(alltoall_gradient)
def _(gradient, received, rows, process_set):
    return gradient.new_empty((rows, *gradient.shape[1:]))


def _keep_received(ctx, inputs, output):
    tensor, _splits, _name, ctx.number = inputs
    ctx.rows = tensor.shape[0]
    ctx.save_for_backward(output[1])


def _alltoall_gradient(ctx, gradient, _received):
    (received,) = ctx.saved_tensors
    return alltoall_gradient(gradient.contiguous(), received, ctx.rows, ctx.number), None, None, None


alltoall.register_autograd(_alltoall_gradient, setup_context=_keep_received)


@custom_op("hvd::reducescatter", mutates_args=())
def reducescatter(
    tensor: Tensor, name: Optional[str], process_set: int, reduce_op: int, prescale: float, postscale: float
) -> Tensor:
    """This rank's rows of the reduction."""
    options = _reduction(reduce_op, prescale, postscale)
    return autograd.run(_start.reducescatter(tensor, name, set_with_number(process_set), **options))


@_shapes_of(reducescatter)
def _(tensor, name, process_set, reduce_op, prescale, postscale):
    return tensor.new_empty((scattered_rows(tensor.shape[0], set_with_number(process_set)), *tensor.shape[1:]))


@custom_op("hvd::reducescatter_gradient", mutates_args=())
def reducescatter_gradient(gradient: Tensor, rows: int, process_set: int) -> Tensor:
    """The gradients of all ranks' rows, of which there are ``rows``."""
    return autograd.run(_start.allgather(gradient, None, set_with_number(process_set)))


@_shapes_of(reducescatter_gradient)
def _(gradient, rows, process_set):
    return gradient.new_empty((rows, *gradient.shape[1:]))


def _scatter_gradients(ctx, gradients):
    """The gradients of reducescatters of ``gradients``, which are of this rank's rows."""
    if ctx.options[1] not in autograd.SMOOTH:
        return [choice_gradient(*pair, True, *ctx.options) for pair in zip(ctx.saved_tensors, gradients)]
    number, *reduction = ctx.options
    members, options = set_with_number(number), _reduction(*reduction)
    scaled = [autograd.scatter_gradient(gradient, members, options) for gradient in gradients]
    return [reducescatter_gradient(part, rows, number) for part, rows in zip(scaled, ctx.rows)]


reducescatter.register_autograd(
    lambda ctx, gradient: (*_scatter_gradients(ctx, [gradient]), None, None, None, None, None),
    setup_context=_keep_reduction,
)


@custom_op("hvd::grouped_reducescatter", mutates_args=())
def grouped_reducescatter(
    tensors: List[Tensor], name: Optional[str], process_set: int, reduce_op: int, prescale: float, postscale: float
) -> List[Tensor]:
    """reducescatter of several tensors as one operation."""
    options = _reduction(reduce_op, prescale, postscale)
    return list(autograd.run(_start.grouped_reducescatter(tensors, name, set_with_number(process_set), **options)))


@_shapes_of(grouped_reducescatter)
def _(tensors, name, process_set, reduce_op, prescale, postscale):
    members = set_with_number(process_set)
    return [tensor.new_empty((scattered_rows(tensor.shape[0], members), *tensor.shape[1:])) for tensor in tensors]


grouped_reducescatter.register_autograd(
    lambda ctx, gradients: (_scatter_gradients(ctx, gradients), None, None, None, None, None),
    setup_context=_keep_reduction,
)


_NODES = {
    "allreduce": allreduce, "grouped_allreduce": grouped_allreduce, "choice_gradient": choice_gradient, "broadcast": broadcast,
    "allgather": allgather, "grouped_allgather": grouped_allgather, "allgather_gradient": allgather_gradient,
    "gather": gather, "gather_gradient": gather_gradient,
    "alltoall": alltoall, "alltoall_gradient": alltoall_gradient, "reducescatter": reducescatter,
    "grouped_reducescatter": grouped_reducescatter, "reducescatter_gradient": reducescatter_gradient,
}  # fmt: skip


def _keep_nodes():
    """Tells PyTorch that no node may be left out where nobody uses its result, become one with a node like it, or change places
    with another: other ranks, whose program may use the result, wait for this one. See ``_keep_places``, too.
    """
    for name, node in _NODES.items():
        torch.fx.node.has_side_effect(getattr(torch.ops.hvd, name).default)
        if hasattr(node, "register_effect"):
            node.register_effect(torch.library.EffectType.ORDERED)


_keep_nodes()
