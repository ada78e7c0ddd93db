# SPDX-License-Identifier: Apache-2.0
"""`horovodrun doctor` for one host runs a real job of two ranks there, with all that belongs to one."""

import json
import os
import subprocess
import sys

_LIMIT = 5.0
_RUN = "import sys; sys.path.insert(0, sys.argv.pop(1)); from horovod.runner.launch import main; sys.exit(main())"


def try_engine() -> dict:
    """{"latency", "bytes", "ranks", "problem"}: the median of an allreduce in seconds, or why there is none."""
    here = os.path.dirname(os.path.abspath(__file__))
    root = os.path.dirname(os.path.dirname(os.path.dirname(here)))
    command = [
        sys.executable,
        "-c",
        _RUN,
        root,
        "-np",
        "2",
        "--start-timeout",
        "4",
        sys.executable,
        os.path.join(here, "ranks", "latency.py"),
    ]
    started = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace"
    )
    try:
        out, err = started.communicate(timeout=_LIMIT)
    except subprocess.TimeoutExpired:
        started.kill()  # its guardian ends the ranks
        started.communicate()
        return _result(f"no result within {_LIMIT:g} s")
    except BaseException:
        started.kill()
        started.wait()
        raise
    prefix = "[0]<stdout>:"
    lines = [line[len(prefix) :] for line in out.splitlines() if line.startswith(prefix + "{")]
    if started.returncode == 0 and lines:
        return {"problem": None, **json.loads(lines[-1])}
    return _result(f"ended with exit code {started.returncode}: {_reason(err)}")


def _result(problem: str) -> dict:
    return {"problem": problem, "bytes": None, "ranks": 2, "latency": None}


def _reason(err: str) -> str:
    """The last thing a rank said, which is how Python ends a traceback; else the launcher's last word."""
    said = [line for line in err.splitlines() if line.strip()]
    ranks = [
        line.partition(">:")[2].strip() for line in said if line.startswith("[") and line.partition(">:")[2].strip()
    ]
    return (ranks or said or ["it said nothing"])[-1][:300]
