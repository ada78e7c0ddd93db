# SPDX-License-Identifier: Apache-2.0
"""What ``help`` tells about the functions of all flavours, in the same words: arguments, and of operations also result, errors and an
example."""

import inspect
import re

from horovod._native.constants import DTYPES

_SAME = "of the same shape and dtype on all ranks"
_ROWS = "with at least one dimension"
# What an operation takes, what it gives, and its arguments in an example, where {ones} is the flavour's.
_OPERATIONS = {
    "allreduce": (_SAME, "an array of the same shape and dtype", '{ones}, op=hvd.Sum, name="total"'),
    "allgather": (
        f"{_ROWS}, the first of which may differ between ranks; the others and the dtype may not",
        "an array with the rows of all ranks, in the order of ranks",
        '{ones}, name="rows"',
    ),
    "broadcast": (f"{_SAME}; only the values of ``root_rank`` are sent", "an array of the same shape and dtype", '{ones}, 0, name="begin"'),
    "gather": (
        f"{_ROWS}, the first of which may differ between ranks; the others and the dtype may not",
        "on ``root_rank`` an array with the rows of all ranks, in the order of ranks; on other ranks one without rows",
        '{ones}, 0, name="rows"',
    ),
    "alltoall": (
        f"{_ROWS}; all but the first, and the dtype, are the same on all ranks",
        "an array with the rows for this rank, in the order of ranks",
        '{ones}, name="rows"',
    ),
    "reducescatter": (
        f"{_ROWS}, {_SAME}",
        "an array with this rank's part of the rows",
        '{ones}, op=hvd.Sum, name="part"',
    ),
    "barrier": ("", "nothing", ""),
    "join": ("", "the rank that joined last", ""),
}
_ARGUMENTS = {
    "average": "older than ``op``, and not together with it: True is Average, False is Sum.",
    "name": "what calls of different ranks are matched by; without names their order counts. Free again when the operation has ended.",
    "op": "``hvd.Average``, ``Sum``, ``Min``, ``Max``, ``Product`` or ``Adasum``; not all operations and dtypes have all.",
    "prescale_factor": "number by which the values of every rank are multiplied before.",
    "postscale_factor": "number by which the result is multiplied.",
    "process_set": "the ranks that take part, a registered ``hvd.ProcessSet``; all ranks of the job if it is not given.",
    "compression": "how values travel: ``hvd.Compression.none``, or one with fewer bits.",
    "root_rank": "rank of the job, also in a process set, whose values all ranks get, or which gets the values of all.",
    "splits": "how many rows go to each rank of the set, integers; equal parts if it is not given.",
    "priority": "MXNet's: work with a higher one is done first.",
    "device": "accepted for Horovod's sake.",
    "device_dense": "accepted for Horovod's sake.",
    "device_sparse": "accepted for Horovod's sake.",
    "ignore_name_scope": "whether names of nodes are without the scope they are in, so that ranks may have other scopes.",
    "variables": "variables, as many and in the same order on all ranks.",
    "obj": "any object that cloudpickle can send; with HOROVOD_SAFE_OBJECTS=1 plain values and arrays.",
    "handle": "what a function with ``_async`` returned.",
    "session": "accepted for Horovod's sake.",
    "inplace": "accepted for Horovod's sake.",
    "process_set_id": "number of a registered process set; 0 is all ranks.",
    "rank_op.name": "name of the node in a graph.",
    "local_rank_op.name": "name of the node in a graph.",
    "size_op.name": "name of the node in a graph.",
    "local_size_op.name": "name of the node in a graph.",
    "process_set_included_op.name": "name of the node in a graph.",
    "ext_base_name": "accepted for Horovod's sake.",
    "verbose": "accepted for Horovod's sake.",
    "num_rank": "a number of ranks.",
    "items": "a list.",
    "parts": "into how many.",
    "refs": "what ``vars_to_refs`` returned.",
    "vars_to_refs.variables": "a variable, or a list of them.",
    "tree": "any tree of arrays.",
    "params": "the parameters, as the framework holds them; the same on all ranks but for their values.",
    "optimizer": "the optimizer of the framework that is to use reduced gradients.",
    "DistributedOptimizer.name": "name that the optimizer gets; it keeps its own without it.",
    "PartialDistributedOptimizer.name": "name that the optimizer gets; it keeps its own without it.",
    "gradtape": "the ``tf.GradientTape`` whose gradients are reduced.",
    "sparse_as_dense": "whether sparse gradients are made dense before they are reduced.",
    "gradient_predivide_factor": "f: gradients are divided by f before the sum over the ranks, and by size/f after it.",
    "groups": "how many groups, or lists of variables, are reduced as one operation each.",
    "num_groups": "older name of a number in ``groups``.",
    "scale_local_gradients": "whether gradients of variables that stay local are divided by the number of ranks.",
    "backward_passes_per_step": "gradients of so many passes are added up locally before they are reduced.",
    "average_aggregated_gradients": "whether those are averaged, not summed.",
    "use_locking": "as of the optimizer of the framework.",
    "filepath": "the file that ``model.save`` wrote.",
    "custom_optimizers": "classes of optimizers that Keras does not know.",
    "custom_objects": "as of Keras's own ``load_model``.",
    "legacy_opts": "accepted for Horovod's sake.",
}
_ERRORS = """\
    ValueError or TypeError: before ``init``, and for an argument that cannot be used; nothing was started.
    {mismatch}: ranks disagree on shape, dtype, ``op`` or another argument; the next operation works.
    {lost}: another rank ended or was lost; its text names rank, host and cause."""


def _operation_of(name):
    """The operation whose form a function is, or None."""
    base = name.replace("grouped_", "").rstrip("_")
    base = base[: -len("_async")] if base.endswith("_async") else base
    return base if base in _OPERATIONS else None


def _parameters(function):
    return [name for name in inspect.signature(function).parameters if name != "self"]


def _explained(parameter, operation, array):
    takes = _OPERATIONS[operation][0]
    if parameter in ("tensor", "value"):
        return f"{array} {takes}."
    if parameter == "tensors":
        return f"a list of such, as many on all ranks. Each: {array} {takes}."
    return _ARGUMENTS[parameter]


def _tells_of(text, parameter):
    quoted = re.findall(r"(`+)([^`]+)\1", text)
    return re.search(rf"^\s*{parameter}: ", text, re.M) or any(re.search(rf"\b{parameter}\b", words) for _, words in quoted)


def _add_arguments(name, function):
    """The arguments that the docstring of a function that is no operation does not mention."""
    text = inspect.cleandoc(function.__doc__)
    lines = []
    for parameter in _parameters(function):
        meaning = _ARGUMENTS.get(f"{name}.{parameter}") or _ARGUMENTS.get(parameter)
        if meaning and not _tells_of(text, parameter):
            lines.append(f"    {parameter}: {meaning}")
    if lines:
        function.__doc__ = "\n".join([text, "", "Arguments:", *lines, ""])


def _result(name, operation):
    gives = _OPERATIONS[operation][1]
    if "grouped_" in name:
        gives = f"for each of ``tensors``: {gives}"
    if name.endswith("_") and "async" not in name:
        gives = "what was given, with the new values"
    return f"a handle; what ``hvd.synchronize(handle)`` returns is {gives}" if "async" in name else gives


def _example(name, operation, names, ones):
    given = _OPERATIONS[operation][2]
    if "variables" in names:
        ones = f"[tf.Variable({ones})]"
    elif "grouped_" in name:
        ones = f"[{ones}, {ones}]"
    given = given.format(ones=ones)
    given = given if "name" in names else given.partition(", name=")[0]
    if "async" in name:
        return f"handle = hvd.{name}({given})\n    result = hvd.synchronize(handle)"
    return f"hvd.{name}({given})" if operation == "barrier" else f"result = hvd.{name}({given})"


def explain(functions, array=None, ones=None, mismatch="hvd.HorovodMismatchError", lost="hvd.HorovodInternalError"):
    """Adds to the docstrings of ``functions``, a dict by name.

    ``array``: what the flavour's array is called; None where there are no operations. ``ones``: an expression for one. ``mismatch`` and
    ``lost``: the exceptions of the flavour.
    """
    described = f"{array}, of dtype {', '.join(DTYPES)},"
    for name, function in functions.items():
        # Without docstrings, as python -OO has it, there is nothing to add to; and what another module has explained is.
        if name.startswith("_") or not inspect.isfunction(function) or not function.__doc__ or "Arguments:" in function.__doc__:
            continue
        if not function.__module__.startswith("horovod."):
            continue
        operation = _operation_of(name) if array else None
        if operation is None:
            _add_arguments(name, function)
            continue
        names = _parameters(function)
        lines = [inspect.cleandoc(function.__doc__), ""]
        if names:
            lines += ["Arguments:", *(f"    {each}: {_explained(each, operation, described)}" for each in names), ""]
        lines += [f"Returns: {_result(name, operation)}.", ""]
        lines += ["Raises:", _ERRORS.format(mismatch=mismatch, lost=lost), ""]
        lines += ["Example::", "", f"    {_example(name, operation, names, ones)}", ""]
        function.__doc__ = "\n".join(lines)
