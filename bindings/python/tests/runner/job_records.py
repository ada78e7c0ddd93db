# SPDX-License-Identifier: Apache-2.0
"""Records and samples of a job that never ran, so that a test knows what is true of it."""

import json

MS = 1_000_000
NAMES = ("embedding", "attention", "output")
THREAD = {"cpu": 4, "queued": 0, "system": 0, "slept": 8, "pushed": 0, "minor": 10, "major": 0}  # a step's; times in ms


class MadeJob:
    """A training of `steps` steps: each rank computes, then submits three tensors at once and waits for them.

    ``late``: {rank: ms by which a rank computes longer}. ``data``: ms of a data phase. ``alone``: {rank: operations of a set of its own
    in each step}, each of 0.05 ms. ``samples``: {rank: what its main thread did more in a step, in the units of THREAD}.
    """

    def __init__(self, ranks=4, steps=20, compute=20, late=None, data=2, alone=None):
        self.ranks, self.steps, self.compute, self.late, self.data = ranks, steps, compute, late or {}, data
        self.alone = alone or {}
        self.rows = {rank: [] for rank in range(ranks)}
        self.samples = {rank: [] for rank in range(ranks)}
        self.length = 0
        self._play()

    def _play(self):
        now = 1000 * MS
        for step in range(self.steps):
            submitted = {}
            for rank in self.rows:
                at = now
                for number in range(self.alone.get(rank, 0)):
                    use = step * self.alone[rank] + number + 1
                    self._add(rank, rank + 1, use, f"metric.{number}", 16, at, at, at + MS // 20)
                    at += MS // 20 + MS // 100
                submitted[rank] = at + round((self.compute + self.late.get(rank, 0)) * MS)
            last = max(submitted.values())
            end = last + round(self.data * MS)
            for rank, at in submitted.items():
                for number, name in enumerate(NAMES):
                    self._add(rank, 0, step * len(NAMES) + number + 1, name, 4096 << number, at + number, last + 10, end)
            self.length += end - now
            now = end

    def _add(self, rank, process_set, use, name, size, submitted, agreed, ended):
        rows = self.rows[rank]
        rows.append(
            {
                "n": len(rows) + 1,
                "set": process_set,
                "use": use,
                "kind": "allreduce",
                "op": "sum",
                "name": name,
                "status": 0,
                "dtype": "float32",
                "shape": [size // 4],
                "tensors": 1,
                "bytes": size,
                "submitted": submitted,
                "agreed": agreed,
                "begun": agreed,
                "ended": ended,
                "waited": 0,
                "moved": ended - agreed,
                "reduced": 0,
                "copied": 0,
                "group": use if process_set else (use - 1) // 3 + 1,
                "group_bytes": size,
                "group_operations": 1,
                "last": -1,
                "spread": 0,
                "waited_for": -1,
            }
        )

    def sample(self, more=None, others=None, links=None):
        """Samples of half a second. ``more``: {rank: ...}; ``others``: {rank: ms that another thread runs in a step}; ``links``:
        rows by rank."""
        step, begin, end = self.length / self.steps, 1000 * MS, 1000 * MS + self.length
        for rank in self.rows:
            main = {**THREAD, **{name: THREAD[name] + value for name, value in (more or {}).get(rank, {}).items()}}
            for since in range(begin, end, 500 * MS):
                at = min(end, since + 500 * MS)
                scale = (at - since) / step
                row = {"thread": 1, "name": "python"}
                row.update(
                    {name: round(value * scale * (MS if name in ("cpu", "queued", "system") else 1)) for name, value in main.items()}
                )
                other = {**row, "thread": 2, "name": "loader", "cpu": round((others or {}).get(rank, 0) * MS * scale)}
                scaled = [
                    {**link, **{n: round(link[n] * (at - since) / self.length) for n in ("acked", "sent", "resent", "busy")}}
                    for link in (links or {}).get(rank, [])
                ]
                self.samples[rank].append({"since": since, "at": at, "threads": [row, other], "others": 0, "links": scaled})
        return self

    def write(self, folder, host="node", keep=None, header=None):
        """The files of FOLDER; ``keep``: {rank: number of records that its ring still has}."""
        for rank, rows in self.rows.items():
            place = folder / f"rank.{rank}"
            place.mkdir(parents=True)
            kept = rows[-(keep or {}).get(rank, len(rows)) :]
            head = {
                "hvd_records": 1,
                "rank": rank,
                "size": self.ranks,
                "host": host,
                "local_rank": rank,
                "pid": 1,
                "clock_offset": 0,
                "clock_error": 0,
                "unix_at_zero": 0,
                "truncated": len(rows) - len(kept),
                **(header or {}),
            }
            (place / "records.jsonl").write_text("".join(json.dumps(row) + "\n" for row in [head, *kept]))
            if self.samples[rank]:
                head = {"hvd_samples": 1, "rank": rank, "pid": 1, "host": host}
                (place / "samples.jsonl").write_text("".join(json.dumps(row) + "\n" for row in [head, *self.samples[rank]]))
        return str(folder)


def ring_links(ranks, acked, busy, resent=None, slow=None):
    """Links of a ring of TCP connections, as samples have them, of a whole job. ``slow``: a rank whose links are busy ten times as long,
    ``resent``: (rank, segments that its links send again)."""
    found = {rank: [] for rank in range(ranks)}
    for rank in range(ranks):
        peer = (rank + 1) % ranks
        for sender, receiver in ((rank, peer), (peer, rank)):
            near = {sender, receiver}
            ends = [f"10.0.0.{which}:{5000 + rank * 10}" for which in (sender, receiver)]
            again = resent[1] if resent and resent[0] in near else 0
            found[sender].append(
                {
                    "local": ends[0],
                    "peer": ends[1],
                    "acked": acked,
                    "sent": acked // 1000,
                    "resent": again,
                    "busy": busy * (10 if slow in near else 1),
                }
            )
    return found
