# SPDX-License-Identifier: Apache-2.0
"""Small functions that Horovod's users import from here."""

import contextlib
import importlib.util
import os
import warnings

from horovod.common import basics, features
from horovod.common.exceptions import HorovodVersionMismatchError

EXTENSIONS = ["torch", "tensorflow", "keras", "jax", "mxnet"]


def extension_available(ext_name, verbose=False):
    """Whether ``horovod.<ext_name>`` can work here: whether its framework is installed."""
    if ext_name not in EXTENSIONS:
        return False
    found = importlib.util.find_spec(ext_name) is not None
    if verbose:
        print(f"horovod.{ext_name}: {ext_name} is {'installed' if found else 'not installed'}")
    return found


def gpu_available(ext_name, verbose=False):
    """Whether the framework sees a GPU. Tensors there are reduced by way of host memory in this version."""
    if not extension_available(ext_name, verbose):
        return False
    if ext_name in ("tensorflow", "keras"):
        return bool(importlib.import_module("tensorflow").config.list_physical_devices("GPU"))
    framework = importlib.import_module(ext_name)
    if ext_name == "jax":
        return any(device.platform == "gpu" for device in framework.devices())
    if ext_name == "mxnet":
        return framework.context.num_gpus() > 0
    return framework.cuda.is_available()


def mpi_built(verbose=False):
    """False: see ``hvd.mpi_built``."""
    return features.mpi_built()


def gloo_built(verbose=False):
    """False: see ``hvd.gloo_built``."""
    return features.gloo_built()


def nccl_built(verbose=False):
    """See ``hvd.nccl_built``."""
    return features.nccl_built()


def ddl_built(verbose=False):
    """False: see ``hvd.ddl_built``."""
    return features.ddl_built()


def ccl_built(verbose=False):
    """False: see ``hvd.ccl_built``."""
    return features.ccl_built()


@contextlib.contextmanager
def env(**kwargs):
    """Sets environment variables inside a with block. A variable given as None is left alone."""
    before = {name: os.environ.get(name) for name, value in kwargs.items() if value is not None}
    os.environ.update({name: kwargs[name] for name in before})
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def reduce_op_of(op, average):
    """The reduce op that ``op`` and the older argument ``average`` mean together; Average if neither is given."""
    if average is None:
        return basics.Average if op is None else op
    if op is not None:
        raise ValueError("op and average are both given; average is the older name of op=Average and op=Sum")
    warnings.warn("average is deprecated; use op=hvd.Average or op=hvd.Sum", DeprecationWarning, stacklevel=3)
    return basics.Average if average else basics.Sum


def listed(tensors, kind):
    """The tensors of a grouped operation, as a list."""
    try:
        return list(tensors)
    except TypeError:
        raise TypeError(f"{kind}: {type(tensors).__name__} is not a list of tensors") from None


def get_average_backwards_compatibility_fun(reduce_ops):
    """Horovod's name for :func:`reduce_op_of`; ``reduce_ops`` is not used, the numbers are the same everywhere."""
    return reduce_op_of


def num_rank_is_power_2(num_rank):
    """Whether the number is a power of two (Adasum asks)."""
    return num_rank != 0 and num_rank & (num_rank - 1) == 0


def split_list(items, parts):
    """The list in ``parts`` chunks; the first ones are one longer if it does not divide."""
    quotient, remainder = divmod(len(items), parts)
    starts = [i * quotient + min(i, remainder) for i in range(parts + 1)]
    return [items[a:b] for a, b in zip(starts, starts[1:])]


def check_installed_version(name, version, exception=None):
    """HorovodVersionMismatchError if the installed distribution ``name`` has another version."""
    import importlib.metadata

    installed = importlib.metadata.version(name)
    if installed != version:
        raise HorovodVersionMismatchError(name, version, installed) from exception


def is_iterable(x):
    """Whether iter(x) works."""
    try:
        iter(x)
    except TypeError:
        return False
    return True


def is_version_greater_equal_than(ver, target):
    """Whether version text ``ver`` is at least ``target``, which is "major.minor.patch"."""
    import re

    if not re.fullmatch(r"\d+\.\d+\.\d+", target):
        raise ValueError(f"target version {target!r} is not major.minor.patch")
    numbers = [int(n) for n in re.findall(r"\d+", ver.split("+")[0])[:3]]
    return numbers + [0] * (3 - len(numbers)) >= [int(n) for n in target.split(".")]
