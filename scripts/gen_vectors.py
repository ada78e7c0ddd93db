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
  expect_splits       alltoall, gather: per rank, rows received from each rank
  expect_status, expect_message_has      instead of expect: every rank that submits gets this error
"""
import argparse
import sys
from pathlib import Path

import vectors_allreduce as allreduce
import vectors_collectives as others
import vectors_errors as errors
from vector_format import File

FOLDER = Path(__file__).resolve().parent.parent / "tests" / "vectors"

FILES = {
    "allreduce": [allreduce.allreduce_plain, allreduce.allreduce_scaled, allreduce.allreduce_integers, allreduce.allreduce_special,
                  allreduce.allreduce_order, allreduce.allreduce_large, allreduce.allreduce_adasum,
                  allreduce.allreduce_groups_and_sets, allreduce.allreduce_joined],
    "allgather": [others.allgather], "broadcast": [others.broadcast], "alltoall": [others.alltoall],
    "reducescatter": [others.reducescatter], "gather": [others.gather], "barrier": [others.barrier], "join": [others.join],
    "errors": [errors.mismatches, errors.bad_arguments],
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
