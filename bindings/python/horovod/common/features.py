# SPDX-License-Identifier: Apache-2.0
"""What this library can use besides its own transports, and what this job uses."""

from horovod._native import native, nccl
from horovod.common import basics, communicators


def _false(name, what):
    def built():
        return False

    built.__name__ = built.__qualname__ = name
    built.__doc__ = f"Whether {what}: False, this version has its own transports only."
    return built


def mpi_built():
    """Whether Open MPI can be used: its plug-in is here and the library loads."""
    return native().has_feature("mpi")


def gloo_built():
    """Whether Gloo can be used: its plug-in is here and the library loads."""
    return native().has_feature("gloo")


def mpi_enabled():
    """Whether this job uses MPI: for its data, or because MPI or its mpirun brought its ranks together."""
    return basics.is_initialized() and "mpi" in (_in_force("cpu_operations"), _in_force("controller")) and mpi_built()


def gloo_enabled():
    """Whether Gloo moves this job's data."""
    return basics.is_initialized() and _in_force("cpu_operations") == "gloo"


def _in_force(name):
    return basics.session().context.option_get(name)


ddl_built = _false("ddl_built", "DDL support is built in")
ccl_built = _false("ccl_built", "oneCCL support is built in")
rocm_built = _false("rocm_built", "ROCm support is built in")


def cuda_built():
    """Whether arrays on a CUDA device can be given: True. A driver is looked for when the first one comes."""
    return native().has_feature("cuda")


def nccl_built():
    """Version code of the NCCL that tensors on CUDA devices would go through, 22703 for 2.27.3; 0 if none loads."""
    return nccl.loaded_version() if native().has_feature("nccl") else 0


def mpi_threads_supported():
    """Whether MPI may be called from several threads at once, by the program beside Horovod too.

    ValueError before init, and where MPI is not in use in this process.
    """
    current = basics.session()
    if native().has_feature("mpi.initialized"):
        if current.comm is None and not mpi_enabled():
            communicators.check_span("mpi_threads_supported")
        return native().has_feature("mpi.threads")
    if not mpi_enabled():
        remedy = "start the ranks with horovodrun --mpi, or with mpirun"
        raise ValueError(f"mpi_threads_supported: MPI is not in use; to use it {remedy}")
    # Started by Open MPI's mpirun, but on one host nothing needed MPI so far. Every Open MPI from 3 on offers all threads to
    # whoever starts it with them, as mpi4py does, and the engine makes no calls that could be in the way.
    return _in_force("mpi_threads_disable") == "0"
