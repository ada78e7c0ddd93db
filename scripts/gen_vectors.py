#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/vectors/*.json: inputs per rank and what must come out, for every runner and every backend.

    gen_vectors.py           writes
    gen_vectors.py --check   compares with what is checked in

A vector is one JSON object on one line:
  op, size            the collective, and the number of ranks in the job
  dtype               of all tensors, unless a tensor names its own
  reduce, root, prescale, postscale      options; absent: the defaults of hvd.h
  set                 ranks of a process set to run in; absent: all ranks. Lists per rank have null for other ranks
  grouped             true: each rank's input and expectation is a list of tensors
  joined              ranks that call join instead
  splits              alltoall: per rank, rows to each rank; null: equal parts
  per_rank            options of single ranks that differ, for mismatches
  input               per rank: {shape, hex} or {shape, fill: [a, b, m, c]}, whose i-th element is (a * i + b) % m + c
  expect              per rank: {shape, hex, ulp} or {shape, crc32, head}; NaN is equal to every NaN
  expect_splits       alltoall: per rank, rows received from each rank
  expect_status, expect_message_has      instead of expect: every rank that submits gets this error
"""
import argparse
import json
import sys
import zlib
from pathlib import Path

import numpy as np

import vector_reference as ref

FOLDER = Path(__file__).resolve().parent.parent / "tests" / "vectors"
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


# ---- allreduce -------------------------------------------------------------------------------------------------


def ops_for(dtype: str) -> list:
    return ["sum", "min", "max", "product"] + (["average"] if dtype != "bool" else [])


def allreduce_case(file: File, name: str, dtype: str, inputs: list, op: str = "sum", ulp: int = 0, **options) -> None:
    """A vector whose expectation the reference computes."""
    result = ref.reduce_ranks(dtype, op, inputs, options.get("prescale", 1.0), options.get("postscale", 1.0))
    size = len(inputs)
    file.add(name, size, dtype, reduce=op, input=[tensor(x) for x in inputs], expect=[tensor(result, ulp)] * size, **options)


def allreduce_plain(file: File) -> None:
    for dtype in ALL_DTYPES:
        for size in (1, 2, 3, 4):
            for op in ops_for(dtype):
                inputs = [sample(dtype, [3, 5], rank) for rank in range(size)]
                exact = op != "average" or dtype not in ref.FLOATS or size & (size - 1) == 0
                allreduce_case(file, f"{op} {dtype}", dtype, inputs, op, 0 if exact else INEXACT_DIVISION_ULP)
    for size in (5, 8):
        for dtype in ("int64", "float16", "bfloat16", "float32"):
            allreduce_case(file, f"sum {dtype} on {size} ranks", dtype, [sample(dtype, [17], rank) for rank in range(size)])
    for shape in ([], [0], [4, 0, 3], [1], [1, 1, 1, 1], [2, 3, 4, 5]):
        for dtype in ("float32", "int32", "bfloat16"):
            allreduce_case(file, f"shape {shape} {dtype}", dtype, [sample(dtype, shape, rank) for rank in range(3)])


def allreduce_scaled(file: File) -> None:
    for dtype in ALL_DTYPES:
        inputs = [sample(dtype, [9], rank) for rank in range(3)]
        exact = [(2.0, 1.0), (1.0, 0.5), (0.5, 4.0), (-1.0, 1.0)] if dtype in ref.FLOATS else [(2.0, 1.0), (1.0, 0.5), (0.5, 3.0)]
        for prescale, postscale in exact:
            allreduce_case(file, f"{prescale} sum {postscale} {dtype}", dtype, inputs, prescale=prescale, postscale=postscale)
    for dtype in ref.FLOATS:
        inputs = [np.abs(x) if dtype != "bfloat16" else x & np.uint16(0x7FFF) for x in (sample(dtype, [9], rank) for rank in range(3))]
        allreduce_case(file, f"0.1 sum 0.3 {dtype}", dtype, inputs, prescale=0.1, postscale=0.3, ulp=4)
        allreduce_case(file, f"max, postscale -2 {dtype}", dtype, inputs, "max", postscale=-2.0)
    for dtype in INTEGERS:
        limits = np.iinfo(ref.NUMPY[dtype])
        inputs = [np.array([limits.max // 2, limits.min // 2, 3], dtype=ref.NUMPY[dtype]), np.zeros(3, dtype=ref.NUMPY[dtype])]
        allreduce_case(file, f"saturating {dtype}", dtype, inputs, postscale=1e6)
        allreduce_case(file, f"saturating below {dtype}", dtype, inputs, postscale=-1e6)
        if limits.min < 0:
            allreduce_case(file, f"truncating toward zero {dtype}", dtype, [np.array([-7, 7, -1], dtype=ref.NUMPY[dtype])], postscale=0.5)


def allreduce_integers(file: File) -> None:
    for dtype in INTEGERS:
        limits = np.iinfo(ref.NUMPY[dtype])
        inputs = [np.array([limits.max, limits.min, limits.max], dtype=ref.NUMPY[dtype]), np.array([1, limits.max, limits.max], dtype=ref.NUMPY[dtype])]
        for op in ("sum", "product", "min", "max"):
            allreduce_case(file, f"{op} wraps around {dtype}", dtype, inputs, op)
    for size in (2, 3, 4, 5):
        # Sums of both signs, with every remainder.
        inputs = [np.arange(-12, 13, dtype=np.int32) if rank == 0 else np.full(25, rank, dtype=np.int32) for rank in range(size)]
        allreduce_case(file, f"average truncates toward zero, {size} ranks", "int32", inputs, "average")
    large = np.array([2**53 + 1, -(2**53) - 1, 2**61 + 5, -(2**61) - 5], dtype=np.int64)
    allreduce_case(file, "average of numbers a double cannot hold", "int64", [large, large + 2], "average")
    allreduce_case(file, "average of one rank is its input", "int64", [large], "average")


def allreduce_special(file: File) -> None:
    inf, nan = float("inf"), float("nan")
    rows = [[inf, inf, -inf, nan, 1.0, nan, 0.0, inf], [1.0, -inf, -inf, 1.0, nan, nan, -0.0, 0.0]]
    for dtype in ref.FLOATS:
        inputs = [ref.encode(dtype, row) for row in rows]
        for op in ("sum", "product", "average"):
            allreduce_case(file, f"{op} of special values {dtype}", dtype, inputs, op)
        finite = [ref.encode(dtype, [row[i] for i in (0, 1, 2, 3, 4, 5)]) for row in rows]
        for op in ("min", "max"):
            allreduce_case(file, f"{op} of special values {dtype}", dtype, finite, op)
    subnormal = {"float16": 0x0001, "bfloat16": 0x0001, "float32": 0x00000001, "float64": 0x1}
    for dtype, pattern in subnormal.items():
        allreduce_case(file, f"subnormal numbers stay {dtype}", dtype, [bits(dtype, pattern, pattern * 3)] * 2)
    allreduce_case(file, "overflow to infinity float16", "float16", [ref.encode("float16", [65504.0, -65504.0])] * 2)
    allreduce_case(file, "overflow to infinity float32", "float32", [ref.encode("float32", [3e38, -3e38])] * 2)
    allreduce_case(file, "overflow on the way, not in the end float16", "float16",
                   [ref.encode("float16", [v]) for v in (60000.0, 60000.0, -60000.0, -60000.0)])  # fmt: skip


def allreduce_order(file: File) -> None:
    """Where the order of additions, or the number of roundings, shows."""
    allreduce_case(file, "rank order float32", "float32", [ref.encode("float32", [v, -v]) for v in (1e8, 1.0, -1e8, 1.0)])
    allreduce_case(file, "rank order float64", "float64", [ref.encode("float64", [v]) for v in (1e16, 1.0, -1e16, 1.0)])
    allreduce_case(file, "one rounding float16", "float16", [ref.encode("float16", [v]) for v in (2048.0, 1.0, 1.0, 1.0)])
    allreduce_case(file, "one rounding bfloat16", "bfloat16", [ref.encode("bfloat16", [v]) for v in (256.0, 1.0, 1.0, 1.0)])
    allreduce_case(file, "one rounding, average float16", "float16", [ref.encode("float16", [v]) for v in (2048.0, 1.0, 1.0, 2.0)], "average")
    allreduce_case(file, "ties to even bfloat16", "bfloat16", [ref.encode("bfloat16", [256.0, 258.0, 260.0]), ref.encode("bfloat16", [1.0, 1.0, 3.0])])
    allreduce_case(file, "any nonzero byte is true", "bool", [np.array([2, 0, 255, 0], dtype=np.uint8), np.array([0, 0, 1, 128], dtype=np.uint8)], "max")


def allreduce_large(file: File) -> None:
    """Beyond every eager or single-block path, with odd lengths."""
    for dtype, count, size in [("float32", 1023, 2), ("float32", 5001, 3), ("float16", 20003, 2), ("bfloat16", 20003, 4), ("int8", 70001, 3),
                               ("uint8", 131073, 2), ("int64", 33333, 4), ("float64", 50021, 2), ("float32", 262147, 3),
                               ("float32", 1500001, 2), ("int32", 300007, 5), ("float32", 65537, 8)]:  # fmt: skip
        made = [filled(dtype, [count], 3 + rank, rank, 11, 0 if dtype == "uint8" else -3) for rank in range(size)]
        result = ref.reduce_ranks(dtype, "sum", [array for array, _ in made])
        file.add(f"large sum {dtype} {count}", size, dtype, input=[form for _, form in made], expect=[digest(result)] * size)
        if dtype in ("float32", "int64"):
            result = ref.reduce_ranks(dtype, "max", [array for array, _ in made])
            file.add(f"large max {dtype} {count}", size, dtype, reduce="max", input=[form for _, form in made], expect=[digest(result)] * size)


def allreduce_adasum(file: File) -> None:
    ulp = {"float16": 1, "bfloat16": 1, "float32": 16, "float64": 16}
    for dtype in ref.FLOATS:
        for size in (1, 2, 4):
            inputs = [ref.encode(dtype, [(i * 3 + rank * 5) % 7 + 1.0 for i in range(6)]) for rank in range(size)]
            allreduce_case(file, f"adasum {dtype}", dtype, inputs, "adasum", ulp[dtype])
    allreduce_case(file, "adasum of equal vectors is the vector", "float32", [ref.encode("float32", [1.0, 2.0, 3.0])] * 4, "adasum", 4)
    allreduce_case(file, "adasum of orthogonal vectors is their sum", "float32", [ref.encode("float32", [3.0, 0.0]), ref.encode("float32", [0.0, 5.0])], "adasum")
    allreduce_case(file, "adasum with a zero vector", "float32", [ref.encode("float32", [0.0, 0.0]), ref.encode("float32", [2.0, 5.0])], "adasum")


def allreduce_groups_and_sets(file: File) -> None:
    shapes = [[4], [], [2, 3], [0]]
    for dtype in ("float32", "float16", "int32"):
        for size in (1, 2, 4):
            lists = [[sample(dtype, shape, rank, seed) for seed, shape in enumerate(shapes)] for rank in range(size)]
            results = [ref.reduce_ranks(dtype, "sum", [lists[rank][i] for rank in range(size)]) for i in range(len(shapes))]
            file.add(f"grouped {dtype}", size, dtype, grouped=True, input=[[tensor(x) for x in row] for row in lists],
                     expect=[[tensor(x, 0) for x in results]] * size)  # fmt: skip
    mixed = ["float32", "int64", "bfloat16"]
    lists = [[sample(dtype, [5], rank) for dtype in mixed] for rank in range(2)]
    results = [ref.reduce_ranks(dtype, "max", [lists[0][i], lists[1][i]]) for i, dtype in enumerate(mixed)]
    file.add("grouped, several dtypes", 2, "float32", grouped=True, reduce="max",
             input=[[{"dtype": dtype, **tensor(x)} for dtype, x in zip(mixed, row)] for row in lists],
             expect=[[{"dtype": dtype, **tensor(x, 0)} for dtype, x in zip(mixed, results)]] * 2)  # fmt: skip
    for size, members in ((3, [0, 2]), (4, [1, 2, 3]), (4, [3]), (4, [1, 3])):
        for op in ("sum", "average", "max"):
            inputs = [sample("float32", [6], rank) if rank in members else None for rank in range(size)]
            result = ref.reduce_ranks("float32", op, [inputs[rank] for rank in members])
            ulp = INEXACT_DIVISION_ULP if op == "average" and len(members) == 3 else 0
            file.add(f"{op} in set {members}", size, "float32", reduce=op, set=members,
                     input=[None if x is None else tensor(x) for x in inputs],
                     expect=[tensor(result, ulp) if rank in members else None for rank in range(size)])  # fmt: skip


def allreduce_joined(file: File) -> None:
    for size, joined in ((2, [1]), (3, [0]), (4, [1, 2])):
        for op in ("sum", "average"):
            inputs = [None if rank in joined else sample("float32", [8], rank) for rank in range(size)]
            present = [x for x in inputs if x is not None]
            result = ref.reduce_ranks("float32", op, present, divisor=size)
            file.add(f"{op}, ranks {joined} have joined", size, "float32", reduce=op, joined=joined,
                     input=[None if x is None else tensor(x) for x in inputs],
                     expect=[None if x is None else tensor(result, INEXACT_DIVISION_ULP if size == 3 else 0) for x in inputs])  # fmt: skip


# ---- the others ------------------------------------------------------------------------------------------------


def allgather(file: File) -> None:
    def case(name: str, dtype: str, inputs: list, **fields) -> None:
        present = [x for x in inputs if x is not None]
        result = np.concatenate(present, axis=0)
        file.add(name, len(inputs), dtype, input=[None if x is None else tensor(x) for x in inputs],
                 expect=[None if x is None else tensor(result, 0) for x in inputs], **fields)  # fmt: skip

    for dtype in ALL_DTYPES:
        for size in (1, 2, 3, 4):
            case(f"equal rows {dtype}", dtype, [sample(dtype, [2, 3], rank) for rank in range(size)])
        case(f"different rows {dtype}", dtype, [sample(dtype, [rank + 1, 2], rank) for rank in range(4)])
    for rows in ([0, 3], [3, 0], [0, 0], [0, 1, 0, 2], [5, 1, 1]):
        case(f"rows {rows}", "float32", [sample("float32", [count, 3], rank) for rank, count in enumerate(rows)])
    case("rows without elements", "float32", [sample("float32", [rank + 1, 0], rank) for rank in range(2)])
    case("one dimension, 5 ranks", "int32", [sample("int32", [rank + 2], rank) for rank in range(5)])
    case("one dimension, 8 ranks", "float64", [sample("float64", [9 - rank], rank) for rank in range(8)])
    case("NaN keeps its bits", "float32", [bits("float32", 0x7FA00001, 0xFFC12345), bits("float32", 0x80000000)], bitwise=True)
    case("in set [0, 2]", "float32", [sample("float32", [rank + 1], rank) if rank != 1 else None for rank in range(3)], set=[0, 2])
    for counts in ([1000, 2000], [30011, 7, 50021]):
        made = [filled("float32", [count, 3], 5 + rank, rank, 101, -50) for rank, count in enumerate(counts)]
        result = np.concatenate([array for array, _ in made], axis=0)
        file.add(f"large rows {counts}", len(counts), "float32", input=[form for _, form in made], expect=[digest(result)] * len(counts))
    lists = [[sample("float32", [rank + 1, 2], rank), sample("float32", [2], rank, 3)] for rank in range(3)]
    results = [np.concatenate([lists[rank][i] for rank in range(3)], axis=0) for i in range(2)]
    file.add("grouped", 3, "float32", grouped=True, input=[[tensor(x) for x in row] for row in lists],
             expect=[[tensor(x, 0) for x in results]] * 3)  # fmt: skip


def broadcast(file: File) -> None:
    def case(name: str, dtype: str, inputs: list, root: int, **fields) -> None:
        expect = [None if x is None else tensor(inputs[root], 0) for x in inputs]
        file.add(name, len(inputs), dtype, root=root, input=[None if x is None else tensor(x) for x in inputs], expect=expect, **fields)

    for dtype in ALL_DTYPES:
        for size in (1, 2, 3, 4):
            case(f"root {size - 1} {dtype}", dtype, [sample(dtype, [2, 5], rank) for rank in range(size)], size - 1)
    for shape in ([], [0], [3, 0], [1]):
        case(f"shape {shape}", "float64", [sample("float64", shape, rank) for rank in range(3)], 1)
    for root in range(5):
        case(f"root {root} of 5", "int16", [sample("int16", [7], rank) for rank in range(5)], root)
    case("root is a rank of the job, also in a set", "float32", [None if rank == 0 else sample("float32", [4], rank) for rank in range(4)], 2, set=[1, 2, 3])
    case("NaN keeps its bits", "float16", [bits("float16", 0x7D01, 0xFE55), bits("float16", 0, 0)], 0, bitwise=True)
    for count, size, root in ((1500, 2, 1), (100003, 3, 2), (400009, 4, 0)):
        made = [filled("int32", [count], 7 + rank, rank, 1009, -500) for rank in range(size)]
        file.add(f"large {count}", size, "int32", root=root, input=[form for _, form in made], expect=[digest(made[root][0])] * size)


def alltoall(file: File) -> None:
    def case(name: str, dtype: str, inputs: list, splits: list, **fields) -> None:
        members = [rank for rank, x in enumerate(inputs) if x is not None]
        given = [splits[i] if splits[i] is not None else [len(inputs[r]) // len(members)] * len(members) for i, r in enumerate(members)]
        outputs, received = ref.alltoall([inputs[r] for r in members], given)
        place = {rank: i for i, rank in enumerate(members)}
        everyone = range(len(inputs))
        file.add(name, len(inputs), dtype, input=[None if x is None else tensor(x) for x in inputs],
                 splits=[splits[place[r]] if r in place else None for r in everyone],
                 expect=[tensor(outputs[place[r]], 0) if r in place else None for r in everyone],
                 expect_splits=[received[place[r]] if r in place else None for r in everyone], **fields)  # fmt: skip

    for dtype in ALL_DTYPES:
        for size in (1, 2, 3, 4):
            case(f"equal parts {dtype}", dtype, [sample(dtype, [size * 2, 2], rank) for rank in range(size)], [None] * size)
        case(f"uneven parts {dtype}", dtype, [sample(dtype, [6], rank) for rank in range(3)], [[1, 2, 3], [0, 6, 0], [4, 0, 2]])
    case("rows beyond the splits are not sent", "float32", [sample("float32", [9, 2], rank) for rank in range(2)], [[1, 2], [3, 0]])
    case("nothing at all", "float32", [sample("float32", [0, 3], rank) for rank in range(2)], [[0, 0], [0, 0]])
    case("no rows, equal parts", "float32", [sample("float32", [0], rank) for rank in range(3)], [None] * 3)
    case("one rank sends all", "int64", [sample("int64", [8 if rank == 2 else 0], rank) for rank in range(4)], [[0] * 4, [0] * 4, [2, 3, 1, 2], [0] * 4])
    case("different rows per rank", "float32", [sample("float32", [rank + 1, 2], rank) for rank in range(3)], [[1, 0, 0], [1, 1, 0], [1, 1, 1]])
    case("five ranks", "int32", [sample("int32", [10], rank) for rank in range(5)], [[i for i in range(5)] for _ in range(5)])
    case("in set [1, 3]", "float32", [sample("float32", [4], rank) if rank in (1, 3) else None for rank in range(4)], [[3, 1], [0, 4]], set=[1, 3])
    case("some ranks give splits, some do not", "float32", [sample("float32", [4], rank) for rank in range(2)], [None, [1, 3]])
    for rows, size in ((3000, 2), (60001, 3)):
        made = [filled("float32", [rows, 2], 3 + rank, rank, 997, -500) for rank in range(size)]
        splits = [[rows // 2 // size + 5 * ((i + r) % size) for i in range(size)] for r in range(size)]
        outputs, received = ref.alltoall([array for array, _ in made], splits)
        file.add(f"large {rows}", size, "float32", input=[form for _, form in made], splits=splits,
                 expect=[digest(x) for x in outputs], expect_splits=received)  # fmt: skip


def reducescatter(file: File) -> None:
    def case(name: str, dtype: str, inputs: list, op: str = "sum", ulp: int = 0, **fields) -> None:
        members = [rank for rank, x in enumerate(inputs) if x is not None]
        whole = ref.reduce_ranks(dtype, op, [inputs[r] for r in members], fields.get("prescale", 1.0), fields.get("postscale", 1.0))
        parts = dict(zip(members, ref.dealt_rows(whole.shape[0], len(members))))
        file.add(name, len(inputs), dtype, reduce=op, input=[None if x is None else tensor(x) for x in inputs],
                 expect=[tensor(whole[parts[r][0] : parts[r][1]], ulp) if r in parts else None for r in range(len(inputs))], **fields)  # fmt: skip

    for dtype in ALL_DTYPES:
        for size in (1, 2, 3, 4):
            case(f"sum {dtype}", dtype, [sample(dtype, [size * 2, 3], rank) for rank in range(size)])
        for op in ops_for(dtype):
            case(f"uneven {op} {dtype}", dtype, [sample(dtype, [7, 2], rank) for rank in range(4)], op)
    for rows in (0, 1, 2, 3, 5):
        case(f"{rows} rows over 3 ranks", "float32", [sample("float32", [rows, 4], rank) for rank in range(3)])
    case("rows without elements", "float32", [sample("float32", [5, 0], rank) for rank in range(2)])
    case("scaled", "float32", [sample("float32", [5], rank) for rank in range(3)], prescale=0.5, postscale=4.0)
    case("scaled integers", "int32", [sample("int32", [5], rank) for rank in range(3)], postscale=0.5)
    case("average of 3", "float32", [sample("float32", [5], rank) for rank in range(3)], "average", INEXACT_DIVISION_ULP)
    case("average truncates toward zero", "int32", [np.arange(-6, 7, dtype=np.int32), np.ones(13, dtype=np.int32)], "average")
    case("one rounding", "float16", [ref.encode("float16", [v] * 4) for v in (2048.0, 1.0, 1.0, 1.0)])
    case("eight ranks", "int64", [sample("int64", [13], rank) for rank in range(8)])
    case("in set [0, 3]", "float32", [sample("float32", [3, 2], rank) if rank in (0, 3) else None for rank in range(4)], set=[0, 3])
    for rows, size in ((2001, 2), (50021, 3)):
        made = [filled("float32", [rows, 3], 3 + rank, rank, 13, -6) for rank in range(size)]
        whole = ref.reduce_ranks("float32", "sum", [array for array, _ in made])
        parts = ref.dealt_rows(rows, size)
        file.add(f"large {rows}", size, "float32", input=[form for _, form in made], expect=[digest(whole[a:b]) for a, b in parts])
    lists = [[sample("float32", [5, 2], rank), sample("float32", [3], rank, 1)] for rank in range(2)]
    wholes = [ref.reduce_ranks("float32", "sum", [lists[0][i], lists[1][i]]) for i in range(2)]
    expect = [[tensor(whole[slice(*ref.dealt_rows(len(whole), 2)[rank])], 0) for whole in wholes] for rank in range(2)]
    file.add("grouped", 2, "float32", grouped=True, input=[[tensor(x) for x in row] for row in lists], expect=expect)


def barrier(file: File) -> None:
    for size in (1, 2, 3, 4, 8):
        file.add(f"{size} ranks", size, "float32", input=[[]] * size, expect=[[]] * size)
    file.add("in a set", 4, "float32", set=[0, 2], input=[[], None, [], None], expect=[[], None, [], None])


def join(file: File) -> None:
    for size in (1, 2, 4):
        file.add(f"{size} ranks", size, "float32", input=[[]] * size, expect=[[]] * size)


# ---- errors ----------------------------------------------------------------------------------------------------


def mismatches(file: File) -> None:
    """Ranks disagree. Every rank is told what each said; the runner then checks that the next operation is right."""

    def case(name: str, op: str, inputs: list, has: list, **fields) -> None:
        file.add(name, len(inputs), "float32", input=inputs, expect_status="HVD_ERR_MISMATCH", expect_message_has=has, **fields)
        file.vectors[-1]["op"] = op

    f3, f4 = tensor(sample("float32", [3], 0)), tensor(sample("float32", [4], 1))
    f22, f14 = tensor(sample("float32", [2, 2], 0)), tensor(sample("float32", [1, 4], 1))
    half, i32 = {"dtype": "float16", **tensor(sample("float16", [3], 1))}, {"dtype": "int32", **tensor(sample("int32", [3], 1))}
    for op in ("allreduce", "broadcast", "allgather", "reducescatter"):
        case(f"{op}: dtype", op, [f3, half], ["dtype", "rank 0 float32", "rank 1 float16"])
    a3 = tensor(sample("float32", [2], 0))
    case("alltoall: dtype", "alltoall", [a3, {"dtype": "float64", **tensor(sample("float64", [2], 0))}], ["dtype", "rank 0 float32", "rank 1 float64"])
    case("allreduce: dtype of one rank of three", "allreduce", [f3, f3, i32], ["dtype", "rank 0 float32", "rank 2 int32"])
    for op in ("allreduce", "broadcast", "reducescatter"):
        case(f"{op}: shape", op, [f3, f4], ["shape", "rank 0 [3]", "rank 1 [4]"])
    case("allreduce: shape of equal size", "allreduce", [f22, f14], ["shape", "rank 0 [2, 2]", "rank 1 [1, 4]"])
    case("allreduce: number of dimensions", "allreduce", [f4, f22], ["shape", "rank 0 [4]", "rank 1 [2, 2]"])
    case("allgather: rows of different width", "allgather", [f22, f14], ["shape", "2]", "4]"])
    case("alltoall: rows of different width", "alltoall", [f22, tensor(sample("float32", [2, 3], 1))], ["shape", "2]", "3]"])
    case("allreduce: reduce op", "allreduce", [f3, f3], ["op", "rank 0 sum", "rank 1 max"], per_rank=[{}, {"reduce": "max"}])
    case("allreduce: sum and average", "allreduce", [f3, f3], ["rank 0 average", "rank 1 sum"], per_rank=[{"reduce": "average"}, {}])
    case("reducescatter: reduce op", "reducescatter", [f3, f3], ["op", "rank 0 min", "rank 1 sum"], per_rank=[{"reduce": "min"}, {}])
    case("broadcast: root", "broadcast", [f3, f3, f3], ["root", "rank 0 0", "rank 1 1"], per_rank=[{}, {"root": 1}, {}])
    case("allreduce: prescale", "allreduce", [f3, f3], ["scale", "rank 0", "rank 1", "2"], per_rank=[{}, {"prescale": 2.0}])
    case("allreduce: postscale", "allreduce", [f3, f3], ["scale", "rank 0", "rank 1", "0.25"], per_rank=[{"postscale": 0.25}, {}])
    case("allreduce and broadcast", "allreduce", [f3, f3], ["rank 0 allreduce", "rank 1 broadcast"], per_rank=[{}, {"op": "broadcast"}])
    case("allgather and reducescatter", "allgather", [f3, f3], ["rank 0 allgather", "rank 1 reducescatter"], per_rank=[{}, {"op": "reducescatter"}])
    case("grouped allreduce: number of tensors", "allreduce", [[f3, f3], [f3, f3, f3]], ["number of tensors", "rank 0 2", "rank 1 3"], grouped=True)
    case("grouped allreduce: shape of the second", "allreduce", [[f3, f3], [f3, f4]], ["shape", "rank 0 [3]", "rank 1 [4]"], grouped=True)
    case("in a set", "allreduce", [f3, None, f4], ["shape", "rank 0 [3]", "rank 2 [4]"], set=[0, 2])
    large = [{"shape": [100000], "fill": [1, 0, 7, 0]}, {"shape": [100001], "fill": [1, 0, 7, 0]}]
    case("allreduce: shape of large tensors", "allreduce", large, ["shape", "rank 0 [100000]", "rank 1 [100001]"])


def bad_arguments(file: File) -> None:
    """Refused at the call on every rank, with the value found."""

    def case(name: str, op: str, given: dict, has: list, status: str = "HVD_ERR_INVALID_ARGUMENT", size: int = 2, dtype: str = "float32", **fields) -> None:
        file.add(name, size, dtype, input=[given] * size, expect_status=status, expect_message_has=has, **fields)
        file.vectors[-1]["op"] = op

    f4, scalar = tensor(sample("float32", [4], 0)), tensor(sample("float32", [], 0))
    i4 = tensor(sample("int32", [4], 0))
    case("broadcast: root too large", "broadcast", f4, ["root 2"], root=2)
    case("broadcast: negative root", "broadcast", f4, ["root -1"], root=-1)
    file.add("broadcast: root outside its set", 3, "float32", set=[0, 2], root=1, input=[f4, None, f4],
             expect_status="HVD_ERR_INVALID_ARGUMENT", expect_message_has=["root 1"])  # fmt: skip
    file.vectors[-1]["op"] = "broadcast"
    case("alltoall: negative split", "alltoall", f4, ["-1"], splits=[[-1, 3]] * 2)
    case("alltoall: splits beyond the rows", "alltoall", f4, ["5", "4"], splits=[[3, 2]] * 2)
    case("alltoall: rows do not divide", "alltoall", tensor(sample("float32", [5], 0)), ["5", "2"], splits=[None] * 2)
    for op in ("allgather", "alltoall", "reducescatter"):
        case(f"{op}: a scalar has no rows", op, scalar, ["scalar"])
    case("allreduce: adasum of integers", "allreduce", i4, ["int32"], "HVD_ERR_UNSUPPORTED", dtype="int32", reduce="adasum")
    case("reducescatter: adasum", "reducescatter", f4, ["adasum"], "HVD_ERR_UNSUPPORTED", reduce="adasum")


FILES = {
    "allreduce": [allreduce_plain, allreduce_scaled, allreduce_integers, allreduce_special, allreduce_order, allreduce_large,
                  allreduce_adasum, allreduce_groups_and_sets, allreduce_joined],
    "allgather": [allgather], "broadcast": [broadcast], "alltoall": [alltoall], "reducescatter": [reducescatter],
    "barrier": [barrier], "join": [join], "errors": [mismatches, bad_arguments],
}  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    stale, count = [], 0
    for name, makers in FILES.items():
        file = File(name)
        for make in makers:
            make(file)
        count += len(file.vectors)
        path = FOLDER / f"{name}.json"
        if not arguments.check:
            path.write_text(file.text())
        elif not path.exists() or path.read_text() != file.text():
            stale.append(path.name)
    for name in stale:
        print(f"gen_vectors: {name} differs from what the reference computes; run scripts/gen_vectors.py")
    print(f"gen_vectors: {count} vectors in {len(FILES)} files")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
