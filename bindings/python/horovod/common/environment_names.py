# SPDX-License-Identifier: Apache-2.0
"""Names of environment variables that begin with HOROVOD_: which this version reads, which it knows and ignores, and the nearest
known one for any other. Imports nothing that takes time: horovodrun asks before every job."""

import os
import sys
from typing import List, Mapping

# Options of the engine (core/base/options.def).
OPTIONS = frozenset((
    "fusion_threshold cycle_time cache_capacity names_by_kind eager_bytes hierarchical_allreduce hierarchical_allgather torus_allreduce "
    "stall_check_disable stall_check_time_seconds stall_shutdown_time_seconds op_timeout start_timeout tcp_streams peer_timeout spin_us "
    "thread_placement membership_position "
    "flight_recorder flight_file timeline timeline_mark_cycles log_level hostname look_ahead security data_mac secret_file secret_fd network_interfaces ranks cpu_operations gpu_operations "
    "nccl_library num_nccl_streams batch_d2d_memcopies cuda_kernels controller backend_path mpi_threads_disable mpi_communicator "
    "gloo_timeout_seconds gloo_iface").split())
# Read by launchers, bindings and tools, or a part of what they tell the ranks.
_OTHERS = frozenset((
    "rank size local_rank local_size cross_rank cross_size rendezvous secret secret_key ssh_args run_folder parts_file fault_file init_pid "
    "stack_file membership worker elastic elastic_timeout grace_period log_hide_time metrics_port metrics_address metrics_token_file metrics_job_token "
    "safe_objects dynamic_process_sets version skip_compile").split())
# What Horovod does with these, this version does not.
WITHOUT_EFFECT = frozenset((
    "autotune autotune_log autotune_warmup_samples autotune_steps_per_sample "
    "autotune_bayes_opt_max_samples autotune_gaussian_process_noise thread_affinity disable_group_fusion "
    "enable_async_completion enable_xla_ops adasum_mpi_chunk_size disable_nvtx_ranges ccl_cache ccl_bgt_affinity num_finalizer_threads "
    "gloo_rendezvous_addr gloo_rendezvous_port").split())
# For building Horovod, or for parts that have settings of their own.
_BEGINNINGS = ("WITH_", "WITHOUT_", "BUILD_", "GPU", "NCCL_", "CUDA_", "ROCM_", "SPARK_", "CMAKE", "NVTX_", "ALLOW_MIXED_GPU_IMPL",
               "MIXED_INSTALL", "LOCAL_VERSION", "DEBUG", "TEST_", "EXAMPLE_")
_PREFIX = "HOROVOD_"
_told = False


def notices(environment: Mapping[str, str]) -> List[str]:
    """A line for what has no effect, and one for each name that nobody reads."""
    names = sorted(name[len(_PREFIX):].lower() for name, value in environment.items() if name.startswith(_PREFIX) and value)
    idle = [_PREFIX + name.upper() for name in names if name in WITHOUT_EFFECT]
    lines = [f"{', '.join(idle)}: {'has' if len(idle) == 1 else 'have'} no effect in this version"] if idle else []
    for name in names:
        if name not in OPTIONS | _OTHERS | WITHOUT_EFFECT and not name.upper().startswith(_BEGINNINGS):
            lines.append(f"{_PREFIX}{name.upper()}: no such variable" + _advice(name))
    return lines


def tell(rank: int) -> None:
    """The same from rank 0, once, where horovodrun has not said it: under other launchers."""
    global _told
    if rank == 0 and not _told and "HOROVOD_FAULT_FILE" not in os.environ:
        _told = True
        for line in notices(os.environ):
            sys.stderr.write(f"horovod: {line}\n")


def _advice(name: str) -> str:
    import difflib

    close = difflib.get_close_matches(name, sorted(OPTIONS | _OTHERS), 1)
    return f"; did you mean {_PREFIX}{close[0].upper()}?" if close else "; it has no effect (docs/tuning.md lists all)"
