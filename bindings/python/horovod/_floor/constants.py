# SPDX-License-Identifier: Apache-2.0
"""Numbers of the C header ``hvd/hvd.h`` that Python needs. A test compares every one of them with the header."""

OK = 0
PENDING = 1

STATUS_NAMES = {
    OK: "HVD_OK",
    PENDING: "HVD_PENDING",
    -1: "HVD_ERR_INVALID_ARGUMENT",
    -2: "HVD_ERR_INVALID_STATE",
    -3: "HVD_ERR_NOT_FOUND",
    -4: "HVD_ERR_ALREADY_EXISTS",
    -5: "HVD_ERR_UNSUPPORTED",
    -6: "HVD_ERR_VERSION",
    -7: "HVD_ERR_OUT_OF_MEMORY",
    -8: "HVD_ERR_WOULD_DEADLOCK",
    -20: "HVD_ERR_MISMATCH",
    -21: "HVD_ERR_CANCELLED",
    -22: "HVD_ERR_TIMEOUT",
    -40: "HVD_ERR_SET_BROKEN",
    -60: "HVD_ERR_PEER_LOST",
    -62: "HVD_ERR_SHUT_DOWN",
    -63: "HVD_ERR_IO",
    -80: "HVD_ERR_INTERNAL",
}

DTYPES = {
    "uint8": 0,
    "int8": 1,
    "uint16": 2,
    "int16": 3,
    "int32": 4,
    "int64": 5,
    "float16": 6,
    "float32": 7,
    "float64": 8,
    "bool": 9,
    "bfloat16": 10,
}
DTYPE_NAMES = {code: name for name, code in DTYPES.items()}

AVERAGE, SUM, ADASUM, MIN, MAX, PRODUCT = range(6)

# Which C function a submit call means. Not numbers of the header: they only connect Python with the two floors.
ALLREDUCE, ALLGATHER, BROADCAST, ALLTOALL, REDUCESCATTER, BARRIER, JOIN = range(7)
KIND_NAMES = ("allreduce", "allgather", "broadcast", "alltoall", "reducescatter", "barrier", "join")

# A wait returns to Python this often, so that Ctrl-C is noticed. The first slice is shorter because a signal that
# arrives just before the wait should not cost a whole one.
FIRST_SLICE_NS = 50_000_000
SLICE_NS = 100_000_000
