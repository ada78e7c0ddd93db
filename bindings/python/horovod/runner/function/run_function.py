# SPDX-License-Identifier: Apache-2.0
"""horovod.run: a Python function as a job. The caller writes the function to a private directory and starts horovodrun;
each rank is `python -m horovod.runner.function.run_task`, which writes its result there, or to its agent's folder elsewhere."""

import json
import os
import signal
import subprocess
import sys
from typing import Any, Callable, Iterable, List, NamedTuple, Optional

from horovod import _codec

from ..on_host.private_dir import PrivateDir
from ..plan.hosts import Host, HostError, assign, write_hosts

FUNCTION = "function"
_STATUS = "status"
_STOP_LIMIT = 7  # horovodrun needs at most 5 s, and the grace that the user gives
# What ranks raise because another one has failed.
_CONSEQUENCES = ("HorovodInternalError", "HorovodPeerLostError", "HorovodShutDownError", "HorovodSetBrokenError")


def result_file(folder: str, rank: int) -> str:
    """Where a rank leaves what its function returned, or the traceback of what it raised."""
    return os.path.join(folder, f"result.{rank}")


def write_private(path: str, data: bytes) -> None:
    """Writes a file that only this user can read; it appears complete or not at all."""
    descriptor = os.open(path + ".part", os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
    os.replace(path + ".part", path)


class Job(NamedTuple):
    """What horovodrun shall start."""

    num_proc: Optional[int]  # None: as many ranks as there are slots, in an elastic job as horovodrun decides
    listed: Optional[List[Host]]  # None: a flag says where hosts come from
    flags: List[str]  # of horovodrun, beside these
    use_mpi: bool
    elastic: bool

    def size(self) -> Optional[int]:
        """The number of ranks, None where horovodrun decides. HostError if the hosts have too few slots."""
        if self.listed is None:
            return self.num_proc
        size = len(assign(self.listed, self.num_proc))
        if size < 1:
            raise HostError(f"{size} processes asked for; at least 1 is needed")
        return size


def run_function(func: Callable, args: tuple, kwargs: dict, job: Job, executable: Optional[str]) -> List[Any]:
    """See horovod.runner.run."""
    call = _codec.dump_call(func, args, kwargs, "horovod.run")
    size = job.size()
    private = PrivateDir()
    try:
        try:
            write_private(os.path.join(private.path, FUNCTION), call)
        except OSError as error:
            why = f"horovod.run: no room for the function of {len(call)} bytes: {error.strerror.lower()}; TMPDIR names another folder"
            raise OSError(error.errno, why, private.path) from error
        flags = ["--run-folder", private.path, "--status-file", os.path.join(private.path, _STATUS), *job.flags]
        if size is not None:
            flags += ["-np", str(size)]
        if job.listed is not None:
            flags += ["-H", write_hosts(job.listed)]
        code = _launch(executable or sys.executable, flags)
        if code != 0:
            raise RuntimeError(_failure(private.path, size or 0, code, "mpirun" if job.use_mpi else "horovodrun"))
        return _results(private.path, _status(private.path)["members"] if job.elastic else range(size))
    finally:
        private.remove()


def _launch(executable: str, flags: List[str]) -> int:
    """Runs horovodrun as a process of its own, because it needs signals and children for itself."""
    sys.stdout.flush()
    sys.stderr.flush()
    alive, ours = os.pipe()  # closes when this process ends, however it ends
    command = [executable, "-m", "horovod.runner", "--parent-pipe", str(alive), *flags]
    command += [executable, "-m", "horovod.runner.function.run_task"]
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(path or os.getcwd() for path in sys.path))
    try:
        # A session of its own: Ctrl-C comes to us, and we pass it on once.
        process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, pass_fds=(alive,),
                                   start_new_session=True)
        try:
            return process.wait()
        except BaseException:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(_STOP_LIMIT + _grace())
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            raise
    finally:
        os.close(alive)
        os.close(ours)


def _grace() -> float:
    try:
        return float(os.environ.get("HOROVOD_GRACE_PERIOD", 0))
    except ValueError:
        return 0.0  # horovodrun has said so


def _results(folder: str, numbers: Iterable[int]) -> List[Any]:
    results = []
    for number in numbers:
        try:
            results.append(_result(folder, number))
        except FileNotFoundError:
            raise RuntimeError(f"rank {number} ended with exit code 0 before its function returned") from None
    return results


def _status(folder: str) -> dict:
    """How the job went, as horovodrun says it."""
    with open(os.path.join(folder, _STATUS)) as file:
        return json.load(file)


def _failure(folder: str, size: int, code: int, program: str) -> str:
    try:
        status = _status(folder)
    except FileNotFoundError:  # mpirun leaves none, and says by itself which rank failed
        raised = list(filter(None, (_raised(folder, rank) for rank in range(size))))
        causes = [text for text in raised if text.split(" ", 3)[3].partition(":")[0] not in _CONSEQUENCES]
        return next(iter(causes or raised), f"{program} failed with exit code {code}")
    rank = status["first_failure"]
    if rank is None:
        return "\n".join([f"horovodrun ended with exit code {code}; no rank failed", *status["summary"]])
    return _raised(folder, rank) or "\n".join(status["summary"])


def _raised(folder: str, rank: int) -> Optional[str]:
    """What the function raised on a rank, or None."""
    try:
        _result(folder, rank)
    except FileNotFoundError:
        return None
    except _codec.NoObjectError as error:
        return f"rank {rank} raised {error}"
    return None


def _result(folder: str, rank: int) -> Any:
    """What the function returned on a rank; NoObjectError with the traceback if it raised."""
    with open(result_file(folder, rank), "rb") as file:
        return _codec.loads(file.read(), f"horovod.run: result of rank {rank}")
