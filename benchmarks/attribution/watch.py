# SPDX-License-Identifier: Apache-2.0
"""Takes samples of a rank as its guardian does, until standard input closes: watch.py PID RANK FILE"""

import json
import select
import socket
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bindings/python/horovod/runner/on_host"))
import sampler

EVERY = 0.5


def main():
    pid, rank, name = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    taker = sampler.Sampler({rank: pid})
    with open(name, "w", buffering=1) as file:
        print(json.dumps(sampler.header(rank, pid, socket.gethostname())), file=file)
        while not select.select([sys.stdin], [], [], EVERY)[0]:
            for sample in taker.take().values():
                print(json.dumps(sample), file=file)


if __name__ == "__main__":
    main()
