# SPDX-License-Identifier: Apache-2.0
"""What a rank would find on this host: horovod, libhvd, and the libraries that they would use. Run by ../on_host/probe.py
as a program of its own, because loading libraries can crash a process. Standard library only; its argument is printed
before the answer, which is JSON.
"""

import ctypes
import importlib.util
import json
import os
import re
import sys

_OPEN_MPI = "libmpi.so.40"


def look():
    """All of it."""
    found = {"horovod": _horovod(), "numpy": _version_of("numpy"), "torch": _where("torch")}
    found["libhvd"], library = _libhvd(found["horovod"])
    folder = os.environ.get("HOROVOD_BACKEND_PATH") or os.path.dirname(
        os.path.realpath(found["libhvd"].get("path") or ".")
    )
    found["nccl"] = _nccl(library)
    found["cuda"] = _cuda(library)
    found["gloo"] = _plugin("gloo", folder, library)
    found["gloo"]["library"] = _mapped("libgloo.so")  # if it is not linked into the plug-in
    found["mpi"] = _plugin("mpi", folder, library)
    found["mpi"].update(_mpi())
    return found


def _where(module):
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, ValueError):
        return None
    return None if spec is None else spec.origin or next(iter(spec.submodule_search_locations or []), None)


def _version_of(module):
    import importlib.metadata

    try:
        return importlib.metadata.version(module) if _where(module) else None
    except importlib.metadata.PackageNotFoundError:
        return "?"


def _horovod():
    path = _where("horovod")
    if path is None:
        return {"path": None, "version": None, "problem": "not installed for " + sys.executable}
    try:
        import horovod

        return {"path": os.path.dirname(path), "version": str(horovod.__version__), "problem": None}
    except Exception as error:
        return {"path": os.path.dirname(path), "version": None, "problem": f"{type(error).__name__}: {error}"}


def _libhvd(horovod):
    if horovod["problem"]:
        return {"path": None, "version": None, "abi": None, "problem": "horovod itself is not there"}, None
    try:
        from horovod._native import library

        loaded = library.load()
        loaded.hvd_version_string.restype = ctypes.c_char_p
        loaded.hvd_has_feature.argtypes = [ctypes.c_char_p]
        version = loaded.hvd_version_string().decode()
        abi = loaded.hvd_version() // 10000
        return {"path": _mapped("libhvd.so") or loaded._name, "version": version, "abi": abi, "problem": None}, loaded
    except Exception as error:
        return {"path": None, "version": None, "abi": None, "problem": " ".join(str(error).split())}, None


def _has(library, feature):
    return bool(library is not None and library.hvd_has_feature(feature.encode()))


def _mapped(name):
    """The file of this name that this process has loaded."""
    with open("/proc/self/maps") as file:
        for line in file:
            path = line.rstrip("\n").partition("/")[2]
            if os.path.basename(path).startswith(name):
                return "/" + path
    return None


def _load(name):
    """A library by the rules of the dynamic linker, and where it was found or why it was not."""
    try:
        loaded = ctypes.CDLL(name)
    except OSError as error:
        return None, str(error)
    return loaded, _mapped(os.path.basename(name)) or name


def _plugin(name, folder, library):
    path = os.path.join(folder, f"hvd-backend-{name}.so")
    if not os.path.exists(path):
        return {"plugin": None, "usable": False, "problem": f"no plug-in at {path}"}
    usable = _has(library, name)
    problem = None
    if not usable:
        loaded, text = _load(path)
        problem = "libhvd does not load" if library is None else text if loaded is None else "its library does not load"
    return {"plugin": path, "usable": usable, "problem": problem}


def _mpi():
    loaded, text = _load(_OPEN_MPI)
    if loaded is None:
        return {"library": None, "version": None, "library_problem": text}
    buffer, length = ctypes.create_string_buffer(8192), ctypes.c_int(0)
    try:
        loaded.MPI_Get_library_version(buffer, ctypes.byref(length))
        version = buffer.value.decode("utf-8", "replace").partition("\n")[0].partition(",")[0]
    except AttributeError:
        version = None
    return {"library": text, "version": version, "library_problem": None}


def _nccl(library):
    used, folder = _has(library, "nccl"), _where("nvidia.nccl")
    origin, candidates = "system", ["libnccl.so.2"]
    if folder:
        wheel = os.path.join(folder if os.path.isdir(folder) else os.path.dirname(folder), "lib", "libnccl.so.2")
        if os.path.exists(wheel):
            origin, candidates = "wheel nvidia-nccl", [wheel]
    loaded, text = _load(candidates[0])
    if loaded is None:
        return {"path": None, "version": None, "origin": None, "used": used, "problem": text}
    number = ctypes.c_int(0)
    loaded.ncclGetVersion(ctypes.byref(number))
    version = number.value
    split = (version // 10000, version // 100 % 100) if version >= 10000 else (version // 1000, version // 100 % 10)
    return {
        "path": text,
        "version": "{}.{}.{}".format(*split, version % 100),
        "origin": origin,
        "used": used,
        "problem": None,
    }


def _cuda(library):
    used = _has(library, "cuda")
    loaded, text = _load("libcuda.so.1")
    if loaded is None:
        return {"path": None, "version": None, "driver": None, "used": used, "problem": text}
    number = ctypes.c_int(0)
    loaded.cuDriverGetVersion(ctypes.byref(number))
    version = f"{number.value // 1000}.{number.value % 1000 // 10}"
    try:
        with open("/proc/driver/nvidia/version") as file:
            driver = re.search(r"\d+\.\d+(\.\d+)?", file.read())
    except OSError:
        driver = None
    return {
        "path": text,
        "version": version,
        "driver": driver.group(0) if driver else None,
        "used": used,
        "problem": None,
    }


if __name__ == "__main__":
    if sys.path[:1] == [""]:
        del sys.path[0]  # a rank's first folder is that of its script
    mark = sys.argv[1]
    print(mark + json.dumps(look()), flush=True)
    os._exit(0)  # libraries need no farewell
