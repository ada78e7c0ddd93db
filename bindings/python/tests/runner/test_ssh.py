# SPDX-License-Identifier: Apache-2.0
"""Hosts that cannot be used: one line for each with what to do, quickly, and nothing started anywhere."""

import os
import shutil
import sys
import time

import pytest
from time_scale import scaled


def refused(hosts, *flags, where="h0:1,h1:1", **options):
    """The lines of a horovodrun that must start nothing."""
    began = time.monotonic()
    code, out, err = hosts.run("-H", where, *flags, *hosts.script("open('ran', 'w')"), **options)
    assert (code, out) == (1, "") and not (hosts.folder / "ran").exists()
    return err.splitlines(), time.monotonic() - began


def test_unknown_host_key(many_hosts):
    hosts = many_hosts()
    args = f"-o UserKnownHostsFile={hosts.folder}/known {hosts.ssh_args}"
    lines, _ = refused(hosts, env={"HOROVOD_SSH_ARGS": args})
    assert lines == ['horovodrun: host "h1": its host key is not known; connect once with ssh h1, or trust new hosts with '
                     "--ssh-accept-new"]
    # The configuration of the network insists on known keys, and options of the command line win over it.
    code, out, _ = hosts.run("-H", "h1:1", "--ssh-accept-new", "hostname",
                             env={"HOROVOD_SSH_ARGS": f"-o StrictHostKeyChecking=accept-new {args}"})
    assert (code, out) == (0, "[0]<stdout>:h1\n")
    assert (hosts.folder / "known").read_text().startswith("h1 ")


def test_changed_host_key(many_hosts):
    hosts = many_hosts()
    shutil.copy(f"{hosts.net.folder}/known_hosts", hosts.folder / "known")
    known = hosts.folder / "known"
    with open(f"{hosts.net.folder}/id.pub") as file:
        known.write_text(f"h1 {' '.join(file.read().split()[:2])}\n")
    lines, _ = refused(hosts, env={"HOROVOD_SSH_ARGS": f"-o UserKnownHostsFile={known} {hosts.ssh_args}"})
    assert lines == ['horovodrun: host "h1": its host key differs from the known one; if that is right, remove the old one: '
                     "ssh-keygen -R h1"]


def test_permission_denied(many_hosts):
    hosts = many_hosts()
    os.remove(f"{hosts.net.folder}/id.pub")  # what sshd lets in
    lines, _ = refused(hosts)
    assert lines == ['horovodrun: host "h1": ssh: permission denied (publickey); it must let you in without a password: '
                     "ssh-copy-id h1, or --ssh-identity-file"]


def test_identity_file_and_port(many_hosts):
    hosts = many_hosts()
    shutil.copy(f"{hosts.net.folder}/id", hosts.folder / "key")
    config = hosts.folder / "config"
    config.write_text(open(hosts.net.ssh_config).read().replace("IdentityFile", "#").replace("IdentitiesOnly yes", ""))
    env = {"HOROVOD_SSH_ARGS": f"-F {config} -o IdentityFile=none"}
    code, out, err = hosts.run("-H", "h1:1", "-i", hosts.folder / "key", "-p", 22, "hostname", env=env)
    assert (code, out) == (0, "[0]<stdout>:h1\n"), err
    lines, _ = refused(hosts, "-p", 23)
    assert lines == ['horovodrun: host "h1": no ssh server answers there; start sshd, or give its port with --ssh-port']


def test_every_bad_host_is_named(many_hosts):
    hosts = many_hosts(hosts=3)
    lines, seconds = refused(hosts, where="h0:1,h1:1,no-such-host:1,10.77.0.99:1", env={"HOROVOD_START_TIMEOUT": "20"})
    assert lines[0].startswith('horovodrun: host "no-such-host": its name is not known: ')
    assert any(line == 'horovodrun: host "10.77.0.99": cannot be reached: no route to host' for line in lines)
    assert len(lines) == 2 and seconds < scaled(15)


def test_a_host_that_does_not_answer_ends_the_wait(many_hosts):
    hosts = many_hosts()
    hosts.net.drop(0, 1)
    lines, seconds = refused(hosts, "--start-timeout", "10")
    assert len(lines) == 1 and lines[0].startswith('horovodrun: host "h1": ')
    assert "Connection timed out".lower() in lines[0] or "did not get ready within 10 s (--start-timeout)" in lines[0]
    assert seconds < scaled(25)


def test_no_python_there(many_hosts):
    hosts = many_hosts()
    (hosts.folder / "empty").mkdir()
    (hosts.folder / "nothing").touch(mode=0o600)
    every = hosts.net.run(0, ["ssh", "-F", hosts.net.ssh_config, "h1", "which -a python3 python"]).stdout.split()
    for path in {os.path.realpath(name) for name in [sys.executable, *every]}:
        assert hosts.net.run(1, ["mount", "--bind", str(hosts.folder / "nothing"), path]).returncode == 0
    lines, _ = refused(hosts)
    assert lines == ['horovodrun: host "h1": no python3 there; install one, or put it into the PATH that ssh h1 gives']


def test_no_ssh_here(many_hosts):
    hosts = many_hosts()
    code, _, err = hosts.run("PATH=" + str(hosts.folder), sys.executable, "-m", "horovod.runner", "-H", "h1:1", "true",
                             program=("-c", "import os, sys; os.execvp('env', ['env', *sys.argv[1:]])"))
    assert (code, err) == (1, 'horovodrun: host "h1": ssh ended with exit code 127: ssh: No such file or directory\n')


def test_what_a_login_shell_prints_is_skipped():
    from horovod.runner.agents import remote
    from horovod.runner.agents.agent import Agent
    from horovod.runner.on_host import frames

    read, write = os.pipe()
    back, null = os.pipe()
    agent = Agent("h1", True, [])
    agent.channel = frames.Channel(read, null)
    for piece in (b"Welcome\n", b"quota: \xff" + remote.GREETING[:4], remote.GREETING[4:] + b"M\x00\x00\x00"):
        os.write(write, piece)
        assert agent.receive() == []
    os.write(write, b"\x02{}")
    assert agent.receive() == [(frames.MESSAGE, b"{}")]
    os.close(write)
    assert agent.receive() is None
    for descriptor in (read, back, null):
        os.close(descriptor)


def test_noise_instead_of_frames_is_no_agent():
    from horovod.runner.on_host import frames

    with pytest.raises(frames.BrokenStream, match="frame of kind b'x'"):
        frames.Channel(*os.pipe()).feed(b"xxxxxxxxxx")
    with pytest.raises(frames.BrokenStream, match="with 4294967295 bytes"):
        frames.Channel(*os.pipe()).feed(b"M\xff\xff\xff\xff")
    with pytest.raises(frames.BrokenStream, match='file "../x"'):
        frames.read_file(b"\x04../xdata")


def test_ssh_gets_no_option_of_ours_for_a_host():
    from horovod.runner.agents.remote import SshOptions, ssh_command

    line = ssh_command("-oProxyCommand=x", SshOptions(port=2222, identity_file="key", accept_new=True), "true")
    assert line[-3:] == ["--", "-oProxyCommand=x", "true"] and line[line.index("-p") + 1] == "2222"
    assert "StrictHostKeyChecking=accept-new" in line and "BatchMode=yes" in line
    assert not any("StrictHostKeyChecking" in word for word in ssh_command("h1", SshOptions(), "true"))
