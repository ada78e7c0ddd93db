# SPDX-License-Identifier: Apache-2.0
"""Host lists and hostfiles made of what people and broken scripts write: read, or refused with one line; nothing else."""

import random

import pytest

from horovod.runner.plan import hosts

PIECES = ["a", "h0", "server-1.example.org", "10.0.0.1", "127.0.0.1", "localhost", "[fd00::1]", "[::1]", "[", "]", "fd00::1", ":", "::",
          ",", ",,", " ", "\t", "0", "1", "4", "007", "-1", "1048576", "1048577", "9" * 25, "9" * 5000, "-oProxyCommand", "--", "-",
          "slots", "slots=", "slots = 2", "=", "#", "\n", "\r\n", "\0", "é", "٣", "😀", "$(id)", "`id`", ";", "&", "|", "'", '"', "\\"]


def texts(seed, count):
    random_ = random.Random(seed)
    for _ in range(count):
        yield "".join(random_.choice(PIECES) for _ in range(random_.randrange(1, 12)))


def check(listed):
    assert listed and sum(host.slots for host in listed) <= 1 << 20
    assert len({host.name for host in listed}) == len(listed)
    for host in listed:
        assert host.slots >= 1 and host.name.isascii() and not host.name.startswith("-")
        assert not set(host.name) & set(" \t\n\0,;&|$`'\"\\[]#="), host
    assert hosts.parse_hosts(hosts.write_hosts(listed)) == listed


@pytest.mark.parametrize("seed", range(5))
def test_any_text_as_host_list(seed):
    good = 0
    for text in texts(seed, 4000):
        try:
            listed = hosts.parse_hosts(text)
        except hosts.HostError as error:
            assert str(error).startswith("hosts ")
            continue
        good += 1
        check(listed)
    assert good > 50  # else this tests refusals only


@pytest.mark.parametrize("seed", range(2))
def test_any_text_as_hostfile(seed, tmp_path):
    path, good = tmp_path / "hosts", 0
    for text in texts(seed, 1500):
        path.write_text(text, encoding="utf-8", newline="")
        try:
            listed = hosts.read_hostfile(str(path))
        except hosts.HostError as error:
            assert str(error).startswith("hostfile ")
            continue
        good += 1
        check(listed)
    assert good > 20


def test_an_error_is_one_line_whatever_the_text():
    with pytest.raises(hosts.HostError) as caught:
        hosts.parse_hosts("a:1,b\n\x1b[31m:2" + 500 * "x")
    text = str(caught.value)
    assert text.isprintable() and r"b\n\x1b[31m:2" in text and len(text) < 500
