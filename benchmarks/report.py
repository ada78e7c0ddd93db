# SPDX-License-Identifier: Apache-2.0
"""From the batches of a run to tables."""
from __future__ import annotations

import statistics
from typing import Optional

from goals import goals_for

TITLES = {
    "hvd": "hvd",
    "slots": "S",
    "open_mpi": "Open MPI",
    "torch_gloo": "torch Gloo",
    "hvd_numpy": "hvd NumPy",
    "hvd_torch": "hvd torch",
}
ENGINE_COLUMNS = ("hvd", "slots", "open_mpi", "torch_gloo")
PYTHON_COLUMNS = ("hvd_numpy", "hvd_torch")


class Measured:
    """The numbers of all batches of one world size that were steady."""

    def __init__(self, np: int, batches: list[dict]) -> None:
        steady = [batch for batch in batches if batch["steady"]]
        self.np = np
        self.unsteady = len(batches) - len(steady)
        self.batches = steady or batches
        self.all_unsteady = not steady

    def cases(self) -> list[str]:
        """In the order in which they were measured first."""
        seen: dict[str, None] = {}
        for batch in self.batches:
            for results in batch["results"].values():
                seen.update(dict.fromkeys(results))
        return list(seen)

    def per_batch(self, program: str, case: str) -> list[Optional[float]]:
        """The best of the medians that a batch has."""
        found = [batch["results"].get(program, {}).get(case) for batch in self.batches]
        return [min(values) if values else None for values in found]

    def best(self, program: str, case: str) -> Optional[float]:
        known = [value for value in self.per_batch(program, case) if value is not None]
        return min(known) if known else None

    def ratio(self, program: str, other: str, case: str) -> Optional[float]:
        """Median over the batches of a ratio taken within a batch."""
        ratios = self.ratios(program, other, case)
        return statistics.median(ratios) if ratios else None

    def ratios(self, program: str, other: str, case: str) -> list[float]:
        pairs = zip(self.per_batch(program, case), self.per_batch(other, case))
        return [one / two for one, two in pairs if one is not None and two]

    def verdicts(self, program: str, case: str) -> list[str]:
        texts = []
        for goal in goals_for(self.np, program, case):
            values = self.per_batch(program, case)
            beside = self.per_batch(goal.beside, case) if goal.beside else [None] * len(values)
            limits = [goal.limit(other) for other in beside]
            known = [(value, limit) for value, limit in zip(values, limits) if value is not None and limit is not None]
            if not known:
                texts.append(f"{goal.text()}: not measured")
            elif goal.beside is None:
                texts.append(verdict(goal.text(), min(value for value, _ in known), known[0][1]))
            else:
                texts.append(verdict(goal.text(), statistics.median(value / limit for value, limit in known), 1.0))
        return texts


def verdict(goal: str, value: float, limit: float) -> str:
    if value <= limit:
        return f"{goal}: met"
    return f"{goal}: missed" + (f" ({value / limit:.2f} ×)" if limit else "")


def format_us(value: Optional[float]) -> str:
    if value is None:
        return "–"
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def case_title(case: str) -> str:
    """allreduce/65536 becomes "allreduce 64 KB"."""
    operation, _, size = case.partition("/")
    if not size.isdigit():
        return f"{operation} {size}".strip()
    count = int(size)
    for unit, name in ((1 << 20, "MB"), (1 << 10, "KB")):
        if count >= unit:
            return f"{operation} {count // unit} {name}"
    return f"{operation} {count} B"


def engine_table(measured: Measured) -> list[list[str]]:
    rows = [["case"] + [f"{TITLES[name]} µs" for name in ENGINE_COLUMNS] + ["÷ S", "÷ MPI", "÷ Gloo", "goal"]]
    for case in measured.cases():
        values = [measured.best(program, case) for program in ENGINE_COLUMNS]
        if all(value is None for value in values):
            continue
        ratios = [measured.ratio("hvd", other, case) for other in ENGINE_COLUMNS[1:]]
        rows.append(
            [case_title(case)]
            + [format_us(value) for value in values]
            + ["–" if ratio is None else f"{ratio:.2f}" for ratio in ratios]
            + ["; ".join(measured.verdicts("hvd", case))]
        )
    return rows


def python_table(measured: Measured) -> list[list[str]]:
    rows = [["case, from Python"] + [f"{TITLES[name]} µs" for name in PYTHON_COLUMNS + ("torch_gloo", "hvd")] + ["goal"]]
    for case in measured.cases():
        values = [measured.best(program, case) for program in PYTHON_COLUMNS]
        if all(value is None for value in values):
            continue
        values += [measured.best("torch_gloo", case), measured.best("hvd", case)]
        texts = [
            f"{TITLES[program]} {text}" for program in PYTHON_COLUMNS for text in measured.verdicts(program, case)
        ]
        rows.append([case_title(case)] + [format_us(value) for value in values] + ["; ".join(texts)])
    return rows


def side_table(np: int, side_costs: list[dict]) -> list[list[str]]:
    rows = [["beside the operations", "value", "goal"]]
    for line in side_costs:
        texts = [verdict(goal.text(), line["value"], goal.plus) for goal in goals_for(np, "hvd", line["case"])]
        unit = "µs" if line["unit"] == "us" else line["unit"]
        rows.append([line["case"].replace("/", ", ").replace("_", " "), f"{line['value']:,.2f} {unit}", "; ".join(texts)])
    return rows


def render(rows: list[list[str]], markdown: bool) -> str:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = []
    for number, row in enumerate(rows):
        cells = [cell.ljust(width) if i == 0 else cell.rjust(width) for i, (cell, width) in enumerate(zip(row, widths))]
        cells[-1] = row[-1].ljust(widths[-1]) if markdown else row[-1]
        lines.append(("| " + " | ".join(cells) + " |") if markdown else "  ".join(cells).rstrip())
        if number == 0:
            rule = ["-" * (width - 1) + ("-" if i in (0, len(widths) - 1) else ":") for i, width in enumerate(widths)]
            lines.append("|" + "|".join(f" {part} " for part in rule) + "|" if markdown else "-" * len(lines[0]))
    return "\n".join(lines)


def summary(run: dict, markdown: bool) -> str:
    """All tables of one world size."""
    measured = Measured(run["np"], run["batches"])
    before = [batch["probes_before"] for batch in measured.batches]
    probes = ", ".join(
        f"{name} {min(probe[name] for probe in before):.3g} {unit}" for name, unit in (("L", "ns"), ("Y", "µs"), ("W", "µs"))
    )
    heading = f"{run['np']} ranks: {len(measured.batches)} batches, {measured.unsteady} dropped as unsteady; {probes}"
    if measured.all_unsteady:
        heading = f"{run['np']} ranks: ALL {measured.unsteady} batches were unsteady, read with care; {probes}"
    parts = [("### " if markdown else "") + heading, render(engine_table(measured), markdown)]
    for rows in (python_table(measured), side_table(run["np"], run["side_costs"])):
        if len(rows) > 1:
            parts.append(render(rows, markdown))
    parts += [f"{program} not run: {reason}" for program, reason in run["not_run"].items()]
    return "\n\n".join(parts)
