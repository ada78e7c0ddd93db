# SPDX-License-Identifier: Apache-2.0
"""Installs the build into a temporary folder, builds examples/c against it with pkg-config and with CMake, and runs both.

Only what `meson install` puts there is used, so a header, hvd.pc or hvdConfig.cmake that is missing or wrong shows here.
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


def command(words: list, **options) -> str:
    """Runs a command; its output, or SystemExit with all it said."""
    result = subprocess.run([str(word) for word in words], capture_output=True, text=True, **options)
    if result.returncode:
        raise SystemExit(f"{shlex.join(map(str, words))}: exit {result.returncode}\n{result.stdout}{result.stderr}")
    return result.stdout


def run_two_ranks(program: Path, libdir: Path, folder: Path) -> None:
    """Runs the example alone and as two ranks that find each other through HOROVOD_ variables."""
    base = {**os.environ, "LD_LIBRARY_PATH": str(libdir)}
    for name in [name for name in base if name.startswith("HOROVOD_")]:
        del base[name]
    alone = command([program], env=base, timeout=60)
    assert alone == "rank 0 of 1: sum 1 from 1 ranks\n", alone

    job = Path(tempfile.mkdtemp(dir=folder))
    ranks = []
    for rank in range(2):
        env = {**base, "HOROVOD_RANK": str(rank), "HOROVOD_SIZE": "2", "HOROVOD_RENDEZVOUS": f"file://{job}"}
        ranks.append(subprocess.Popen([program], env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))
    for rank, process in enumerate(ranks):
        output, _ = process.communicate(timeout=60)
        expected = f"rank {rank} of 2: sum 3 from 2 ranks\n"
        if process.returncode or output != expected:
            raise SystemExit(f"{program.name}, rank {rank}: exit {process.returncode}, printed {output!r}, expected {expected!r}")
    print(f"{program}: alone and as two ranks ok")


def install(build: Path, destination: Path, prefix: str) -> Path:
    """`meson install`; the installed prefix."""
    meson = shutil.which("meson") or str(Path(sys.executable).parent / "meson")
    command([meson, "install", "-C", build, "--destdir", destination, "--no-rebuild", "--quiet"])
    return destination / prefix.lstrip("/")


def build_with_pkg_config(example: Path, root: Path, libdir: Path, destination: Path, folder: Path) -> Path:
    env = {**os.environ, "PKG_CONFIG_LIBDIR": str(libdir / "pkgconfig"), "PKG_CONFIG_SYSROOT_DIR": str(destination)}
    version = command(["pkg-config", "--modversion", "hvd"], env=env).strip()
    header = (root / "include" / "hvd" / "version.h").read_text()
    assert f'HVD_VERSION_STRING "{version}"' in header, f"hvd.pc says {version}, version.h says otherwise"
    flags = shlex.split(command(["pkg-config", "--cflags", "--libs", "hvd"], env=env))
    program = folder / "allreduce_pkg_config"
    command(["cc", "-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror", example / "allreduce.c", *flags, "-o", program])
    return program


def build_with_cmake(example: Path, root: Path, folder: Path) -> Path:
    build = folder / "cmake"
    command(["cmake", "-S", example, "-B", build, f"-DCMAKE_PREFIX_PATH={root}", "-DCMAKE_BUILD_TYPE=Release"])
    command(["cmake", "--build", build])
    return build / "allreduce"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=Path, required=True)
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--prefix", required=True)
    parser.add_argument("--libdir", required=True)
    parser.add_argument("--sanitized", action="store_true")
    arguments = parser.parse_args()
    if arguments.sanitized:
        print("skipped: a program without the sanitizer cannot load a library with it")
        return SKIPPED
    for tool in ("pkg-config", "cmake", "cc"):
        if not shutil.which(tool):
            print(f"skipped: {tool} is not installed")
            return SKIPPED
    with tempfile.TemporaryDirectory(prefix="hvd-install-") as name:
        folder = Path(name)
        root = install(arguments.build, folder / "root", arguments.prefix)
        libdir, example = root / arguments.libdir, arguments.source / "examples" / "c"
        lines = (example / "allreduce.c").read_text().count("\n")
        assert lines <= 40, f"allreduce.c has {lines} lines, 40 are promised"
        assert not re.search(r"\.\./", (libdir / "pkgconfig" / "hvd.pc").read_text()), "hvd.pc leaves its tree"
        run_two_ranks(build_with_pkg_config(example, root, libdir, folder / "root", folder), libdir, folder)
        run_two_ranks(build_with_cmake(example, root, folder), libdir, folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
