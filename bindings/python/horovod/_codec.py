# SPDX-License-Identifier: Apache-2.0
"""Python objects as bytes and back: the only place of the package that pickles.

The first byte of a payload says how the rest was made, so that ranks which are set up differently notice:

``P``  cloudpickle: any object; whoever reads it runs what it says
``S``  ``HOROVOD_SAFE_OBJECTS=1``, see :mod:`horovod._safe_codec`: plain values and arrays; reading it runs nothing
``E``  no object, but the text why there is none
"""

import importlib
import io
import os
import re
import sys

_PICKLED, _SAFE, _FAILED = b"PSE"
_OPTION = "HOROVOD_SAFE_OBJECTS"


class NoObjectError(RuntimeError):
    """The other side could not make an object; the text is what it says about that."""


def safe_objects():
    """Whether HOROVOD_SAFE_OBJECTS is on, read anew each time with the words of the engine's options."""
    text = os.environ.get(_OPTION, "")
    word = text.lower()
    if word in ("", "false", "no", "off"):
        return False
    if word in ("true", "yes", "on"):
        return True
    if re.fullmatch(r"-?[0-9]{1,19}", word):
        return int(word) > 0
    allowed = "1, true, yes, on, 0, false, no, off or an integer"
    raise ValueError(f"{_OPTION}: value {text!r:.60} is not allowed; allowed: {allowed}")


def dumps(obj, what="object", safe=None):
    """The bytes of an object. ``what`` names it in errors; without ``safe`` HOROVOD_SAFE_OBJECTS decides."""
    if safe_objects() if safe is None else safe:
        from horovod import _safe_codec

        return b"".join([bytes([_SAFE]), *_safe_codec.encode(obj, what)])
    return _pickled(obj, what, [("it", obj)])


def _pickled(obj, what, parts):
    """The bytes of an object that is made of these parts, each with its name. TypeError names the one that cannot be sent."""
    import pickle

    try:
        return _cloudpickled(obj)
    except (TypeError, AttributeError, NotImplementedError, pickle.PicklingError) as error:
        from horovod import _unpicklable

        for name, part in parts:
            if _cannot_be_pickled(part):
                raise TypeError(_unpicklable.explain(what, name, part, _cannot_be_pickled, error)) from error
        raise


def _cloudpickled(obj):
    import cloudpickle

    file = io.BytesIO()
    file.write(bytes([_PICKLED]))
    cloudpickle.dump(obj, file)
    return file.getvalue()


def _cannot_be_pickled(obj):
    try:
        _cloudpickled(obj)
    except Exception:
        return True
    return False


def failure(text):
    """The bytes that stand for an object that could not be made."""
    return bytes([_FAILED]) + text.encode("utf-8", "backslashreplace")


def loads(data, what="object"):
    """The object of the bytes that :func:`dumps` made, here or elsewhere.

    Raises NoObjectError for those of :func:`failure`, and ValueError for what cannot be read. With HOROVOD_SAFE_OBJECTS
    nothing is ever unpickled, whoever sent it.
    """
    view = memoryview(data)
    kind = view[0] if len(view) else None
    if kind == _FAILED:
        raise NoObjectError(str(view[1:], "utf-8", "replace"))
    if kind == _SAFE:
        from horovod import _safe_codec

        return _safe_codec.decode(view[1:], what)
    if kind != _PICKLED:
        found = "nothing" if kind is None else f"{len(view)} bytes that begin with {kind:#04x}"
        raise ValueError(f"{what}: {found} instead of an object")
    if safe_objects():
        raise ValueError(f"{what}: was pickled by its sender, and {_OPTION} is on here; set it alike on all ranks")
    import pickle

    return pickle.loads(view[1:])


def dump_call(func, args, kwargs, what):
    """The bytes of a call that another process is to make. A safe one names the function and does not contain it."""
    if not safe_objects():
        shown = getattr(func, "__qualname__", type(func).__name__)
        return _pickled((func, args, kwargs), what, [(f"function {shown}", func), ("args", args), ("kwargs", kwargs)])
    return dumps({"function": _importable(func, what), "args": args, "kwargs": kwargs}, f"{what}: call", safe=True)


def load_call(data, what):
    """(function, args, kwargs) of the bytes that :func:`dump_call` made."""
    call = loads(data, what)
    if type(call) is tuple:
        return call
    module, qualname = call["function"]
    return _attribute(importlib.import_module(module), qualname), call["args"], call["kwargs"]


def _importable(func, what):
    """(module, qualified name) from which any process of the job can import this very function."""
    module, qualname = getattr(func, "__module__", None), getattr(func, "__qualname__", None)
    shown = qualname if isinstance(qualname, str) else f"an object of class {type(func).__name__}"
    if not isinstance(module, str) or not isinstance(qualname, str):
        fault = "has no name to import it by"
    elif "<lambda>" in qualname:
        fault = "is a lambda, which cannot be imported"
    elif "<locals>" in qualname:
        fault = "is defined inside another function, so it cannot be imported"
    elif module == "__main__":
        fault = "is defined in the program itself or in a notebook (module __main__), which the ranks do not import"
    else:
        try:
            found = _attribute(sys.modules[module], qualname)
        except (KeyError, AttributeError):
            fault = f"is not found as {module}.{qualname}"
        else:
            if found is func:
                return module, qualname
            fault = f"is not what {module}.{qualname} is; a decorator or a method of an object makes another one"
    raise TypeError(f"{what}: function {shown} {fault}; with {_OPTION} it travels as its name in a module")


def _attribute(found, qualname):
    for name in qualname.split("."):
        found = getattr(found, name)
    return found
