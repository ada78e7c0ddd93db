# SPDX-License-Identifier: Apache-2.0
"""For workers that check that something is refused."""


def raises(error, text, function, *args, **kwargs):
    """Calls the function, which must raise this class of error, with this in its text; the error."""
    try:
        function(*args, **kwargs)
    except error as found:
        assert text in str(found), (text, found)
        return found
    raise AssertionError(f"no {error}: {text}")


def operations(module):
    """Every form of every operation that the module has, as functions of what is sent and of further arguments."""
    single = ["allreduce", "allgather", "alltoall", "reducescatter"]
    names = [name + form for name in single for form in ("", "_async")] + ["allreduce_", "allreduce_async_"]
    for name in _present(module, names):
        yield getattr(module, name)
    for name in _present(module, ("broadcast", "broadcast_async", "broadcast_", "broadcast_async_", "gather", "gather_async")):
        yield lambda value, name=name, **options: getattr(module, name)(value, 0, **options)
    grouped = [f"grouped_{name}{form}" for name in ("allreduce", "allgather", "reducescatter") for form in ("", "_async")]
    for name in _present(module, [*grouped, "grouped_allreduce_", "grouped_allreduce_async_"]):
        yield lambda value, name=name, **options: getattr(module, name)([value], **options)


def _present(module, names):
    return [name for name in names if hasattr(module, name)]


def check_no_set(module, value):
    """What is no process set is refused by every operation, before it has started on any rank."""
    for wrong in (0, None, "x", [0]):
        for operation in operations(module):
            raises(TypeError, f"process_set is {wrong!r}, which is not a ProcessSet", operation, value, process_set=wrong)
        raises(TypeError, "not a ProcessSet", module.remove_process_set, wrong)
        if hasattr(module, "barrier"):
            raises(TypeError, "not a ProcessSet", module.barrier, process_set=wrong)


def check_no_handle(module):
    """What is no handle is refused, and told how one is got."""
    for wrong in (None, "x", 1.5, True):
        raises(TypeError, f"synchronize: {wrong!r} is not a handle", module.synchronize, wrong)
        raises(TypeError, f"poll: {wrong!r} is not a handle", module.poll, wrong)
