# SPDX-License-Identifier: Apache-2.0
"""horovodrun --check-build: what this installation can do, found by looking, not by what was asked for at build time."""

import importlib.util
import shutil
from typing import Iterable, Set, Tuple


def version() -> str:
    """The version of the installed package."""
    import horovod

    return horovod.__version__


def report() -> str:
    """The report as text: frameworks, controllers and tensor operations, each with [X] or [ ]."""
    features, problem = _features()
    parts = [
        f"Horovod v{version()}:",
        _list("Available Frameworks", _frameworks()),
        _list("Available Controllers", [
            ("native", not problem), ("MPI", "mpi" in features and bool(shutil.which("mpirun"))), ("Gloo", "gloo" in features)]),
        _list("Available Tensor Operations", [
            ("native, shared memory", "shm" in features),
            ("native, TCP", "tcp" in features),
            ("NCCL", "nccl" in features), ("DDL", False), ("CCL", False), ("MPI", "mpi" in features),
            ("Gloo", "gloo" in features),
        ]),
    ]
    if problem:
        parts.append(f"The native library does not load: {problem}")
    return "\n\n".join(parts)


def native_in_place_of_gloo() -> str:
    """What to say if --gloo cannot have Gloo here, or an empty text: without a plug-in the job runs without MPI all the same."""
    features, problem = _features()
    if problem or "gloo" in features:
        return ""
    return ("--gloo: Gloo's plug-in is not here, so the ranks run on the native engine, which needs no MPI either; the plug-in is "
            "built by pip install where Gloo is (Debian: apt install libgloo-dev)")


def _frameworks() -> Iterable[Tuple[str, bool]]:
    """A framework counts if it is installed and this package has a binding for it."""
    for name, module, binding in (("NumPy", "numpy", "horovod._ops"), ("TensorFlow", "tensorflow", "horovod.tensorflow"),
                                  ("PyTorch", "torch", "horovod.torch"), ("MXNet", "mxnet", "horovod.mxnet"),
                                  ("Keras", "keras", "horovod.keras"), ("JAX", "jax", "horovod.jax")):
        yield name, _found(module) and _found(binding)


def _found(module: str) -> bool:
    try:
        spec = importlib.util.find_spec(module)
    except ModuleNotFoundError:
        return False
    return spec is not None and spec.origin is not None


def _features() -> Tuple[Set[str], str]:
    """What the native library says it can do, and why it does not load, if it does not."""
    try:
        from horovod._native import native

        return {name for name in ("shm", "tcp", "mpi", "gloo", "nccl") if native().has_feature(name)}, ""
    except (ImportError, OSError) as error:
        return set(), str(error)


def _list(title: str, entries: Iterable[Tuple[str, bool]]) -> str:
    return "\n".join([f"{title}:"] + [f"    [{'X' if there else ' '}] {name}" for name, there in entries])
