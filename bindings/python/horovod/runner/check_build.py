# SPDX-License-Identifier: Apache-2.0
"""horovodrun --check-build: what this installation can do, found by looking, not by what was asked for at build time."""

import importlib.util
from typing import Iterable, Tuple


def version() -> str:
    """The version of the installed package."""
    import horovod

    return horovod.__version__


def report() -> str:
    """The report as text: frameworks, controllers and tensor operations, each with [X] or [ ]."""
    native = _native()
    parts = [
        f"Horovod v{version()}:",
        _list("Available Frameworks", [("NumPy", _found("numpy")), *_frameworks()]),
        _list("Available Controllers", [("native", native is None), ("MPI", False), ("Gloo", False)]),
        _list("Available Tensor Operations", [
            ("native, shared memory", native is None and _feature("shm")),
            ("native, TCP between addresses of this machine", native is None and _feature("tcp")),
            ("NCCL", False), ("DDL", False), ("CCL", False), ("MPI", False), ("Gloo", False),
        ]),
    ]
    if native is not None:
        parts.append(f"The native library does not load: {native}")
    return "\n\n".join(parts)


def _frameworks() -> Iterable[Tuple[str, bool]]:
    """A framework counts if it is installed and this package has a binding for it."""
    for name, module, binding in (("TensorFlow", "tensorflow", "horovod.tensorflow"),
                                  ("PyTorch", "torch", "horovod.torch"), ("MXNet", "mxnet", "horovod.mxnet")):
        yield name, _found(module) and _found(binding)


def _found(module: str) -> bool:
    try:
        spec = importlib.util.find_spec(module)
    except ModuleNotFoundError:
        return False
    return spec is not None and spec.origin is not None


def _native():
    """None if libhvd loads, else why not."""
    try:
        import horovod

        horovod.is_initialized()
        return None
    except (ImportError, OSError, AttributeError) as error:
        return str(error)


def _feature(name: str) -> bool:
    return False


def _list(title: str, entries: Iterable[Tuple[str, bool]]) -> str:
    return "\n".join([f"{title}:"] + [f"    [{'X' if there else ' '}] {name}" for name, there in entries])
