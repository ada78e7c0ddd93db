# SPDX-License-Identifier: Apache-2.0
"""Who failed first, when the others are told and end sooner than the one that failed."""

import pytest
from blame_runs import run

from horovod.runner.job.elastic_outcome import ElasticOutcome
from horovod.runner.job.outcome import Outcome
from horovod.runner.job.summary import failure_block
from horovod.runner.plan.hosts import Place, assign, parse_hosts


def outcome_of(size, *events):
    """What the launcher knows after these messages of agents."""
    outcome = Outcome(assign(parse_hosts(f"localhost:{size}")))
    for event in events:
        outcome.note(None, event)
    return outcome


def ended(rank, code, after, **told):
    return {"exited": rank, "code": code, "after": after, **told}


STOPPED = {"stopping": [1], "signal": 15, "after": 2.0}


@pytest.mark.parametrize("events, rank, code", [
    ([ended(0, 1, 1.0)], 0, 1),
    # one that says that another one was the reason is none
    ([ended(0, 1, 1.1, blames=[1, 3, 1.05]), ended(1, 3, 1.2)], 1, 3),
    ([ended(0, 1, 1.1, blames=[1, 3, 1.05], raised=[1.06, "E"]), ended(1, 1, 1.2, raised=[1.0, "ValueError: x"])], 1, 1),
    # an exception counts from when it was raised, however long the end takes
    ([ended(0, 1, 1.1), ended(1, 1, 1.3, raised=[1.0, "ValueError"])], 1, 1),
    ([ended(0, 5, 1.1, blames=[1, 3, 1.0]), STOPPED, ended(1, -15, 2.1, raised=[0.9, "ValueError: x"])], 1, 1),
    ([ended(0, 5, 1.1, blames=[1, 3, 1.0]), STOPPED, ended(1, -15, 2.1, raised=[0.9, "KeyboardInterrupt"])], 1, 130),
    # one that raises because it was stopped is no reason
    ([ended(0, 5, 1.1), STOPPED, ended(1, 1, 2.1, raised=[2.05, "SystemError"])], 0, 5),
    # without a word of its own, the one that the others blame, through any number of them
    ([ended(0, 5, 1.1, blames=[2, 3, 1.0]), ended(2, 5, 1.2, blames=[1, 3, 0.9]), STOPPED, ended(1, -15, 2.1)], 1, 143),
    # a part of the job counts its ranks anew, so such a number says nothing
    ([ended(0, 5, 1.1, blames=[1, 2, 1.0]), STOPPED, ended(1, -15, 2.1)], 0, 5),
    # who has left with success has not failed
    ([ended(1, 0, 0.5), ended(0, 5, 1.1, blames=[1, 3, 1.0])], 0, 5),
    ([ended(0, 5, 1.1, blames=[1, 3, 1.0]), ended(1, 6, 1.2, blames=[0, 3, 1.0])], 0, 5),
])
def test_the_culprit(events, rank, code):
    outcome = outcome_of(3, *events)
    assert (outcome.first_failure, outcome.exit_code()) == (rank, code)


RAISES = ended(1, 1, 1.2, raised=[1.0, "ValueError"])


@pytest.mark.parametrize("events, worker", [
    # who raised first, though another one that was told of it ended first
    ([ended(2, 1, 1.1, blames=[1, 3, 1.05], raised=[1.06, "E"]), RAISES], 1),
    # ranks of the second epoch: worker 2 is rank 0 there, worker 1 is rank 1, and worker 0, which has ended before, does not count
    ([ended(0, 9, 0.5), (2, 1, 3), ended(3, 5, 1.1, blames=[1, 3, 1.05]), ended(1, 6, 1.2)], 1),
    ([ended(0, 9, 0.5), (2, 1, 3), ended(3, 5, 1.1, blames=[0, 3, 1.05]), ended(1, 5, 1.2, blames=[0, 3, 1.1]), ended(2, 6, 1.3)], 2),
])
def test_the_culprit_of_an_elastic_job(events, worker):
    outcome = ElasticOutcome()
    for number in range(4):
        outcome.add(Place(number, number + 1, number, number + 1, 0, 1, "localhost"))
    outcome.begin((0, 1, 2))
    for event in events:
        outcome.begin(event) if isinstance(event, tuple) else outcome.note(None, event)
    outcome.give_up("no rank is left", outcome.order[outcome.order.index(0) + 1 if 0 in outcome.order else 0])
    assert outcome.first_failure == worker


def test_no_rank_fails_when_the_job_was_told_to_stop():
    outcome = outcome_of(2)
    outcome.signal = 15
    outcome.note(None, ended(1, 1, 3.0, raised=[2.9, "KeyError"]))
    assert outcome.first_failure is None and outcome.exit_code() == 143


def block(*lines, **told):
    outcome = outcome_of(2, {"started": 1, "pid": 7}, ended(0, 0, 0.1), ended(1, 1, 0.5, **told))
    outcome.ranks[1].stderr_tail = list(lines)
    return failure_block(outcome)[1:-1]


def test_a_traceback_is_printed_once():
    traceback = ["Traceback (most recent call last):", '  File "a.py", line 1, in <module>', "    f()", "ValueError: no", "end"]
    above = "  its traceback is above, in the lines that begin with [1]<stderr>:"
    assert block("before", *traceback) == ["    ValueError: no", "    end", above]
    assert block(*traceback, raised=[0.4, "ValueError: no"]) == ["  it raised ValueError: no", above]
    assert block(*traceback[1:]) == ["    ValueError: no", "    end", above]  # the beginning of a long one is not kept
    assert block("a", "b") == ["  last 2 lines of its stderr:", "    a", "    b"]


def test_who_left_before_is_named():
    lines = block(blames=[0, 2, 0.2])
    assert lines[0] == "  rank 0 had left the job before it, with exit code 0"


def test_ranks_that_fail_in_many_ways_are_named():
    assert run(8, 5) == []


@pytest.mark.parametrize("where, told", [("a:1,b:1", True), ("localhost:2", False)])
def test_hosts_that_do_not_reach_each_other_are_referred_to_the_doctor(where, told):
    outcome = Outcome(assign(parse_hosts(where)))
    for event in ({"started": 1, "pid": 7}, ended(1, 1, 30.5, raised=[30.0, "HorovodTimeoutError: init: waited 30 s; missing ranks 0"])):
        outcome.note(None, event)
    outcome.failed = True
    outcome.ranks[0].code = 0
    hint = "  horovodrun doctor -H a:1,b:1 says which connections between these hosts are blocked, and what to do"
    assert (hint in failure_block(outcome)) == told
