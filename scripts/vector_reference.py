# SPDX-License-Identifier: Apache-2.0
"""What each collective must compute, written with NumPy straight from the sentences of hvd.h.

It shares nothing with the library, so that agreement means something. Speed does not matter.
"""
import numpy as np

NUMPY = {
    "uint8": np.uint8, "int8": np.int8, "uint16": np.uint16, "int16": np.int16, "int32": np.int32, "int64": np.int64,
    "float16": np.float16, "float32": np.float32, "float64": np.float64, "bool": np.uint8,
    "bfloat16": np.uint16,  # NumPy has no such type: an array of its bit patterns
}  # fmt: skip
FLOATS = ("float16", "bfloat16", "float32", "float64")


def bfloat16_to_float32(bits: np.ndarray) -> np.ndarray:
    """Widens; exact."""
    return (bits.astype(np.uint32) << 16).view(np.float32).reshape(bits.shape)


def float32_to_bfloat16(values: np.ndarray) -> np.ndarray:
    """Rounds to nearest, ties to even; every NaN becomes the quiet one."""
    shape = np.shape(values)
    values = np.ascontiguousarray(values, dtype=np.float32)  # at least one dimension, so the shape is kept aside
    bits = values.view(np.uint32).astype(np.uint64)
    rounded = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
    return np.where(np.isnan(values), np.uint16(0x7FC0), rounded).reshape(shape)


def encode(dtype: str, values) -> np.ndarray:
    """Numbers -> an array of the dtype's storage type."""
    if dtype == "bfloat16":
        return float32_to_bfloat16(np.asarray(values, dtype=np.float32))
    if dtype == "bool":
        return (np.asarray(values) != 0).astype(np.uint8)
    return np.asarray(values).astype(NUMPY[dtype])


def widen(dtype: str, array: np.ndarray) -> np.ndarray:
    """Storage -> the type in which it is reduced."""
    if dtype == "bfloat16":
        return bfloat16_to_float32(array)
    return array.astype(np.float32) if dtype == "float16" else array


def narrow(dtype: str, array: np.ndarray) -> np.ndarray:
    """The one rounding at the end."""
    if dtype == "bfloat16":
        return float32_to_bfloat16(array)
    return array.astype(NUMPY[dtype])


def scale(dtype: str, array: np.ndarray, factor: float) -> np.ndarray:
    """Multiplies in the type of reduction; integers in double, truncated toward zero, saturating."""
    if factor == 1.0 or dtype == "bool":
        return array
    if dtype in FLOATS:
        return array * array.dtype.type(factor)
    limits = np.iinfo(NUMPY[dtype])
    flat = []
    for value in array.ravel().tolist():
        product = float(value) * factor
        whole = 0 if np.isnan(product) else limits.max if product >= limits.max else limits.min if product <= limits.min else int(product)
        flat.append(whole)
    return np.array(flat, dtype=NUMPY[dtype]).reshape(array.shape)


def divide(dtype: str, array: np.ndarray, count: int) -> np.ndarray:
    """Average's division."""
    if dtype in FLOATS:
        return array / array.dtype.type(count)
    flat = [(abs(value) // count) * (1 if value >= 0 else -1) for value in array.ravel().tolist()]
    return np.array(flat, dtype=NUMPY[dtype]).reshape(array.shape)


def combine(dtype: str, op: str, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """One step of a reduction in rank order."""
    if dtype == "bool":
        return left & right if op in ("min", "product") else left | right
    if op in ("sum", "average"):
        return left + right
    if op == "product":
        return left * right
    return np.minimum(left, right) if op == "min" else np.maximum(left, right)  # both keep NaN


def adasum_pair(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Orthogonal parts add up, parallel parts are averaged."""
    dot, norm_left, norm_right = (left * right).sum(), (left * left).sum(), (right * right).sum()
    weight_left = 1.0 - dot / (2 * norm_left) if norm_left else 1.0
    weight_right = 1.0 - dot / (2 * norm_right) if norm_right else 1.0
    return weight_left * left + weight_right * right


def adasum(dtype: str, inputs: list) -> np.ndarray:
    """A tree over neighbours, in double."""
    level = [widen(dtype, array).astype(np.float64) for array in inputs]
    while len(level) > 1:
        level = [adasum_pair(level[i], level[i + 1]) if i + 1 < len(level) else level[i] for i in range(0, len(level), 2)]
    return narrow(dtype, level[0].astype(np.float64 if dtype == "float64" else np.float32))


def reduce_ranks(dtype: str, op: str, inputs: list, prescale: float = 1.0, postscale: float = 1.0, divisor: int = 0) -> np.ndarray:
    """postscale * reduce(prescale * input of every rank). Average divides by `divisor`, the size of the set."""
    if op == "adasum":
        return adasum(dtype, inputs)
    with np.errstate(all="ignore"):
        wide = [scale(dtype, widen(dtype, array), prescale) for array in inputs]
        if dtype == "bool":
            wide = [(array != 0).astype(np.uint8) for array in wide]
        total = wide[0]
        for array in wide[1:]:
            total = combine(dtype, op, total, array)
        if op == "average":
            total = divide(dtype, total, divisor or len(inputs))
        return narrow(dtype, scale(dtype, total, postscale))


def alltoall(inputs: list, splits: list) -> tuple:
    """(outputs, received splits) per rank; splits[r][i] rows go from r to i."""
    size, outputs = len(inputs), []
    starts = [np.concatenate([[0], np.cumsum(row)]).astype(int) for row in splits]
    for me in range(size):
        parts = [inputs[r][starts[r][me] : starts[r][me + 1]] for r in range(size)]
        outputs.append(np.concatenate(parts, axis=0))
    return outputs, [[int(splits[r][me]) for r in range(size)] for me in range(size)]


def dealt_rows(rows: int, size: int) -> list:
    """(first, last) of each rank's part in a reducescatter."""
    counts = [rows // size + (i < rows % size) for i in range(size)]
    return [(sum(counts[:i]), sum(counts[: i + 1])) for i in range(size)]
