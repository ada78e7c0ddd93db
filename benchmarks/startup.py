#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures how long a job takes to start: hvd_init on one machine as ranks are added, and horovodrun over two hosts, which are
network namespaces, from the command to the first allreduce of NumPy arrays."""
from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import programs

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "hosts"))
from network import Network, available  # noqa: E402

GOAL_64_S, GOAL_JOB_S = 5.0, 2.0
JOB = """
import time
import numpy as np
import horovod as hvd
hvd.init()
total = hvd.allreduce(np.ones(1000, dtype=np.float32), op=hvd.Sum)
assert total[0] == hvd.size(), total[0]
if hvd.rank() == 0:
    print("first allreduce at", time.time(), flush=True)
hvd.shutdown()
"""


def parse() -> argparse.Namespace:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--np", default="8,16,32,64", help="ranks on this machine")
    arguments.add_argument("--turns", type=int, default=5, help="starts of which the median counts; 0: one of each size, and horovodrun is left out")
    arguments.add_argument("--build", type=Path, default=ROOT / "build-bench" / "benchmarks", help="where bench_hvd is")
    arguments.add_argument("--json", type=Path, help="write all numbers there")
    return arguments.parse_args()


def median(times: list[float]) -> float:
    return sorted(times)[len(times) // 2]


def init_seconds(options: argparse.Namespace, ranks: int) -> float:
    """From the last rank that calls hvd_init to the last that is ready, in processes that run already."""
    lines = programs.run([str(options.build / "bench_hvd"), "--np", str(ranks), "--mode", "init"], 300)
    return next(line["value"] for line in lines if line["case"] == "init") / 1e6


def init_medians(options: argparse.Namespace) -> dict[int, float]:
    """Seconds per number of ranks. The sizes in turn: the machine changes its speed while this runs."""
    sizes = list(map(int, options.np.split(",")))
    turns = [[init_seconds(options, ranks) for ranks in sizes] for _ in range(max(1, options.turns))]
    return {ranks: median([turn[i] for turn in turns]) for i, ranks in enumerate(sizes)}


def job_seconds(net: Network, folder: str) -> float:
    """One job of four ranks on two hosts."""
    script = Path(folder, "job.py")
    script.write_text(JOB)
    ssh = Path(folder, "ssh")
    ssh.write_text(f"#!/bin/sh\nexec {shutil.which('ssh')} -F {net.ssh_config} \"$@\"\n")
    ssh.chmod(0o755)
    environment = {"PATH": f"{folder}:{os.environ['PATH']}", "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    command = [sys.executable, "-m", "horovod.runner.launch", "-np", "4", "-H", "h0:2,h1:2", sys.executable, str(script)]
    begun = time.time()
    done = net.run(0, command, environment, timeout=120)
    for line in done.stdout.splitlines():
        if "first allreduce at" in line:
            return float(line.split()[-1]) - begun
    raise programs.ProgramFailed(f"horovodrun: exit code {done.returncode}: {(done.stderr or done.stdout).strip()[-300:]}")


def main() -> int:
    options = parse()
    times = init_medians(options)
    for ranks in times:
        print(f"init of {ranks:2} ranks on this machine: {times[ranks]:.3f} s, {times[ranks] / ranks * 1e3:.1f} ms a rank", flush=True)
    fewest, most = min(times), max(times)
    growth = times[most] / times[fewest] / (most / fewest)
    verdict = "" if growth <= 1 else "; the goal, no more than linear, is missed"
    print(f"from {fewest} to {most} ranks: {growth:.2f} of linear growth{verdict}")
    if times.get(64, 0.0) > GOAL_64_S:
        print(f"64 ranks: the goal of {GOAL_64_S:.0f} s is missed")
    results = {"init_s": times}
    reason = available() if options.turns else "left out"
    if reason is not None:
        print(f"horovodrun over two hosts: {reason}")
    else:
        with Network(hosts=2) as net, tempfile.TemporaryDirectory(prefix="hvd-bench-") as folder:
            try:
                results["job_s"] = median([job_seconds(net, folder) for _ in range(options.turns)])
                verdict = "" if results["job_s"] <= GOAL_JOB_S else f"; the goal of {GOAL_JOB_S:.0f} s is missed"
                print(f"horovodrun -np 4 over two hosts to the first allreduce: {results['job_s']:.2f} s{verdict}")
            except (programs.ProgramFailed, subprocess.TimeoutExpired) as failure:
                print(f"horovodrun over two hosts failed: {failure}")
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
