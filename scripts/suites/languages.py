# SPDX-License-Identifier: Apache-2.0
"""One job whose ranks are of five languages: the same results bit for bit, and one text when one of them dies."""

import shlex
import sys
import tempfile
import time
from pathlib import Path
from typing import Callable, Dict, List, Optional

from suites import cpp, julia, jvm, rust
from suites.count import BIN, ROOT, Count, captured, lacking, passed_if
from suites.elastic import killed
from suites.jobs import START, TIME_LIMIT, Member, printed, same
from suites.package import install

REFERENCE = [sys.executable, ROOT / "tests" / "languages" / "member.py"]
# In the order of ranks.
LANGUAGES: Dict[str, Callable[[], Optional[Member]]] = {
    "Python": lambda: Member(REFERENCE),
    "Java": jvm.member,
    "Julia": julia.member,
    "Rust": rust.member,
    "C++": cpp.member,
}
# The process that is started in place of another one gives the others time to go on without it.
LATE = '[ "$HOROVOD_WORKER" -lt {} ] || sleep 1\nexec "$@" $steps\n'
# In the order of workers: the process that is started in place of the first one that was killed is of the first language again.
ELASTIC: Dict[str, Callable[[], Optional[Member]]] = {
    "C++": cpp.elastic_member,
    "Rust": rust.elastic_member,
    "Java": jvm.elastic_member,
    "Julia": julia.elastic_member,
    "Python": lambda: Member([sys.executable, ROOT / "tests" / "languages" / "elastic.py"]),
}
# Where one rank dies, each runs its member as a child. The wrapper of one that failed waits until all members have ended, because
# horovodrun stops the others soon after the first failure that it sees, and Julia still compiles what it says then.
WRAPPER = '''[ -n "$HVD_TEST_ENDED" ] || exec "$@"
"$@"
code=$?
: > "$HVD_TEST_ENDED/$HOROVOD_RANK"
turn=0
while [ $code != 0 ] && [ $turn -lt 600 ] && [ "$(ls "$HVD_TEST_ENDED" | wc -l)" -lt "$HOROVOD_SIZE" ]; do
  sleep 0.1
  turn=$((turn + 1))
done
exit $code
'''


def languages_suite() -> Count:
    if not install():
        return passed_if(False)
    total = Count()
    members = _made(LANGUAGES, total)
    with tempfile.TemporaryDirectory() as folder:
        program = _program(Path(folder), members, '"$HOROVOD_RANK"', WRAPPER)
        ranks = len(members)
        total.add(same(f"ranks of {', '.join(members)}", printed(ranks, REFERENCE), printed(ranks, [program])))
        for rank, language in enumerate(members):
            total.add(_death(program, ranks, rank, language))
    workers = _made(ELASTIC, Count())
    with tempfile.TemporaryDirectory() as folder:
        ranks = len(workers)
        program = _program(Path(folder), workers, f"$((HOROVOD_WORKER % {ranks}))", LATE.format(ranks))
        what = f"an elastic job of {', '.join(workers)}, of which the first one is killed"
        total.add(killed(what, Member([program]), ranks, ranks - 1, 0, 300, late=True))
    return total


def _made(makers: Dict[str, Callable[[], Optional[Member]]], total: Count) -> Dict[str, Member]:
    """The members of the languages that are there; the total says which ones are not."""
    members: Dict[str, Member] = {}
    for language, make in makers.items():
        member = make()
        if member is None:
            total.add(lacking(f"{language} cannot take part: its own suite says why"))
        else:
            members[language] = member
    return members


def _program(folder: Path, members: Dict[str, Member], which: str, end: str) -> Path:
    """What horovodrun starts: each rank is of its own language. ``which``: the number of the language, for the shell."""
    lines = ["#!/bin/sh", 'steps="$1"', f"case {which} in"]
    for rank, member in enumerate(members.values()):
        exports = [f"export {name}={shlex.quote(value)};" for name, value in member.environment.items()]
        lines.append(" ".join([f"  {rank})", *exports, "set", "--", *(shlex.quote(str(word)) for word in member.command), ";;"]))
    path = folder / "rank"
    path.write_text("\n".join([*lines, "esac", end]))
    path.chmod(0o755)
    return path


def _death(program: Path, ranks: int, victim: int, language: str) -> Count:
    """All others say the same of the rank that was killed."""
    command = [str(BIN / "horovodrun"), "-np", str(ranks), str(program)]
    with tempfile.TemporaryDirectory() as ended:
        environment = {**START, "HVD_TEST_DIE": str(victim), "HVD_TEST_ENDED": ended}
        began = time.monotonic()
        code, output = captured(command, TIME_LIMIT, **environment)
    said = sorted(line.split("rank=", 1)[1] for line in output.splitlines() if "rank=" in line and " error " in line)
    # Whether the barrier has ended on a rank when the victim dies is not the same on all.
    told = [line.split(" error ", 1)[1].split(": ", 1) for line in said]
    known = {'barrier "before-death"', 'allreduce "after-death"'}
    texts: List[str] = [text for operation, text in told if operation in known]
    who = f"rank {victim} (host "
    good = len(texts) == ranks - 1 and len(set(texts)) == 1 and texts[0].startswith(who) and "signal 9 (SIGKILL)" in texts[0]
    good = good and code == 137
    print(f"   {'ok    ' if good else 'FAILED'} death of the rank of {language}", flush=True)
    if not good:
        print(output, flush=True)
    return passed_if(good).took(f"death of the rank of {language}", time.monotonic() - began)
