# SPDX-License-Identifier: Apache-2.0
"""One rank of horovod.run: calls the function and leaves its result in the folder that HOROVOD_RUN_FOLDER names.

Under mpirun every rank has the same environment, so the variable lists a folder for each host, and one of them is here.
"""

import os
import sys
import traceback

from horovod import _codec
from horovod.common import faults

from .run_function import FUNCTION, result_file, write_private

# Who started this rank: horovodrun, for an elastic job or another one; Open MPI, or another MPI.
_RANK_NAMES = ("HOROVOD_WORKER", "HOROVOD_RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK")


def main(folder: str) -> int:
    """Runs the function; the exit code is 1 if it raised."""
    rank = next(os.environ[name] for name in _RANK_NAMES if name in os.environ)
    target = result_file(folder, int(rank))
    try:
        with open(os.path.join(folder, FUNCTION), "rb") as file:
            func, args, kwargs = _codec.load_call(file.read(), "horovod.run")
        data = _codec.dumps(func(*args, **kwargs), "horovod.run: result")
    except Exception as error:
        faults.note(error)
        text = f"{type(error).__name__}: {error}\n\n{traceback.format_exc()}"
        write_private(target, _codec.failure(text))
        traceback.print_exc()
        return 1
    write_private(target, data)
    return 0


def run_folder(listed: str) -> str:
    """The first of these folders that has the function."""
    for folder in (listed, *listed.split(os.pathsep)):  # one folder's name may have a colon
        if os.path.exists(os.path.join(folder, FUNCTION)):
            return folder
    sys.exit(f"horovod.run: the function is in none of {listed} on {os.uname().nodename}")


if __name__ == "__main__":
    sys.exit(main(run_folder(os.environ["HOROVOD_RUN_FOLDER"])))
