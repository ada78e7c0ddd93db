# SPDX-License-Identifier: Apache-2.0
"""Installs the build into a temporary folder, builds programs of examples/c and examples/cpp against it, one with pkg-config and all
with CMake, and runs one of them.

Only what `meson install` puts there is used, so a header, hvd.pc or hvdConfig.cmake that is missing or wrong shows here. Compilers
and CMake find no Python on their PATH.
"""
import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

SKIPPED = 77
NEEDED = ("pkg-config", "cmake", "make", "cc", "c++")
# What those call by name.
CALLED = ("ar", "as", "gcc", "g++", "ld", "ld.bfd", "ld.gold", "nm", "objcopy", "objdump", "pkgconf", "ranlib", "readelf", "rm", "sh", "strip")


def command(words: list, **options) -> str:
    """Runs a command; its output, or SystemExit with all it said."""
    result = subprocess.run([str(word) for word in words], capture_output=True, text=True, **options)
    if result.returncode:
        raise SystemExit(f"{shlex.join(map(str, words))}: exit {result.returncode}\n{result.stdout}{result.stderr}")
    return result.stdout


def path_without_python(folder: Path) -> str:
    """A PATH of the tools above and nothing else."""
    folder.mkdir()
    for tool in (*NEEDED, *CALLED):
        found = shutil.which(tool)
        if found:
            (folder / tool).symlink_to(found)
    assert not list(folder.glob("python*"))
    return str(folder)


def printed(rank: int, size: int) -> str:
    """What the example allreduce prints."""
    total = size * (size + 1) / 2
    return "".join(f"rank {rank} of {size}: {what} {[value] * 4}\n" for what, value in (("sum", total), ("mean", total / size)))


def run_two_ranks(program: Path, libdir: Path, folder: Path) -> None:
    """Runs the example alone and as two ranks that find each other through HOROVOD_ variables."""
    base = {**os.environ, "LD_LIBRARY_PATH": str(libdir)}
    for name in [name for name in base if name.startswith("HOROVOD_")]:
        del base[name]
    alone = command([program], env=base, timeout=60)
    assert alone == printed(0, 1), alone

    job = folder / f"job_of_{program.parent.name}_{program.name}"
    job.mkdir()
    ranks = []
    for rank in range(2):
        env = {**base, "HOROVOD_RANK": str(rank), "HOROVOD_SIZE": "2", "HOROVOD_RENDEZVOUS": f"file://{job}"}
        ranks.append(subprocess.Popen([program], env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))
    for rank, process in enumerate(ranks):
        output, _ = process.communicate(timeout=60)
        expected = printed(rank, 2)
        if process.returncode or output != expected:
            raise SystemExit(f"{program.name}, rank {rank}: exit {process.returncode}, printed {output!r}, expected {expected!r}")
    shutil.rmtree(job)
    print(f"{program}: alone and as two ranks ok")


def install(build: Path, destination: Path, prefix: str) -> Path:
    """`meson install`; the installed prefix."""
    meson = shutil.which("meson") or str(Path(sys.executable).parent / "meson")
    command([meson, "install", "-C", build, "--destdir", destination, "--no-rebuild", "--quiet"])
    return destination / prefix.lstrip("/")


def build_with_pkg_config(examples: Path, root: Path, libdir: Path, destination: Path, folder: Path) -> Path:
    """The program allreduce."""
    env = {**os.environ, "PKG_CONFIG_LIBDIR": str(libdir / "pkgconfig"), "PKG_CONFIG_SYSROOT_DIR": str(destination)}
    version = command(["pkg-config", "--modversion", "hvd"], env=env).strip()
    header = (root / "include" / "hvd" / "version.h").read_text()
    assert f'HVD_VERSION_STRING "{version}"' in header, f"hvd.pc says {version}, version.h says otherwise"
    flags = shlex.split(command(["pkg-config", "--cflags", "--libs", "hvd"], env=env))
    program = folder / f"pkg_config_{examples.name}"
    compiler = ["cc", "-std=c99", examples / "allreduce.c"] if examples.name == "c" else ["c++", "-std=c++20", examples / "allreduce.cc"]
    command([*compiler, "-Wall", "-Wextra", "-Wpedantic", "-Werror", *flags, "-o", program])
    return program


def build_with_cmake(examples: Path, names: list, root: Path, folder: Path) -> Path:
    """The folder of the programs."""
    programs = folder / f"cmake_{examples.name}"
    command(["cmake", "-G", "Unix Makefiles", "-S", examples, "-B", programs, f"-DCMAKE_PREFIX_PATH={root}"])
    command(["cmake", "--build", programs, "--parallel", str(os.cpu_count() or 1), "--target", *names])
    return programs


def build_and_try(arguments: argparse.Namespace, folder: Path) -> None:
    """Leaves the installed tree in folder/root and the programs beside it."""
    root = install(arguments.build, folder / "root", arguments.prefix)
    libdir = root / arguments.libdir
    assert not re.search(r"\.\./", (libdir / "pkgconfig" / "hvd.pc").read_text()), "hvd.pc leaves its tree"
    os.environ["PATH"] = path_without_python(folder / "tools")
    for name in ("CC", "CXX"):  # of those who built the library
        os.environ.pop(name, None)
    for examples in (arguments.source / "examples" / "c", arguments.source / "examples" / "cpp"):
        lines = next(examples.glob("allreduce.c*")).read_text().count("\n")
        assert lines <= 40, f"{examples.name}/allreduce has {lines} lines, 40 are promised"
        run_two_ranks(build_with_pkg_config(examples, root, libdir, folder / "root", folder), libdir, folder)
        run_two_ranks(build_with_cmake(examples, arguments.programs, root, folder) / "allreduce", libdir, folder)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=Path, required=True)
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--prefix", required=True)
    parser.add_argument("--libdir", required=True)
    parser.add_argument("--sanitized", action="store_true")
    parser.add_argument("--keep", type=Path, help="leave programs and installed tree in this folder, which is emptied first")
    parser.add_argument("programs", nargs="*", default=["allreduce"], help="examples to build, allreduce among them")
    arguments = parser.parse_args()
    if arguments.sanitized:
        print("skipped: a program without the sanitizer cannot load a library with it")
        return SKIPPED
    for tool in NEEDED:
        if not shutil.which(tool):
            print(f"skipped: {tool} is not installed")
            return SKIPPED
    if arguments.keep:
        shutil.rmtree(arguments.keep, ignore_errors=True)
        arguments.keep.mkdir()
        build_and_try(arguments, arguments.keep)
    else:
        with tempfile.TemporaryDirectory(prefix="hvd-install-") as name:
            build_and_try(arguments, Path(name))
    return 0


if __name__ == "__main__":
    sys.exit(main())
