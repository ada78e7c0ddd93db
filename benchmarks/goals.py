# SPDX-License-Identifier: Apache-2.0
"""The goals, and whether measured numbers meet them.

Limits in microseconds were set on one CPU; on another they say little, so every goal is printed beside the ratios to the
yardstick S and to the peers, which were measured in the same batch.
"""
from __future__ import annotations

from dataclasses import dataclass
from typing import Optional, Sequence


@dataclass(frozen=True)
class Goal:
    """value(program, case) <= factor * value(beside, case) + plus; without `beside`, <= plus."""

    np: int
    program: str
    case: str
    plus: float = 0.0
    beside: Optional[str] = None
    factor: float = 0.0
    unit: str = "us"

    def text(self) -> str:
        if self.beside is None:
            return f"≤ {_number(self.plus)} {_UNITS[self.unit]}"
        plus = f" + {_number(self.plus)} µs" if self.plus else ""
        return f"≤ {self.factor:g} {_SHORT[self.beside]}{plus}"

    def limit(self, beside: Optional[float]) -> Optional[float]:
        if self.beside is None:
            return self.plus
        return None if beside is None else self.factor * beside + self.plus


_SHORT = {"slots": "S", "open_mpi": "Open MPI", "torch_gloo": "Gloo", "ddp_gloo": "DDP on Gloo"}
_UNITS = {"us": "µs", "1/s": "/s", "%": "%", "MB": "MB"}


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:g}"


def _middle_sizes() -> list[Goal]:
    goals = []
    for size in (64 << 10, 1 << 20, 4 << 20):
        case = f"allreduce/{size}"
        goals.append(Goal(2, "hvd", case, plus=2.0, beside="slots", factor=1.3))
        goals.append(Goal(2, "hvd", case, beside="open_mpi", factor=0.6))
    return goals


def _training() -> list[Goal]:
    """Of torch_training: never slower than DDP on Gloo, and 1.3 times as fast where communication is most of a step."""
    goals = []
    for model in ("resnet18", "transformer", "mlp300", "recommender", "recommender_dense"):
        for way in ("hvd_optimizer", "ddp_hvd"):
            factor = 0.769 if model in ("transformer", "mlp300") else 1.0
            goals.append(Goal(2, way, f"step/{model}", beside="ddp_gloo", factor=factor))
        goals.append(Goal(2, "hvd_optimizer", f"overhead/{model}", plus=15))
    return goals


GOALS: Sequence[Goal] = (
    Goal(2, "hvd", "allreduce/8", plus=3),
    Goal(2, "hvd", "allreduce/4096", plus=4),
    *_middle_sizes(),
    Goal(2, "hvd", f"allreduce/{16 << 20}", beside="open_mpi", factor=0.5),
    Goal(2, "hvd", f"allreduce/{64 << 20}", beside="open_mpi", factor=0.5),
    Goal(2, "hvd", "set/100x4k", plus=80),
    Goal(2, "hvd", "set/resnet50", plus=12_000),
    Goal(2, "hvd_numpy", "allreduce/8", plus=15),
    Goal(2, "hvd_torch", "allreduce/8", plus=40),
    Goal(4, "hvd", "allreduce/4096", plus=40),
    Goal(4, "hvd", "set/resnet50", plus=30_000),
    Goal(2, "hvd", "idle/voluntary_switches", plus=0, unit="1/s"),
    Goal(2, "hvd", "idle/slowdown", plus=1, unit="%"),
    Goal(2, "hvd", "memory/pss", plus=40, unit="MB"),
    Goal(4, "hvd", "idle/voluntary_switches", plus=0, unit="1/s"),
    Goal(4, "hvd", "idle/slowdown", plus=1, unit="%"),
    Goal(4, "hvd", "memory/pss", plus=40, unit="MB"),
    *_training(),
)


def goals_for(np: int, program: str, case: str) -> list[Goal]:
    return [goal for goal in GOALS if (goal.np, goal.program, goal.case) == (np, program, case)]
