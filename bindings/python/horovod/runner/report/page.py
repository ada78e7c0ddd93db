# SPDX-License-Identifier: Apache-2.0
"""The report as one HTML page that needs nothing else: no network, no script, no other file."""

from html import escape
from statistics import median
from typing import Iterable, List, Sequence

from . import charts
from .analysis import Analysis
from .palette import DEFINITIONS, PARTS, STYLE
from .tables import bandwidths, group_rows, tensor_rows
from .waits import waited_for
from .words import amount, duration, percent, rate


def page(analysis: Analysis) -> str:
    """The whole page as text."""
    title = escape(f"Report of {analysis.job.folder}" if analysis.job.folder else "Report")
    sections = [
        _head(analysis),
        _verdict(analysis),
        _division(analysis),
        _gains(analysis),
        _every_step(analysis),
        _processor(analysis),
        _network(analysis),
        _groups(analysis),
        _tensors(analysis),
        _method(analysis),
    ]
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f'<meta name="color-scheme" content="light dark"><title>{title}</title><style>{STYLE}</style></head>\n<body>'
        f'<svg width="0" height="0" style="position:absolute;width:0;height:0" aria-hidden="true"><defs>{DEFINITIONS}</defs></svg>\n'
        + "\n".join(section for section in sections if section)
        + "\n</body></html>\n"
    )


def _head(analysis: Analysis) -> str:
    job = analysis.job
    hosts = [host for host in job.hosts if host]
    ranks = "1 rank" if len(job.ranks) == 1 else f"{len(job.ranks)} ranks"
    names = escape(", ".join(hosts[:8])) + (", …" if len(hosts) > 8 else "")
    places = f" on {len(hosts)} {'host' if len(hosts) == 1 else 'hosts'} ({names})" if hosts else ""
    return f"<h1>horovodrun report · {ranks}{places} · {escape(job.folder)}</h1>"


def _verdict(analysis: Analysis) -> str:
    first = analysis.findings[0] if analysis.findings else None
    kind = "verdict" if first else "verdict none"
    parts = [f'<p class="{kind}">{escape(analysis.verdict)}</p>']
    for number, finding in enumerate(analysis.findings):
        if number:
            parts.append(f"<p>{escape(finding.sentence)}</p>")
        parts.append(f"<p><b>{escape(finding.cause.name)}</b>: {escape(finding.cause.advice)}</p>")
    steps = analysis.steps
    length = steps.total / steps.count
    mean = [analysis.mean(rank) for rank in analysis.rows]
    facts = [
        ("a step takes" if steps.found else "a slice of time", duration(length)),
        ("steps seen" if steps.found else "slices", str(steps.count)),
        ("steps per second", f"{1e9 / max(1.0, length):.1f}") if steps.found else ("", ""),
        ("waiting for others", percent(median(row.waiting / max(1.0, row.total) for row in mean))),
        ("waiting for bytes", percent(median(row.starving / max(1.0, row.total) for row in mean))),
        ("moving data", percent(median(row.moving / max(1.0, row.total) for row in mean))),
        ("overlap, at least", percent(_overlap(mean))),
    ]
    boxes = "".join(f"<div>{name}<b>{value}</b></div>" for name, value in facts if name)
    return f'<section>{"".join(parts)}<div class="facts">{boxes}</div></section>'


def _overlap(mean: Sequence) -> float:
    """Of the time with something in flight, the part in which the programs went on."""
    flying = sum(row.overlap + row.waiting + row.starving + row.moving for row in mean)
    return sum(row.overlap for row in mean) / flying if flying else 0.0


def _division(analysis: Analysis) -> str:
    mean = {rank: analysis.mean(rank) for rank in analysis.rows}
    hosts = {rank: analysis.job.ranks[rank].host for rank in mean}
    marked = [finding.rank for finding in analysis.findings]
    head = ["rank", "host", "step", *(part.name for part in PARTS)]
    rows = []
    for rank, row in mean.items():
        values = [getattr(row, part.field) for part in PARTS]
        parts = [f"{duration(value)} ({percent(value / row.total)})" if value else duration(value) for value in values]
        rows.append((rank in marked, [str(rank), escape(hosts[rank]), duration(row.total), *parts]))
    return _section("Where the time of a step goes", charts.legend() + charts.bars(mean, marked, hosts) + _table(head, rows, text=(1,)))


def _gains(analysis: Analysis) -> str:
    found = {finding.rank: finding for finding in analysis.findings}
    waits = waited_for(analysis.ways, analysis.steps)
    rows = []
    for gain, row in zip(analysis.gains, waits):
        finding = found.get(gain.rank)
        rows.append(
            (
                finding is not None,
                [
                    str(gain.rank),
                    duration(max(0.0, gain.time)),
                    percent(max(0.0, gain.share)),
                    duration(row.time),
                    percent(row.last),
                    duration(row.data) if row.data else "–",
                    escape(finding.cause.name) if finding else "",
                ],
            )
        )
    head = [
        "rank",
        "a step would be shorter by",
        "",
        "others wait for its announcement",
        "comes last to",
        "others wait for its data",
        "class",
    ]
    chart = charts.lateness([(row.rank, row.time) for row in waits], list(found))
    text = (
        "<p>The job is played again from its records with one rank’s own time replaced by the median of the others: the second column is "
        "what a step would save. The chart shows for how long of a step the rank alone was missing.</p>"
    )
    return _section("Who is waited for", text + chart + _table(head, rows, text=(6,)))


def _every_step(analysis: Analysis) -> str:
    totals = sorted(row.total for rows in analysis.rows.values() for row in rows)
    ceiling = max(1.0, totals[int(0.98 * (len(totals) - 1))] * 1.1)
    parts = "".join(f"<div>{charts.steps_of_rank(rank, rows, ceiling)}</div>" for rank, rows in analysis.rows.items())
    worst = sorted(range(analysis.steps.count), key=lambda number: -max(rows[number].total for rows in analysis.rows.values()))[:5]
    rows = []
    for number in worst:
        rank = max(analysis.rows, key=lambda rank: analysis.rows[rank][number].compute + analysis.rows[rank][number].own)
        row = analysis.rows[rank][number]
        rows.append((False, [str(number + 1), duration(row.total), f"rank {rank}", duration(row.compute + row.own)]))
    table = _table(["step", "takes", "longest by itself", "for"], rows)
    return _section("Every step of every rank", parts + "<p>The longest steps:</p>" + table)


def _processor(analysis: Analysis) -> str:
    if not analysis.facts:
        return _section(
            "What the processors did",
            "<p>No rank has a samples.jsonl, so nothing is known of computing, sleeping and waiting for a core.</p>",
        )
    rows = []
    for rank, facts in analysis.facts.items():
        main = facts.main
        busiest = f"{escape(facts.busiest)} {duration(facts.busiest_cpu)}" if facts.busiest_cpu else "–"
        rows.append(
            (
                rank in [finding.rank for finding in analysis.findings],
                [
                    str(rank),
                    duration(main.cpu),
                    duration(main.system),
                    duration(main.queued),
                    f"{main.slept:.0f}",
                    f"{main.pushed:.0f}",
                    f"{main.minor:.0f}",
                    f"{main.major:.1f}",
                    duration(facts.others),
                    busiest,
                ],
            )
        )
    head = [
        "rank",
        "main thread runs",
        "in the kernel",
        "ready, no core free",
        "went to sleep",
        "lost its core",
        "page faults",
        "from disk",
        "other threads run",
        "busiest of them",
    ]
    return _section("What the processors did, per step", _table(head, rows))


def _network(analysis: Analysis) -> str:
    parts = []
    first = next(iter(analysis.ways))
    rows = [
        (
            False,
            [
                row.kind,
                amount(row.bytes_per_step),
                duration(row.time_per_step),
                rate(row.algorithm),
                rate(row.link) if row.link else "–",
            ],
        )
        for row in bandwidths(analysis.inside(first), len(analysis.ways), analysis.steps.count)
    ]
    head = ["operation", "bytes a step", "data moves for", "bytes of tensors", "each rank sends (ring)"]
    parts.append(_table(head, rows, text=(0,)) if rows else "<p>No operation carries bytes.</p>")
    if analysis.links:
        links = sorted(analysis.links, key=lambda link: (link.rate, -link.resent))[:24]
        marked = [finding.rank for finding in analysis.findings]
        rows = [
            (
                link.sender in marked or link.receiver in marked,
                [
                    f"{link.sender} → {link.receiver}",
                    amount(link.bytes),
                    rate(link.rate),
                    str(link.resent),
                    percent(link.resent / max(1, link.sent)),
                ],
            )
            for link in links
        ]
        parts.append(f"<p>The {len(rows)} slowest links between ranks (TCP):</p>")
        parts.append(_table(["link", "bytes", "rate while busy", "segments sent again", "of all"], rows))
    return _section("Bandwidth", "".join(parts))


def _groups(analysis: Analysis) -> str:
    first = next(iter(analysis.ways))
    rows = [
        (
            False,
            [
                f"{amount(row.least)} – {amount(row.most)}",
                f"{row.groups / analysis.steps.count:.1f}",
                f"{row.operations:.1f}",
                amount(row.bytes / analysis.steps.count),
                duration(row.time),
                rate(row.rate),
            ],
        )
        for row in group_rows(analysis.inside(first))
    ]
    head = ["size of a group", "groups a step", "operations in each", "bytes a step", "data phase, median", "bytes of tensors"]
    text = "<p>Operations that are ready at the same time travel as one group (fusion), as rank %d saw them.</p>" % first
    return _section("Fusion: groups by size", text + _table(head, rows, text=(0,)))


def _tensors(analysis: Analysis) -> str:
    rows = [
        (
            False,
            [
                escape(row.name),
                row.kind,
                f"{row.dtype} {row.shape}".strip(),
                amount(row.bytes),
                f"{row.count:.1f}",
                duration(row.time),
                duration(row.waited),
                row.last,
            ],
        )
        for row in tensor_rows(analysis.ways, {rank: analysis.inside(rank) for rank in analysis.ways}, analysis.steps.count)
    ]
    head = ["name", "operation", "tensor", "bytes", "times a step", "moving", "waiting for ranks", "last to come"]
    text = "<p>Times are the mean of all ranks per step. Operations of a group share its time, so their sum may be longer than a step.</p>"
    return _section("Ten costliest tensors", text + _table(head, rows, text=(0, 1, 2, 7), name=0))


def _method(analysis: Analysis) -> str:
    job, notes = analysis.job, []
    notes.append(f"Steps: {escape(analysis.steps.rule)}.")
    if job.lost:
        notes.append(
            f"Each rank keeps its last operations only: {job.lost} older records are lost, and the report tells of the time after them."
        )
    if job.missing:
        notes.append(f"No records of ranks {escape(', '.join(map(str, job.missing)))}, so they are no part of this report.")
    if job.clock_error:
        notes.append(
            f"The clocks of the hosts are aligned to {duration(job.clock_error)} or better; shorter times between hosts mean little."
        )
    notes.append(
        "Compute: nothing of the rank is in flight. Overlap: something is in flight and the program goes on to submit more; this is the "
        "least that overlaps, because a program that computes after its last submission cannot be told from one that waits. Waiting for "
        "others: until the other ranks have announced the operation. Waiting for bytes: the data phase has begun, and nothing can be done "
        "until a peer’s bytes come. Moving: the rest of the time with something in flight."
    )
    return _section("How to read this", "".join(f'<p class="soft">{note}</p>' for note in notes))


def _section(title: str, content: str) -> str:
    return f"<section><h2>{title}</h2>{content}</section>"


def _table(head: Sequence[str], rows: Iterable, text: Sequence[int] = (), name: int = -1) -> str:
    """``rows``: (whether marked, cells as HTML); columns in ``text`` are words, column ``name`` may be broken anywhere."""
    kinds = ["text" if number in text else "" for number in range(len(head))]
    parts: List[str] = ["".join(f'<th class="{kind}" scope="col">{cell}</th>' for kind, cell in zip(kinds, head))]
    for marked, cells in rows:
        content = "".join(
            f'<td class="{kind}{" name" if number == name else ""}">{cell}</td>' for number, (kind, cell) in enumerate(zip(kinds, cells))
        )
        parts.append(f"</tr><tr{' class=marked' if marked else ''}>{content}")
    return f'<div class="scroll"><table><tr>{"".join(parts)}</tr></table></div>'
