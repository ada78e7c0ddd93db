# SPDX-License-Identifier: Apache-2.0
"""The vectors of allreduce."""
import numpy as np

import vector_reference as ref
from vector_format import ALL_DTYPES, INEXACT_DIVISION_ULP, INTEGERS, File, bits, digest, filled, ops_for, sample, tensor


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
