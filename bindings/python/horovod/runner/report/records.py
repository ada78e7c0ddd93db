# SPDX-License-Identifier: Apache-2.0
"""The files that a job leaves: FOLDER/rank.N/records.jsonl, and samples.jsonl where a guardian took samples.

All times are put on the clock of rank 0 here, in nanoseconds, so that no other module has to think of clocks.
"""

import json
import os
import re
from collections import Counter, defaultdict
from typing import Dict, Iterator, List, Optional, Set, Tuple

Key = Tuple[int, int]  # (process set, use): the same on all ranks for the same operation


_COUNTS = ("thread", "cpu", "system", "queued", "slept", "pushed", "minor", "major")  # of a thread in a sample
_LINK_COUNTS = ("acked", "sent", "resent", "busy")


class ReportError(Exception):
    """The folder has nothing that a report can be made of. The text says what is missing and what to do."""


class Operation:
    """One operation as one rank saw it; the fields of `hvd.records()`."""

    __slots__ = (
        "key",
        "name",
        "kind",
        "dtype",
        "shape",
        "reduction",
        "bytes",
        "tensors",
        "submitted",
        "agreed",
        "begun",
        "ended",
        "waited",
        "moved",
        "reduced",
        "copied",
        "group",
        "group_bytes",
        "group_operations",
        "last",
        "spread",
        "waited_for",
    )

    def __init__(self, row: dict, offset: int = 0):
        self.key: Key = (int(row.get("set", 0)), int(row["use"]))
        self.name, self.kind = str(row["name"]), str(row["kind"])
        self.dtype, self.reduction = row.get("dtype"), row.get("op")
        self.shape = tuple(row.get("shape") or ())
        self.bytes, self.tensors = int(row["bytes"]), int(row.get("tensors", 1))
        self.submitted = int(row["submitted"]) + offset
        self.ended = max(self.submitted, int(row["ended"]) + offset)
        # 0 where an operation has not come so far, or ran alone with its messages.
        self.begun = int(row["begun"]) + offset if row["begun"] else self.ended
        self.agreed = int(row["agreed"]) + offset if row["agreed"] else self.begun
        self.waited, self.moved = int(row["waited"]), int(row["moved"])
        self.reduced, self.copied = int(row["reduced"]), int(row["copied"])
        self.group, self.group_bytes = int(row["group"]), int(row["group_bytes"])
        self.group_operations = int(row["group_operations"])
        self.last, self.spread = int(row.get("last", -1)), int(row.get("spread", 0))
        self.waited_for = int(row.get("waited_for", -1))

    @property
    def signature(self) -> Tuple:
        """What is the same each time the program comes to this operation again."""
        return (self.key[0], self.kind, without_numbers(self.name), self.bytes)

    @property
    def label(self) -> str:
        """The name for people, without the numbers that unnamed operations get."""
        return without_numbers(self.name) or self.kind


class Rank:
    """What one rank left. ``operations`` ended well and are in the order of submission; ``samples`` is empty without a sampler."""

    def __init__(self, header: dict, operations: List[Operation], samples: List[dict]):
        self.rank, self.size = int(header["rank"]), int(header.get("size", 0))
        self.host = str(header.get("host") or "")
        self.clock_error, self.lost = abs(int(header.get("clock_error", 0))), int(header.get("truncated", 0))
        self.operations = sorted(operations, key=lambda operation: operation.submitted)
        self.samples = samples


class Job:
    """All ranks of a job, cut to the time of which every rank still knows."""

    def __init__(self, ranks: List[Rank], folder: str = ""):
        self.ranks: Dict[int, Rank] = {rank.rank: rank for rank in sorted(ranks, key=lambda rank: rank.rank)}
        self.folder = folder
        self.lost = sum(rank.lost for rank in ranks)
        self.clock_error = max(rank.clock_error for rank in ranks)
        self.missing = sorted(set(range(max(rank.size for rank in ranks))) - set(self.ranks))
        self.members = self._members()
        self._cut()

    @property
    def hosts(self) -> List[str]:
        """The hosts by name, each once."""
        return sorted({rank.host for rank in self.ranks.values()})

    def shared(self, rank: Rank) -> List[Operation]:
        """The operations of a rank that other ranks take part in; all of them in a job of one rank."""
        return [operation for operation in rank.operations if self._is_shared(operation)]

    def own(self, rank: Rank) -> List[Operation]:
        """The operations of a rank in process sets of which the rank is the only member."""
        return [operation for operation in rank.operations if not self._is_shared(operation)]

    def _is_shared(self, operation: Operation) -> bool:
        return len(self.members[operation.key[0]]) > 1 or len(self.ranks) == 1

    def _members(self) -> Dict[int, Set[int]]:
        members: Dict[int, Set[int]] = defaultdict(set)
        for rank in self.ranks.values():
            for operation in rank.operations:
                members[operation.key[0]].add(rank.rank)
        return members

    def _cut(self) -> None:
        """Drops the operations that not all members still know: the rings of two ranks do not end at the same operation."""
        known = Counter(operation.key for rank in self.ranks.values() for operation in rank.operations)
        complete = {key for key, count in known.items() if count == len(self.members[key[0]])}
        begin, end = 0, 1 << 63
        for rank in self.ranks.values():
            both = [o for o in rank.operations if o.key in complete and self._is_shared(o)]
            if both:
                begin, end = max(begin, both[0].submitted), min(end, max(o.ended for o in both))
        for rank in self.ranks.values():
            rank.operations = [
                o for o in rank.operations if o.key in complete and (self._is_shared(o) or begin <= o.submitted and o.ended <= end)
            ]


def without_numbers(name: str) -> str:
    """The name with a hash sign in place of the number that an unnamed operation has got."""
    return re.sub(r"(?<=\bunnamed\.)\d+$", "#", name)


def read_job(folder: str) -> Job:
    """The job whose files lie in FOLDER/rank.N; ReportError if there are none, or none that fit together."""
    if not os.path.isdir(folder):
        raise ReportError(f"{folder}: no such folder")
    numbers = [int(name[5:]) for name in os.listdir(folder) if re.fullmatch(r"rank\.\d+", name)]
    paths = [f"{folder}/rank.{number}" for number in sorted(numbers)]
    ranks = [read_rank(path) for path in paths if os.path.exists(f"{path}/records.jsonl")]
    if not ranks:
        raise ReportError(
            f"{folder}: no rank.N/records.jsonl in it; run the job with horovodrun --output-filename {folder}, and without "
            "HOROVOD_FLIGHT_RECORDER=0"
        )
    twice = [rank for rank, count in Counter(rank.rank for rank in ranks).items() if count > 1]
    if twice:
        raise ReportError(f"{folder}: two of its folders have records of rank {twice[0]}; give a folder with the records of one job")
    job = Job(ranks, folder)
    if not any(rank.operations for rank in job.ranks.values()):
        raise ReportError(f"{folder}: the records have no operation that all ranks took part in to its end, so there is nothing to tell")
    return job


def read_rank(path: str) -> Rank:
    """One rank's folder."""
    name = f"{path}/records.jsonl"
    lines = list(_lines(name))
    if not lines or lines[0].get("hvd_records") != 1:
        raise ReportError(f"{name}: does not begin with a line of hvd_records 1; another version of Horovod wrote it?")
    header = lines[0]
    try:
        offset = int(header.get("clock_offset", 0))
        operations = [Operation(row, offset) for row in lines[1:] if row["status"] == 0 and row["use"] and row["ended"]]
        rank = Rank(header, operations, [])
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ReportError(f"{name}: a line is not what a record is ({error!r}); another version of Horovod wrote it?") from None
    rank.samples = _samples(f"{path}/samples.jsonl", offset)
    return rank


def _samples(name: str, offset: int) -> List[dict]:
    return [{**row, "since": row["since"] + offset, "at": row["at"] + offset} for row in _lines(name) if is_sample(row)]


def is_sample(row: dict) -> bool:
    """Whether on_host/sampler.py has written this line, and it is no header."""

    def counts(of: object, names: Tuple[str, ...]) -> bool:
        return isinstance(of, dict) and all(isinstance(of.get(name), int) for name in names)

    threads, links = row.get("threads"), row.get("links", [])
    if not counts({"others": 0, **row}, ("since", "at", "others")) or not isinstance(threads, list) or not isinstance(links, list):
        return False
    if not all(counts(link, _LINK_COUNTS) and isinstance(link.get("local"), str) and isinstance(link.get("peer"), str) for link in links):
        return False
    return all(counts(thread, _COUNTS) and isinstance(thread.get("name"), str) for thread in threads)


def _lines(name: str) -> Iterator[dict]:
    """The lines of a file that are whole; none of a file that is not there. A job that is killed may leave half a line at the end."""
    try:
        with open(name, encoding="utf-8", errors="replace") as file:
            for line in file:
                row = _row(line)
                if row is not None:
                    yield row
    except FileNotFoundError:
        return
    except OSError as error:
        raise ReportError(f"{name}: {error.strerror}") from None


def _row(line: str) -> Optional[dict]:
    try:
        row = json.loads(line)
    except ValueError:
        return None
    return row if isinstance(row, dict) else None
