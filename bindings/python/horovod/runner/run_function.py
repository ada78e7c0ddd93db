# SPDX-License-Identifier: Apache-2.0
"""horovod.run: a Python function as a job. The caller writes the function to a private directory and starts horovodrun;
each rank is `python -m horovod.runner.run_task <directory>`, which writes its result there."""

import json
import os
import signal
import subprocess
import sys
from typing import Any, Callable, List, Optional

from .private_dir import PrivateDir

FUNCTION = "function"
_STATUS = "status"
_STOP_LIMIT = 7  # horovodrun needs at most 5 s


def result_file(folder: str, rank: int) -> str:
    """Where a rank leaves what its function returned, or the traceback of what it raised."""
    return os.path.join(folder, f"result.{rank}")


def write_private(path: str, data: bytes) -> None:
    """Writes a file that only this user can read; it appears complete or not at all."""
    descriptor = os.open(path + ".part", os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
    os.replace(path + ".part", path)


def run_function(func: Callable, args: tuple, kwargs: dict, num_proc: Optional[int], hosts: Optional[str],
                 start_timeout: Optional[int], output_filename: Optional[str], verbose: bool,
                 executable: Optional[str]) -> List[Any]:
    """See horovod.runner.run."""
    import cloudpickle

    from .hosts import HostError, assign, check_local, parse_hosts

    listed = parse_hosts(hosts or f"localhost:{1 if num_proc is None else num_proc}")
    check_local(listed)
    size = len(assign(listed, num_proc))
    if size < 1:
        raise HostError(f"{size} processes asked for; at least 1 is needed")
    private = PrivateDir()
    try:
        write_private(os.path.join(private.path, FUNCTION), cloudpickle.dumps((func, args, kwargs)))
        flags = ["-np", str(size), "-H", ",".join(f"{host.name}:{host.slots}" for host in listed)]
        flags += ["--status-file", os.path.join(private.path, _STATUS)]
        if start_timeout is not None:
            flags += ["--start-timeout", str(start_timeout)]
        if output_filename is not None:
            flags += ["--output-filename", output_filename]
        if verbose:
            flags += ["--verbose"]
        code = _launch(executable or sys.executable, flags, private.path)
        return _results(private.path, size, code)
    finally:
        private.remove()


def _launch(executable: str, flags: List[str], folder: str) -> int:
    """Runs horovodrun as a process of its own, because it needs signals and children for itself."""
    sys.stdout.flush()
    sys.stderr.flush()
    alive, ours = os.pipe()  # closes when this process ends, however it ends
    command = [executable, "-m", "horovod.runner", "--parent-pipe", str(alive), *flags]
    command += [executable, "-m", "horovod.runner.run_task", folder]
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
                process.wait(_STOP_LIMIT)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            raise
    finally:
        os.close(alive)
        os.close(ours)


def _results(folder: str, size: int, code: int) -> List[Any]:
    import cloudpickle

    if code != 0:
        raise RuntimeError(_failure(folder, code))
    results = []
    for rank in range(size):
        try:
            with open(result_file(folder, rank), "rb") as file:
                returned, value = cloudpickle.load(file)
        except FileNotFoundError:
            raise RuntimeError(f"rank {rank} ended with exit code 0 before its function returned") from None
        results.append(value)
    return results


def _failure(folder: str, code: int) -> str:
    import cloudpickle

    try:
        with open(os.path.join(folder, _STATUS)) as file:
            status = json.load(file)
    except FileNotFoundError:
        return f"horovodrun ended with exit code {code} without a report"
    rank = status["first_failure"]
    if rank is None:
        return f"horovodrun ended with exit code {code}; no rank failed"
    try:
        with open(result_file(folder, rank), "rb") as file:
            returned, value = cloudpickle.load(file)
        if not returned:
            return f"rank {rank} raised {value}"
    except FileNotFoundError:
        pass
    return "\n".join(status["summary"]).replace("horovodrun: ", "", 1)
