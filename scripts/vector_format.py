# SPDX-License-Identifier: Apache-2.0
"""How scripts/gen_vectors.py writes arrays and vectors, and the arrays it makes."""
import json
import zlib

import numpy as np

import vector_reference as ref

ALL_DTYPES = list(ref.NUMPY)
INTEGERS = [name for name in ALL_DTYPES if name not in ref.FLOATS and name != "bool"]
INEXACT_DIVISION_ULP = 2  # multiplying by 1/3 instead of dividing by 3 is allowed


def tensor(array: np.ndarray, ulp: int = -1) -> dict:
    """An array as a vector's tensor; with ulp >= 0 as an expectation."""
    found = {"shape": list(array.shape), "hex": np.ascontiguousarray(array).tobytes().hex()}
    return found if ulp < 0 else {**found, "ulp": ulp}


def digest(array: np.ndarray) -> dict:
    """An expectation that is too large to be written out."""
    raw = np.ascontiguousarray(array).tobytes()
    return {"shape": list(array.shape), "crc32": zlib.crc32(raw), "head": raw[:32].hex()}


def filled(dtype: str, shape: list, a: int, b: int, m: int, c: int) -> tuple:
    """(array, tensor) of a fill."""
    count = int(np.prod(shape, dtype=np.int64))
    values = (a * np.arange(count, dtype=np.int64) + b) % m + c
    return ref.encode(dtype, values).reshape(shape), {"shape": shape, "fill": [a, b, m, c]}


def sample(dtype: str, shape: list, rank: int, seed: int = 0) -> np.ndarray:
    """Small exact numbers that differ by rank and position."""
    count = int(np.prod(shape, dtype=np.int64))
    index = np.arange(count, dtype=np.int64)
    if dtype == "bool":
        return ((index * (rank + 2) + seed) % 3 == 0).astype(np.uint8).reshape(shape)
    values = (index * 7 + rank * 13 + seed * 5) % 23 - (0 if dtype.startswith("u") else 11)
    scaled = values * 0.25 if dtype in ref.FLOATS else values
    return ref.encode(dtype, scaled).reshape(shape)


def bits(dtype: str, *patterns: int) -> np.ndarray:
    """An array of bit patterns."""
    width = np.dtype(ref.NUMPY[dtype]).itemsize
    return np.array(patterns, dtype=f"<u{width}").view(ref.NUMPY[dtype])


class File:
    """The vectors of one file."""

    def __init__(self, op: str):
        self.op = op
        self.vectors: list = []

    def add(self, name: str, size: int, dtype: str, **fields) -> None:
        defaults = {"prescale": 1.0, "postscale": 1.0, "root": 0, "reduce": "sum"}
        kept = {key: value for key, value in fields.items() if key not in defaults or value != defaults[key]}
        self.vectors.append({"name": name, "op": self.op, "size": size, "dtype": dtype, **kept})

    def text(self) -> str:
        lines = ",\n".join(json.dumps(vector) for vector in self.vectors)
        return f'{{"op": "{self.op}", "vectors": [\n{lines}\n]}}\n'


def ops_for(dtype: str) -> list:
    """The reductions that are defined for a dtype, Adasum apart."""
    return ["sum", "min", "max", "product"] + (["average"] if dtype != "bool" else [])
