# SPDX-License-Identifier: Apache-2.0
"""The machine that decides who belongs to an elastic job."""

import pytest
from membership_model import failures

from horovod.runner.membership.machine import Membership
from horovod.runner.membership.orders import ADDED, REMOVED, Begin, Bounds, Changed, End, Refuse, Start


def machine(**bounds):
    return Membership(Bounds(**{"first": 3, "least": 1, "most": 3, **bounds}), lambda: 0.0)


def begun(**bounds):
    """A machine whose first epoch has three members."""
    made = machine(**bounds)
    assert made.found(0.0, {"a": 2, "b": 1}) == [Start(0, "a", 0), Start(1, "a", 1), Start(2, "b", 0)]
    assert made.asked(0.1, 2, -1) == made.asked(0.2, 0, -1) == []
    assert made.asked(0.3, 1, -1) == [Begin(1, (0, 1, 2), ("a", "a", "b"), True)]
    return made


@pytest.mark.parametrize("seed", range(1, 20001, 5000))
def test_any_interleaving_keeps_the_rules(seed):
    # It takes half a minute, because what goes wrong does so in one run of thousands.
    broken, ends = failures(5000, seed)
    assert broken == []
    assert ends["goal"] > 2500 and ends["times that a process set went on"] > 3000, ends


def test_survivors_go_on_without_waiting_for_the_replacement():
    made = begun()
    assert made.ended(1.0, 1, True) == [Start(3, "a", 1)]
    assert made.asked(1.1, 2, 7) == []
    assert made.asked(1.2, 0, 7) == [Begin(2, (0, 2), ("a", "b"), True)]
    assert made.asked(2.0, 3, -1) == [Changed((0, 2), ADDED)]
    assert made.asked(2.1, 0, 9) == []
    assert made.asked(2.2, 2, 9) == [Begin(3, (0, 2, 3), ("a", "b", "a"), True)]


def test_the_furthest_state_is_that_of_rank_0():
    made = begun()
    made.ended(1.0, 0, True)
    made.asked(1.1, 1, 4)
    assert made.asked(1.2, 2, 5) == [Begin(2, (2, 1), ("b", "a"), True)]


def test_nobody_is_synchronized_where_one_only_leaves():
    made = begun()
    assert made.leaving(1.0, 2) == [Changed((0, 1, 2), REMOVED)]
    assert made.asked(1.1, 2, 4) == [] == made.asked(1.1, 0, 4)
    begin, refuse = made.asked(1.2, 1, 4)
    assert begin == Begin(2, (0, 1), ("a", "a"), False)
    assert isinstance(refuse, Refuse) and refuse.worker == 2 and "leaves the job" in refuse.why


def test_process_sets_whose_members_all_survive_go_on():
    made = begun()
    for worker in (0, 1, 2):
        made.set_changed(worker, 1, [0, 1])
        made.set_changed(worker, 2, [1, 2])
        made.set_changed(worker, 3, [0, 2])
        made.set_changed(worker, 3, [])
    made.set_changed(0, 4, [0])  # the others have not told: they failed in it
    made.set_changed(0, 5, [7])  # which is no rank
    made.ended(1.0, 0, True)
    made.asked(1.1, 1, 4)
    assert made.asked(1.2, 2, 5) == [Begin(2, (2, 1), ("b", "a"), True, ((2, (0, 1)),), 5)]
    made.asked(1.3, 3, -1)
    made.asked(1.4, 1, 6)  # nobody has told anything of this epoch, but its members have what it began with
    assert made.asked(1.5, 2, 6) == [Begin(3, (2, 1, 3), ("b", "a", "a"), True, ((2, (0, 1)),), 5)]


def test_who_leaves_does_not_wait_for_those_that_are_too_few():
    made = begun(least=3)
    assert made.leaving(1.0, 2) == [Changed((0, 1, 2), REMOVED)]
    assert made.asked(1.1, 0, 4) == [] == made.asked(1.1, 2, 4)
    assert [type(order) for order in made.asked(1.2, 1, 4)] == [Refuse]
    assert made.ended(1.3, 2, False) == [] and made.deadline == 121.3  # then its slot has rested
    assert made.tick(121.3) == [Start(3, "b", 0)]
    assert made.asked(122.0, 3, -1) == [Begin(2, (0, 1, 3), ("a", "a", "b"), True)]


def test_the_last_one_with_the_state_stays_until_another_has_it():
    made = Membership(Bounds(1, 1, 1), lambda: 0.0)
    made.found(0.0, {"a": 1})
    made.asked(0.1, 0, -1)
    assert made.found(1.0, {"b": 1}) == [Start(1, "b", 0)]
    assert made.asked(2.0, 1, -1) == [Changed((0,), REMOVED | ADDED)]
    assert made.asked(2.1, 0, 3) == [Begin(2, (0, 1), ("a", "b"), True), Changed((0, 1), REMOVED)]
    made.asked(2.2, 0, 4)
    assert made.asked(2.3, 1, 4)[0] == Begin(3, (1,), ("b",), False)


def test_a_job_whose_members_have_all_died_has_no_state():
    made = begun()
    made.ended(1.0, 0, True)
    made.ended(1.0, 1, True)
    assert made.ended(1.1, 2, True) == [End("no rank is left that had the state of the job", 0)]


def test_it_waits_for_hosts_and_gives_up_after_a_while():
    made = machine(first=2, least=2, fixed=False, patience=10.0)
    assert made.found(0.0, {"a": 1}) == [Start(0, "a", 0)] and made.deadline == 10.0
    assert made.tick(5.0) == []
    assert made.tick(10.0) == [End("2 ranks are needed, and 1 rank has had a place for 10 s", None)]


def test_a_program_that_fails_at_once_is_started_three_times():
    made = machine()
    made.found(0.0, {"a": 2, "b": 1})
    made.ended(1.0, 0, True)
    made.ended(1.0, 1, True)
    assert made.ended(1.0, 2, True) == [End("3 processes failed before the job had begun", 0)]


def test_failures_without_a_commit_between_end_the_job():
    made = begun()
    for turn, victim in ((1, 1), (2, 3)):
        assert made.ended(turn, victim, True) == [Start(turn + 2, "a", 1)]
        made.asked(turn + 0.1, 0, -1)
        assert isinstance(made.asked(turn + 0.1, 2, -1)[0], Begin)
        assert made.asked(turn + 0.2, turn + 2, -1) == [Changed((0, 2), ADDED)]
        made.asked(turn + 0.3, 0, -1)
        assert isinstance(made.asked(turn + 0.3, 2, -1)[0], Begin)
    made.ended(3, 4, True)
    made.asked(3.1, 0, -1)
    why = "3 failures in a row, without a commit between them"
    refused = [Refuse(worker, "the job cannot go on: " + why) for worker in (0, 2)]  # who would wait for an epoch that does not come
    assert made.asked(3.1, 2, -1) == [End(why, 4), *refused]


def test_reset_limit():
    made = begun(resets=1)
    made.ended(1.0, 1, True)
    made.asked(1.1, 0, 4)
    assert isinstance(made.asked(1.1, 2, 4)[0], Begin)
    made.ended(2.0, 2, True)
    found = made.asked(2.1, 0, 8)
    assert found[0] == End("the members of the job have changed 1 times (--reset-limit)", 2)


def test_a_newcomer_does_not_spend_more_resets_than_there_are():
    made = begun(resets=1)
    made.ended(1.0, 1, True)
    made.asked(1.1, 0, 4)
    made.asked(1.1, 2, 4)
    assert made.asked(1.5, 3, -1) == []  # worker 3 was started before; nobody is told of it
    assert made.ended(2.0, 3, True) == [] and made.deadline is None  # and nobody is started for it


def test_a_slot_rests_after_a_failure():
    made = begun(cooldown=(2.0, 10.0))
    made.asked(1.0, 0, 1)
    assert made.ended(1.0, 1, True) == [] and made.deadline == 3.0
    assert made.tick(3.0) == [Start(3, "a", 1)]
    assert made.ended(3.5, 3, True) == [] and made.deadline == 7.5


def test_who_keeps_the_others_waiting():
    made = begun()
    assert made.missing() == []
    made.asked(1.0, 0, 3)
    assert made.missing() == [1, 2]
    made.asked(1.1, 1, 3)
    made.leaving(1.2, 2)
    assert made.missing() == []


def test_the_first_failure_of_an_epoch_is_blamed():
    made = machine(first=2, most=2)
    made.found(0.0, {"a": 3})
    made.asked(0.1, 0, -1)
    made.asked(0.1, 1, -1)
    made.ended(1.0, 1, True)
    assert made.ended(1.1, 0, True) == [End("no rank is left that had the state of the job", 1)]


def test_a_job_ends_when_its_ranks_have():
    made = begun()
    for number in (0, 1, 2):
        assert not made.over and made.ended(1.0, number, False) == []
    assert made.over
