# SPDX-License-Identifier: Apache-2.0
"""The JAX workers of tests/workers in jobs of 1 to 3 ranks, with the compiled handlers and with callbacks into Python; and where
the compiled handlers come from: the installation or the first use."""

import json
import os
import re
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest
from conftest import sections_of
from elastic_kills import many_deaths, one_run

pytest.importorskip("jax")

import jaxlib  # noqa: E402

import horovod  # noqa: E402

ROOT = Path(__file__).resolve().parents[3]

WORKERS = ("jax_ops.py", "jax_dtypes.py", "jax_training.py", "elastic_jax.py", "documented.py horovod.jax")
JOBS = {ranks: WORKERS + ("jax_failures.py mismatch",) * (ranks > 1) for ranks in (1, 2, 3)}
# Most of the time goes into compiling, which need not be good here; the jobs of two ranks have what users have.
QUICK = {"XLA_FLAGS": "--xla_backend_optimization_level=0"}
SECTIONS = sections_of("jax.md")


@pytest.mark.parametrize("ranks, worker", [(ranks, worker) for ranks, workers in JOBS.items() for worker in workers])
def test_worker(in_one_job, ranks, worker):
    in_one_job(ranks, JOBS[ranks], worker, env=None if ranks == 2 else QUICK)


@pytest.mark.parametrize("worker", JOBS[2])
def test_callbacks(in_one_job, worker):
    in_one_job(2, JOBS[2], worker, env={**QUICK, "HVD_JAX_FFI": "0"})


def test_no_compiler_is_said_once(alone, tmp_path):
    env = {**QUICK, "CXX": str(tmp_path / "none"), "XDG_CACHE_HOME": str(tmp_path)}
    text = alone("jax_training.py", env=env).text
    assert text.count("there is no C++ compiler") == 1 and "jax_training: ok" in text, text
    text = alone("jax_training.py", env={**env, "HVD_JAX_FFI": "1"}, expect=1).text
    assert "ImportError: horovod.jax: HVD_JAX_FFI=1, but there is no C++ compiler" in text, text


def test_killed_rank_is_named(horovodrun):
    result = horovodrun(3, "jax_failures.py", "killed", expect=None)
    assert result.returncode != 0 and result.text.count("told of the killed rank") == 2, result.text


@pytest.mark.parametrize("section", SECTIONS)
def test_page(in_one_job, section):
    in_one_job(2, SECTIONS, section)


def commands(*lines, **environment):
    """Runs commands in turn; the output of the last one."""
    for line in lines:
        done = subprocess.run(
            list(map(str, line)), env={**os.environ, **environment}, capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    """The handlers as `pip install .` makes them for this Python, and where in the package it puts them."""
    if not (shutil.which("meson") and shutil.which("ninja")):
        pytest.skip("meson and ninja are not on PATH")
    folder = tmp_path_factory.mktemp("build")
    (folder / "python.ini").write_text(f"[binaries]\npython = '{sys.executable}'\n")
    build = folder / "build"
    options = ["-Dpython=true", "-Dtests=false", "-Dbuildtype=release", "-Dunity=on", "-Dcuda=disabled", "-Dgloo=disabled"]
    said = commands(["meson", "setup", build, ROOT, "--native-file", folder / "python.ini", *options])
    assert f"custom calls are built against {Path(jaxlib.__file__).parent / 'include'}" in said, said
    plan = json.loads((build / "meson-info" / "intro-install_plan.json").read_text())["targets"]
    [(made, place)] = [(Path(made), place) for made, place in plan.items() if "jax-ffi" in made]
    assert place["tag"] == "python-runtime" and place["destination"].startswith("{py_platlib}/horovod/jax/"), place
    # The rest of the package is a wheel's, which the other tests use.
    commands(["ninja", "-C", build, made.relative_to(build)])
    return made, place["destination"].replace("{py_platlib}/", "")


@pytest.fixture
def package(built, tmp_path):
    """A folder for PYTHONPATH with this package, and the handlers in it."""
    made, place = built
    shutil.copytree(Path(horovod.__file__).parent, tmp_path / "package" / "horovod")
    shutil.copy(made, tmp_path / "package" / place)
    return tmp_path / "package", tmp_path / "package" / place


@pytest.fixture
def used(alone, tmp_path):
    """used(package): the file of the handlers that a program uses, or "callbacks", and all that was said."""

    def run(package, compiler):
        env = {**QUICK, "PYTHONPATH": str(package), "XDG_CACHE_HOME": str(tmp_path / "cache"), "HVD_JAX_FFI": ""}
        if not compiler:
            env.update(PATH=str(tmp_path / "nothing"), CXX="")
        text = alone("jax_handlers.py", env=env, timeout=200).text
        return re.search(r"^handlers: (.*)\.$", text, re.M)[1], text

    return run


def test_what_the_installation_built_needs_no_compiler(package, used, tmp_path):
    folder, library = package
    assert used(folder, compiler=False)[0] == str(library)
    assert not (tmp_path / "cache").exists()


def test_what_does_not_fit_is_not_used(package, used, tmp_path):
    """As with another jaxlib than at the installation, whose headers give another name."""
    folder, library = package
    library.rename(library.with_name("jax-ffi-" + "0" * 32 + ".so"))
    found, text = used(folder, compiler=False)
    assert found == "callbacks" and text.count("there is no C++ compiler") == 1, text
    assert Path(used(folder, compiler=True)[0]).parent == tmp_path / "cache" / "horovod"


def test_what_does_not_load_is_not_used(package, used):
    """As in a wheel from a machine with a newer C library."""
    folder, library = package
    library.write_bytes(b"not a library")
    found, text = used(folder, compiler=False)
    assert found == "callbacks" and text.count("there is no C++ compiler") == 1, text


def test_every_header_counts(tmp_path):
    headers = shutil.copytree(Path(jaxlib.__file__).parent / "include", tmp_path / "include")
    sources = [ROOT / "bindings/python/horovod/jax/ffi_handlers.cc", ROOT / "capi/include/hvd/hvd.h"]
    from horovod.jax import _fit

    names = [_fit.library_name(headers, sources), _fit.library_name(headers, sources[::-1]), _fit.library_name(headers, sources[:1])]
    with open(headers / "xla" / "ffi" / "api" / "c_api.h", "a") as header:
        header.write("\n")
    names.append(_fit.library_name(headers, sources))
    assert names[0] == names[1] and len(set(names)) == 3


def test_the_build_finds_the_headers_without_importing(tmp_path):
    """pip builds with the environment's Python, but with a path that leaves out the environment's packages."""
    script = ROOT / "bindings" / "python" / "jax_headers.py"
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.path[:] = [p for p in sys.path if 'site-packages' not in p]\n")
    found = commands([sys.executable, script, script], PYTHONPATH=str(tmp_path)).splitlines()
    assert Path(found[0]) == Path(jaxlib.__file__).parent / "include" and found[1].startswith("jax-ffi-")
    # `python -m build` builds in an environment of its own.
    venv.create(tmp_path / "empty", symlinks=True)
    assert commands([tmp_path / "empty" / "bin" / "python", script, script]) == ""


def test_random_kills():
    # Processes start slowly here, so a job has steps enough that new ones take part.
    why, _killed, _times = one_run(1, "jax", 200)
    assert why == ""


def test_many_deaths():
    """A minute: each of 200 deaths waits for a commit after the one before."""
    wrong, killed, _times = many_deaths(1, "jax", 200)
    assert wrong == {} and killed >= 200
