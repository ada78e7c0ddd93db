# SPDX-License-Identifier: Apache-2.0
"""The Rust crates: declarations, lints, tests, the oldest compiler, vectors, examples, the library built by the crate.

Cargo's outputs go to build-rust/. The crates find the library by HVD_LIB_DIR, except where they build it themselves.
"""

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Dict, List, Optional

from suites.ahead import once
from suites.count import BIN, JOBS, ROOT, Count, captured, lacking, passed_if, run
from suites.elastic import elastic
from suites.engine import LIBRARY, build_library
from suites.jobs import Member
from suites.package import install

WORKSPACE = ROOT / "bindings" / "rust"
TARGET = ROOT / "build-rust"
HEADER = ROOT / "capi" / "include" / "hvd" / "hvd.h"
DECLARATIONS = WORKSPACE / "hvd-sys" / "src" / "bindings.rs"
BINDGEN = "0.72.1"
EXAMPLES = {"hello": "2", "allreduce": "2", "grouped": "2", "process_sets": "4", "train": "2"}
RESULT = re.compile(r"^test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored.*?(?:finished in ([\d.]+)s)?$", re.MULTILINE)
# Before each result; cargo says how long the tests of one program took, not each.
PROGRAM = re.compile(r"^ *(?:Running (\S+(?: \S+)?) \(.*\)|(Doc-tests .*))$", re.MULTILINE)


def rust_suite() -> Count:
    cargo = shutil.which("cargo")
    if cargo is None:
        return lacking("cargo is not installed")
    if not build_library() or not install():
        return passed_if(False)
    settings = _settings()
    total = _declarations()
    total.add(_lints(cargo, settings))
    total.add(_tests(cargo, settings, "--workspace"))
    total.add(_oldest_compiler(cargo, settings))
    total.add(_programs(cargo, settings))
    return total.add(_vendored(cargo, settings))


def member() -> Optional[Member]:
    """The rank of a job of several languages; None if it could not be built."""
    cargo = shutil.which("cargo")
    if cargo is None or not build_library() or not _cargo(cargo, ["build", "--quiet", "--locked", "--workspace"], _settings()):
        return None
    return Member([TARGET / "debug" / "member"])


def elastic_member() -> Optional[Member]:
    """The same of an elastic job."""
    return Member([TARGET / "debug" / "elastic"]) if member() else None


def _settings() -> Dict[str, str]:
    return {
        "HVD_LIB_DIR": str(LIBRARY.parent),
        "HVD_INCLUDE_DIR": str(ROOT / "capi" / "include"),
        "HVD_HOROVODRUN": str(BIN / "horovodrun"),
        "CARGO_TARGET_DIR": str(TARGET),
        "CARGO_BUILD_JOBS": JOBS,
        "RUST_BACKTRACE": "0",
        # Nobody changes a line and compiles again here, or debugs: a third of the room.
        "CARGO_INCREMENTAL": "0",
        "CARGO_PROFILE_DEV_DEBUG": "0",
    }


def _cargo(cargo: str, words: List[object], settings: Dict[str, str]) -> bool:
    """Runs cargo on the workspace; --locked: what is checked in decides about versions."""
    command, *rest = words
    toolchain = [command] if str(command).startswith("+") else []
    command, *rest = rest if toolchain else words
    return run([cargo, *toolchain, command, "--manifest-path", WORKSPACE / "Cargo.toml", *rest], **settings)


@once
def bindgen_program() -> Optional[Path]:
    """The program of the version that made bindings.rs, built by cargo; None if it cannot be had."""
    cargo = shutil.which("cargo")
    if cargo is None:
        return None
    tools = TARGET / "tools"
    bindgen = tools / "bin" / "bindgen"
    version = ""
    if bindgen.exists():
        version = subprocess.run([bindgen, "--version"], stdout=subprocess.PIPE, text=True).stdout
    package = ["bindgen-cli", "--version", BINDGEN, "--locked"]
    places = ["--root", tools, "--target-dir", TARGET / "tools-target"]
    if BINDGEN not in version and not run([cargo, "install", "--quiet", "--debug", "--force", *package, *places]):
        return None
    shutil.rmtree(TARGET / "tools-target", ignore_errors=True)
    return bindgen


def _declarations() -> Count:
    """bindings.rs is what bindgen makes of the header, and a change of the header changes it."""
    bindgen = bindgen_program()
    if bindgen is None:
        return Count(failed=1, note=f"bindgen {BINDGEN} could not be built")
    with tempfile.TemporaryDirectory() as folder:
        changed = Path(folder) / "hvd.h"
        text = HEADER.read_text()
        shutil.copy(HEADER.with_name("version.h"), folder)
        end = "#ifdef __cplusplus\n}\n"
        changed.write_text(text.replace(end, f"HVD_API void hvd_new(void);\n\n{end}"))
        made, of_changed = _bindgen(bindgen, HEADER), _bindgen(bindgen, changed)
    if made is None or of_changed is None:
        return lacking("libclang-dev is not installed, which bindgen reads the header with")
    total = passed_if(made == DECLARATIONS.read_text())
    if total.failed:
        total.note = f"{DECLARATIONS.relative_to(ROOT)} is not what bindgen makes of hvd.h; see build-rust/bindings.rs"
        (TARGET / "bindings.rs").write_text(made)
    return total.add(passed_if(of_changed != made and "pub fn hvd_new();" in of_changed))


def _bindgen(bindgen: Path, header: Path) -> Optional[str]:
    command = [bindgen, header, "--allowlist-item", "[hH][vV][dD]_.*", "--no-doc-comments", "--use-core",
               "--merge-extern-blocks", "--rust-target", "1.81", "--default-macro-constant-type", "signed",
               "--disable-header-comment", "--rustfmt-configuration-file", ROOT / "rustfmt.toml",
               "--raw-line", "// SPDX-License-Identifier: Apache-2.0", "--raw-line",
               f"// Made from hvd.h by bindgen {BINDGEN}; ./scripts/test rust makes it again and compares.", "--raw-line",
               "// Generated, so one file that is as long as the header.",
               "--", "-std=c11"]  # fmt: skip
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        print(done.stderr)
    return done.stdout if done.returncode == 0 else None


def _lints(cargo: str, settings: Dict[str, str]) -> Count:
    total = Count()
    clippy = ["clippy", "--locked", "--workspace", "--all-targets", "--", "-D", "warnings"]
    for component, words in (("rustfmt", ["fmt", "--all", "--check"]), ("clippy", clippy)):
        if shutil.which(f"cargo-{words[0]}") is None:
            total.add(lacking(f"{component} is not installed"))
        else:
            total.add(passed_if(_cargo(cargo, words, settings)))
    return total


def _tests(cargo: str, settings: Dict[str, str], *words: str) -> Count:
    """Unit, integration and documentation tests, as cargo counts them."""
    command = [cargo, "test", "--manifest-path", WORKSPACE / "Cargo.toml", "--locked", "--no-fail-fast", *words]
    code, output = captured(command, 1800, **settings)
    total = Count()
    for result in RESULT.finditer(output):
        passed, failed, ignored, seconds = result.groups("0")
        programs = PROGRAM.findall(output, 0, result.start())
        program = "".join(programs[-1]) if programs else "tests"
        total.add(Count(int(passed), int(failed), int(ignored)).took(program, float(seconds)))
    if code != 0:
        print(output)
        total.failed = max(total.failed, 1)
    return total if total.passed + total.failed else Count(failed=1, note="cargo test ran no test")


def _oldest_compiler(cargo: str, settings: Dict[str, str]) -> Count:
    """The rust-version that Cargo.toml states compiles the crates."""
    stated = re.search(r'^rust-version = "([\d.]+)"$', (WORKSPACE / "Cargo.toml").read_text(), re.MULTILINE)
    if stated is None:
        return Count(failed=1, note="bindings/rust/Cargo.toml states no rust-version")
    toolchain = f"{stated.group(1)}.0"
    if shutil.which("rustup") is None:
        return lacking(f"rustup is not installed, which has Rust {toolchain}")
    installed = run(["rustup", "run", toolchain, "rustc", "--version"])
    if not installed and not run(["rustup", "toolchain", "install", toolchain, "--profile", "minimal", "--no-self-update"]):
        return lacking(f"Rust {toolchain} could not be installed")
    checked = {**settings, "CARGO_TARGET_DIR": str(TARGET / "oldest")}
    words = [f"+{toolchain}", "check", "--quiet", "--locked", "-p", "hvd-sys", "-p", "hvd"]
    return passed_if(_cargo(cargo, words, checked))


def _programs(cargo: str, settings: Dict[str, str]) -> Count:
    """Conformance vectors with ranks as threads, and programs with ranks as processes."""
    if not _cargo(cargo, ["build", "--quiet", "--locked", "--workspace"], settings):
        return passed_if(False)
    programs, tests = TARGET / "debug", ROOT / "tests"
    vectors = sorted((tests / "vectors").glob("*.json"))
    total = passed_if(run([programs / "run_vectors", tests / "conformance" / "quirks.json", *vectors]))
    for name, ranks in EXAMPLES.items():
        total.add(passed_if(run([BIN / "horovodrun", "-np", ranks, programs / name])))
    total.add(elastic("Rust", Member([programs / "elastic"]), 100))
    return total.add(passed_if(run([programs / "train"])))


def _vendored(cargo: str, settings: Dict[str, str]) -> Count:
    """The library that the feature `vendored` builds, and a program that runs with it."""
    own = {name: value for name, value in settings.items() if not name.startswith("HVD_LIB")}
    own |= {"CARGO_TARGET_DIR": str(TARGET / "vendored"), "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"}
    return _tests(cargo, own, "-p", "hvd-sys", "--features", "vendored")
