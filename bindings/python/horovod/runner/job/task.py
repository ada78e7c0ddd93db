# SPDX-License-Identifier: Apache-2.0
"""A task: everything that a job needs to know before it starts."""

from typing import Dict, List, NamedTuple, Optional

from ..agents.remote import SshOptions
from ..plan.hosts import Place


class Task(NamedTuple):
    """What shall run, where and how."""

    places: List[Place]
    command: List[str]
    variables: Dict[str, str]  # for every rank, beside those of its place
    secret: str
    folder: str  # the private folder here; holds the secret as well
    start_timeout: float = 30.0
    interfaces: Optional[List[str]] = None
    ssh: SshOptions = SshOptions()
    output_folder: Optional[str] = None
    timestamp: bool = False
    verbose: bool = False
    parent_pipe: Optional[int] = None
    grace: Optional[float] = None  # seconds from a signal that stops the job until ranks are killed; None: as the signal has it
    run_folder: Optional[str] = None  # of horovod.run: has the function, and takes the results
