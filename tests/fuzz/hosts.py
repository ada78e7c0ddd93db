# SPDX-License-Identifier: Apache-2.0
"""Any bytes as a host list or a hostfile are read, or refused with one line. libFuzzer looks for inputs (atheris):
`python tests/fuzz/hosts.py -max_total_time=20 FOLDER tests/fuzz/corpus/hosts`; new ones go into FOLDER.

The first byte says what the rest is: a list if even, a hostfile if odd.
"""

import os
import sys
import tempfile

import atheris

with atheris.instrument_imports():
    from horovod.runner.plan import hosts

HOSTFILE = os.path.join(tempfile.gettempdir(), f"hvd-fuzz-hosts-{os.getpid()}")


def read_back(listed):
    """What was read is sane, and means the same when written."""
    assert listed and sum(host.slots for host in listed) <= 1 << 20
    assert len({host.name for host in listed}) == len(listed)
    for host in listed:
        assert host.slots >= 1 and host.name.isascii() and not host.name.startswith("-")
        assert not set(host.name) & set(" \t\n\0,;&|$`'\"\\[]#="), host
    assert hosts.parse_hosts(hosts.write_hosts(listed)) == listed


def one_input(data):
    as_file = bool(data) and data[0] % 2 == 1
    try:
        if as_file:
            with open(HOSTFILE, "wb") as file:
                file.write(data[1:])
            listed = hosts.read_hostfile(HOSTFILE)
        else:
            listed = hosts.parse_hosts(data[1:].decode("utf-8", "surrogateescape"))
    except hosts.HostError as error:
        assert str(error).startswith("hostfile " if as_file else "hosts ") and "\n" not in str(error), str(error)
        return
    read_back(listed)


if __name__ == "__main__":
    atheris.Setup(sys.argv, one_input)
    try:
        atheris.Fuzz()
    finally:
        if os.path.exists(HOSTFILE):
            os.unlink(HOSTFILE)
