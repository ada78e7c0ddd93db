# SPDX-License-Identifier: Apache-2.0
"""The package without a job: imports, loading, the match with the header, small functions."""

import ctypes
import importlib.util
import inspect
import os
import pickle
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import horovod
from horovod._native import abi, constants, logging
from horovod.common import exceptions, util

HEADER = Path(__file__).resolve().parents[3] / "capi" / "include" / "hvd" / "hvd.h"


def python(code, **environment):
    return subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **environment}, capture_output=True, text=True, timeout=60
    )


def defined(prefix):
    """The #defines of the header that begin with a prefix, as a dict of numbers."""
    pairs = re.findall(rf"^#define ({prefix}\w+) \(?(-?\d+)\)?", HEADER.read_text(), re.M)
    return {name: int(number) for name, number in pairs}


def test_numbers_are_those_of_the_header():
    assert {name: number for number, name in constants.STATUS_NAMES.items()} == {
        "HVD_OK": 0,
        "HVD_PENDING": 1,
        **defined("HVD_ERR_"),
    }
    everything = defined("HVD_")
    for name, number in constants.DTYPES.items():
        assert everything[f"HVD_{name.upper()}"] == number
    for name in ("AVERAGE", "SUM", "ADASUM", "MIN", "MAX", "PRODUCT"):
        assert everything[f"HVD_{name}"] == getattr(constants, name) == getattr(horovod, name.capitalize())


def test_prototypes_are_those_of_the_header():
    text = HEADER.read_text()
    declared = {}
    for name, arguments in re.findall(r"HVD_API[^;(]*?\b(hvd_\w+)\(([^;]*)\);", text):
        declared[name] = 0 if arguments.strip() == "void" else arguments.count(",") + 1
    assert set(declared) == set(abi.PROTOTYPES)
    for name, (_result, arguments) in abi.PROTOTYPES.items():
        assert len(arguments) == declared[name], name


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_struct_layouts_are_those_of_the_compiler(tmp_path):
    lines = []
    for name, struct in abi.LAYOUTS.items():
        lines.append(f'printf("{name} %zu\\n", sizeof({name}));')
        lines += [f'printf("{name}.{f[0]} %zu\\n", offsetof({name}, {f[0]}));' for f in struct._fields_]
    source = tmp_path / "layout.c"
    source.write_text("#include <hvd/hvd.h>\n#include <stdio.h>\nint main(void) {\n" + "\n".join(lines) + "\nreturn 0;\n}\n")
    program = tmp_path / "layout"
    subprocess.run(["cc", "-I", str(HEADER.parent.parent), "-o", str(program), str(source)], check=True)
    printed = subprocess.run([str(program)], check=True, capture_output=True, text=True).stdout
    found = {}
    for name, struct in abi.LAYOUTS.items():
        found[name] = ctypes.sizeof(struct)
        found.update({f"{name}.{field[0]}": getattr(struct, field[0]).offset for field in struct._fields_})
    assert found == {line.split()[0]: int(line.split()[1]) for line in printed.splitlines()}


def test_import_loads_nothing_heavy():
    result = python("import horovod, sys; print('numpy' in sys.modules, 'ctypes' in sys.modules, 'torch' in sys.modules)")
    assert result.stdout.split() == ["False"] * 3, result


def test_every_name_exists():
    for name in horovod.__all__:
        assert getattr(horovod, name) is not None
    assert set(horovod.__all__) <= set(dir(horovod))
    with pytest.raises(AttributeError, match="no_such_name"):
        horovod.no_such_name  # noqa: B018 - the access is the test
    signature = inspect.signature(horovod.allreduce_async)
    assert list(signature.parameters)[:4] == ["tensor", "average", "name", "op"]
    assert horovod.__version__ == re.search(r'VERSION_STRING "(.*)"', (HEADER.parent / "version.h").read_text()).group(1)


def test_a_missing_library_is_named(tmp_path):
    missing = str(tmp_path / "libhvd.so.1")
    result = python("import horovod; print(horovod.is_initialized()); horovod.init()", HVD_LIBRARY=missing)
    assert result.returncode != 0 and result.stdout.strip() == "False"
    assert f"libhvd not found; HVD_LIBRARY is set; tried: {missing} (no such file)" in result.stderr


def test_an_unknown_native_layer_is_named():
    result = python("import horovod; horovod.init()", HVD_PYTHON_NATIVE="cffi")
    assert "HVD_PYTHON_NATIVE: 'cffi' is not one of ctypes, pybind11" in result.stderr


def test_the_chosen_native_layer_is_used(native):
    result = python("from horovod._native import native; print(native().NAME)", HVD_PYTHON_NATIVE=native)
    assert result.stdout.strip() == native, result.stderr


@pytest.mark.parametrize("module, framework", [("torch", "PyTorch"), ("jax", "JAX"), ("mxnet", "MXNet")])
def test_a_missing_framework_is_a_clear_error(module, framework):
    result = python(f"import sys; sys.modules['{module}'] = None; import horovod.{module}")
    assert f"horovod.{module}: {framework} cannot be imported" in result.stderr and "pip install" in result.stderr


def test_the_process_ends_cleanly_without_shutdown(native):
    """Contexts, handles and arrays of the library are still alive when the interpreter ends."""
    code = (
        "import numpy as np, horovod as hvd; hvd.init(); kept = hvd.allgather(np.ones(3)); "
        "handle = hvd.allreduce_async(np.ones(3)); hvd.shutdown(); hvd.init(); other = hvd.allgather_async(np.ones(2))"
    )
    result = python(code, HVD_PYTHON_NATIVE=native, HOROVOD_LOG_LEVEL="trace")
    assert result.returncode == 0 and "Traceback" not in result.stderr, result


def test_options_and_metrics(native):
    code = (
        "import numpy as np, horovod as hvd\n"
        "before = hvd.options()\n"
        "try:\n    hvd.init(no_such_option=1)\n"
        "except ValueError as error:\n    assert 'no_such_option' in str(error), error\n"
        "else:\n    raise SystemExit('unknown option accepted')\n"
        "hvd.init(op_timeout='7')\n"
        "assert set(before) == set(hvd.options()) and hvd.options()['op_timeout'].startswith('7'), hvd.options()\n"
        "hvd.allreduce(np.ones(3))\n"
        "metrics = hvd.metrics()\n"
        "assert metrics and all(isinstance(v, (float, dict)) for v in metrics.values()), metrics\n"
    )
    result = python(code, HVD_PYTHON_NATIVE=native)
    assert result.returncode == 0, result.stderr


def test_records(native):
    code = (
        "import numpy as np, time, horovod as hvd\n"
        "hvd.init()\n"
        "before = time.monotonic_ns()\n"
        "hvd.allreduce(np.ones(100, np.float32), name='recorded')\n"
        "record = hvd.records()[-1]\n"
        "assert (record['name'], record['kind'], record['status'], record['dtype'], record['bytes']) == "
        "('recorded', 'allreduce', 'HVD_OK', 'float32', 400), record\n"
        "assert (record['reduce_op'], record['shape'], record['tensors']) == ('Average', (100,), 1), record\n"
        "assert before <= record['submitted'] <= record['ended'] + 1_000_000, record\n"
        "assert hvd.records(after=record['number']) == []\n"
    )
    result = python(code, HVD_PYTHON_NATIVE=native)
    assert result.returncode == 0, result.stderr


def test_records_can_be_turned_off(native):
    code = "import horovod as hvd; hvd.init(); hvd.records()"
    result = python(code, HVD_PYTHON_NATIVE=native, HOROVOD_FLIGHT_RECORDER="0")
    assert "flight_recorder is 0" in result.stderr, result.stderr


def test_what_is_not_built_is_not_claimed():
    for name in ("mpi_enabled", "gloo_enabled", "ddl_built", "ccl_built", "rocm_built"):
        assert getattr(horovod, name)() is False
    assert horovod.cuda_built() is True
    built = horovod.nccl_built()
    assert built == 0 or built >= 21400, built
    if importlib.util.find_spec("nvidia.nccl") is not None:
        assert built > 0
    with pytest.raises(ValueError, match="not been initialized"):
        horovod.mpi_threads_supported()


def test_exceptions_by_status():
    classes = {
        -1: ValueError,
        -2: exceptions.HorovodInternalError,
        -4: ValueError,
        -5: NotImplementedError,
        -7: MemoryError,
        -20: exceptions.HorovodMismatchError,
        -22: exceptions.HorovodTimeoutError,
        -40: exceptions.HorovodSetBrokenError,
        -60: exceptions.HorovodPeerLostError,
        -62: exceptions.HorovodShutDownError,
        -63: exceptions.HorovodInternalError,
    }
    for status, cls in classes.items():
        error = exceptions.from_status(status, 3, 5, "rank 3 (host node-1, pid 42): killed", "allreduce.x")
        assert type(error) is cls
        assert (error.status, error.rank, error.sys_errno, error.operation) == (status, 3, 5, "allreduce.x")
        again = pickle.loads(pickle.dumps(error))
        assert type(again) is cls and vars(again) == vars(error) and str(again) == str(error)
    lost = exceptions.from_status(-60, -1, 0, "allreduce: rank 3 (host node-1, pid 42): killed by signal 9")
    assert (lost.rank, lost.host, lost.pid) == (3, "node-1", 42)
    assert exceptions.HostsUpdatedInterrupt(True).skip_sync is True
    mismatch = exceptions.HorovodVersionMismatchError("x", "1", "2")
    assert (mismatch.name, mismatch.version, mismatch.installed_version) == ("x", "1", "2")


def test_small_functions():
    assert util.split_list(list(range(7)), 3) == [[0, 1, 2], [3, 4], [5, 6]]
    assert [n for n in range(9) if util.num_rank_is_power_2(n)] == [1, 2, 4, 8]
    assert util.is_version_greater_equal_than("2.10.1+cu1", "2.9.0") and not util.is_version_greater_equal_than("1.9", "1.10.0")
    with util.env(HVD_TEST_X="1", HVD_TEST_Y=None):
        assert os.environ["HVD_TEST_X"] == "1" and "HVD_TEST_Y" not in os.environ
    assert "HVD_TEST_X" not in os.environ
    with pytest.warns(DeprecationWarning):
        assert util.reduce_op_of(None, False) == horovod.Sum
    assert util.is_iterable([]) and not util.is_iterable(1)


def test_log_lines(monkeypatch, capsys):
    """The ctypes layer's writer; what both native layers print in a job is in test_jobs.py."""
    for level, number in (("TRACE", 4), ("warning", 1), ("error", 0), ("loud", 1)):
        monkeypatch.setenv("HOROVOD_LOG_LEVEL", level)
        assert logging.settings() == (number, True)
    monkeypatch.setenv("HOROVOD_LOG_HIDE_TIME", "1")
    assert logging.settings() == (1, False)
    write = logging.line_writer(1, False)
    write(None, 2, 0, b"engine", b"not shown")
    write(None, 1, 3, b"stall", b"shown")
    write(None, 0, -1, b"init", "\u00e9".encode())
    assert capsys.readouterr().err == "[W stall] [3]: shown\n[E init] \u00e9\n"
    monkeypatch.setattr(sys, "stderr", None)
    write(None, 0, 0, b"engine", b"at interpreter exit")
