#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Lint: what the pages of documentation name exists. Checked in every Markdown file of the repository:

  links      a relative link leads to a file, and what stands behind # is a heading or an anchor there
  variables  HOROVOD_... is one that horovod/common/environment_names.py knows, HVD_... occurs in
             some source or test
  numbers    a status has the number of hvd.h (| `HVD_ERR_...` | -1 |), an option its default
             (`HOROVOD_...` (10 s)); docs/errors.md has every status
  versions   docs/dependencies.md asks for the versions of Python and of frameworks that pyproject.toml asks for
  words      an identifier in code (`Engine::submit`, `fusion_threshold`) occurs in some source or test
  paths      a file or folder in code exists: seen from the root, the page, core/, the Python
             package, its sources, or its tests; a path that a build makes stands below build
  flags      --flag after horovodrun is one of horovodrun's or the doctor's; any other occurs in some source
  commands   suites after scripts/test and meson test --suite exist, and so do extras in
             pip install '.[extra]' and options -Dname of Meson

Names of other projects that no source uses stand in ELSEWHERE. Names that a page says are not there
stand in ABSENT: these must indeed be absent. --self-test damages a page in each of these ways, and
each has to be found.
"""
import argparse
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Iterator

from check_workplace import tracked_files

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "bindings/python"
sys.path.insert(0, str(PACKAGE))
FENCED = re.compile(r"^```(\w*)\n(.*?)^```", re.M | re.S)
INLINE = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"\[[^\]]*\]\((?!\w+:)([^)#\s]*)(?:#([^)\s]*))?\)")
IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
FLAG = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]+")
# A path has a folder and either a folder of ours at its beginning or a known ending.
PATH = re.compile(r"(?<![\w./~$<-])(?:\./)?((?:[\w.-]+/)+[\w.*-]*)(?![\w<>{}])")
FOLDERS = ("benchmarks", "bindings", "capi", "core", "docs", "examples", "scripts", "tests")
SOURCES = (".py", ".c", ".cc", ".h", ".hpp", ".cu", ".def", ".txt", ".md", ".sh", ".java", ".scala", ".jl", ".rs")
SEEN_FROM = ("", "core", "capi/include", "bindings/cpp/include", "bindings/python",
             *(f"bindings/python/{folder}" for folder in ("horovod", "horovod/runner", "src", "tests")))

# Names of other projects, which no source of ours has.
ELSEWHERE = set("""
    cudaFreeAsync cudaStreamSynchronize DEP_HVD_INCLUDE_DIR extraJavaOptions IdentityN
    inter_op_parallelism_threads MEMCPY_IN_FUSION_BUFFER NCCL_ALLREDUCE WAIT_FOR_DATA clear_caches MALLOC_TOP_PAD_ MALLOC_TRIM_THRESHOLD_ ProxyJump
    static_graph TF_RunAsyncOpKernelDoneCallback
""".split())
FLAGS_ELSEWHERE = set("""
    --from-literal --no-build-isolation --no-deps --nproc-per-node --enable-native-access
    --buildtype --master --conf --jars --class
""".split())
# Horovod has these and this version does not; a page says so.
ABSENT: set = set()


class Sources:
    """What exists."""

    def __init__(self) -> None:
        self.words, self.flags = set(), set()
        for path in tracked_files():
            data = {"corpus", "vectors"} & set(path.parts)
            if data or path.suffix == ".md" or path == Path(__file__).resolve():
                continue
            try:
                text = path.read_text()
            except UnicodeDecodeError:
                continue
            self.words |= set(IDENTIFIER.findall(text))
            self.flags |= set(FLAG.findall(text))
        self.variables = environment_variables()
        self.launcher_flags = launcher_flags()
        header = (ROOT / "capi/include/hvd/hvd.h").read_text()
        self.statuses = dict(re.findall(r"^#define (HVD_ERR_\w+) \((-\d+)\)", header, re.M))
        options = (ROOT / "core/base/options.def").read_text()
        numbers = re.findall(r"^HVD_OPTION\((\w+), \w+, (-?\d+),", options, re.M)
        self.defaults = {f"HOROVOD_{name.upper()}": number for name, number in numbers}
        self.extras = named("pyproject.toml", r"^(\w+) = \[")
        self.meson = named("meson.options", r"^option\('(\w+)'") | {"buildtype", "werror", "b_sanitize"}
        builds = "".join(path.read_text() for path in ROOT.glob("tests/**/meson.build"))
        self.test_suites = {name for names in re.findall(r"suite: (\[[^]]*\]|'[\w-]+')", builds) for name in re.findall(r"[\w-]+", names)}
        self.suites = named("scripts/run_tests.py", r'^    "(\w+)": ')

    def has_path(self, text: str, page: Path) -> bool:
        """Whether it exists; an ending, and what follows a decision's number, may be left out."""
        if text.strip("./").startswith(("build", ".venv", "target")):
            return True
        for base in [page.parent, *(ROOT / folder for folder in SEEN_FROM)]:
            if any(any(base.glob(text.rstrip("/") + rest)) for rest in ("", ".*", "-*")):
                return True
        return False


def named(path: str, pattern: str) -> set:
    return set(re.findall(pattern, (ROOT / path).read_text(), re.M))


def environment_variables() -> set:
    from horovod.common import environment_names as names

    known = names.OPTIONS | names._OTHERS | names.WITHOUT_EFFECT
    return {f"HOROVOD_{name.upper()}" for name in known}


def launcher_flags() -> set:
    from horovod.runner.command_line.flags import build_parser
    from horovod.runner.doctor.command import build_parser as build_doctor_parser

    return {name for parser in (build_parser(), build_doctor_parser()) for name in parser._option_string_actions}


def anchors(text: str) -> set:
    """What # may name: headings as GitHub writes them, and <a name>."""
    found = set(re.findall(r'<a name="([^"]+)"', text))
    seen = Counter()
    for heading in re.findall(r"^#+ (.*)$", FENCED.sub("", text), re.M):
        anchor = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        found.add(f"{anchor}-{seen[anchor]}" if seen[anchor] else anchor)
        seen[anchor] += 1
    return found


def code(text: str) -> Iterator[str]:
    """Every piece of code: spans, and the lines of blocks that are no program in a language of their own."""
    prose = FENCED.sub(lambda block: "\n", text)
    yield from INLINE.findall(prose)
    for language, block in FENCED.findall(text):
        if language in ("sh", "bash", ""):
            yield from block.splitlines()


def link_faults(text: str, page: Path) -> Iterator[str]:
    for target, anchor in LINK.findall(FENCED.sub("", text)):
        path = page.parent / target if target else page
        if not path.exists():
            yield f"link {target}: no such file"
        elif anchor and path.suffix == ".md":
            if anchor not in anchors(text if path == page else path.read_text()):
                yield f"link {target}#{anchor}: no such heading"


def is_name(word: str) -> bool:
    """Whether it looks like a name of a program: with an underscore inside, or a capital after a small letter."""
    return "_" in word.strip("_") or bool(re.search(r"[a-z][A-Z]", word))


def word_faults(text: str, sources: Sources) -> Iterator[str]:
    for variable in sorted(set(re.findall(r"\bHOROVOD_[A-Z0-9_]*[A-Z0-9]\b", text))):
        if variable not in sources.variables:
            yield f"{variable}: horovod/common/environment_names.py knows no such variable"
    for variable in sorted(set(re.findall(r"\bHVD_[A-Z0-9_]*[A-Z0-9]\b", text)) - ELSEWHERE):
        if variable not in sources.words:
            yield f"{variable}: no source has this name"
    for piece in code(text):
        for word in IDENTIFIER.findall(piece):
            if word.startswith(("HOROVOD_", "HVD_")) or not is_name(word) or word in ELSEWHERE:
                continue
            if (word in sources.words) == (word in ABSENT):
                fault = "a source has this name now" if word in ABSENT else "no source has this name"
                yield f"{word}: {fault} (in `{piece.strip()}`)"


def number_faults(text: str, sources: Sources) -> Iterator[str]:
    for status, number in re.findall(r"`(HVD_ERR_\w+)` \| (-?\d+) \|", text):
        if sources.statuses.get(status) != number:
            yield f"{status}: hvd.h says {sources.statuses.get(status)}, not {number}"
    for variable, number in re.findall(r"`(HOROVOD_\w+)` \((\d+)(?: s)?[,)]", text):
        if sources.defaults.get(variable, number) != number:
            yield f"{variable}: its default is {sources.defaults[variable]}, not {number}"


def status_faults(text: str, sources: Sources) -> Iterator[str]:
    for status in sources.statuses:
        if f"| `{status}` |" not in text:
            yield f"{status} of hvd.h is missing"


def path_faults(text: str, page: Path, sources: Sources) -> Iterator[str]:
    for piece in code(text):
        for path in PATH.findall(re.sub(r"\w+:/+[^\s`]*", "", piece)):
            of_ours = path.startswith(FOLDERS) or path.endswith(SOURCES)
            placeholder = re.search(r"[A-Z]{5}", path)
            if of_ours and not placeholder and not sources.has_path(path, page):
                yield f"{path}: no such file (in `{piece.strip()}`)"


def command_faults(text: str, sources: Sources) -> Iterator[str]:
    for piece in code(text):
        piece = re.sub(r"(?<!\S)#.*", "", piece)
        launched = re.search(r"\bhorovodrun\b(.*)", piece)
        known = sources.launcher_flags
        if not launched:
            known = known | sources.flags | FLAGS_ELSEWHERE
        for flag in FLAG.findall(own_arguments(launched[1]) if launched else piece):
            if flag not in known:
                yield f"{flag}: no such flag (in `{piece.strip()}`)"
        for extra in re.findall(r"\.\[(\w+)\]", piece):
            if extra not in sources.extras:
                yield f".[{extra}]: no such extra in pyproject.toml"
        if "meson" in piece or "setup-args" in piece or piece.startswith("-D"):
            for option in re.findall(r"-D(\w+)=", piece):
                if option not in sources.meson:
                    yield f"-D{option}: no such option in meson.options"
        for suite in re.findall(r"meson test .*--suite (\w+)", piece):
            if suite not in sources.test_suites:
                yield f"--suite {suite}: no such suite of Meson's tests"
        for suites in re.findall(r"scripts/test((?: \w+)*)", piece):
            for suite in suites.split():
                if suite not in sources.suites:
                    yield f"scripts/test {suite}: no such suite"


def own_arguments(arguments: str) -> str:
    """The part before the command that horovodrun starts."""
    return re.split(r"\s(?:python|java|julia|scala|sh|cargo|\./|target/|\.\.\.)", arguments, maxsplit=1)[0]


def version_faults(text: str, project: str) -> Iterator[str]:
    required = dict(re.findall(r'"(\w+)>=([\d.]+)"', project))
    required["python"] = re.search(r'requires-python = ">=([\d.]+)"', project)[1]
    for name, shown in (("python", "Python"), ("torch", "PyTorch"), ("jax", "JAX"), ("tensorflow", "TensorFlow")):
        if f"| {shown} {required[name]} or newer" not in text:
            yield f"{shown}: pyproject.toml asks for {required[name]} or newer, and no row says so"


def faults_of(page: Path, text: str, sources: Sources) -> list:
    found = [*link_faults(text, page), *word_faults(text, sources), *number_faults(text, sources),
             *path_faults(text, page, sources), *command_faults(text, sources)]
    if page.name == "dependencies.md":
        found += version_faults(text, (ROOT / "pyproject.toml").read_text())
    if page.name == "errors.md":
        found += status_faults(text, sources)
    return list(dict.fromkeys(f"{page.relative_to(ROOT)}: {fault}" for fault in found))


def self_test(sources: Sources) -> int:
    page = ROOT / "docs/index.md"
    bad = {
        "[x](none.md)": "no such file", "[x](running.md#nowhere)": "no such heading",
        "HOROVOD_NO_SUCH": "knows no such", "HVD_NO_SUCH": "no source",
        "| `HVD_ERR_IO` | -1 |": "hvd.h says -63", "`HOROVOD_PEER_TIMEOUT` (11 s)": "its default is 10",
        "`unheard_of_name`": "no source", "`Engine::noSuch`": "no source",
        "`tests/none`": "no such file", "`core/engine/none.h`": "no such file",
        "`horovodrun --nothing x`": "no such flag", "`--no-such-flag`": "no such flag",
        "`pip install '.[none]'`": "no such extra", "`meson setup b -Dnone=1`": "no such option",
        "`scripts/test none`": "no such suite", "`meson test --suite none`": "no such suite"}
    good = [
        "[x](running.md#how-a-job-ends)", "HOROVOD_RANK", "HVD_OK", "| `HVD_ERR_IO` | -63 |", "`Engine::submit`",
        "`core/base/options.def`", "`base/options.def`", "`file:///folder`", "`build/tests/none`",
        "`horovodrun -np 2 --verbose python x.py --anything`", "`./scripts/test unit`"]
    wrong = [f"{text}: not found" for text, fault in bad.items()
             if not any(fault in found for found in faults_of(page, text, sources))]
    project = 'requires-python = ">=3.9"\n"torch>=2.2" "jax>=1" "tensorflow>=2"'
    rows = "| Python 3.9 or newer |\n| PyTorch 2.1 or newer |\n| JAX 1 or newer |\n| TensorFlow 2 or newer |"
    wrong += [] if len(list(version_faults(rows, project))) == 1 else ["another version of PyTorch: not found"]
    complete = "".join(f"| `{status}` |" for status in sources.statuses)
    missing = list(status_faults(complete.replace("HVD_ERR_IO", ""), sources)), list(status_faults(complete, sources))
    wrong += [] if [len(found) for found in missing] == [1, 0] else [f"statuses: {missing}"]
    wrong += [f"{text}: {found}" for text in good for found in faults_of(page, text, sources)]
    print(*wrong, sep="\n", end="\n" if wrong else "")
    print(f"check_docs: self-test: {len(bad) + 2} damages, {len(wrong)} wrong")
    return bool(wrong)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--self-test", action="store_true")
    sources = Sources()
    if parser.parse_args().self_test:
        return self_test(sources)
    pages = [path for path in tracked_files() if path.suffix == ".md"]
    faults = [fault for page in pages for fault in faults_of(page, page.read_text(), sources)]
    for fault in faults:
        print(f"check_docs: {fault}")
    print(f"check_docs: {len(pages)} pages, {len(faults)} faults")
    return bool(faults) or not pages


if __name__ == "__main__":
    sys.exit(main())
