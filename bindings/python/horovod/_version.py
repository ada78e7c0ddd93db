# SPDX-License-Identifier: Apache-2.0
"""The version, which is written in ``capi/include/hvd/version.h`` only."""

import importlib.metadata
import re
from pathlib import Path


def version():
    """From the header in a source tree, else from the installed distribution."""
    header = Path(__file__).resolve().parents[3] / "capi" / "include" / "hvd" / "version.h"
    if header.is_file():
        return re.search(r'#define HVD_VERSION_STRING "(.*)"', header.read_text()).group(1)
    return importlib.metadata.version("horovod")
