# SPDX-License-Identifier: Apache-2.0
"""What cannot be pickled is named with the way to it."""

import functools
import threading

import pytest

import horovod
from horovod import _codec

LOCK = threading.Lock()


class Holder:
    def __init__(self):
        self.fine, self.lock = 1, threading.Lock()

    def method(self):
        return self.fine


def function_with_local_variable():
    lock = threading.Lock()
    return lambda: lock


def function_with_global_variable():
    namespace = {"LOCK": LOCK}
    exec("def uses():\n    return LOCK", namespace)
    return namespace["uses"]


@pytest.mark.parametrize("function, args, kwargs, path", [
    (function_with_local_variable(), (), {}, "the variable lock that function function_with_local_variable.<locals>.<lambda> uses"),
    (function_with_global_variable(), (), {}, "the global variable LOCK that function uses uses"),
    (Holder().method, (), {}, "the object of function Holder.method.lock"),
    (functools.partial(print, LOCK), (), {}, "the arguments of function partial[0]"),
    (print, (1, {"a": [2, Holder()]}), {}, "args[1]['a'][1].lock"),
    (print, (), {"to": LOCK}, "kwargs['to']"),
])
def test_calls(function, args, kwargs, path):
    with pytest.raises(TypeError) as error:
        _codec.dump_call(function, args, kwargs, "horovod.run")
    assert str(error.value).startswith(f"horovod.run: {path} is a _thread.lock, which cannot be sent to another process (")


def test_the_call_is_refused_before_anything_starts():
    with pytest.raises(TypeError, match=r"^horovod\.run: args\[0\] is a _thread\.lock, which cannot be sent"):
        horovod.run(print, args=(LOCK,), np=2)


def test_objects():
    with pytest.raises(TypeError, match=r"^broadcast_object: object: it\[0\] is a _thread\.lock"):
        _codec.dumps([LOCK], "broadcast_object: object")


def test_an_exception_of_the_object_itself_stays():
    class Stubborn:
        def __reduce__(self):
            raise ValueError("not me")

    with pytest.raises(ValueError, match="not me"):
        _codec.dumps(Stubborn())
