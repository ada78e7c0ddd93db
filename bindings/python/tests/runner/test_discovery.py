# SPDX-License-Identifier: Apache-2.0
"""The script that lists the hosts of an elastic job, and which of them the job uses."""

import select
import time

import pytest

from horovod.runner.job import discovery
from horovod.runner.job.discovery import Discovery, DiscoveryError
from horovod.runner.job.fleet import Fleet
from horovod.runner.plan.hosts import Host, HostError, parse_discovered


def test_lines_of_a_script():
    assert parse_discovered("a:2\r\n\n  b  \n[fd00::1]:3\n") == [Host("a", 2), Host("b", 1), Host("fd00::1", 3)]
    assert parse_discovered("a\nb:2", 4) == [Host("a", 4), Host("b", 2)]
    assert parse_discovered("\n") == []


@pytest.mark.parametrize("text, why", [
    ("a:2\nno host!\n", 'line 2: "no host!" is not name or name:slots'),
    ("a:2\nb\na:2\n", "host a is listed twice"),
    ("a:0", "0 slots; at least 1"),
    ("\n".join(f"h{number}" for number in range(10000)), "10000 hosts; at most 4096"),
])
def test_lists_that_are_not_meant(text, why):
    with pytest.raises(HostError, match=why):
        parse_discovered(text)


def after_one_run(found):
    """Whether the run that is about to begin gives a list."""
    found.wake_at = min(found.wake_at, time.monotonic())
    found.tick()
    give_up = time.monotonic() + 20
    while time.monotonic() < give_up:
        select.select([found.descriptor], [], [], 0.05)
        good = found.handle()
        if found._run is None:
            return good
        found.tick()
    raise AssertionError("the run has no end")


@pytest.mark.parametrize("bad, why", [
    ("echo no credentials >&2; exit 3", "exit code 3: no credentials"),
    ("sleep 1000", "it had not ended after 0.2 s and was killed"),
    ("head -c 3000 /dev/urandom | tr -d '\\n\\r'", "is not name or name:slots"),
    ("printf 'a:1\\na:1\\n'", "host a is listed twice"),
    ("seq -f 'h%.0f' 10000", "10000 hosts; at most 4096"),
    ("true", "it lists no host"),
    ("kill -9 $$", "exit code 137"),
])
def test_a_bad_list_changes_nothing_and_is_told_once(bad, why, tmp_path, monkeypatch, capfd):
    script = tmp_path / "hosts.sh"
    script.write_text("echo a:2\n")
    found = Discovery(f"sh {script}", None)
    assert found.wait(2, 20) == [Host("a", 2)]
    script.write_text(bad + "\n")
    if bad.startswith("sleep"):
        monkeypatch.setattr(discovery, "_LIMIT", 0.2)
    for _ in range(3):
        assert not after_one_run(found) and found.hosts == [Host("a", 2)]
    said = capfd.readouterr().err
    assert why in said and said.count("the hosts that it listed before stay in use") == 1, said
    monkeypatch.undo()
    script.write_text("echo a:1\necho b:1\n")
    assert after_one_run(found) and found.hosts == [Host("a", 1), Host("b", 1)]


def test_a_script_that_fails_at_first_ends_the_job():
    with pytest.raises(DiscoveryError, match="exit code 127"):
        Discovery("no-such-program-as-this", None).wait(1, 20)
    with pytest.raises(DiscoveryError, match="it lists 2 slots, and 3 are needed; waited 0.1 s"):
        Discovery("echo a:2", None).wait(3, 0.1)


def test_a_child_that_keeps_the_pipes_does_not_hold_the_list_up():
    assert Discovery("(sleep 20; echo z:9) & echo a:2", None).wait(2, 5) == [Host("a", 2)]


def test_the_arguments_of_a_script_are_its_own():
    assert Discovery("echo a:$((1 + 1))", None).wait(1, 20) == [Host("a", 2)]


def names(agents):
    return [agent.name for agent in agents]


def test_as_many_hosts_are_reached_as_are_needed():
    fleet = Fleet([Host("198.51.100.1", 2), Host("198.51.100.2", 2), Host("198.51.100.3", 2)], fixed=False)
    first, second = fleet.new_agents(0.0, 3)
    assert names([first, second]) == ["198.51.100.1", "198.51.100.2"] and fleet.new_agents(0.1, 3) == []
    assert fleet.slots() == {} and fleet.most_ranks(second) == 2
    first.facts = second.facts = {}
    assert fleet.slots() == {"198.51.100.1": 2, "198.51.100.2": 2}
    assert names(fleet.new_agents(1.0, 5)) == ["198.51.100.3"]
    fleet.offer([Host("198.51.100.2", 1)])
    assert fleet.slots() == {"198.51.100.2": 1}


def test_a_host_that_was_lost_is_tried_again_after_a_while():
    fleet = Fleet([Host("198.51.100.1", 1)], fixed=False)
    for now, pause in ((0.0, 10.0), (20.0, 20.0)):
        (agent,) = fleet.new_agents(now, 1)
        assert fleet.lose(now, agent) == pause and fleet.new_agents(now + pause - 1, 1) == []
    fixed = Fleet([Host("198.51.100.1", 1), Host("localhost", 1)], fixed=True)
    agents = fixed.new_agents(0.0, 0)
    assert names(agents) == ["198.51.100.1", "localhost"]
    assert fixed.lose(0.0, agents[0]) is None and fixed.slots() == {"localhost": 1} and fixed.new_agents(1e6, 9) == []
