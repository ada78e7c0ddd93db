# SPDX-License-Identifier: Apache-2.0
"""The measured programs: how each is started, and its results."""
from __future__ import annotations

import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Optional

_HERE = Path(__file__).resolve().parent


class ProgramFailed(Exception):
    """A measured program ended with an error, or not at all."""


@dataclass
class Settings:
    """What all programs of one run have in common."""

    build: Path
    budget_ms: int
    max_bytes: int
    cases: str
    timeout_s: int
    pin: bool

    def arguments(self) -> list[str]:
        words = ["--budget-ms", str(self.budget_ms), "--max-bytes", str(self.max_bytes), "--cases", self.cases]
        return words if self.pin else words + ["--no-pin"]


def run(command: list[str], timeout_s: int, environment: Optional[dict[str, str]] = None) -> list[dict]:
    """Runs a program and returns the results it printed, one object per line of JSON on its stdout.

    {directory} in a word of the command stands for a fresh directory in memory. The programs make their own in it as well, so
    that nothing stays behind of one that had to be killed.
    """
    with tempfile.TemporaryDirectory(prefix="hvd-bench-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as scratch:
        words = [word.replace("{directory}", scratch) for word in command]
        return _run_in(scratch, words, timeout_s, environment or {})


def _run_in(scratch: str, command: list[str], timeout_s: int, environment: dict[str, str]) -> list[dict]:
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "HVD_BENCH_DIRECTORY": scratch, **environment},
        start_new_session=True,
    )
    try:
        out, err = process.communicate(timeout=timeout_s)
    except BaseException as interruption:
        os.killpg(process.pid, signal.SIGKILL)  # its ranks are in its session, so none stays behind
        process.wait()
        if isinstance(interruption, subprocess.TimeoutExpired):
            raise ProgramFailed(f"{command[0]}: not finished after {timeout_s} s") from None
        raise
    if process.returncode != 0:
        last = err.strip().splitlines()[-3:] or ["no message"]
        raise ProgramFailed(f"{' '.join(command[:4])}: exit code {process.returncode}: {' | '.join(last)}")
    return [json.loads(line) for line in out.splitlines() if line.startswith("{")]


def probes(settings: Settings) -> dict[str, float]:
    """L in ns, Y and W in µs."""
    lines = run([str(settings.build / "yardsticks"), "--probes"], settings.timeout_s)
    return {line["case"]: line["value"] for line in lines}


def slots(settings: Settings, np: int) -> list[dict]:
    command = [str(settings.build / "yardsticks"), "--np", str(np), "--board", "{directory}/board", *settings.arguments()]
    return run(command, settings.timeout_s)


def hvd(settings: Settings, np: int) -> list[dict]:
    return run([str(settings.build / "bench_hvd"), "--np", str(np), *settings.arguments()], settings.timeout_s)


def hvd_side_costs(settings: Settings, np: int, idle_s: int) -> list[dict]:
    """Idle switches and slowdown, memory, time of init and shutdown."""
    command = [str(settings.build / "bench_hvd"), "--np", str(np), "--max-bytes", str(settings.max_bytes), "--mode"]
    lines = []
    for mode in (["idle", "--seconds", str(idle_s)], ["memory"], ["init"]):
        lines += run(command + mode, settings.timeout_s)
    return [line for line in lines if line["program"] == "hvd"]


def open_mpi(settings: Settings, np: int) -> list[dict]:
    """Ranks place themselves (--bind-to none). With more ranks than cores Open MPI yields while it waits, as it does by itself
    when told of the oversubscription."""
    more = []
    if np > len(os.sched_getaffinity(0)):
        more = ["--oversubscribe", "--mca", "mpi_yield_when_idle", "1"]
    as_root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    program = [str(settings.build / "bench_mpi"), "--board", "{directory}/board", *settings.arguments()]
    return run(["mpirun", "--bind-to", "none", *more, "-np", str(np), *program], settings.timeout_s, as_root)


def torch_gloo(settings: Settings, np: int) -> list[dict]:
    """Never bound to a core: Gloo moves data on threads of its own, and binding the caller beside them was slower."""
    arguments = settings.arguments() + ([] if not settings.pin else ["--no-pin"])
    return run([*_python(settings, "bench_torch_gloo.py", np), *arguments], settings.timeout_s)


def hvd_numpy(settings: Settings, np: int) -> list[dict]:
    return run([*_python(settings, "bench_python.py", np), "--api", "numpy", *settings.arguments()], settings.timeout_s)


def hvd_torch(settings: Settings, np: int) -> list[dict]:
    return run([*_python(settings, "bench_python.py", np), "--api", "torch", *settings.arguments()], settings.timeout_s)


def missing(settings: Settings) -> dict[str, str]:
    """Why a program cannot run here, for those that cannot."""
    reasons = {}
    if not (settings.build / "bench_hvd").exists():
        reasons["hvd"] = f"{settings.build / 'bench_hvd'} is not built"
    if not (settings.build / "bench_mpi").exists() or shutil.which("mpirun") is None:
        reasons["open_mpi"] = "Open MPI is not installed (Debian: openmpi-bin libopenmpi-dev), or bench_mpi is not built"
    if importlib.util.find_spec("torch") is None:
        reasons["torch_gloo"] = reasons["hvd_torch"] = f"{sys.executable} has no torch"
    if importlib.util.find_spec("horovod") is None:
        reasons["hvd_numpy"] = reasons["hvd_torch"] = f"{sys.executable} has no horovod"
    return reasons


def wait_until_quiet(limit_s: float) -> float:
    """Waits until the machine idles at least 90 % over 50 ms, or the limit; returns the idle share last seen."""
    deadline = time.monotonic() + limit_s
    while True:
        before = _cpu_times()
        time.sleep(0.05)
        spent = [now - then for now, then in zip(_cpu_times(), before)]
        total = sum(spent)
        idle = (spent[3] + spent[4]) / total if total else 1.0
        if idle >= 0.9 or time.monotonic() > deadline:
            return idle


def _cpu_times() -> list[int]:
    with open("/proc/stat", encoding="ascii") as stat:
        return [int(word) for word in stat.readline().split()[1:9]]


def _python(settings: Settings, script: str, np: int) -> list[str]:
    library = str(settings.build / "libhvd_bench_board.so")
    return [sys.executable, str(_HERE / script), "--np", str(np), "--board-library", library]
