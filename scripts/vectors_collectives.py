# SPDX-License-Identifier: Apache-2.0
"""The vectors of everything but allreduce."""
import numpy as np

import vector_reference as ref
from vector_format import ALL_DTYPES, INEXACT_DIVISION_ULP, File, bits, digest, filled, ops_for, sample, tensor


def allgather(file: File) -> None:
    def case(name: str, dtype: str, inputs: list, **fields) -> None:
        present = [x for x in inputs if x is not None]
        result = np.concatenate([np.atleast_1d(x) for x in present], axis=0)
        file.add(name, len(inputs), dtype, input=[None if x is None else tensor(x) for x in inputs],
                 expect=[None if x is None else tensor(result, 0) for x in inputs], **fields)  # fmt: skip

    for dtype in ALL_DTYPES:
        for size in (1, 2, 3, 4):
            case(f"equal rows {dtype}", dtype, [sample(dtype, [2, 3], rank) for rank in range(size)])
        case(f"different rows {dtype}", dtype, [sample(dtype, [rank + 1, 2], rank) for rank in range(4)])
    for rows in ([0, 3], [3, 0], [0, 0], [0, 1, 0, 2], [5, 1, 1]):
        case(f"rows {rows}", "float32", [sample("float32", [count, 3], rank) for rank, count in enumerate(rows)])
    case("a scalar counts as one row", "float64", [sample("float64", [], rank) for rank in range(3)])
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


def gather(file: File) -> None:
    def case(name: str, dtype: str, inputs: list, root: int, **fields) -> None:
        present = [np.atleast_1d(x) for x in inputs if x is not None]
        result = np.concatenate(present, axis=0)
        expect = [None if x is None else tensor(result if rank == root else result[:0], 0) for rank, x in enumerate(inputs)]
        rows = [0 if x is None else len(np.atleast_1d(x)) for x in inputs]
        members = [rank for rank, x in enumerate(inputs) if x is not None]
        received = [None if x is None else [rows[m] if rank == root else 0 for m in members] for rank, x in enumerate(inputs)]
        file.add(name, len(inputs), dtype, root=root, input=[None if x is None else tensor(x) for x in inputs],
                 expect=expect, expect_splits=received, **fields)  # fmt: skip

    for dtype in ALL_DTYPES:
        for size in (1, 2, 3, 4):
            case(f"root {size - 1} {dtype}", dtype, [sample(dtype, [2, 3], rank) for rank in range(size)], size - 1)
        case(f"different rows {dtype}", dtype, [sample(dtype, [rank + 1, 2], rank) for rank in range(4)], 1)
    for rows in ([0, 3], [3, 0], [0, 0], [0, 1, 0, 2], [5, 1, 1]):
        case(f"rows {rows}", "float32", [sample("float32", [count, 3], rank) for rank, count in enumerate(rows)], 0)
    for root in range(5):
        case(f"root {root} of 5", "int16", [sample("int16", [rank + 1], rank) for rank in range(5)], root)
    case("a scalar counts as one row", "float64", [sample("float64", [], rank) for rank in range(3)], 2)
    case("rows without elements", "float32", [sample("float32", [rank + 1, 0], rank) for rank in range(2)], 0)
    case("root is a rank of the job, also in a set", "float32", [None if rank == 0 else sample("float32", [rank], rank) for rank in range(4)], 2, set=[1, 2, 3])
    case("NaN keeps its bits", "float32", [bits("float32", 0x7FA00001, 0xFFC12345), bits("float32", 0x80000000)], 0, bitwise=True)
    for counts, root in (([1000, 2000], 1), ([30011, 7, 50021], 0)):
        made = [filled("float32", [count, 3], 5 + rank, rank, 101, -50) for rank, count in enumerate(counts)]
        result = np.concatenate([array for array, _ in made], axis=0)
        expect = [digest(result if rank == root else result[:0]) for rank in range(len(counts))]
        file.add(f"large rows {counts}", len(counts), "float32", root=root, input=[form for _, form in made], expect=expect)


def barrier(file: File) -> None:
    for size in (1, 2, 3, 4, 8):
        file.add(f"{size} ranks", size, "float32", input=[[]] * size, expect=[[]] * size)
    file.add("in a set", 4, "float32", set=[0, 2], input=[[], None, [], None], expect=[[], None, [], None])


def join(file: File) -> None:
    for size in (1, 2, 4):
        file.add(f"{size} ranks", size, "float32", input=[[]] * size, expect=[[]] * size)
