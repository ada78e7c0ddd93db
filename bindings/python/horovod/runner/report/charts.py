# SPDX-License-Identifier: Apache-2.0
"""The charts of the page, as SVG that stands in the page itself. Every number of a chart also stands in a table."""

from html import escape
from typing import Dict, List, Sequence, Tuple

from .palette import PARTS
from .shares import Shares
from .words import duration

WIDTH = 960
_LEFT, _RIGHT = 92, 74
_BAR, _SPACE = 24, 10
_COLUMNS = 160  # of a chart of one rank: more steps than that are averaged


def legend() -> str:
    """What the patterns mean, once for all charts."""
    parts, at = [], 0
    for part in PARTS:
        parts.append(
            f'<rect x="{at}" y="2" width="22" height="14" fill="url(#p-{part.field})"/><text x="{at + 28}" y="13">{part.name}</text>'
        )
        at += 48 + 7 * len(part.name)
    return _svg(WIDTH, 20, "legend", "".join(parts))


def bars(rows: Dict[int, Shares], marked: Sequence[int], hosts: Dict[int, str]) -> str:
    """The mean step of each rank as a bar; ranks in `marked` are framed."""
    longest = max(row.total for row in rows.values()) or 1.0
    scale = (WIDTH - _LEFT - _RIGHT) / longest
    parts = []
    for place, (rank, row) in enumerate(rows.items()):
        top = place * (_BAR + _SPACE)
        parts.append(f'<text x="0" y="{top + 16}">rank {rank}</text>')
        at = float(_LEFT)
        for part in PARTS:
            value = getattr(row, part.field)
            width = value * scale
            title = f"<title>rank {rank} on {escape(hosts[rank] or 'its host')}: {part.name} {duration(value)}</title>"
            parts.append(
                f'<rect class="outline" x="{at:.1f}" y="{top}" width="{width:.1f}" height="{_BAR}" '
                f'fill="url(#p-{part.field})">{title}</rect>'
            )
            at += width
        if rank in marked:
            parts.append(f'<rect class="mark" x="{_LEFT - 2}" y="{top - 2}" width="{at - _LEFT + 4:.1f}" height="{_BAR + 4}"/>')
        parts.append(f'<text x="{at + 6:.1f}" y="{top + 16}">{duration(row.total)}</text>')
    return _svg(WIDTH, len(rows) * (_BAR + _SPACE), "the mean step of each rank, divided into its parts", "".join(parts))


def steps_of_rank(rank: int, rows: List[Shares], ceiling: float) -> str:
    """The steps of one rank from left to right, each a column; all ranks have the same scale."""
    columns = _columns(rows)
    height, width = 84, (WIDTH - _LEFT) / len(columns)
    scale = height / ceiling
    parts = [
        f'<text x="0" y="14">rank {rank}</text><text class="soft" x="0" y="30">to {duration(ceiling)}</text>',
        f'<line class="axis" x1="{_LEFT}" y1="{height}" x2="{WIDTH}" y2="{height}"/>',
    ]
    paths: Dict[str, List[str]] = {part.field: [] for part in PARTS}  # one for each part: a pattern for each column makes a PDF huge
    for number, row in enumerate(columns):
        bottom = float(height)
        for part in PARTS:
            tall = min(getattr(row, part.field) * scale, bottom)
            if tall >= 0.2:
                bottom -= tall
                paths[part.field].append(
                    f"M{_LEFT + number * width:.1f} {bottom:.1f}h{max(0.6, width - 0.7):.1f}v{tall:.1f}h-{max(0.6, width - 0.7):.1f}z"
                )
    parts += [f'<path d="{"".join(path)}" fill="url(#p-{field})"/>' for field, path in paths.items() if path]
    return _svg(WIDTH, height + 2, f"the steps of rank {rank}, divided into their parts", "".join(parts))


def lateness(spans: List[Tuple[int, float]], marked: Sequence[int]) -> str:
    """(rank, ns per step that the others wait for the rank) as bars."""
    longest = max((value for _, value in spans), default=0.0) or 1.0
    scale = (WIDTH - _LEFT - _RIGHT) / longest
    parts = []
    for place, (rank, value) in enumerate(spans):
        top = place * 22
        kind = "late" if rank in marked else "soft-bar"
        fill = "" if rank in marked else ' fill="#888"'
        parts.append(
            f'<text x="0" y="{top + 13}">rank {rank}</text><rect class="{kind}"{fill} x="{_LEFT}" y="{top + 2}" '
            f'width="{max(1.0, value * scale):.1f}" height="14"/>'
            f'<text x="{_LEFT + value * scale + 6:.1f}" y="{top + 13}">{duration(value)}</text>'
        )
    return _svg(WIDTH, 22 * len(spans), "how long the others wait for each rank in a step", "".join(parts))


def _columns(rows: List[Shares]) -> List[Shares]:
    if len(rows) <= _COLUMNS:
        return rows
    found = []
    for number in range(_COLUMNS):
        part = rows[len(rows) * number // _COLUMNS : len(rows) * (number + 1) // _COLUMNS]
        found.append(Shares(*(sum(values) / len(part) for values in zip(*part))))
    return found


def _svg(width: float, height: float, what: str, content: str) -> str:
    return f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{what}">{content}</svg>'
