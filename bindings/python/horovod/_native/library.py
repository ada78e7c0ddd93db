# SPDX-License-Identifier: Apache-2.0
"""Finds and loads ``libhvd``."""

import ctypes
import os
from pathlib import Path

SONAME = "libhvd.so.1"
_MAJOR = 1
_loaded = None


def candidates():
    """Where the library is looked for, in this order."""
    package = Path(__file__).resolve().parent.parent
    chosen = os.environ.get("HVD_LIBRARY")
    if chosen:
        return [chosen]
    return [str(package / SONAME), str(package.parent / ".horovod.mesonpy.libs" / SONAME), SONAME]


def load():
    """The library as a ``ctypes.CDLL``; the same object on every call."""
    global _loaded
    if _loaded is None:
        _loaded = _open(candidates())
    return _loaded


def _open(paths):
    tried = []
    for path in paths:
        if os.sep in path and not os.path.exists(path):
            tried.append(f"{path} (no such file)")
            continue
        try:
            library = ctypes.CDLL(path)
        except OSError as error:
            tried.append(f"{path} ({error})")
            continue
        _check_version(library, path)
        return library
    origin = "HVD_LIBRARY is set" if os.environ.get("HVD_LIBRARY") else "HVD_LIBRARY is not set"
    raise ImportError(f"libhvd not found; {origin}; tried: " + "; ".join(tried))


def _check_version(library, path):
    library.hvd_version.restype = ctypes.c_uint32
    library.hvd_version.argtypes = []
    found = library.hvd_version()
    if found // 10000 != _MAJOR:
        from horovod.common.exceptions import HorovodVersionMismatchError

        text = f"{found // 10000}.{found // 100 % 100}.{found % 100}"
        raise HorovodVersionMismatchError(f"libhvd ({path})", f"{_MAJOR}.x", text)
