# SPDX-License-Identifier: Apache-2.0
"""The same program under every launcher that starts ranks on two hosts."""

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from launchers import SETTINGS, open_mpi_4, torchrun
from time_scale import scaled


def on(hosts, command):
    def start(number, variables):
        return hosts.popen(
            number,
            command,
            {**SETTINGS, **variables},
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )

    return start


def remote_mpirun(hosts, work, command):
    passed = [name for name in os.environ if name.startswith(("PYTHONPATH", "HVD_"))] + list(SETTINGS)
    words = [word for name in passed for word in ("-x", name)]
    done = hosts.run(0, [*command, "--host", "h0:2,h1:1", "-np", "3", *words, *work.command()], SETTINGS, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def check_places(seen):
    """Two ranks on the first host, one on the second."""
    assert [(one["local_rank"], one["local_size"]) for one in seen] == [(0, 2), (1, 2), (0, 1)]


def test_a_rank_that_does_not_come_ends_the_wait_for_mpi(hosts):
    """MPI itself would wait for ever."""
    mpirun = [open_mpi_4(), "--mca", "plm_rsh_agent", f"ssh -F {hosts.ssh_config}", "--host", "h0:1,h1:1", "-np", "2"]
    program = (
        "import os, time, horovod as hvd\n"
        "time.sleep(60) if os.environ['OMPI_COMM_WORLD_RANK'] == '0' else hvd.init()\n"
    )
    passed = [name for name in os.environ if name.startswith(("PYTHONPATH", "HVD_"))] + ["HOROVOD_START_TIMEOUT"]
    words = [word for name in passed for word in ("-x", name)]
    environment = {**SETTINGS, "HOROVOD_START_TIMEOUT": "2"}
    done = hosts.run(0, [*mpirun, *words, sys.executable, "-c", program], environment, timeout=40)
    assert done.returncode != 0
    assert re.search(r"HorovodTimeoutError: init: waited [\d.]+ s for MPI; not every rank is here", done.stderr), done.stderr


@pytest.mark.parametrize("release", [4, 5])
def test_mpirun_on_two_hosts(work, hosts, release, request):
    """MPI itself passes the address and the secret on."""
    if release == 4:
        command = [open_mpi_4(), "--mca", "plm_rsh_agent", f"ssh -F {hosts.ssh_config}"]
    else:
        folder = request.getfixturevalue("open_mpi_5")
        command = [
            f"{folder}/bin/mpirun",
            "--prefix",
            str(folder),
            "--mca",
            "plm_ssh_agent",
            f"ssh -F {hosts.ssh_config}",
        ]
    output = remote_mpirun(hosts, work, command)
    check_places([json.loads((work.folder / f"rank.{rank}").read_text()) for rank in range(3)])
    line = r"rank (\d) of 3 \(local . of .\) on host h.; launcher Open MPI.*; rendezvous tcp://\S+; security auth"
    assert sorted(re.findall(line, output)) == ["0", "0", "1", "1", "2", "2"]


def test_torchrun_on_two_hosts(work, hosts):
    command = torchrun("--nnodes=2", "--nproc-per-node=2", "--master-addr=h0", "--master-port=29400")
    output = work.run_each(
        lambda host, variables: on(hosts, [*command[:3], f"--node-rank={host}", *command[3:], *work.command()])(
            host, variables
        ),
        [{"HOROVOD_SECRET_FILE": str(work.secret)}] * 2,
    )
    seen = work.check(output, "torchrun", 4, 2, "tcp://h0:29401")
    assert [int(one["LOCAL_RANK"]) for one in seen] == [one["local_rank"] for one in seen] == [0, 1, 0, 1]


def plain(work, **more):
    common = {"MASTER_ADDR": "h0", "MASTER_PORT": "29500", "WORLD_SIZE": "2", **more}
    return [{**common, "RANK": str(rank)} for rank in range(2)]


def test_plain_variables_on_two_hosts(work, hosts):
    output = work.run_each(on(hosts, work.command()), plain(work, HOROVOD_SECRET_FILE=str(work.secret)))
    work.check(output, "RANK and WORLD_SIZE", 2, 1, "tcp://h0:29501")


def test_plain_variables_on_two_hosts_without_security(work, hosts):
    output = work.run_each(on(hosts, work.command()), plain(work, HOROVOD_SECURITY="none"))
    work.check(output, "RANK and WORLD_SIZE", 2, 1, "tcp://h0:29501", security="none")


def test_several_hosts_and_no_secret_is_refused_at_once(work, hosts):
    began = time.monotonic()
    rank = on(hosts, work.command())(0, plain(work)[0])
    output = rank.communicate(timeout=60)[0]
    assert rank.returncode == 1 and time.monotonic() - began < scaled(20)
    assert (
        "no secret is given; set HOROVOD_SECRET_FILE to a file with the job's secret, or HOROVOD_SECURITY=none"
        in output
    )


def test_taken_ports_are_passed_over(work, hosts):
    """PyTorch's store, or another job, may listen on some of the range."""
    listen = (
        "import socket, sys; a = [socket.create_server(('', port)) for port in (29501, 29502)]; "
        "print('ready', flush=True); sys.stdin.read()"
    )
    other = hosts.popen(0, [sys.executable, "-c", listen], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert other.stdout.readline() == "ready\n"
        output = work.run_each(on(hosts, work.command()), plain(work, HOROVOD_SECRET_FILE=str(work.secret)))
    finally:
        other.communicate("")
    work.check(output, "RANK and WORLD_SIZE", 2, 1, "tcp://h0:29501")


def test_kubernetes_indexed_job_whose_names_appear_late(work, hosts):
    common = {"HOROVOD_SIZE": "2", "MASTER_ADDR": "train-0.train", "HOROVOD_SECRET_FILE": str(work.secret)}
    start = on(hosts, work.command())
    ranks = [start(index, {**common, "JOB_COMPLETION_INDEX": str(index)}) for index in range(2)]
    time.sleep(1.5)  # the service's DNS takes its time; the ranks look again and again
    assert [rank.poll() for rank in ranks] == [None, None]
    for name in hosts.host_names:
        with open(Path(hosts.folder) / f"{name}.hosts", "a") as names:
            names.write("10.77.0.1 train-0.train\n")
    output = work.run_each(lambda index, _: ranks[index], [{}, {}])
    work.check(output, "Kubernetes", 2, 1, r"tcp://train-0\.train:29501")
