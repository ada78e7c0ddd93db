# SPDX-License-Identifier: Apache-2.0
"""Suite julia: Hvd.jl's tests as its users run them, the conformance vectors, and the examples."""

import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import List, Optional, Tuple

from suites.ahead import once
from suites.count import ROOT, Count, captured, lacking, passed_if, timed
from suites.elastic import elastic
from suites.engine import LIBRARY, build_library
from suites.jobs import Member, printed, same
from suites.package import install

FOLDER = ROOT / "build-julia"
_TIME_LIMIT = 1200
PACKAGE = FOLDER / "Hvd"
# Of each example, Python's of the same story and the number of ranks.
EXAMPLES = {"hello": ("hello", 2), "allreduce": ("allreduce_numpy", 2), "grouped": ("grouped", 2),
            "process_sets": ("process_sets", 4), "train": ("train", 2)}  # fmt: skip
# Pkg wants the registry of all packages, which a package without dependencies has no use for.
REGISTRY = 'name = "General"\nuuid = "23338594-aafe-5451-b93e-139f81909106"\nrepo = ""\n\n[packages]\n'


def julia_suite() -> Count:
    julia, reason = find_julia()
    if not julia:
        return lacking(reason)
    if not build_library() or not install():
        return passed_if(False)
    _prepare()
    total = Count()
    with timed(total, "Pkg.test()"):
        total.add(_tests(julia))
    with timed(total, "conformance vectors"):
        total.add(_vectors(julia))
    program = [julia, f"--project={PACKAGE}"]
    for name, (python, ranks) in EXAMPLES.items():
        expected = printed(ranks, [sys.executable, ROOT / "examples" / "python" / f"{python}.py"])
        with timed(total, f"{name} in Julia"):
            own = printed(ranks, [*program, ROOT / "examples" / "julia" / f"{name}.jl"], **_environment())
        total.add(same(f"{name} in Julia", expected, own))
    training = ROOT / "examples" / "julia" / "elastic.jl"
    return total.add(elastic("Julia", Member([*program, training], _environment()), 1000))


def member(program: Path = ROOT / "tests" / "languages" / "member.jl") -> Optional[Member]:
    """The rank of a job of several languages; None if it cannot run here."""
    julia, _reason = find_julia()
    if not julia or not build_library():
        return None
    _prepare()
    return Member([julia, f"--project={PACKAGE}", program], _environment())


def elastic_member() -> Optional[Member]:
    """The same of an elastic job."""
    return member(ROOT / "examples" / "julia" / "elastic.jl")


@once
def find_julia() -> Tuple[str, str]:
    """The program, or why there is none."""
    found = subprocess.run([str(ROOT / "scripts" / "get_julia.sh"), str(FOLDER / "julia")], stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE, text=True)
    if found.returncode == 0:
        return found.stdout.strip(), ""
    reason = found.stderr.strip().splitlines()
    return "", reason[-1] if reason else "julia cannot be had"


def _environment() -> dict:
    # A depot of its own: nothing of this goes into the user's.
    return {"JULIA_DEPOT_PATH": str(FOLDER / "depot"), "HVD_LIBRARY": str(LIBRARY), "HVD_INCLUDE_DIR": str(ROOT / "capi" / "include")}


def _prepare() -> None:
    """A copy of the package, because Pkg writes a manifest beside the project, and the depot."""
    shutil.rmtree(PACKAGE, ignore_errors=True)
    shutil.copytree(ROOT / "bindings" / "julia", PACKAGE)
    registry = FOLDER / "depot" / "registries" / "General" / "Registry.toml"
    registry.parent.mkdir(parents=True, exist_ok=True)
    registry.write_text(REGISTRY)


def _run(command: List[object]) -> Tuple[Optional[int], str]:
    """Runs a command with its output shown and returned."""
    code, output = captured(command, _TIME_LIMIT, **_environment())
    print(textwrap.indent(output, "   "), end="", flush=True)
    return code, output


def _tests(julia: str) -> Count:
    """The package's own tests, counted by their summary."""
    code = "import Pkg; Pkg.UPDATED_REGISTRY_THIS_SESSION[] = true; Pkg.test()"
    status, output = _run([julia, f"--project={PACKAGE}", "-e", code])
    summary = re.search(r"^Test Summary: +\| (.*)\nHvd +\| (.*)$", output, re.M)
    if not summary:
        return passed_if(False)
    numbers = dict(zip(summary.group(1).split(), map(int, summary.group(2).split())))
    failed = numbers.get("Fail", 0) + numbers.get("Error", 0)
    total = Count(numbers.get("Pass", 0), failed, output.count("Info: skipped: "))
    total.note = "; ".join(re.findall(r"Info: skipped: (.*)", output))
    return total if (status == 0) == (failed == 0) else total.add(passed_if(False))


def _vectors(julia: str) -> Count:
    runner = [julia, f"--project={PACKAGE}", ROOT / "tests" / "conformance" / "run_vectors.jl"]
    status, output = _run(runner)
    summary = re.search(r"^run_vectors: (\d+) vectors run, \d+ runs, (\d+) failures$", output, re.M)
    total = Count(passed=int(summary.group(1))) if summary and status == 0 else passed_if(False)
    # A runner that finds nothing wrong must not pass: these vectors expect what does not come.
    for wrong in ("wrong_result", "wrong_message"):
        status, _ = _run([*runner, ROOT / "tests" / "conformance" / f"{wrong}.json"])
        total.add(passed_if(status == 1))
    return total

