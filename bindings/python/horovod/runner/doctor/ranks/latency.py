# SPDX-License-Identifier: Apache-2.0
"""One of the two ranks with which `horovodrun doctor` tries the engine. Rank 0 prints what it has measured."""

import json
import sys
import time

_NUMBERS, _ROUNDS = 1024, 200


def main():
    import numpy
    import horovod as hvd

    hvd.init()
    values = numpy.full(_NUMBERS, hvd.rank() + 1, numpy.float32)
    times = []
    for _ in range(_ROUNDS):
        began = time.perf_counter()
        result = hvd.allreduce(values, op=hvd.Sum, name="doctor")
        times.append(time.perf_counter() - began)
    expected = hvd.size() * (hvd.size() + 1) // 2
    if not (result == expected).all():
        sys.exit(f"allreduce of {_NUMBERS} numbers: {result[0]}, expected {expected}")
    if hvd.rank() == 0:
        print(json.dumps({"bytes": values.nbytes, "ranks": hvd.size(), "latency": sorted(times)[_ROUNDS // 2]}))


if __name__ == "__main__":
    main()
