# SPDX-License-Identifier: Apache-2.0
"""Capsules that are lent, and found again when they were dropped: whatever happens meanwhile, and by objects that stay."""

import ctypes
import gc
import sys
import types
import weakref

from horovod import _dlpack


class Owner:
    """Of memory that is lent; nobody looks at it. It is too small to get the memory of what was given back."""

    __slots__ = ("__weakref__",)


def lend():
    """A capsule, and a way to see whether its owner is kept."""
    owner = Owner()
    return _dlpack.lend(owner, 4096, (_dlpack.CUDA, 0), "float32", (3,), versioned=True), weakref.ref(owner)


def place_of(capsule):
    return _dlpack._pointer_of(capsule, b"dltensor_versioned")


def at_step(number, function, action):
    """Calls ``function``; ``action`` before that bytecode of its module, as by another thread. Whether it has so many."""
    left = number

    def step(frame, event, _argument):
        nonlocal left
        if frame.f_globals is not function.__globals__:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            left -= 1
            if left == -1:
                action()
        return step

    before = sys.gettrace()
    sys._getframe().f_trace_opcodes = True  # Python 3.12 asks only as tracing begins
    sys.settrace(step)
    try:
        function()
    finally:
        sys.settrace(before)
    return left < 0


class Meanwhile:
    """Somebody takes a capsule and gives it back; another one is lent, where its memory was, as soon as it is free."""

    def __init__(self):
        self.first, self.first_owner = lend()
        self.place, self.others = place_of(self.first), []

    def __call__(self):
        borrowed = _dlpack.Borrowed(self.first)
        self.first = None
        borrowed.release()
        del borrowed
        for _ in range(100):
            self.others.append(lend())
            if place_of(self.others[-1][0]) == self.place:
                break


def test_capsules_while_others_look():
    """At each step of the look: no owner goes whose capsule somebody has, and none stays whose capsule is dropped."""
    gc.collect()
    _dlpack.forget_dropped()
    step = met = 0
    while True:
        meanwhile = Meanwhile()
        if not at_step(step, _dlpack.forget_dropped, meanwhile):
            break
        assert meanwhile.first_owner() is None, step
        assert all(owner() is not None for _capsule, owner in meanwhile.others), step
        met += place_of(meanwhile.others[-1][0]) == meanwhile.place
        _dlpack.forget_dropped()
        owners = [owner for _capsule, owner in meanwhile.others]
        assert all(owner() is not None for owner in owners), step
        meanwhile.others.clear()
        _dlpack.forget_dropped()
        assert all(owner() is None for owner in owners), step
        step += 1
    assert step > 10 and met > step // 2, (step, met)


def test_a_look_within_a_look():
    """What is dropped may look again, and lend: every owner goes once nobody has its capsule."""

    class Lends(Owner):
        __slots__ = ()

        def __del__(self):
            _dlpack.forget_dropped()
            owners.append(lend()[1])

    owners = []
    for _ in range(5):
        owner = Lends()
        owners.append(weakref.ref(owner))
        _dlpack.lend(owner, 4096, (_dlpack.CUDA, 0), "float32", (3,), versioned=False)
        del owner
    for _ in range(3):
        _dlpack.forget_dropped()
    assert len(owners) == 10 and not any(owner() for owner in owners)


def test_names_stay():
    """A capsule has the address of its name: it must be that of an object that is kept, also where equal constants are several."""
    code = _dlpack.lend.__code__
    apart = tuple(bytes(bytearray(one)) if isinstance(one, bytes) else one for one in code.co_consts)
    alike = types.FunctionType(code.replace(co_consts=apart), vars(_dlpack))
    address_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object)(("PyCapsule_GetName", ctypes.pythonapi))
    kept = {ctypes.cast(ctypes.c_char_p(name), ctypes.c_void_p).value for name in _dlpack._LAYOUTS}
    for versioned in (False, True):
        assert address_of(alike(Owner(), 4096, (_dlpack.CUDA, 0), "bool", (), versioned)) in kept
    _dlpack.forget_dropped()
