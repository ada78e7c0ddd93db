# SPDX-License-Identifier: Apache-2.0
"""The compiled handlers and the context they submit to."""

import ctypes

import jax

from horovod._native import library
from horovod.common import basics
from horovod.jax import _build

_registered = False
_bound = None


def handlers():
    """The compiled handlers, registered with XLA and bound to the current context; None if there are none."""
    global _registered
    found = _build.handlers()
    if found is not None and not _registered:
        found.hvd_jax_bind.argtypes = [ctypes.c_char_p, ctypes.c_void_p]
        for name in ("hvd_jax_start", "hvd_jax_done"):
            jax.ffi.register_ffi_target(name, jax.ffi.pycapsule(getattr(found, name)), platform="cpu")
        _registered = True
    if found is not None:
        _bind(found, basics._session)
    return found


def _bind(found, session):
    global _bound
    if session is not _bound:
        address = None if session is None else session.context.address
        if not found.hvd_jax_bind(library.load()._name.encode(), address):
            raise ImportError("horovod.jax: libhvd lacks a function that its header has")
        _bound = session


@basics.at_init
def _new_context(session):
    if _registered:
        _bind(_build.handlers(), session)


@basics.at_shutdown
def _no_context(_session):
    if _registered:
        _bind(_build.handlers(), None)
