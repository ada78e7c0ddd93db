#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures allreduce between hosts, which are network namespaces on this machine, beside the limit of the link and the peers.

For every layout (hosts x ranks per host) and rate of the links it runs in turn: `link`, what a plain TCP program needs to move
the least that an allreduce must move; the engine; the engine with other settings (see ENGINES); torch.distributed over Gloo; Open MPI
over ssh. It needs root, and what tests/hosts/README.md names.
"""
from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import programs

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "hosts"))
from network import Network, available  # noqa: E402

# The engine and how it is set.
ENGINES = {
    "hvd": {},
    "hvd_flat": {"HOROVOD_HIERARCHICAL_ALLREDUCE": "0"},
    "hvd_mac": {"HOROVOD_DATA_MAC": "1"},
    "hvd_encrypt": {"HOROVOD_SECURITY": "encrypt"},
    "hvd_gloo": {"HOROVOD_CPU_OPERATIONS": "gloo"},
    "hvd_mpi": {"HOROVOD_CPU_OPERATIONS": "mpi"},
}
PROGRAMS = ("link", *ENGINES, "torch_gloo", "open_mpi")
USUAL = ("link", "hvd", "hvd_flat", "torch_gloo", "open_mpi")
PEERS = ("torch_gloo", "open_mpi")
CASES = {**{f"allreduce/{n << 10}": text for n, text in
            ((4, "4 KB"), (64, "64 KB"), (1024, "1 MB"), (4096, "4 MB"), (16384, "16 MB"), (65536, "64 MB"))},
         "set/resnet50": "ResNet-50"}
LARGE = ("allreduce/4194304", "allreduce/16777216", "allreduce/67108864", "set/resnet50")
GOAL_OF_BOUND, GOAL_OF_PEER, GOAL_OF_FLAT = 0.95, 1.0, 1.5
AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


@dataclass
class Layout:
    """Where the ranks are: consecutive ranks share a host."""

    hosts: int
    per_host: int
    rate: str  # of tc, or "unshaped"

    @property
    def size(self) -> int:
        return self.hosts * self.per_host

    def __str__(self) -> str:
        return f"{self.hosts} hosts x {self.per_host}, {self.rate}"


def parse() -> argparse.Namespace:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--hosts", default="2,4", help="numbers of hosts")
    arguments.add_argument("--per-host", default="1,2", help="numbers of ranks on each host")
    arguments.add_argument("--rates", default="unshaped,1gbit", help="what each host can send: unshaped, or a rate of tc")
    arguments.add_argument("--only", default=",".join(USUAL), help=f"programs, of {','.join(PROGRAMS)}")
    arguments.add_argument("--cases", default="sync,sets", help="of sync,sets,collectives")
    arguments.add_argument("--budget-ms", type=int, default=300, help="time per case and program")
    arguments.add_argument("--max-bytes", type=int, default=64 << 20, help="largest tensor")
    arguments.add_argument("--batches", type=int, default=1, help="times that all programs run in turn; the median counts")
    arguments.add_argument("--build", type=Path, default=ROOT / "build-bench" / "benchmarks", help="where the programs are")
    arguments.add_argument("--json", type=Path, help="write all numbers there")
    arguments.add_argument("--markdown", action="store_true", help="print tables as Markdown")
    options = arguments.parse_args()
    unknown = set(options.only.split(",")) - set(PROGRAMS)
    if unknown:
        arguments.error(f"--only: {', '.join(sorted(unknown))} is none of {', '.join(PROGRAMS)}")
    return options


def commands(name: str, options: argparse.Namespace, layout: Layout, net: Network, folder: str) -> list[tuple]:
    """What to start, as (host, command, environment); the first prints the results."""
    common = ["--budget-ms", str(options.budget_ms), "--max-bytes", str(options.max_bytes), "--cases", options.cases]
    board = ["--board", f"{folder}/board"]
    if name == "link":
        addresses = ",".join(net.addresses(host, 4)[0] for host in range(layout.hosts))
        where = ["--np", str(layout.hosts), "--addresses", addresses, *board]
        return [(host, [str(options.build / "link"), "--rank", str(host), *where, *common], {}) for host in range(layout.hosts)]
    if name == "open_mpi":
        return [(0, [*mpirun(layout, net), str(options.build / "bench_mpi"), *board, *common], AS_ROOT)]
    if name == "hvd_mpi":
        own_rank = 'exec "$0" --rank "$OMPI_COMM_WORLD_RANK" "$@"'
        engine = ["sh", "-c", own_rank, str(options.build / "bench_hvd"), "--np", str(layout.size), "--directory", folder, *common]
        exported = [word for variable in ENGINES[name] for word in ("-x", variable)]
        return [(0, [*mpirun(layout, net), *exported, *engine], {**AS_ROOT, **ENGINES[name]})]
    started = []
    for rank in range(layout.size):
        place = ["--np", str(layout.size), "--rank", str(rank), "--directory", folder]
        if name == "torch_gloo":
            library = ["--board-library", str(options.build / "libhvd_bench_board.so"), "--no-pin"]
            command = [sys.executable, str(ROOT / "benchmarks" / "bench_torch_gloo.py"), *library, *place, *common]
            environment = {"GLOO_SOCKET_IFNAME": "eth0", "OMP_NUM_THREADS": "1"}
        else:
            command, environment = [str(options.build / "bench_hvd"), *place, *common], ENGINES[name]
        started.append((rank // layout.per_host, command, environment))
    return started


def mpirun(layout: Layout, net: Network) -> list[str]:
    """Open MPI over the link that is measured."""
    hosts = ",".join(f"{host}:{layout.per_host}" for host in net.host_names)
    yielding = ["--mca", "mpi_yield_when_idle", "1"] if layout.size > len(os.sched_getaffinity(0)) else []
    return ["mpirun", "--bind-to", "none", "-np", str(layout.size), "-H", hosts, "--mca", "btl", "tcp,self,vader",
            "--mca", "pml", "ob1", "--mca", "btl_tcp_if_include", "eth0", "--mca", "oob_tcp_if_include", "eth0", *yielding,
            "--mca", "plm_rsh_agent", f"ssh -F {net.ssh_config}"]


def run(name: str, options: argparse.Namespace, layout: Layout, net: Network) -> dict[str, float]:
    """Microseconds per case."""
    with tempfile.TemporaryDirectory(prefix="hvd-bench-") as folder:
        processes = []
        try:
            for host, command, environment in commands(name, options, layout, net, folder):
                processes.append(net.popen(host, command, environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                           stderr=subprocess.PIPE, text=True))
            deadline = time.monotonic() + 600
            outputs = []
            for process in processes:
                out, err = process.communicate(timeout=max(1.0, deadline - time.monotonic()))
                if process.returncode != 0:
                    raise programs.ProgramFailed(f"{name}: exit code {process.returncode}: {err.strip()[-300:]}")
                outputs.append(out)
        except subprocess.TimeoutExpired:
            raise programs.ProgramFailed(f"{name}: not finished after 600 s") from None
        finally:
            for process in processes:
                if process.poll() is None:
                    process.kill()
                    process.communicate()
    lines = [json.loads(line) for out in outputs for line in out.splitlines() if line.startswith("{")]
    return {line["case"]: line["value"] for line in lines}


def measure(options: argparse.Namespace, layout: Layout) -> dict[str, dict[str, float]]:
    """Per program the median of the batches."""
    samples: dict[str, dict[str, list[float]]] = {}
    with Network(hosts=layout.hosts, rate=None if layout.rate == "unshaped" else layout.rate) as net:
        for _ in range(options.batches):
            for name in options.only.split(","):
                if name == "hvd_flat" and layout.per_host == 1:
                    continue  # the same algorithm
                programs.wait_until_quiet(5)
                try:
                    for case, value in run(name, options, layout, net).items():
                        samples.setdefault(name, {}).setdefault(case, []).append(value)
                except programs.ProgramFailed as failure:
                    print(f"  {layout}: {failure}", file=sys.stderr)
    return {name: {case: sorted(values)[len(values) // 2] for case, values in cases.items()} for name, cases in samples.items()}


def row(case: str, layout: Layout, results: dict[str, dict[str, float]]) -> list[str]:
    """A line of the table: the times in the order of `results`, then the ratios."""
    times = {name: cases.get(case) for name, cases in results.items()}
    ours = times.get("hvd")

    def ratio(other, goal, wanted=True) -> str:
        if ours is None or other is None:
            return "-"
        return f"{other / ours:.2f}{'' if not wanted or other / ours >= goal else ' !'}"

    peers = [times[name] for name in PEERS if times.get(name) is not None]
    shaped = layout.rate != "unshaped"
    cells = [CASES.get(case, case)]
    cells += ["-" if times.get(name) is None else f"{times[name]:.0f}" for name in results]
    cells.append(ratio(times.get("link"), GOAL_OF_BOUND, shaped and case in LARGE))
    cells.append(ratio(min(peers) if peers else None, GOAL_OF_PEER, not shaped))
    cells.append(ratio(times.get("hvd_flat"), GOAL_OF_FLAT, layout.hosts == 2 and case in LARGE))
    return cells


def show(layout: Layout, results: dict[str, dict[str, float]], markdown: bool) -> None:
    cases = [case for case in dict.fromkeys([*CASES, *(c for r in results.values() for c in r)])
             if any(case in cases for cases in results.values())]
    head = ["case (us)", *results, "of link", "of peers", "of flat"]
    table = [head] + [row(case, layout, results) for case in cases]
    print(f"\n{'### ' if markdown else ''}{layout}\n")
    if markdown:
        table.insert(1, ["---"] + ["---:"] * (len(head) - 1))
        print("\n".join("| " + " | ".join(cells) + " |" for cells in table), flush=True)
        return
    widths = [max(len(cells[i]) for cells in table) for i in range(len(head))]
    print("\n".join("  ".join(cell.rjust(width) for cell, width in zip(cells, widths)) for cells in table), flush=True)


def main() -> int:
    options = parse()
    reason = available()
    if reason is not None:
        print(f"hosts.py: {reason}", file=sys.stderr)
        return 1
    everything = {}
    for rate in options.rates.split(","):
        for hosts in map(int, options.hosts.split(",")):
            for per_host in map(int, options.per_host.split(",")):
                layout = Layout(hosts, per_host, rate)
                everything[str(layout)] = measure(options, layout)
                show(layout, everything[str(layout)], options.markdown)
    print("\nof link, of peers, of flat: their time divided by the engine's; ! is below the goal")
    if options.json:
        options.json.write_text(json.dumps(everything, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
