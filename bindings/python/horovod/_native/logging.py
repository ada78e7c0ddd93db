# SPDX-License-Identifier: Apache-2.0
"""Lines of the library on standard error, in the format that Horovod's users grep for."""

import os
import sys
from datetime import datetime

# HOROVOD_LOG_LEVEL to the largest hvd_log_level that is shown. "fatal" has no level of its own: errors are the highest.
LEVELS = {"fatal": 0, "error": 0, "warning": 1, "info": 2, "debug": 3, "trace": 4}
_LETTERS = "EWIDT"


def settings():
    """(level, show time) from HOROVOD_LOG_LEVEL and HOROVOD_LOG_HIDE_TIME; an unknown level means warning."""
    level = LEVELS.get(os.environ.get("HOROVOD_LOG_LEVEL", "warning").strip().lower(), 1)
    hide = os.environ.get("HOROVOD_LOG_HIDE_TIME", "0").strip()
    return level, not (hide.isdigit() and int(hide) > 0)


def line_writer(level, show_time):
    """A function with the arguments of hvd_log_fn that writes one line to standard error."""

    def write(_user_data, line_level, rank, component, message):
        # At interpreter exit the stream may be gone or closed; an exception in a callback would only print a traceback.
        stream = sys.stderr
        if line_level > level or stream is None:
            return
        try:
            letter = _LETTERS[line_level] if 0 <= line_level < len(_LETTERS) else "?"
            time = datetime.now().strftime("%Y-%m-%d %H:%M:%S.%f: ") if show_time else ""
            place = f" [{rank}]:" if rank >= 0 else ""
            text = message.decode("utf-8", "replace")
            stream.write(f"[{time}{letter} {component.decode()}]{place} {text}\n")
            stream.flush()
        except (ValueError, OSError):
            return

    return write
