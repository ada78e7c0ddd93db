# SPDX-License-Identifier: Apache-2.0
"""Runs the conformance vectors through the Python API (`import horovod as hvd`), one process per rank.

    run_vectors.py [FILE.json...]     all files of tests/vectors by default

Each vector runs out of place, and in place where Horovod has such a function. A vector that is not run is printed with the
reason that quirks.json gives; without an entry there, or with an entry that skips nothing, the run fails.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import traceback
import zlib
from pathlib import Path

import ml_dtypes
import numpy as np

HERE = Path(__file__).resolve().parent
VECTORS = HERE.parent / "vectors"
NUMPY = {"uint8": "u1", "int8": "i1", "uint16": "<u2", "int16": "<i2", "int32": "<i4", "int64": "<i8", "float16": "<f2",
         "bfloat16": ml_dtypes.bfloat16, "float32": "<f4", "float64": "<f8", "bool": "?"}  # fmt: skip
FLOATS = ("float16", "bfloat16", "float32", "float64")
TIME_LIMIT = 120


# ---- reading ----


def quirk_for(vector: dict, quirks: list):
    """The entry of quirks.json that excuses a vector, or None."""
    return next((quirk for quirk in quirks if vector.get(quirk["field"]) == quirk["value"]), None)


def load(path: Path) -> list:
    vectors = json.loads(path.read_text())["vectors"]
    if not vectors:
        raise SystemExit(f"{path.name}: no vectors")
    return vectors


def array_of(tensor: dict, dtype: str) -> np.ndarray:
    """A vector's tensor as a fresh array."""
    kind = np.dtype(NUMPY[tensor.get("dtype", dtype)])
    if "fill" in tensor:
        a, b, m, c = tensor["fill"]
        count = int(np.prod(tensor["shape"], dtype=np.int64))
        return ((a * np.arange(count, dtype=np.int64) + b) % m + c).astype(kind).reshape(tensor["shape"])
    raw = np.frombuffer(bytes.fromhex(tensor["hex"]), dtype="u1" if kind == np.dtype("?") else kind)
    # A byte that is neither 0 nor 1 is no NumPy bool, but must reach the library as it is.
    return (raw.copy().view("?") if kind == np.dtype("?") else raw.copy()).reshape(tensor["shape"])


# ---- comparing ----


def place_on_line(values: np.ndarray) -> np.ndarray:
    """Floats as integers whose neighbours differ by one."""
    bits = np.ascontiguousarray(values).view(f"<i{values.itemsize}").astype(np.int64)
    magnitude = bits & (2 ** (8 * values.itemsize - 1) - 1)
    return np.where(bits < 0, -magnitude, magnitude)


def difference(expected: dict, actual, dtype: str, bitwise: bool) -> str:
    """Empty, or how a result differs."""
    actual, dtype = np.asarray(actual), expected.get("dtype", dtype)
    if list(actual.shape) != expected["shape"] or actual.dtype != np.dtype(NUMPY[dtype]):
        return f"got {actual.dtype} {list(actual.shape)}, expected {dtype} {expected['shape']}"
    raw = np.ascontiguousarray(actual).tobytes()
    if "crc32" in expected:
        return "" if zlib.crc32(raw) == expected["crc32"] else f"crc32 {zlib.crc32(raw)}, begins {raw[:32].hex()}"
    if raw.hex() == expected["hex"]:
        return ""
    if dtype not in FLOATS or bitwise:
        return f"got {raw.hex()}, expected {expected['hex']}"
    wanted, got = np.frombuffer(bytes.fromhex(expected["hex"]), dtype=NUMPY[dtype]), np.frombuffer(raw, dtype=NUMPY[dtype])
    both_nan = np.isnan(wanted) & np.isnan(got)
    near = np.abs(place_on_line(wanted) - place_on_line(got)) <= expected["ulp"]
    exact = (wanted == got) & (np.signbit(wanted) == np.signbit(got))
    good = both_nan | exact | (near & (expected["ulp"] > 0) & ~np.isnan(wanted) & ~np.isnan(got))
    return "" if good.all() else f"elements {np.flatnonzero(~good).tolist()}: got {got[~good].tolist()}, expected {wanted[~good].tolist()}"


# ---- one rank ----


class Rank:
    """Runs vectors on this process's rank."""

    def __init__(self, hvd):
        self.hvd = hvd
        self.rank = hvd.rank()
        self.failures: list = []
        self.runs = 0
        self.ops = {"average": hvd.Average, "sum": hvd.Sum, "adasum": hvd.Adasum, "min": hvd.Min, "max": hvd.Max, "product": hvd.Product}

    def run(self, vector: dict) -> None:
        in_place = vector["op"] in ("allreduce", "broadcast") and "expect_status" not in vector
        for place in ("out of place", "in place")[: 2 if in_place else 1]:
            where = f"{vector['op']} {vector['name']}, rank {self.rank} of {vector['size']}, {place}"
            try:
                self.run_once(vector, place == "in place", where)
            except Exception:  # a bug of ours or of the binding: report it, and keep the ranks in step
                self.failures.append(f"{where}: {traceback.format_exc(limit=4)}")
            self.runs += 1

    def run_once(self, vector: dict, in_place: bool, where: str) -> None:
        process_set = self.hvd.add_process_set(vector["set"]) if "set" in vector else None
        if vector["input"][self.rank] is not None:
            self.operate(vector, in_place, process_set, where)
        if "joined" in vector:
            last = self.hvd.join()
            if last in vector["joined"]:
                self.failures.append(f"{where}: rank {last} joined early but is named as the last")
        if "expect_status" in vector:
            total = self.hvd.allreduce(np.array([self.rank + 1.0]), op=self.hvd.Sum, name=f"after {vector['name']}")
            if total[0] != vector["size"] * (vector["size"] + 1) / 2:
                self.failures.append(f"{where}: the next operation gave {total}")
        if process_set is not None:
            self.hvd.remove_process_set(process_set)

    def operate(self, vector: dict, in_place: bool, process_set, where: str) -> None:
        name = f"{vector['op']} {vector['name']} {in_place}"
        try:
            results = self.call({**vector, **self.own_options(vector)}, in_place, process_set, name)
        except Exception as error:
            if "expect_status" not in vector:
                raise
            status, text = getattr(error, "status_name", type(error).__name__), str(error)
            if status != vector["expect_status"]:
                self.failures.append(f"{where}: expected {vector['expect_status']}, got {status}: {text}")
            self.failures += [f"{where}: message lacks {part!r}: {text}" for part in vector["expect_message_has"] if part not in text]
            return
        if "expect_status" in vector:
            self.failures.append(f"{where}: expected {vector['expect_status']}, got a result")
            return
        expected = vector["expect"][self.rank]
        pairs = zip(expected, results) if isinstance(expected, list) else [(expected, results)]
        for index, (wanted, got) in enumerate(pairs):
            found = difference(wanted, got, vector["dtype"], vector.get("bitwise", False))
            if found:
                self.failures.append(f"{where}: tensor {index}: {found}")

    def own_options(self, vector: dict) -> dict:
        return vector["per_rank"][self.rank] if "per_rank" in vector else {}

    def call(self, v: dict, in_place: bool, process_set, name: str):
        """Calls the Horovod function of a vector and returns its result."""
        hvd, dtype, given = self.hvd, v["dtype"], v["input"][self.rank]
        common = {"name": name, **({"process_set": process_set} if process_set is not None else {})}
        reducing = {"op": self.ops[v.get("reduce", "sum")], "prescale_factor": v.get("prescale", 1.0), "postscale_factor": v.get("postscale", 1.0)}
        if v["op"] == "barrier":
            hvd.barrier(**({"process_set": process_set} if process_set is not None else {}))
            return []
        if v["op"] == "join":
            last = hvd.join()
            if not 0 <= last < v["size"]:
                self.failures.append(f"{v['name']}: join returned {last}")
            return []
        if v.get("grouped"):
            tensors = [array_of(tensor, dtype) for tensor in given]
            if v["op"] == "allreduce":
                return (hvd.grouped_allreduce_ if in_place else hvd.grouped_allreduce)(tensors, **reducing, **common)
            if v["op"] == "allgather":
                return hvd.grouped_allgather(tensors, **common)
            return hvd.grouped_reducescatter(tensors, **reducing, **common)
        tensor = array_of(given, dtype)
        if v["op"] == "allreduce":
            return self.same(in_place, tensor, (hvd.allreduce_ if in_place else hvd.allreduce)(tensor, **reducing, **common))
        if v["op"] == "broadcast":
            root = v.get("root", 0)
            return self.same(in_place, tensor, (hvd.broadcast_ if in_place else hvd.broadcast)(tensor, root, **common))
        if v["op"] == "allgather":
            return hvd.allgather(tensor, **common)
        if v["op"] == "gather":
            return hvd.gather(tensor, v.get("root", 0), **common)
        if v["op"] == "reducescatter":
            return hvd.reducescatter(tensor, **reducing, **common)
        return self.alltoall(v, tensor, common)

    def same(self, in_place: bool, tensor: np.ndarray, result):
        if in_place and (np.asarray(result).ctypes.data != tensor.ctypes.data):
            self.failures.append("an in-place function returned other memory than it was given")
        return result

    def alltoall(self, v: dict, tensor: np.ndarray, common: dict):
        splits = v["splits"][self.rank] if "splits" in v else None
        if splits is None:
            return self.hvd.alltoall(tensor, **common)
        output, received = self.hvd.alltoall(tensor, splits=splits, **common)
        if "expect_splits" in v and np.asarray(received).tolist() != v["expect_splits"][self.rank]:
            self.failures.append(f"{v['name']}: received splits {np.asarray(received).tolist()}")
        return output


def rank_main(files: list, size: int, output: Path) -> int:
    """What each process does."""
    import horovod as hvd

    quirks = [quirk for quirk in json.loads((HERE / "quirks.json").read_text()) if quirk["runner"] == "python"]
    hvd.init()
    me = Rank(hvd)
    for path in files:
        for vector in load(path):
            if vector["size"] == size and quirk_for(vector, quirks) is None:
                me.run(vector)
    hvd.shutdown()
    output.write_text(json.dumps({"runs": me.runs, "failures": me.failures}))
    return 0


# ---- the driver ----


def run_size(files: list, size: int, folder: Path) -> dict:
    """Starts `size` processes, waits, and adds up what they found."""
    job = folder / f"job{size}"
    job.mkdir()
    processes, total = [], {"runs": 0, "failures": []}
    for rank in range(size):
        env = {**os.environ, "HOROVOD_RANK": str(rank), "HOROVOD_SIZE": str(size), "HOROVOD_RENDEZVOUS": f"file://{job}",
               "HOROVOD_OP_TIMEOUT": "30", "HOROVOD_NAMES_BY_KIND": "0", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}  # fmt: skip
        result = folder / f"result{size}-{rank}.json"
        command = [sys.executable, __file__, "--as-rank-of", str(size), "--output", str(result), *map(str, files)]
        processes.append((rank, result, subprocess.Popen(command, env=env)))
    deadline = time.monotonic() + TIME_LIMIT
    for rank, result, process in processes:
        try:
            code = process.wait(max(0.1, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            code = f"killed after {TIME_LIMIT} s"
        if code != 0 or not result.exists():
            total["failures"].append(f"rank {rank} of {size}: exit {code}")
            continue
        found = json.loads(result.read_text())
        total["runs"] += found["runs"]
        total["failures"] += found["failures"]
    return total


def drive(files: list) -> int:
    quirks = [quirk for quirk in json.loads((HERE / "quirks.json").read_text()) if quirk["runner"] == "python"]
    vectors = [vector for path in files for vector in load(path)]
    skipped: dict = {}
    for vector in vectors:
        quirk = quirk_for(vector, quirks)
        if quirk:
            skipped.setdefault(quirk["reason"], []).append(f"{vector['op']} {vector['name']} ({vector['size']} ranks)")
    for reason, names in skipped.items():
        print(f"skipped {len(names)}: {reason}: {', '.join(names)}")
    failures = [f"quirks.json: nothing is skipped because: {quirk['reason']}" for quirk in quirks if quirk["reason"] not in skipped]
    left = [vector for vector in vectors if quirk_for(vector, quirks) is None]
    runs = 0
    with tempfile.TemporaryDirectory(prefix="hvd-vectors-") as folder:
        for size in sorted({vector["size"] for vector in left}):
            found = run_size(files, size, Path(folder))
            runs += found["runs"]
            failures += found["failures"]
    for failure in failures[:60]:
        print(failure)
    print(f"run_vectors: {len(left)} vectors run, {len(vectors) - len(left)} skipped, {runs} runs, {len(failures)} failures")
    return 1 if failures or runs < len(left) else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--as-rank-of", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--output", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("files", nargs="*", type=Path)
    arguments = parser.parse_args()
    files = arguments.files or sorted(VECTORS.glob("*.json"))
    if arguments.as_rank_of:
        return rank_main(files, arguments.as_rank_of, arguments.output)
    return drive(files)


if __name__ == "__main__":
    sys.exit(main())
