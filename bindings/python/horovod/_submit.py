# SPDX-License-Identifier: Apache-2.0
"""From an operation of the Python API to one submit call of the native layer; shared by NumPy and the frameworks."""

import sys

from horovod._native import constants, native
from horovod.common import basics
from horovod.common.process_sets import checked


def submit(
    kind, inputs, outputs, keep, name, process_set, *, reduce_op=1, root=0, prescale=1.0, postscale=1.0, splits=None,
    grouped=False
):
    """Starts an operation and returns the native layer's Operation.

    The engine's name is the caller's, as in other languages; each kind of operation has names of its own. Without a name it
    is None: the engine then matches unnamed operations by their order.
    """
    session = _ready_session()
    address = _address(kind, process_set)
    return session.submit(
        kind, grouped, inputs, outputs, name, address, reduce_op, root, prescale, postscale, splits, keep
    )


def submit_array(kind, array, out, name, process_set, reduce_op=1, root=0, prescale=1.0, postscale=1.0):
    """The same for one array with its result ``out``, which is ``array`` in place, where the native layer can read both.

    None, and nothing has started, where it cannot: they are to be described, and go to :func:`submit`, which says what is wrong.
    """
    if _types_to_read:
        _tell_native()
    session = _ready_session()
    address = _address(kind, process_set)
    return session.submit_array(kind, array, out, name, address, reduce_op, root, prescale, postscale)


# What the native layer of this process was not told yet, because that loads the library.
_types_to_read = []


def reads(type_, how):
    """Lets :func:`submit_array` take objects of this type; see ``read_arrays_of`` of the native layer."""
    _types_to_read.append((type_, how))


def _tell_native():
    told, _types_to_read[:] = _types_to_read[:], []
    for type_, how in told:
        native().read_arrays_of(type_, how)


def _ready_session():
    session = basics._session
    if session is None:
        session = basics.session()
    if session.drain is not None:
        session.drain()
    # An operation that will be awaited must be queued by the engine, which only happens if that was asked for before.
    elif (asyncio := sys.modules.get("asyncio")) is not None and asyncio._get_running_loop() is not None:
        from horovod import _completions

        _completions.activate(session)
    return session


def _address(kind, process_set):
    address = getattr(process_set, "_address", None)
    return checked(process_set, constants.KIND_NAMES[kind])._address if address is None else address


def prepare(name, tensors, process_set, reduce_op, prescale, postscale, grouped=False):
    """An allreduce in place that is started many times, see :func:`start`; its name is as that of :func:`submit`.

    ``tensors``: a list of (dtype number, shape tuple), of one tensor if not ``grouped``.
    """
    session = basics.session()
    address = _address(constants.ALLREDUCE, process_set)
    return session.context.prepare(name, tensors, address, reduce_op, prescale, postscale)


def start(prepared, addresses, keep):
    """Starts prepared allreduces, of the current session, on tensors at these addresses; returns the native layer's Burst."""
    session = basics.session()
    if session.drain is not None:
        session.drain()
    return session.context.start(prepared, addresses, keep)


def checked_splits(splits, process_set):
    """The splits of an alltoall as a tuple of ints, or None. The engine reads one number per rank of the set."""
    if splits is None:
        return None
    numbers = splits.tolist() if hasattr(splits, "tolist") else list(splits)
    for number in numbers if isinstance(numbers, list) else [numbers]:
        if isinstance(number, bool) or not isinstance(numbers, list) or not hasattr(number, "__index__"):
            raise ValueError(f"alltoall: splits: {number!r} is not an integer in a flat list")
    basics.session()
    checked(process_set, "alltoall")
    if len(numbers) != len(process_set.ranks):
        raise ValueError(
            f"alltoall: splits has {len(numbers)} numbers, {process_set} has {len(process_set.ranks)} ranks"
        )
    return tuple(number.__index__() for number in numbers)


def scattered_rows(rows, process_set):
    """How many of ``rows`` this rank gets from a reducescatter; None if it is no member of the set."""
    ranks = checked(process_set, "reducescatter").ranks
    own = basics.session().rank
    if own not in ranks:
        return None
    place, count = ranks.index(own), len(ranks)
    return rows // count + (place < rows % count)
