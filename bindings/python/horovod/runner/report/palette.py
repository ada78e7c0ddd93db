# SPDX-License-Identifier: Apache-2.0
"""Colours, patterns and the style of the page. Colours are those of Okabe and Ito, which people see apart whichever colours they see;
every part of a bar also has a pattern of its own, for printers that know only black."""

from typing import NamedTuple


class Part(NamedTuple):
    """One part of a step: ``field`` of Shares, its name for people, its colour and its pattern (the content of an SVG pattern)."""

    field: str
    name: str
    colour: str
    pattern: str


PARTS = (
    Part("compute", "compute", "#56b4e9", ""),
    Part("overlap", "overlap", "#009e73", '<path d="M0 0H8M0 4H8" stroke="#fff" stroke-width="1"/>'),
    Part("own", "own operations", "#cc79a7", '<circle cx="2" cy="2" r="1" fill="#fff"/><circle cx="6" cy="6" r="1" fill="#fff"/>'),
    Part("waiting", "waiting for others", "#e69f00", '<path d="M-1 9L9 -1M-1 1L1 -1M7 9L9 7" stroke="#000" stroke-width="1.2"/>'),
    Part("starving", "waiting for bytes", "#f0e442", '<path d="M2 0V8M6 0V8" stroke="#000" stroke-width="1"/>'),
    Part("moving", "moving data", "#0072b2", '<path d="M-1 -1L9 9M-1 7L1 9M7 -1L9 1" stroke="#fff" stroke-width="1"/>'),
)

DEFINITIONS = "".join(
    f'<pattern id="p-{part.field}" width="8" height="8" patternUnits="userSpaceOnUse"><rect width="8" height="8" fill="{part.colour}"/>'
    f"{part.pattern}</pattern>"
    for part in PARTS
)

STYLE = """
:root { --ink: #1a1a1a; --soft: #5a5a5a; --paper: #ffffff; --line: #d0d0d0; --panel: #f4f4f2; --alarm: #d55e00; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e8e8e8; --soft: #a8a8a8; --paper: #16181b; --line: #3c4046; --panel: #202327; --alarm: #ff8f3a; }
}
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 24px; max-width: 1140px; background: var(--paper); color: var(--ink);
       font: 15px/1.45 system-ui, "DejaVu Sans", sans-serif; }
h1 { font-size: 17px; font-weight: 600; margin: 0; color: var(--soft); }
h2 { font-size: 18px; margin: 34px 0 6px; }
p { margin: 6px 0; max-width: 78ch; }
.verdict { font-size: 22px; line-height: 1.35; font-weight: 600; margin: 14px 0 6px; padding-left: 14px;
           border-left: 6px solid var(--alarm); }
.verdict.none { border-color: #009e73; }
.soft { color: var(--soft); }
.facts { display: flex; flex-wrap: wrap; gap: 10px; margin: 16px 0; }
.facts div { background: var(--panel); padding: 8px 14px; border-radius: 6px; min-width: 120px; }
.facts b { display: block; font-size: 19px; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; min-width: 60%; font-size: 14px; margin: 8px 0; font-variant-numeric: tabular-nums; }
th, td { padding: 4px 7px; text-align: right; border-bottom: 1px solid var(--line); white-space: nowrap; }
th { color: var(--soft); font-weight: 600; font-size: 13px; vertical-align: bottom; white-space: normal; min-width: 64px; }
th:first-child { min-width: 0; }
th.text, td.text { text-align: left; }
td.name { white-space: normal; overflow-wrap: anywhere; }
tr.marked td { font-weight: 700; }
svg { display: block; width: 100%; height: auto; }
svg text { fill: var(--ink); font: 12px system-ui, "DejaVu Sans", sans-serif; }
svg text.soft { fill: var(--soft); }
svg .axis { stroke: var(--line); }
svg .outline { stroke: var(--paper); stroke-width: 0.5; }
svg .mark { stroke: var(--alarm); fill: none; stroke-width: 2; }
svg .late { fill: var(--alarm); }
details { margin: 8px 0; }
summary { cursor: pointer; font-weight: 600; }
@media print {
  :root { --ink: #000; --soft: #444; --paper: #fff; --line: #bbb; --panel: #f4f4f2; --alarm: #b34700; }
  body { padding: 0; max-width: none; font-size: 10.5pt; -webkit-print-color-adjust: exact; print-color-adjust: exact; }
  .verdict { font-size: 15pt; }
  h2 { break-after: avoid; }
  tr, svg { break-inside: avoid; }
  th, td { padding: 3px 5px; font-size: 8pt; min-width: 0; }
}
"""
