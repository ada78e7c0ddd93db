# SPDX-License-Identifier: Apache-2.0
"""Whether the network of one rank is slow or loses packets, and how long the data phases would take if it were as the others'."""

from statistics import median
from typing import Dict, List, NamedTuple, Optional, Tuple

from .causes import LOSSY_LINK, SLOW_LINK, Cause
from .facts import Link
from .records import Job, Operation
from .replay import NetworkOf
from .shares import last_arrivals
from .timeline import Way, union

_LOSSY = 0.0005  # share of segments sent again that is no accident
_SLOW = 0.6  # a slow link has at most this part of the others' rate


class LinkFault(NamedTuple):
    """``network``: what an operation would need without the fault, for Replay."""

    rank: int
    cause: Cause
    network: NetworkOf


def link_fault(job: Job, ways: Dict[int, Way], links: List[Link]) -> Optional[LinkFault]:
    """The rank whose links are worse than the others'; None if no rank's are, or nothing is known of them."""
    if not links:
        return None
    sides = {rank: _sides(links, rank) for rank in job.ranks}
    # A loss costs the connections of both ends, also in time; a slow link loses nothing. So losses are looked at first.
    rank = max(sides, key=lambda rank: (_share(sides[rank][0]) - _share(sides[rank][1]), _share(_sent_by(links, rank))))
    near, far = sides[rank]
    if _share(near) > max(_LOSSY, 3 * _share(far)):
        elsewhere = f" ({100 * _share(far):.2f} % elsewhere)" if far else ""
        cause = Cause(
            LOSSY_LINK,
            f"has a network that loses packets: {100 * _share(near):.2f} % of the segments between it and {_peers(near, rank)} "
            f"had to be sent again{elsewhere}",
            "Look at the host's network card, cable and switch port (ethtool -S, ip -s link) for errors and drops.",
        )
        return LinkFault(rank, cause, undisturbed(ways))
    sides = {rank: (near, far) for rank, (near, far) in sides.items() if near and far}
    if not sides:
        return None  # with a single link nobody knows how fast it should be
    rank = max(sides, key=lambda rank: _busy(sides[rank][0]) - _busy(sides[rank][1]))
    near, far = sides[rank]
    rate, usual = median(link.rate for link in near), median(link.rate for link in far)
    if rate >= _SLOW * usual:
        return None
    cause = Cause(
        SLOW_LINK,
        f"has a slow network: {_rate(rate)} between it and {_peers(near, rank)}, {_rate(usual)} elsewhere",
        "Compare the host's network card with the others' (ethtool: speed, duplex), and choose another by --network-interface.",
    )
    return LinkFault(rank, cause, _as_fast(ways, rank, _busy(near) - _busy(far)))


def _sides(links: List[Link], rank: int) -> Tuple[List[Link], List[Link]]:
    near = [link for link in links if rank in (link.sender, link.receiver)]
    return near, [link for link in links if link not in near]


def _sent_by(links: List[Link], rank: int) -> List[Link]:
    return [link for link in links if link.sender == rank]


def _peers(near: List[Link], rank: int) -> str:
    peers = sorted({link.sender + link.receiver - rank for link in near})
    return f"{'rank' if len(peers) == 1 else 'ranks'} {', '.join(map(str, peers))}"


def _share(links: List[Link]) -> float:
    """Of the segments that these links sent, the part that was sent again."""
    return sum(link.resent for link in links) / max(1, sum(link.sent for link in links))


def _busy(links: List[Link]) -> float:
    return float(median(link.busy for link in links))


def _rate(value: float) -> str:
    return f"{value / 1e6:.1f} MB/s"


def _data_time(operation: Operation) -> int:
    return operation.ended - operation.begun


def undisturbed(ways: Dict[int, Way]) -> NetworkOf:
    """What the quickest quarter of the operations of each signature needs: a disturbance that comes and goes does not hit them."""
    arrivals = last_arrivals(ways)
    times: Dict[Tuple, List[Tuple[int, int]]] = {}
    for way in ways.values():
        for operation in way.operations:
            agreement = max(0, operation.agreed - arrivals[operation.key])
            times.setdefault((way.rank, operation.signature), []).append((agreement, _data_time(operation)))
    usual = {key: tuple(sorted(part)[len(part) // 4] for part in zip(*rows)) for key, rows in times.items()}
    return lambda rank, operation: usual[rank, operation.signature]


def _as_fast(ways: Dict[int, Way], rank: int, saved: float) -> NetworkOf:
    """The time for which the slow links were busy longer than the others is taken from all data phases in proportion."""
    spans = union([(operation.begun, operation.ended) for operation in ways[rank].operations])
    keep = 1 - min(0.98, max(0.0, saved) / max(1, sum(end - begin for begin, end in spans)))
    return lambda _rank, operation: (float("inf"), keep * _data_time(operation))
