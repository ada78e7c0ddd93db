# SPDX-License-Identifier: Apache-2.0
"""``help`` of every public function of a flavour: each argument is explained, and the examples of operations work."""

import importlib
import inspect
import re
import sys

flavour = sys.argv[1]
hvd = importlib.import_module(flavour)
hvd.init()

# What the examples use besides hvd.
NAMES = {"numpy": "np", "torch": "torch", "tensorflow": "tf", "keras": "keras", "jax.numpy": "jnp", "mxnet": "mx"}
OPERATION = re.compile(r"(grouped_)?(allreduce|allgather|broadcast|gather|alltoall|reducescatter|barrier|join)(_async)?_?$")


def names_in(example):
    return {name: importlib.import_module(module) for module, name in NAMES.items() if re.search(rf"\b{name}\.", example)}


def tells_of(text, parameter):
    """Whether a text has the parameter between backquotes, or a line that begins with it."""
    quoted = re.findall(r"(`+)([^`]+)\1", text)
    return re.search(rf"^\s*{parameter}: ", text, re.M) or any(re.search(rf"\b{parameter}\b", words) for _, words in quoted)


def check(name, function):
    text = inspect.getdoc(function)
    assert text, "no docstring"
    parameters = [parameter for parameter in inspect.signature(function).parameters if parameter not in ("self", "args", "kwargs")]
    missing = [parameter for parameter in parameters if not tells_of(text, parameter)]
    assert not missing, f"no word about {', '.join(missing)}"
    if not OPERATION.match(name):
        return
    for part in ("Returns: ", "Raises:", "Example::\n\n", *(["Arguments:"] if parameters else [])):
        assert part in text, f"{part!r} is missing"
    example = inspect.cleandoc(text.partition("Example::\n\n")[2])
    assert f"hvd.{name}(" in example
    exec(example, {"hvd": hvd, **names_in(example)})


faults = []
public = getattr(hvd, "__all__", None) or [name for name in dir(hvd) if not name.startswith("_")]
for name in public:
    function = getattr(hvd, name)
    if not inspect.isroutine(function) or not function.__module__.startswith("horovod"):
        continue
    try:
        check(name, function)
    except Exception as error:  # noqa: BLE001 - told together, so that all can be mended at once
        faults.append(f"{flavour}.{name}: {type(error).__name__}: {error}")
print(*faults, sep="\n")
assert not faults
hvd.shutdown()
print("documented: ok")
