# SPDX-License-Identifier: Apache-2.0
"""Which of the ranks that failed is the cause. The order in which they ended says little: a rank that raises tells the others
by leaving, and they may be faster to end.

A rank that failed because of another one has said so: its engine wrote down whom it was told of, before the program saw the
error, in whatever language. Of the others, the first is to blame; an exception counts from when it was raised.
"""

from typing import List, Optional

from .rank import Rank


def culprit(ranks: List[Rank], ended: List[int]) -> Optional[int]:
    """The rank that failed first, or None. `ended`: ranks in the order in which they were seen to end."""
    failed = [ranks[number] for number in ended if ranks[number].code != 0]
    own = [rank for rank in failed if not _told_of_another(rank) and (rank.raised_before_stop() or rank.stopped_with is None)]
    if own:
        return min(own, key=_failed_at).place.rank
    told = sorted((rank for rank in failed if rank.stopped_with is None), key=_failed_at)
    if not told:
        return None
    return _source(ranks, told[0])


def _failed_at(rank: Rank) -> float:
    return rank.raised[0] if rank.raised is not None else rank.after or 0.0


def _told_of_another(rank: Rank) -> bool:
    """Whether another rank's end was known here before this one failed."""
    return rank.blames is not None and (rank.raised is None or rank.blames[1] <= rank.raised[0])


def _source(ranks: List[Rank], first: Rank) -> int:
    """Whom ranks blame one after another, as far as that one failed: it was stopped before it had ended by itself."""
    seen, rank = {first.place.rank}, first
    while rank.blames is not None:
        number = rank.blames[0]
        if not 0 <= number < len(ranks) or not ranks[number].code:
            break
        if number in seen:
            return first.place.rank  # they blame each other
        seen.add(number)
        rank = ranks[number]
    return rank.place.rank
