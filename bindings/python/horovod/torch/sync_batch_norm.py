# SPDX-License-Identifier: Apache-2.0
"""Batch normalisation over the batches of all ranks."""

import torch
from torch.autograd.function import once_differentiable
from torch.nn.modules.batchnorm import _BatchNorm

from horovod.common import basics
from horovod.common.process_sets import checked_kind, global_process_set
from horovod.torch import mpi_ops
from horovod.torch._members import has_others


class SyncBatchNorm(_BatchNorm):
    """BatchNorm whose statistics are those of the batches of all ranks of ``process_set`` together.

    Input: ``(rows, num_features, ...)``, with any number of further dimensions, of any floating-point dtype, on any
    device; the ranks may have different numbers of rows, also none. Output, running statistics and the gradient of the
    input equal those of ``torch.nn.BatchNorm`` in one process on all rows. As for other layers the gradients of weight
    and bias are this rank's part; DistributedOptimizer reduces them. In evaluation with running statistics, alone, or
    outside the set it is BatchNorm without communication.

    ValueError: fewer than 2 dimensions, another number of features, one value per channel in total, or statistics that
    are needed before ``hvd.init`` or for a set that is not registered.
    """

    def __init__(
        self,
        num_features,
        eps=1e-5,
        momentum=0.1,
        affine=True,
        track_running_stats=True,
        process_set=global_process_set,
        device=None,
        dtype=None,
    ):
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device=device, dtype=dtype)
        self.process_set = checked_kind(process_set, "SyncBatchNorm")

    def _check_input_dim(self, input):
        if input.dim() < 2:
            raise ValueError(f"SyncBatchNorm: input has {input.dim()} dimensions, not at least 2")
        if input.shape[1] != self.num_features:
            raise ValueError(f"SyncBatchNorm: input has {input.shape[1]} features, not {self.num_features}")

    def forward(self, input):
        """The normalised input, with its shape and dtype."""
        own_statistics = self.training or self.running_mean is None
        group = self.process_set
        if not own_statistics or not has_others(group, "SyncBatchNorm"):
            return super().forward(input)
        self._check_input_dim(input)
        output, mean, variance, count = _Normalise.apply(input, self.weight, self.bias, self.eps, group)
        if self.training and self.track_running_stats and self.running_mean is not None:
            self._remember(mean, variance, int(count))
        return output

    def _remember(self, mean, variance, count):
        with torch.no_grad():
            self.num_batches_tracked.add_(1)
            momentum = self.momentum
            if momentum is None:  # the plain average of all batches
                momentum = 1.0 / float(self.num_batches_tracked)
            if count > 1:
                variance = variance * (count / (count - 1))
                self.running_mean.lerp_(mean.to(self.running_mean.dtype), momentum)
                self.running_var.lerp_(variance.to(self.running_var.dtype), momentum)

    @classmethod
    def convert_sync_batchnorm(cls, module, process_set=global_process_set):
        """The module with every BatchNorm in it, at any depth, replaced by a SyncBatchNorm with its parameters."""
        converted = module
        if isinstance(module, _BatchNorm) and not isinstance(module, cls):
            converted = cls(
                module.num_features,
                module.eps,
                module.momentum,
                module.affine,
                module.track_running_stats,
                process_set,
            )
            if module.affine:
                converted.weight, converted.bias = module.weight, module.bias
            for name in ("running_mean", "running_var", "num_batches_tracked"):
                setattr(converted, name, getattr(module, name))
            converted.training = module.training
        for name, child in module.named_children():
            converted.add_module(name, cls.convert_sync_batchnorm(child, process_set))
        return converted


def _sum(numbers, part, process_set):
    """The sum over the ranks of float64 numbers on the CPU. The name is fixed: layers come one after another."""
    options = {"op": basics.Sum, "process_set": process_set, "name": f"sync_batch_norm.{part}"}
    return mpi_ops.allreduce_(numbers, **options)


def _wide(tensor):
    return tensor.float() if tensor.dtype in (torch.float16, torch.bfloat16) else tensor


def _per_channel(numbers, like):
    return numbers.to(device=like.device, dtype=like.dtype).view(1, -1, *[1] * (like.dim() - 2))


class _Normalise(torch.autograd.Function):
    """One sum over the ranks in each direction."""

    @staticmethod
    def forward(ctx, input, weight, bias, eps, process_set):
        wide = _wide(input)
        channels = input.shape[1]
        dims = [dim for dim in range(input.dim()) if dim != 1]
        own = input.numel() // channels if channels else 0
        numbers = torch.zeros(2 * channels + 1, dtype=torch.float64)
        if own:
            # This rank's mean and variance are exact to rounding, so the sums made of them in float64 are, too.
            variance, mean = torch.var_mean(wide, dims, correction=0)
            variance, mean = variance.to("cpu", torch.float64), mean.to("cpu", torch.float64)
            numbers[0] = own
            numbers[1 : channels + 1] = mean * own
            numbers[channels + 1 :] = (variance + mean * mean) * own
        numbers = _sum(numbers, "statistics", process_set)
        count = numbers[0].item()
        if count == 1:
            raise ValueError(f"SyncBatchNorm: one value per channel on all ranks together, shape {tuple(input.shape)}")
        mean = numbers[1 : channels + 1] / max(count, 1)
        variance = (numbers[channels + 1 :] / max(count, 1) - mean * mean).clamp_(min=0)
        invstd = torch.rsqrt(variance + eps)
        output = (wide - _per_channel(mean, wide)) * _per_channel(invstd, wide)
        if weight is not None:
            output = output * _per_channel(weight, wide) + _per_channel(bias, wide)
        ctx.save_for_backward(input, weight, mean, invstd)
        ctx.count, ctx.process_set, ctx.dims = count, process_set, dims
        ctx.bias_dtype = None if bias is None else bias.dtype
        result = output.to(input.dtype), mean, variance, numbers[0]
        ctx.mark_non_differentiable(*result[1:])
        return result

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient, *_unused):
        input, weight, mean, invstd = ctx.saved_tensors
        wide, gradient = _wide(input), _wide(gradient)
        centred = wide - _per_channel(mean, wide)
        own_sum = gradient.sum(ctx.dims)
        own_product = (gradient * centred).sum(ctx.dims)
        result = None
        if ctx.needs_input_grad[0]:
            channels = input.shape[1]
            numbers = torch.cat([own_sum, own_product]).to("cpu", torch.float64)
            numbers = _sum(numbers, "gradients", ctx.process_set) / max(ctx.count, 1)
            slope = _per_channel(numbers[channels:] * invstd * invstd, wide)
            scale = _per_channel(invstd, wide)
            if weight is not None:
                scale = scale * _per_channel(weight, wide)
            result = ((gradient - _per_channel(numbers[:channels], wide) - centred * slope) * scale).to(input.dtype)
        weight_gradient = bias_gradient = None
        if weight is not None:
            weight_gradient = (own_product * invstd.to(own_product)).to(weight.dtype)
            bias_gradient = own_sum.to(ctx.bias_dtype)
        return result, weight_gradient, bias_gradient, None, None
