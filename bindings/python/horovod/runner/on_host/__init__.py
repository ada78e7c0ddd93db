# SPDX-License-Identifier: Apache-2.0
"""What runs on a host of a job. It travels there through ssh, so that nothing need be installed there.

These modules therefore import only the standard library and each other, by plain names: `import frames`. The launcher
imports those it uses itself as any other module of this package.
"""

import os
from typing import List

FOLDER = os.path.dirname(os.path.abspath(__file__))
# The modules of an agent, each after those it imports.
AGENT = ("processes", "passing", "frames", "fault_file", "private_dir", "interfaces", "preparation", "members", "rank_pipes", "rank_process",
         "ranks", "frozen", "tcp_links", "sampler", "samples", "flight", "process_facts", "stacks", "stack_text", "records", "looking",
         "watching", "link", "guardian", "keeper")


def files(names, folder: str = FOLDER) -> List[str]:
    """The sources of these modules."""
    return [os.path.join(folder, name + ".py") for name in names]
