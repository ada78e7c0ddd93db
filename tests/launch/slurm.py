# SPDX-License-Identifier: Apache-2.0
"""A Slurm of one node, with its own key, ports and folder; nothing of it is left when it ends."""

import os
import pwd
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Dict, List, Optional

PROGRAMS = ("munged", "slurmctld", "slurmd", "srun", "sinfo", "scancel")
CONFIGURATION = """\
ClusterName=one
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
SlurmdPort={daemon}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MpiDefault=none
ReturnToService=2
SwitchType=switch/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
KillWait=2
NodeName={host} NodeAddr=127.0.0.1 CPUs={cores} RealMemory=500 State=UNKNOWN
PartitionName=all Nodes={host} Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE:4
"""


def program(name: str) -> Optional[str]:
    return shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")


def why_not() -> str:
    """What keeps a Slurm from being started here, or nothing."""
    missing = [name for name in PROGRAMS if not program(name)]
    if missing:
        return f"not installed: {' '.join(missing)}"
    return "" if os.geteuid() == 0 else "slurmd needs root"


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Slurm:
    """``with Slurm(folder) as slurm: slurm.run(["srun", "-n2", ...])``"""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment: Dict[str, str] = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf")}
        self._daemons: List["subprocess.Popen[bytes]"] = []

    def __enter__(self) -> "Slurm":
        # munged wants its key in folders that nobody else may write to.
        for name in ("state", "spool", "munge"):
            (self.folder / name).mkdir(mode=0o700)
        self.folder.chmod(0o755)
        key = self.folder / "munge" / "key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        host = socket.gethostname().split(".")[0]
        (self.folder / "slurm.conf").write_text(
            CONFIGURATION.format(
                host=host,
                folder=self.folder,
                user=pwd.getpwuid(os.geteuid()).pw_name,
                controller=free_port(),
                daemon=free_port(),
                cores=os.cpu_count(),
            )
        )
        munge = self.folder / "munge"
        try:
            self._start(
                "munged",
                "--foreground",
                "--force",
                f"--socket={self.folder}/munge.socket",
                f"--key-file={key}",
                f"--pid-file={munge}/pid",
                f"--seed-file={munge}/seed",
                f"--log-file={munge}/log",
            )
            self._wait("munged answers", (self.folder / "munge.socket").exists)
            self._start("slurmctld", "-D", "-f", self.environment["SLURM_CONF"])
            self._start("slurmd", "-D", "-f", self.environment["SLURM_CONF"])
            self._wait("the node is ready", self._ready)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._daemons:
            subprocess.run(
                [str(program("scancel")), f"--user={os.geteuid()}"],
                env=self.environment,
                capture_output=True,
                timeout=30,
            )
        for daemon in reversed(self._daemons):
            daemon.send_signal(signal.SIGTERM)
            try:
                daemon.wait(15)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        self._daemons.clear()

    def run(self, command: List[str], timeout: float = 60, **variables: str) -> "subprocess.CompletedProcess[str]":
        """Runs a command of Slurm's; its standard error is part of its output."""
        command = [str(program(command[0])), *command[1:]]
        return subprocess.run(
            command,
            env={**self.environment, **variables},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=timeout,
        )

    def _start(self, name: str, *arguments: str) -> None:
        log = open(self.folder / f"{name}.output", "wb")
        with log:
            self._daemons.append(
                subprocess.Popen(
                    [str(program(name)), *arguments],
                    env=self.environment,
                    stdout=log,
                    stderr=log,
                    stdin=subprocess.DEVNULL,
                )
            )

    def _ready(self) -> bool:
        return self.run(["sinfo", "-h", "-o", "%t"]).stdout.strip() in ("idle", "mix")

    def _wait(self, what: str, condition) -> None:
        deadline = time.monotonic() + 30
        while not condition():
            ended = [daemon.args for daemon in self._daemons if daemon.poll() is not None]
            if ended or time.monotonic() > deadline:
                logs = "".join(path.read_text(errors="replace")[-2000:] for path in self.folder.glob("*.output"))
                raise RuntimeError(f"waited 30 s until {what}; ended: {ended}\n{logs}")
            time.sleep(0.1)
