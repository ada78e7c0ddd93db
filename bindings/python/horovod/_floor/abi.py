# SPDX-License-Identifier: Apache-2.0
"""Structs and prototypes of ``hvd/hvd.h`` for ctypes. A test compares the layouts with what a C compiler prints."""

from ctypes import CFUNCTYPE, POINTER, Structure, c_char, c_char_p, c_double, c_int32, c_int64, c_size_t, c_uint32
from ctypes import c_uint64, c_void_p, sizeof

LogFn = CFUNCTYPE(None, c_void_p, c_int32, c_int32, c_char_p, c_char_p)


class Error(Structure):
    """hvd_error"""

    _fields_ = [
        ("struct_size", c_uint32),
        ("status", c_int32),
        ("rank", c_int32),
        ("sys_errno", c_int32),
        ("message", c_char * 1008),
    ]

    def __init__(self):
        super().__init__(sizeof(Error), 0, -1, 0)


class Tensor(Structure):
    """hvd_tensor"""

    _fields_ = [
        ("data", c_void_p),
        ("shape", POINTER(c_int64)),
        ("ndim", c_int32),
        ("dtype", c_int32),
        ("device_type", c_int32),
        ("device_id", c_int32),
        ("reserved", c_uint64 * 2),
    ]


class Option(Structure):
    """hvd_option"""

    _fields_ = [("name", c_char_p), ("value", c_char_p)]


class InitOptions(Structure):
    """hvd_init_options"""

    _fields_ = [
        ("struct_size", c_uint32),
        ("rank", c_int32),
        ("size", c_int32),
        ("flags", c_int32),
        ("rendezvous", c_char_p),
        ("store", c_void_p),
        ("timeout_ns", c_int64),
        ("options", POINTER(Option)),
        ("option_count", c_size_t),
        ("log_fn", LogFn),
        ("log_user_data", c_void_p),
    ]


class Topology(Structure):
    """hvd_topology"""

    _fields_ = [
        ("struct_size", c_uint32),
        ("rank", c_int32),
        ("size", c_int32),
        ("local_rank", c_int32),
        ("local_size", c_int32),
        ("cross_rank", c_int32),
        ("cross_size", c_int32),
        ("homogeneous", c_int32),
    ]


class OpOptions(Structure):
    """hvd_op_options"""

    _fields_ = [
        ("struct_size", c_uint32),
        ("priority", c_int32),
        ("name", c_char_p),
        ("set", c_void_p),
        ("timeout_ns", c_int64),
        ("reduce_op", c_int32),
        ("root", c_int32),
        ("prescale", c_double),
        ("postscale", c_double),
    ]


class Metric(Structure):
    """hvd_metric"""

    _fields_ = [("name", c_char_p), ("unit", c_char_p), ("value", c_double), ("reserved", c_uint64)]


LAYOUTS = {
    "hvd_error": Error,
    "hvd_tensor": Tensor,
    "hvd_option": Option,
    "hvd_init_options": InitOptions,
    "hvd_topology": Topology,
    "hvd_op_options": OpOptions,
    "hvd_metric": Metric,
}

_error = POINTER(Error)
_tensor = POINTER(Tensor)
_options = POINTER(OpOptions)
_out = POINTER(c_void_p)
_single = (c_int32, [c_void_p, _tensor, _tensor, _options, _out, _error])
_group = (c_int32, [c_void_p, _tensor, _tensor, c_size_t, _options, _out, _error])
_no_tensor = (c_int32, [c_void_p, _options, _out, _error])

PROTOTYPES = {
    "hvd_version": (c_uint32, []),
    "hvd_version_string": (c_char_p, []),
    "hvd_has_feature": (c_int32, [c_char_p]),
    "hvd_init": (c_int32, [POINTER(InitOptions), _out, _error]),
    "hvd_shutdown": (c_int32, [c_void_p, c_int64, _error]),
    "hvd_context_free": (None, [c_void_p]),
    "hvd_context_status": (c_int32, [c_void_p, _error]),
    "hvd_topology_get": (c_int32, [c_void_p, POINTER(Topology), _error]),
    "hvd_process_set_world": (c_void_p, [c_void_p]),
    "hvd_process_set_create": (c_int32, [c_void_p, POINTER(c_int32), c_size_t, _out, _error]),
    "hvd_process_set_destroy": (c_int32, [c_void_p, _error]),
    "hvd_process_set_find": (c_int32, [c_void_p, c_int32, _out, _error]),
    "hvd_process_set_free": (None, [c_void_p]),
    "hvd_process_set_id": (c_int32, [c_void_p]),
    "hvd_process_set_rank": (c_int32, [c_void_p]),
    "hvd_process_set_size": (c_int32, [c_void_p]),
    "hvd_process_set_ranks": (c_int32, [c_void_p, POINTER(c_int32), POINTER(c_size_t), _error]),
    "hvd_process_set_ids": (c_int32, [c_void_p, POINTER(c_int32), POINTER(c_size_t), _error]),
    "hvd_allreduce_async": _single,
    "hvd_grouped_allreduce_async": _group,
    "hvd_allgatherv_async": _single,
    "hvd_grouped_allgatherv_async": _group,
    "hvd_broadcast_async": _single,
    "hvd_alltoallv_async": (c_int32, [c_void_p, _tensor, POINTER(c_int64), _tensor, _options, _out, _error]),
    "hvd_reducescatter_async": _single,
    "hvd_grouped_reducescatter_async": _group,
    "hvd_barrier_async": _no_tensor,
    "hvd_join_async": _no_tensor,
    "hvd_wait": (c_int32, [c_void_p, c_int64, _error]),
    "hvd_test": (c_int32, [c_void_p, _error]),
    "hvd_handle_output_count": (c_size_t, [c_void_p]),
    "hvd_handle_output": (c_int32, [c_void_p, c_size_t, _tensor, _error]),
    "hvd_handle_received_splits": (c_int32, [c_void_p, POINTER(c_int64), POINTER(c_size_t), _error]),
    "hvd_handle_last_joined_rank": (c_int32, [c_void_p, POINTER(c_int32), _error]),
    "hvd_handle_free": (None, [c_void_p]),
    "hvd_completions_fd": (c_int32, [c_void_p, POINTER(c_int32), _error]),
    "hvd_completions_pop": (c_void_p, [c_void_p]),
    "hvd_option_name": (c_char_p, [c_size_t]),
    "hvd_option_default": (c_char_p, [c_size_t]),
    "hvd_option_help": (c_char_p, [c_size_t]),
    "hvd_option_get": (c_int32, [c_void_p, c_char_p, c_char_p, POINTER(c_size_t), _error]),
    "hvd_option_set": (c_int32, [c_void_p, c_char_p, c_char_p, _error]),
    "hvd_metrics_snapshot": (c_int32, [c_void_p, POINTER(Metric), POINTER(c_size_t), _error]),
}


def declare(library):
    """Gives every function of ``library`` its prototype."""
    for name, (restype, argtypes) in PROTOTYPES.items():
        function = getattr(library, name)
        function.restype = restype
        function.argtypes = argtypes
    return library
