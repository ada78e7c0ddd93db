# SPDX-License-Identifier: Apache-2.0
"""Which part of an object is the one that cannot be pickled: pickle names its class and not where it is."""

import functools
import types

_DEEPEST = 8
_MOST = 200  # parts of one object that are looked at


def find(name, value, fails):
    """(path, part) of the innermost part of ``value`` that fails alone. ``fails(part)`` tries one."""
    for _ in range(_DEEPEST):
        inner = next(((path, part) for path, part in _parts(name, value) if part is not value and fails(part)), None)
        if inner is None:
            break
        name, value = inner
    return name, value


def explain(what, name, value, fails, error):
    """The text of the error: ``what`` could not be sent because of this part of the object called ``name``."""
    path, part = find(name, value, fails)
    kind = type(part).__module__ + "." + type(part).__qualname__
    return f"{what}: {path} is a {kind.removeprefix('builtins.')}, which cannot be sent to another process ({error})"


def _parts(name, value):
    if isinstance(value, types.FunctionType):
        yield from _of_function(name, value)
    elif isinstance(value, types.MethodType):
        yield f"the object of {name}", value.__self__
        yield name, value.__func__
    elif isinstance(value, functools.partial):
        yield f"the function of {name}", value.func
        yield from _parts(f"the arguments of {name}", value.args)
        yield from _parts(f"the arguments of {name}", value.keywords)
    elif isinstance(value, dict):
        for key, part in list(value.items())[:_MOST]:
            yield f"{name}[{key!r:.60}]", part
    elif isinstance(value, (list, tuple, set, frozenset)):
        for number, part in enumerate(list(value)[:_MOST]):
            yield f"{name}[{number}]", part
    else:
        for key, part in list(getattr(value, "__dict__", {}).items())[:_MOST]:
            yield f"{name}.{key}", part


def _of_function(name, function):
    code = function.__code__
    for variable, cell in zip(code.co_freevars, function.__closure__ or ()):
        try:
            yield f"the variable {variable} that {name} uses", cell.cell_contents
        except ValueError:
            pass  # not bound yet
    for variable in code.co_names:
        if variable in function.__globals__:
            yield f"the global variable {variable} that {name} uses", function.__globals__[variable]
    for number, part in enumerate(function.__defaults__ or ()):
        yield f"default {number} of {name}", part
    for constant in code.co_consts:  # of functions inside
        if isinstance(constant, types.CodeType):
            for variable in constant.co_names:
                if variable in function.__globals__:
                    yield f"the global variable {variable} that {name} uses", function.__globals__[variable]
