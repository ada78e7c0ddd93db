# SPDX-License-Identifier: Apache-2.0
"""Starting jobs: the program horovodrun and the function run()."""

from typing import Any, Callable, List, Optional

__all__ = ["run"]


def run(func: Callable, args: tuple = (), kwargs: Optional[dict] = None, num_proc: Optional[int] = None, *,
        hosts: Optional[str] = None, start_timeout: Optional[int] = None, output_filename: Optional[str] = None,
        verbose: Optional[bool] = None, executable: Optional[str] = None, np: Optional[int] = None) -> List[Any]:
    """Runs func(*args, **kwargs) as every rank of a new job on this machine; returns the results by rank.

    The function and its results travel by cloudpickle through a directory that only this user can read. `num_proc`
    (older name: `np`) is the number of ranks, default 1 or all slots of `hosts` ("localhost:4"); `executable` is the
    Python program to use. The ranks' output appears as horovodrun prints it. If a rank raises or dies, the others are
    stopped and RuntimeError names the rank that failed first, with its traceback.
    """
    from .run_function import run_function

    return run_function(func, args, kwargs or {}, num_proc if num_proc is not None else np, hosts, start_timeout,
                        output_filename, bool(verbose), executable)
