# SPDX-License-Identifier: Apache-2.0
"""Arguments of the Python programs, and their start as N processes."""
from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Optional

from board import Board


def parser(description: str) -> argparse.ArgumentParser:
    """The arguments that every program has; without --rank it starts itself --np times."""
    arguments = argparse.ArgumentParser(description=description)
    arguments.add_argument("--np", type=int, default=2, help="number of ranks")
    arguments.add_argument("--board-library", required=True, help="path of libhvd_bench_board.so")
    arguments.add_argument("--cases", default="sync,sets", help="comma-separated: sync, sets, collectives")
    arguments.add_argument("--budget-ms", type=int, default=200, help="time per case")
    arguments.add_argument("--max-bytes", type=int, default=64 << 20)
    arguments.add_argument("--no-pin", action="store_true")
    arguments.add_argument("--rank", type=int, help=argparse.SUPPRESS)
    arguments.add_argument("--directory", help=argparse.SUPPRESS)
    return arguments


def open_board(options: argparse.Namespace) -> Board:
    return Board(options.board_library, os.path.join(options.directory, "board"), options.rank, options.np)


def start_ranks(size: int, environment: Optional[dict[str, str]] = None) -> int:
    """Runs this script once per rank in a fresh directory. When a rank fails, the others are stopped; returns its exit code.

    `environment` may use {rank}, {size} and {directory}.
    """
    root = os.environ.get("HVD_BENCH_DIRECTORY") or ("/dev/shm" if Path("/dev/shm").is_dir() else None)
    with tempfile.TemporaryDirectory(prefix="hvd-bench-", dir=root) as directory:
        ranks = []
        for rank in range(size):
            words = {"rank": rank, "size": size, "directory": directory}
            extra = {name: value.format(**words) for name, value in (environment or {}).items()}
            command = [sys.executable, *sys.argv, "--rank", str(rank), "--directory", directory]
            ranks.append(subprocess.Popen(command, env={**os.environ, **extra}))
        return _wait_for(ranks)


def _wait_for(ranks: list[subprocess.Popen]) -> int:
    waiting = list(ranks)
    try:
        while waiting:
            for rank in list(waiting):
                try:
                    code = rank.wait(timeout=0.2)
                except subprocess.TimeoutExpired:
                    continue
                waiting.remove(rank)
                if code != 0:
                    return code if code > 0 else 1
        return 0
    finally:
        for rank in waiting:
            rank.kill()
            rank.wait()
