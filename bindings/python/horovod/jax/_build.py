# SPDX-License-Identifier: Apache-2.0
"""Finds ``ffi_handlers.cc`` compiled against the headers in jaxlib, or compiles it.

The installation has compiled it if jaxlib was there already (meson.build). If it was not, or has other headers now, the first use
compiles: once per user, headers and version of this package.

HVD_JAX_FFI=0 does without it, HVD_JAX_FFI=1 makes it an error that it cannot be had. CXX names another compiler.
"""

import ctypes
import fcntl
import hashlib
import logging
import os
import shutil
import stat
import subprocess
import tempfile
from pathlib import Path

import jax
import jaxlib

from horovod.jax import _fit

_SOURCE = Path(__file__).resolve().with_name("ffi_handlers.cc")
_OWN_HEADERS = [_SOURCE.with_name(name) for name in ("ffi_support.h", "kinds.h")]
_FLAGS = ("-std=c++17", "-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-pthread")
_TIME_LIMIT = 300
_handlers = None
_log = logging.getLogger("horovod.jax")


def handlers():
    """The handlers as a ``ctypes.CDLL``, or None: the reason is logged once."""
    global _handlers
    if _handlers is None:
        _handlers = (_load(os.environ.get("HVD_JAX_FFI", "")),)
    return _handlers[0]


def _load(choice):
    if choice not in ("", "0", "1"):
        raise ValueError(f"HVD_JAX_FFI: {choice!r} is neither 0 nor 1")
    if choice == "0":
        return None
    try:
        return _library()
    except (OSError, subprocess.SubprocessError) as error:
        if choice == "1":
            raise ImportError(f"horovod.jax: HVD_JAX_FFI=1, but {error}") from error
        _log.warning("horovod.jax: %s; operations under jit call back into Python, with the same results", error)
        return None


def _library():
    """The library that fits jaxlib, loaded. OSError says what is missing."""
    includes = _library_headers(), Path(jax.ffi.include_dir())
    if not (includes[1] / _fit.ENTRY).is_file():
        raise OSError(f"jaxlib {jaxlib.__version__} has no XLA FFI headers in {includes[1]}")
    own = [includes[0] / "hvd" / name for name in ("hvd.h", "version.h")]
    name = _fit.library_name(includes[1], [_SOURCE, *_OWN_HEADERS, *own])
    installed = _SOURCE.with_name(f"{name}.so")
    if installed.is_file():
        try:
            return ctypes.CDLL(str(installed))
        except OSError as error:  # as in a wheel from a machine with a newer C library
            _log.info("horovod.jax: %s; compiled anew", error)
    return ctypes.CDLL(str(_compiled(name, includes)))


def _compiled(name, includes):
    """The path of the library in the cache of this user, made if it is not there."""
    folder = _cache_folder()
    flags = hashlib.sha256(" ".join(_FLAGS).encode()).hexdigest()
    library = folder / f"{name}-{flags[:8]}.so"
    if not library.is_file():
        # Ranks of one host come here together: one compiles, the others wait for it.
        with open(folder / "lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not library.is_file():
                _compile(library, includes)
    return library


def _library_headers():
    """The folder with hvd/hvd.h: inside the package, or in the source tree the package runs from."""
    package = _SOURCE.parent.parent
    for folder in (package / "include", package.parents[2] / "capi" / "include"):
        if (folder / "hvd" / "hvd.h").is_file():
            return folder
    raise OSError(f"hvd/hvd.h is not in {package / 'include'}")


def _cache_folder():
    """A folder that only this user can write to: what lies there is loaded into the process."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    folder = Path(base) / "horovod"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = folder.stat()
    if found.st_uid != os.getuid() or stat.S_IMODE(found.st_mode) & 0o022:
        raise OSError(f"{folder} belongs to, or can be written by, somebody else")
    return folder


def _compile(library, includes):
    names = [os.environ["CXX"]] if os.environ.get("CXX") else ["c++", "g++", "clang++"]
    # CXX may hold several words, as in "ccache g++".
    compiler = next((name.split() for name in names if name.split() and shutil.which(name.split()[0])), None)
    if compiler is None:
        raise OSError(f"there is no C++ compiler ({', '.join(names)})")
    with tempfile.TemporaryDirectory(dir=library.parent) as folder:
        made = Path(folder) / library.name
        # -isystem: warnings inside jaxlib's headers are not ours.
        command = [*compiler, *_FLAGS, "-isystem", includes[1], "-I", includes[0], _SOURCE, "-o", made, "-ldl"]
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=_TIME_LIMIT)
        if done.returncode != 0:
            lines = [line for line in done.stderr.splitlines() if "error" in line]
            raise OSError(f"{compiler[0]} could not compile {_SOURCE.name}: {lines[0] if lines else done.stderr[-300:]}")
        os.replace(made, library)
