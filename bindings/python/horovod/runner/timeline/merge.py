# SPDX-License-Identifier: Apache-2.0
"""Puts the timelines of ranks on one axis of time, that of rank 0's clock.

In a rank's own file each tensor is a process, and the end of a span has no name, as in Horovod's. In the file of all ranks each rank is a
process, each tensor a thread, ends have names, because some viewers find a span's end by them, and a member's mark in a negotiation is an
instant: Horovod's spans without length confuse the same viewers.
"""

import json
import os
from dataclasses import dataclass
from typing import Any, Dict, List, Optional

_HEAD = "start_monotonic_ns"
_NUMBERS = ("rank", "size", _HEAD, "start_time_since_epoch_in_micros")


class TimelineError(Exception):
    """A file that cannot be used; the text says which one, and why."""


@dataclass
class RankTimeline:
    """The file of a rank."""

    path: str
    head: Dict[str, Any]  # what the file says of the rank: the arguments of its first event
    events: List[Dict[str, Any]]

    @property
    def rank(self) -> int:
        """Whose operations these are."""
        return self.head["rank"]

    @property
    def offset(self) -> Optional[int]:
        """What to add to its times to get rank 0's, in nanoseconds; None if the file does not know."""
        return self.head.get("clock_offset_ns")

    @property
    def error(self) -> int:
        """How far that may be wrong, in nanoseconds."""
        return self.head.get("clock_error_ns") or 0


@dataclass
class Merged:
    """All ranks' events, and what is to be said about them."""

    events: List[Dict[str, Any]]
    ranks: List[int]
    hosts: int
    error: int  # ns by which clocks of different hosts may be wrong
    not_compared: List[int]  # ranks whose clock was not compared with rank 0's
    missing: List[int]  # ranks of the job without a file


def read(path: str) -> RankTimeline:
    """The timeline in a file; TimelineError if there is none."""
    try:
        with open(path, "rb") as file:
            events = json.load(file)
    except OSError as error:
        raise TimelineError(f"{path}: {error.strerror}") from None
    except ValueError as error:
        raise TimelineError(f"{path}: not a timeline: {error}") from None
    first = events[0] if isinstance(events, list) and events else None
    head = first.get("args") if isinstance(first, dict) else None
    if not isinstance(head, dict) or not all(isinstance(head.get(name), int) for name in _NUMBERS):
        raise TimelineError(f"{path}: not a timeline of a rank; its first event does not say which rank wrote it, and when")
    return RankTimeline(path, head, events)


def merge(timelines: List[RankTimeline]) -> Merged:
    """One timeline of several ranks; TimelineError if they are not of one job."""
    timelines = sorted(timelines, key=lambda timeline: timeline.rank)
    _check(timelines)
    begins = {timeline.rank: _begin(timeline, timelines[0]) for timeline in timelines}
    zero = min(begins.values())
    events: List[Dict[str, Any]] = []
    for timeline in timelines:
        events.extend(_moved(_for_viewers(timeline.events), timeline.rank, (begins[timeline.rank] - zero) / 1000))
    events.sort(key=lambda event: event.get("ts", -1))  # stable: ends and beginnings of one moment keep their order
    ranks = [timeline.rank for timeline in timelines]
    return Merged(
        events,
        ranks,
        len({timeline.head.get("host") for timeline in timelines}),
        max(timeline.error for timeline in timelines),
        [timeline.rank for timeline in timelines if timeline.offset is None],
        sorted(set(range(timelines[0].head["size"])) - set(ranks)),
    )


def write(merged: Merged, path: str) -> None:
    """Writes the file, an event a line; OSError where that fails, and then the file is what it was."""
    unfinished = f"{path}.{os.getpid()}"
    try:
        with open(unfinished, "w", encoding="utf-8") as file:
            file.write("[\n")
            file.write(",\n".join(json.dumps(event, separators=(",", ":")) for event in merged.events))
            file.write("\n]\n")
        os.replace(unfinished, path)
    except OSError:
        if os.path.exists(unfinished):
            os.unlink(unfinished)
        raise


def _check(timelines: List[RankTimeline]) -> None:
    first = timelines[0]
    for one, next_one in zip(timelines, timelines[1:]):
        if one.rank == next_one.rank:
            raise TimelineError(f"{one.path} and {next_one.path} are both of rank {one.rank}; give the files of one job")
        if next_one.head["size"] != first.head["size"]:
            raise TimelineError(
                f"{first.path} is of a job of {first.head['size']} ranks, {next_one.path} of one of {next_one.head['size']}; "
                "give the files of one job"
            )


def _begin(timeline: RankTimeline, first: RankTimeline) -> int:
    """When the file begins, in nanoseconds of rank 0's clock."""
    if timeline.offset is not None:
        return timeline.head[_HEAD] + timeline.offset
    # Hosts set their clocks of the day by the network, to some milliseconds.
    apart = timeline.head["start_time_since_epoch_in_micros"] - first.head["start_time_since_epoch_in_micros"]
    return first.head[_HEAD] + (first.offset or 0) + apart * 1000


def _for_viewers(events: List[Dict[str, Any]]) -> List[Dict[str, Any]]:
    """The events, with the name of a span at its end, too, all of its arguments at its beginning, and marks as instants."""
    named: List[Dict[str, Any]] = []
    begun: Dict[int, List[Dict[str, Any]]] = {}
    for event in map(dict, events):
        row = begun.setdefault(event.get("pid", 0), [])
        if event["ph"] == "B":
            row.append(event)
        elif event["ph"] == "E" and row:
            span = row.pop()
            event["name"] = span["name"]
            if "args" in event:
                span["args"] = event["args"]
                if event["ts"] > span["ts"]:
                    del event["args"]  # the end of a span without length is found by its arguments, too
        elif event["ph"] == "X" and not event.get("dur"):
            event.pop("dur", None)
            event.update(ph="i", s="t")
        named.append(event)
    return named


def _moved(events: List[Dict[str, Any]], rank: int, later: float) -> List[Dict[str, Any]]:
    """The events of a rank `later` microseconds later, with the rank as their process."""
    process = rank + 1  # for viewers process 0 is the idle one
    moved = []
    for event in events:
        row = event.get("pid", 0)
        event = {**event, "pid": process, "tid": row}
        if "ts" in event:
            event["ts"] = round(event["ts"] + later, 3)
        if event.get("s") == "g":
            event["s"] = "p"  # a mark of this rank, not of all
        if event["ph"] == "M" and row != 0:
            event["name"] = event["name"].replace("process_", "thread_")
        elif event.get("name") == "process_sort_index":
            event["args"] = {"sort_index": rank}
        moved.append(event)
    return moved
