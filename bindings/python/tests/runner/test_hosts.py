# SPDX-License-Identifier: Apache-2.0
import socket

import pytest

from horovod.runner.plan.hosts import Host, HostError, assign, is_local, parse_hosts, read_hostfile, write_hosts


def test_host_list_is_read_in_order():
    assert parse_hosts("a:2,b.c-d:4,e") == [Host("a", 2), Host("b.c-d", 4), Host("e", 1)]


def test_host_named_twice_has_the_sum_of_both():
    assert parse_hosts("a:2,b:1,a:3") == [Host("a", 5), Host("b", 1)]


@pytest.mark.parametrize("text", ["", "a:", "a:x", "a b:2", "[::1:2", "fd00::1", "[x]:2", "a:2,,b:2", "a:0"])
def test_bad_entry_is_named(text):
    with pytest.raises(HostError, match="entry"):
        parse_hosts(text)


@pytest.mark.parametrize("name", ["localhost", "127.0.0.1", "127.0.0.2", "127.9.8.7", socket.gethostname()])
def test_names_of_this_machine_are_local(name):
    assert is_local(name)


@pytest.mark.parametrize("name", ["192.0.2.77", "2001:db8::77", "no-such-host.invalid"])
def test_another_machine_is_not_local(name):
    assert not is_local(name)


def test_ranks_fill_hosts_in_order():
    places = assign([Host("a", 2), Host("b", 3), Host("c", 1)])
    assert [(p.rank, p.host, p.local_rank, p.local_size) for p in places] == [
        (0, "a", 0, 2), (1, "a", 1, 2), (2, "b", 0, 3), (3, "b", 1, 3), (4, "b", 2, 3), (5, "c", 0, 1)]
    # cross: among the hosts that have a rank with the same local rank
    assert [(p.cross_rank, p.cross_size) for p in places] == [(0, 3), (0, 2), (1, 3), (1, 2), (0, 1), (2, 3)]
    assert {p.size for p in places} == {6}


def test_fewer_ranks_than_slots_leave_hosts_out():
    places = assign([Host("a", 2), Host("b", 4), Host("c", 4)], 3)
    assert [(p.host, p.local_rank, p.local_size, p.cross_rank, p.cross_size) for p in places] == [
        ("a", 0, 2, 0, 2), ("a", 1, 2, 0, 1), ("b", 0, 1, 1, 2)]


def test_too_few_slots_names_both_numbers():
    with pytest.raises(HostError, match="5 processes asked for, but the hosts localhost:4 have 4 slots"):
        assign([Host("localhost", 4)], 5)


def test_ipv6_addresses_stand_in_brackets():
    listed = [Host("fd00::1", 2), Host("b", 1), Host("::1", 1)]
    assert parse_hosts("[fd00::1]:2,b,[::1]") == listed
    assert parse_hosts(write_hosts(listed)) == listed
    with pytest.raises(HostError, match="an IPv6 address stands in brackets, as in"):
        parse_hosts("fd00::1:2")


def test_hostfile_takes_both_forms_comments_and_blank_lines(tmp_path):
    path = tmp_path / "hosts"
    path.write_text("# all\n\na slots=4\nb slots = 2 max-slots=8  # two\n  c:3\nd\r\n[fd00::1] slots=2\na:1\n")
    assert read_hostfile(str(path)) == [Host("a", 5), Host("b", 2), Host("c", 3), Host("d", 1), Host("fd00::1", 2)]


@pytest.mark.parametrize("text, message", [
    ("a slots=4\nb slots=x\n", 'line 2: "b slots=x" is not host, host:number or host slots=number'),
    ("a:2 slots=4\n", 'line 1: "a:2 slots=4" gives the number of slots twice'),
    ("me@a slots=2\n", 'is not name or name:slots; the user of a host stands in ~/.ssh/config, as in "Host a" and "User me", or'),
    ("a slots=0\n", 'line 1: "a slots=0" has 0 slots; at least 1 is needed'),
    ("a b\n", 'line 1: "a b" is not host'),
    ("a:x\n", 'line 1: "a:x" is not name or name:slots'),
    ("# nobody\n", "names no host"),
])
def test_wrong_hostfile_names_the_line(tmp_path, text, message):
    path = tmp_path / "hosts"
    path.write_text(text)
    with pytest.raises(HostError) as error:
        read_hostfile(str(path))
    assert message in str(error.value) and str(path) in str(error.value)


def test_hostfile_that_is_not_there(tmp_path):
    with pytest.raises(HostError, match="none: No such file or directory"):
        read_hostfile(str(tmp_path / "none"))


def test_places_of_many_hosts_are_quick_to_find():
    places = assign([Host(f"h{number}", 8) for number in range(512)])
    assert len(places) == 4096 and places[-1].cross_rank == 511 and places[-1].cross_size == 512
