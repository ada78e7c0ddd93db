# SPDX-License-Identifier: Apache-2.0
"""Gradients of the operations.

The convention is Horovod's: the loss of the job is the mean of the ranks' losses where an operation averages. So the
gradient of an allgather is averaged over the ranks, not summed.
"""

import torch

from horovod import _handles
from horovod._native import constants
from horovod.torch import _start

SMOOTH = (constants.AVERAGE, constants.SUM, constants.ADASUM)


def run(started):
    """Waits for what a function of ``_start`` began and returns its result."""
    return _handles.result(*started)


def wanted(*tensors):
    """Whether autograd has to record an operation on these tensors."""
    return torch.is_grad_enabled() and any(getattr(tensor, "requires_grad", False) for tensor in tensors)


def _average(gradient, process_set):
    options = {"reduce_op": constants.AVERAGE}
    return run(_start.out_of_place(constants.ALLREDUCE, gradient, None, process_set, **options))


def _reduced(tensor, process_set, reduce_op):
    return run(_start.out_of_place(constants.ALLREDUCE, tensor, None, process_set, reduce_op=reduce_op))


def gradient_of_choice(tensor, total, process_set, options):
    """The gradient of Min, Max and Product for this rank's tensor, where the loss is the sum of the ranks' losses, so that
    ``total``, the gradient of the result, is the sum of theirs.

    Min and Max pass it to the rank that had the extremum; ranks that had it together share it.
    """
    op, prescale, postscale = options["reduce_op"], options["prescale"], options["postscale"]
    scaled = tensor if prescale == 1.0 else tensor * prescale
    if op == constants.PRODUCT:
        zero = scaled == 0
        zeros = _reduced(zero.int(), process_set, constants.SUM)
        nonzero = torch.where(zero, 1, scaled)
        product = _reduced(nonzero, process_set, constants.PRODUCT)
        others = torch.where(zero, product, product / nonzero)
        factor = torch.where(zeros == zero.int(), others, 0)
    else:
        chosen = scaled == _reduced(scaled, process_set, op)
        factor = chosen / _reduced(chosen.int(), process_set, constants.SUM).clamp_(min=1)
    return (total * factor * (prescale * postscale)).to(tensor.dtype)


def gradient_of_reduced_choice(tensor, gradient, process_set, options):
    """The gradient of an allreduce by Min, Max or Product."""
    return gradient_of_choice(tensor, _reduced(gradient, process_set, constants.SUM), process_set, options)


def gradient_of_scattered_choice(tensor, gradient, process_set, options):
    """The gradient of a reducescatter by Min, Max or Product, of which every rank has the gradient of its own rows."""
    total = run(_start.allgather(gradient, None, process_set))
    return gradient_of_choice(tensor, total, process_set, options)


class Allreduce(torch.autograd.Function):
    """The gradient goes through the same reduction, for Min, Max and Product to the values that made the result."""

    @staticmethod
    def forward(ctx, tensor, name, process_set, options):
        ctx.process_set, ctx.options = process_set, options
        if options["reduce_op"] not in SMOOTH:
            ctx.save_for_backward(tensor)
        return run(_start.out_of_place(constants.ALLREDUCE, tensor, name, process_set, **options))

    @staticmethod
    def backward(ctx, gradient):
        if ctx.options["reduce_op"] not in SMOOTH:
            (tensor,) = ctx.saved_tensors
            return gradient_of_reduced_choice(tensor, gradient, ctx.process_set, ctx.options), None, None, None
        started = _start.out_of_place(constants.ALLREDUCE, gradient, None, ctx.process_set, **ctx.options)
        return run(started), None, None, None


class GroupedAllreduce(torch.autograd.Function):
    """Like Allreduce, for each tensor."""

    @staticmethod
    def forward(ctx, name, process_set, options, *tensors):
        ctx.process_set, ctx.options = process_set, options
        if options["reduce_op"] not in SMOOTH:
            ctx.save_for_backward(*tensors)
        return run(_start.grouped_allreduce(tensors, name, process_set, **options))

    @staticmethod
    def backward(ctx, *gradients):
        if ctx.options["reduce_op"] not in SMOOTH:
            pairs = zip(ctx.saved_tensors, gradients)
            where = ctx.process_set, ctx.options
            return (None, None, None, *(gradient_of_reduced_choice(*pair, *where) for pair in pairs))
        return (None, None, None, *run(_start.grouped_allreduce(gradients, None, ctx.process_set, **ctx.options)))


def own_rows(gradient, rows, process_set):
    """This rank's part of a gathered gradient, averaged over the ranks."""
    averaged = _average(gradient, process_set)
    sizes = run(_start.allgather(torch.tensor([rows]), None, process_set)).tolist()
    place = process_set.rank()
    start = sum(sizes[:place])
    return averaged[start : start + rows]


class Allgather(torch.autograd.Function):
    """Average of the gradient over the ranks, of which this rank takes its own rows."""

    @staticmethod
    def forward(ctx, tensor, name, process_set):
        ctx.process_set, ctx.rows = process_set, tensor.shape[0] if tensor.dim() else 1
        return run(_start.allgather(tensor, name, process_set))

    @staticmethod
    def backward(ctx, gradient):
        return own_rows(gradient, ctx.rows, ctx.process_set), None, None


class GroupedAllgather(torch.autograd.Function):
    """Like Allgather, for each tensor."""

    @staticmethod
    def forward(ctx, name, process_set, *tensors):
        ctx.process_set, ctx.rows = process_set, [tensor.shape[0] if tensor.dim() else 1 for tensor in tensors]
        return run(_start.grouped_allgather(tensors, name, process_set))

    @staticmethod
    def backward(ctx, *gradients):
        parts = [own_rows(gradient, rows, ctx.process_set) for gradient, rows in zip(gradients, ctx.rows)]
        return (None, None, *parts)


class Broadcast(torch.autograd.Function):
    """Average of the gradient over the ranks on the root, zero elsewhere."""

    @staticmethod
    def forward(ctx, tensor, root_rank, name, process_set):
        ctx.process_set, ctx.root_rank = process_set, root_rank
        return run(_start.out_of_place(constants.BROADCAST, tensor, name, process_set, root=root_rank))

    @staticmethod
    def backward(ctx, gradient):
        averaged = _average(gradient, ctx.process_set)
        is_root = ctx.process_set.ranks[ctx.process_set.rank()] == ctx.root_rank
        return averaged if is_root else torch.zeros_like(averaged), None, None, None


def sent_rows(gradient, received, shape, process_set):
    """The gradient of a gather for this rank's tensor: its rows, which the root sends back."""
    rows, _splits = run(_start.alltoall(gradient, received, None, process_set))
    return rows.reshape(shape)


class Gather(torch.autograd.Function):
    """Every row of the root's gradient goes back to where its row came from."""

    @staticmethod
    def forward(ctx, tensor, root_rank, name, process_set):
        output, received = run(_start.gather(tensor, root_rank, name, process_set))
        ctx.process_set, ctx.received, ctx.shape = process_set, received, tensor.shape
        return output

    @staticmethod
    def backward(ctx, gradient):
        return sent_rows(gradient, ctx.received, ctx.shape, ctx.process_set), None, None, None


class Alltoall(torch.autograd.Function):
    """Every row of the gradient goes back to where its row came from."""

    @staticmethod
    def forward(ctx, tensor, splits, name, process_set):
        output, received = run(_start.alltoall(tensor, splits, name, process_set))
        ctx.process_set, ctx.received, ctx.rows = process_set, received, tensor.shape[0]
        ctx.mark_non_differentiable(received)
        return output, received

    @staticmethod
    def backward(ctx, gradient, _received):
        rows, _splits = run(_start.alltoall(gradient, ctx.received, None, ctx.process_set))
        unsent = ctx.rows - rows.shape[0]
        if unsent:  # rows beyond the splits went nowhere
            rows = torch.cat([rows, rows.new_zeros((unsent, *rows.shape[1:]))])
        return rows, None, None, None


def scatter_gradient(gradient, process_set, options):
    factor = options["prescale"] * options["postscale"]
    if options["reduce_op"] == constants.SUM:
        factor *= process_set.size()
    return gradient if factor == 1.0 else gradient * factor


class Reducescatter(torch.autograd.Function):
    """allgather of the gradient, times the factors, and for Sum times the size of the set; for Min, Max and Product to the
    values that made the result."""

    @staticmethod
    def forward(ctx, tensor, name, process_set, options):
        ctx.process_set, ctx.options = process_set, options
        if options["reduce_op"] not in SMOOTH:
            ctx.save_for_backward(tensor)
        return run(_start.reducescatter(tensor, name, process_set, **options))

    @staticmethod
    def backward(ctx, gradient):
        if ctx.options["reduce_op"] not in SMOOTH:
            (tensor,) = ctx.saved_tensors
            return gradient_of_scattered_choice(tensor, gradient, ctx.process_set, ctx.options), None, None, None
        scaled = scatter_gradient(gradient, ctx.process_set, ctx.options)
        return run(_start.allgather(scaled, None, ctx.process_set)), None, None, None


class GroupedReducescatter(torch.autograd.Function):
    """Like Reducescatter, for each tensor."""

    @staticmethod
    def forward(ctx, name, process_set, options, *tensors):
        ctx.process_set, ctx.options = process_set, options
        if options["reduce_op"] not in SMOOTH:
            ctx.save_for_backward(*tensors)
        return run(_start.grouped_reducescatter(tensors, name, process_set, **options))

    @staticmethod
    def backward(ctx, *gradients):
        if ctx.options["reduce_op"] not in SMOOTH:
            pairs = zip(ctx.saved_tensors, gradients)
            where = ctx.process_set, ctx.options
            return (None, None, None, *(gradient_of_scattered_choice(*pair, *where) for pair in pairs))
        scaled = [scatter_gradient(gradient, ctx.process_set, ctx.options) for gradient in gradients]
        return (None, None, None, *run(_start.grouped_allgather(scaled, None, ctx.process_set)))
