# SPDX-License-Identifier: Apache-2.0
"""What ``horovod.torch`` puts into a graph that ``torch.compile`` traces. Needs PyTorch 2.4."""

import inspect
import itertools
import types

import torch

if hasattr(torch.library, "custom_op"):
    from horovod.torch import _graph_ops as ops

    tracing = torch.compiler.is_compiling
else:
    ops = None

    def tracing():
        """Before PyTorch 2.4 the operations are not traced: the graph breaks at them."""
        return False


def _factors(options):
    return options["reduce_op"], float(options["prescale"]), float(options["postscale"])


def allreduce(tensor, name, process_set, options):
    """A node for allreduce."""
    return ops.allreduce(tensor, name, process_set.process_set_id, *_factors(options))


def _fill(tensors, results):
    """In place: nodes that change their arguments could not be kept in order."""
    with torch.no_grad():
        for tensor, result in zip(tensors, results):
            tensor.copy_(result)


def allreduce_(tensor, name, process_set, options):
    """Nodes for allreduce_."""
    _fill([tensor], [allreduce(tensor.detach(), name, process_set, options)])
    return tensor


def grouped_allreduce(tensors, name, process_set, options):
    """A node for grouped_allreduce."""
    return ops.grouped_allreduce(tensors, name, process_set.process_set_id, *_factors(options))


def grouped_allreduce_(tensors, name, process_set, options):
    """Nodes for grouped_allreduce_."""
    tensors = tuple(tensors)
    _fill(tensors, grouped_allreduce([tensor.detach() for tensor in tensors], name, process_set, options))
    return tensors


def broadcast(tensor, root_rank, name, process_set):
    """A node for broadcast."""
    return ops.broadcast(tensor, root_rank, name, process_set.process_set_id)


def broadcast_(tensor, root_rank, name, process_set):
    """Nodes for broadcast_."""
    _fill([tensor], [broadcast(tensor.detach(), root_rank, name, process_set)])
    return tensor


def allgather(tensor, name, process_set):
    """A node for allgather."""
    return ops.allgather(tensor, name, process_set.process_set_id)


def grouped_allgather(tensors, name, process_set):
    """A node for grouped_allgather."""
    return tuple(ops.grouped_allgather(tensors, name, process_set.process_set_id))


def gather(tensor, root_rank, name, process_set):
    """A node for gather."""
    output, _received = ops.gather(tensor, root_rank, name, process_set.process_set_id)
    return output


def alltoall(tensor, splits, name, process_set):
    """A node for alltoall: the output and the received splits."""
    if splits is not None and not isinstance(splits, torch.Tensor):
        splits = torch.tensor(splits)
    return ops.alltoall(tensor, splits, name, process_set.process_set_id)


def reducescatter(tensor, name, process_set, options):
    """A node for reducescatter."""
    return ops.reducescatter(tensor, name, process_set.process_set_id, *_factors(options))


def grouped_reducescatter(tensors, name, process_set, options):
    """A node for grouped_reducescatter."""
    return ops.grouped_reducescatter(tensors, name, process_set.process_set_id, *_factors(options))


def _skip_code():
    """PyTorch's function that exempts code from compilation, without importing its compiler, which takes seconds."""
    frames = getattr(getattr(torch._C, "_dynamo", None), "eval_frame", None)
    if hasattr(frames, "set_code_exec_strategy"):  # of PyTorch 2.9, say; 2.4 has the other
        skipped = frames._FrameExecStrategy(frames._FrameAction.SKIP, frames._FrameAction.SKIP)  # and what it calls
        return lambda code: frames.set_code_exec_strategy(code, skipped)
    return getattr(frames, "skip_code", lambda _code: None)


def outside(*modules):
    """Keeps the compiler out of the functions of these modules, which talk to the engine in plain Python.

    It would take those for the program's that PyTorch calls while compiled code runs, such as hooks, and those that the program
    calls.
    """
    skip = _skip_code()
    for module in modules:
        own = [value for value in vars(module).values() if getattr(value, "__module__", None) == module.__name__]
        for function in itertools.chain.from_iterable(map(_functions, own)):
            function._torchdynamo_disable = True  # where the caller is compiled
            for code in _codes(function.__code__):
                skip(code)


def _functions(value):
    """The functions that something in a module is or has."""
    value = inspect.unwrap(value) if callable(value) else value
    if isinstance(value, types.FunctionType):
        yield value
    elif isinstance(value, (staticmethod, classmethod)):
        yield from _functions(value.__func__)
    elif isinstance(value, property):
        yield from filter(None, (value.fget, value.fset))
    elif isinstance(value, type):
        for part in vars(value).values():
            yield from _functions(part)


def _codes(code):
    """The code of a function and of the functions in it."""
    yield code
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            yield from _codes(inner)
