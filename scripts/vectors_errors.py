# SPDX-License-Identifier: Apache-2.0
"""The vectors of what must fail."""
from vector_format import File, sample, tensor


def mismatches(file: File) -> None:
    """Ranks disagree. Every rank is told what each said; the runner then checks that the next operation is right."""

    def case(name: str, op: str, inputs: list, has: list, **fields) -> None:
        file.add(name, len(inputs), "float32", input=inputs, expect_status="HVD_ERR_MISMATCH", expect_message_has=has, **fields)
        file.vectors[-1]["op"] = op

    f3, f4 = tensor(sample("float32", [3], 0)), tensor(sample("float32", [4], 1))
    f22, f14 = tensor(sample("float32", [2, 2], 0)), tensor(sample("float32", [1, 4], 1))
    half, i32 = {"dtype": "float16", **tensor(sample("float16", [3], 1))}, {"dtype": "int32", **tensor(sample("int32", [3], 1))}
    for op in ("allreduce", "broadcast", "allgather", "reducescatter", "gather"):
        case(f"{op}: dtype", op, [f3, half], ["dtype", "rank 0 float32", "rank 1 float16"])
    a3 = tensor(sample("float32", [2], 0))
    case("alltoall: dtype", "alltoall", [a3, {"dtype": "float64", **tensor(sample("float64", [2], 0))}], ["dtype", "rank 0 float32", "rank 1 float64"])
    case("allreduce: dtype of one rank of three", "allreduce", [f3, f3, i32], ["dtype", "rank 0 float32", "rank 2 int32"])
    for op in ("allreduce", "broadcast", "reducescatter"):
        case(f"{op}: shape", op, [f3, f4], ["shape", "rank 0 [3]", "rank 1 [4]"])
    case("allreduce: shape of equal size", "allreduce", [f22, f14], ["shape", "rank 0 [2, 2]", "rank 1 [1, 4]"])
    case("allreduce: number of dimensions", "allreduce", [f4, f22], ["shape", "rank 0 [4]", "rank 1 [2, 2]"])
    case("allgather: rows of different width", "allgather", [f22, f14], ["shape", "2]", "4]"])
    case("gather: rows of different width", "gather", [f22, f14], ["shape", "2]", "4]"])
    case("gather: root", "gather", [f3, f4, f3], ["root", "rank 0 0", "rank 1 1"], per_rank=[{}, {"root": 1}, {}])
    case("gather and allgather", "gather", [f3, f3], ["rank 0 gather", "rank 1 allgather"], per_rank=[{}, {"op": "allgather"}])
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
    case("broadcast: root too large", "broadcast", f4, ["root is 2"], root=2)
    case("broadcast: negative root", "broadcast", f4, ["root is -1"], root=-1)
    file.add("broadcast: root outside its set", 3, "float32", set=[0, 2], root=1, input=[f4, None, f4],
             expect_status="HVD_ERR_INVALID_ARGUMENT", expect_message_has=["root is 1", "0 2"])  # fmt: skip
    file.vectors[-1]["op"] = "broadcast"
    case("gather: root too large", "gather", f4, ["root is 2"], root=2)
    case("alltoall: negative split", "alltoall", f4, ["-1"], splits=[[-1, 3]] * 2)
    case("alltoall: splits beyond the rows", "alltoall", f4, ["2", "4"], splits=[[3, 2]] * 2)
    case("alltoall: rows do not divide", "alltoall", tensor(sample("float32", [5], 0)), ["5", "2"], splits=[None] * 2)
    for op in ("alltoall", "reducescatter"):
        case(f"{op}: a scalar has no rows", op, scalar, ["scalar"])
    case("allreduce: adasum of integers", "allreduce", i4, ["int32"], "HVD_ERR_UNSUPPORTED", dtype="int32", reduce="adasum")
    case("reducescatter: adasum", "reducescatter", f4, ["adasum"], "HVD_ERR_UNSUPPORTED", reduce="adasum")
