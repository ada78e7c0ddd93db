# SPDX-License-Identifier: Apache-2.0
"""Programs of several languages that must print the same: run under horovodrun, their lines compared."""

from dataclasses import dataclass, field
from typing import Dict, List, Optional

from suites.count import BIN, Count, captured, passed_if

TIME_LIMIT = 300
# Some languages compile before they join, and a busy machine takes its time for that.
START = {"HOROVOD_START_TIMEOUT": "120"}


@dataclass
class Member:
    """How the rank of one language in a job of several is started."""

    command: List[object]
    environment: Dict[str, str] = field(default_factory=dict)


def printed(ranks: int, command: List[object], **environment: str) -> Optional[List[str]]:
    """What the ranks of a job print, sorted, because they print at the same time; None, and all of it shown, if it failed."""
    words = [str(word) for word in (BIN / "horovodrun", "-np", ranks, *command)]
    code, output = captured(words, TIME_LIMIT, **{**START, **environment})
    if code != 0:
        print(f"   FAILED, exit code {code}: {' '.join(words)}\n{output}", flush=True)
        return None
    return sorted(output.splitlines())


def same(what: str, expected: Optional[List[str]], found: Optional[List[str]]) -> Count:
    """One test: that two jobs have printed the same lines."""
    good = found is not None and found == expected
    print(f"   {'ok    ' if good else 'FAILED'} {what}", flush=True)
    if not good and found is not None and expected is not None:
        print(*[f"     expected {line}" for line in expected if line not in found], sep="\n")
        print(*[f"     printed  {line}" for line in found if line not in expected], sep="\n")
    return passed_if(good)
