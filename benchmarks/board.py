# SPDX-License-Identifier: Apache-2.0
"""The board and the timing of board.h and measure.h, for the Python programs.

The barrier, the clock and the table are the C ones (libhvd_bench_board.so); the loops are repeated here because the operation
under test is a Python call. The rules are those of measure.c: a sample is the time from the last rank in to the last rank out.
"""
from __future__ import annotations

import ctypes
import json
import statistics
from typing import Callable, Optional

_LOOP_SAMPLE_NS = 2_000_000
_MAX_REPEATS = 2000
_MIN_SAMPLES, _MAX_SAMPLES = 5, 31
_WARM_UPS = 4

SYNC_BYTES = (8, 4 << 10, 64 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20)
COLLECTIVE_BYTES = (64, 16 << 10, 1 << 20, 16 << 20)
TOUCH_BYTES = 65536


def resnet50_elements() -> list[int]:
    """Elements of each gradient of ResNet-50, as in tensor_sets.c."""

    def convolution(inputs: int, outputs: int, kernel: int) -> list[int]:
        return [inputs * outputs * kernel * kernel, outputs, outputs]

    sizes = convolution(3, 64, 7)
    inputs = 64
    for planes, blocks in zip((64, 128, 256, 512), (3, 4, 6, 3)):
        for block in range(blocks):
            sizes += convolution(inputs, planes, 1) + convolution(planes, planes, 3) + convolution(planes, planes * 4, 1)
            if block == 0:
                sizes += convolution(inputs, planes * 4, 1)
            inputs = planes * 4
    return sizes + [inputs * 1000, 1000]


class Board:
    """One rank's place at the board of a run."""

    def __init__(self, library: str, path: str, rank: int, size: int) -> None:
        lib = ctypes.CDLL(library, use_errno=True)
        lib.bench_board_open.restype = ctypes.c_void_p
        lib.bench_board_open.argtypes = [ctypes.c_char_p, ctypes.c_int, ctypes.c_int]
        lib.bench_board_barrier.argtypes = [ctypes.c_void_p]
        lib.bench_board_share.restype = ctypes.c_uint64
        lib.bench_board_share.argtypes = [ctypes.c_void_p, ctypes.c_uint64]
        lib.bench_board_record.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint64, ctypes.c_uint64]
        lib.bench_board_span.restype = ctypes.c_uint64
        lib.bench_board_span.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
        lib.bench_now_ns.restype = ctypes.c_uint64
        self._lib = lib
        self._board = lib.bench_board_open(path.encode(), rank, size)
        if not self._board:
            raise OSError(ctypes.get_errno(), f"cannot open the board {path}")
        self.rank = rank
        self.size = size

    def barrier(self) -> None:
        self._lib.bench_board_barrier(self._board)

    def pin(self) -> None:
        """Binds the calling thread to this rank's core."""
        self._lib.bench_pin_thread(self.rank)

    def measure_loop(self, operation: Callable[[], object], budget_ns: int) -> tuple[float, float, int]:
        """Median and lowest microseconds per operation, and the number of samples."""
        now = self._lib.bench_now_ns
        repeats = min(max(_LOOP_SAMPLE_NS // self._estimate_ns(operation, None), 1), _MAX_REPEATS)
        deadline = now() + budget_ns
        samples = 0
        while self._another(samples, deadline):
            entered = now()
            for _ in range(repeats):
                operation()
            self._lib.bench_board_record(self._board, samples, entered, now())
            samples += 1
        return self._summary(samples, repeats)

    def measure_touch(
        self, operation: Callable[[], object], rewrite: Callable[[], object], budget_ns: int
    ) -> tuple[float, float, int]:
        """The same with one operation per sample, on buffers that `rewrite` has written anew."""
        now = self._lib.bench_now_ns
        self._estimate_ns(operation, rewrite)  # for its warm-up
        deadline = now() + budget_ns
        samples = 0
        while self._another(samples, deadline):
            rewrite()
            self.barrier()
            entered = now()
            operation()
            self._lib.bench_board_record(self._board, samples, entered, now())
            samples += 1
        return self._summary(samples, 1)

    def _another(self, taken: int, deadline: int) -> bool:
        in_time = taken < _MAX_SAMPLES and self._lib.bench_now_ns() < deadline
        return self._lib.bench_board_share(self._board, int(taken < _MIN_SAMPLES or in_time)) != 0

    def _estimate_ns(self, operation: Callable[[], object], rewrite: Optional[Callable[[], object]]) -> int:
        now = self._lib.bench_now_ns
        best = 1 << 62
        for _ in range(_WARM_UPS):
            self.barrier()
            start = now()
            if rewrite is not None:
                rewrite()
            operation()
            best = min(best, now() - start)
        return self._lib.bench_board_share(self._board, best) + 1

    def _summary(self, samples: int, repeats: int) -> tuple[float, float, int]:
        self.barrier()
        spans = [self._lib.bench_board_span(self._board, i) / 1e3 / repeats for i in range(samples)]
        self.barrier()
        return statistics.median(spans), min(spans), samples

    def report(self, program: str, case: str, timing: tuple[float, float, int]) -> None:
        """Rank 0 prints one result as a line of JSON, like bench_print."""
        median, lowest, samples = timing
        if self.rank == 0:
            line = {"program": program, "case": case, "unit": "us", "value": median, "lowest": lowest, "samples": samples}
            print(json.dumps(line), flush=True)
