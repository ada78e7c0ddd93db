# SPDX-License-Identifier: Apache-2.0
"""Variables that have no effect, or do not exist, are told once; and those of torchrun are there for programs that read them."""

import json
import subprocess
import sys

import pytest

from horovod._native import native
from horovod.common import environment_names
from horovod.runner.plan import environment


def test_every_option_of_the_engine_is_known():
    assert {name for name, _default, _help in native().option_table()} == environment_names.OPTIONS


@pytest.mark.parametrize("variables, lines", [
    ({}, []),
    ({"HOROVOD_CYCLE_TIME": "1", "HOROVOD_RANK": "0", "HOROVOD_WITH_TORCH": "1", "HOROVOD_GPU_OPERATIONS": "NCCL"}, []),
    ({"HOROVOD_AUTOTUNE": ""}, []),
    ({"HOROVOD_AUTOTUNE": "1"}, ["HOROVOD_AUTOTUNE: has no effect in this version"]),
    ({"HOROVOD_AUTOTUNE_LOG": "t", "HOROVOD_AUTOTUNE": "1"}, ["HOROVOD_AUTOTUNE, HOROVOD_AUTOTUNE_LOG: have no effect in this version"]),
    ({"HOROVOD_CYCEL_TIME": "1"}, ["HOROVOD_CYCEL_TIME: no such variable; did you mean HOROVOD_CYCLE_TIME?"]),
    ({"HOROVOD_QQQQQ": "1"}, ["HOROVOD_QQQQQ: no such variable; it has no effect (docs/tuning.md lists all)"]),
])
def test_what_is_told(variables, lines):
    assert environment_names.notices(variables) == lines


def told_to_ranks(runner, *flags):
    names = ["RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID"]
    command = runner.script(f"import json; print(json.dumps({{name: os.environ.get(name) for name in {names!r}}}))")
    code, out, err = runner.run(*flags, *command)
    assert (code, err) == (0, "")
    return [json.loads(line.partition(":")[2]) for line in sorted(out.splitlines())]


def test_ranks_find_torchruns_names(runner):
    ranks = told_to_ranks(runner, "-np", 2)
    for number, told in enumerate(ranks):
        port = told.pop("MASTER_PORT")
        assert 1024 <= int(port) < 65536 and port == ranks[0].get("MASTER_PORT", port)
        assert told == {"RANK": str(number), "WORLD_SIZE": "2", "LOCAL_RANK": str(number), "LOCAL_WORLD_SIZE": "2",
                        "MASTER_ADDR": "127.0.0.1", "TORCHELASTIC_RUN_ID": None}


def test_what_the_user_says_about_the_master_stays(runner):
    runner.environment.update(MASTER_ADDR="there", MASTER_PORT="29400", RANK="5", WORLD_SIZE="6")
    (told,) = told_to_ranks(runner, "-np", 1)
    assert (told["MASTER_ADDR"], told["MASTER_PORT"], told["RANK"], told["WORLD_SIZE"]) == ("there", "29400", "0", "1")


@pytest.mark.parametrize("around", [{"HOROVOD_RANK": "0"}, {"HVD_LAUNCHER_MASTER": "there:29400"}, {"TORCHELASTIC_RUN_ID": "x"}])
def test_what_a_job_around_this_one_says_does_not(runner, around):
    runner.environment.update(around, MASTER_ADDR="there", MASTER_PORT="29400", RANK="1", WORLD_SIZE="2")
    (told,) = told_to_ranks(runner, "-np", 1)
    assert (told["MASTER_ADDR"], told["RANK"], told["TORCHELASTIC_RUN_ID"]) == ("127.0.0.1", "0", None)
    assert "RANK" not in environment.forwarded({"RANK": "1", **around})


def test_variables_are_told_once_by_horovodrun(runner):
    runner.environment["HOROVOD_AUTOTUNE"] = "1"
    assert runner.run("-np", 2, "true") == (0, "", "horovodrun: HOROVOD_AUTOTUNE: has no effect in this version\n")


def test_other_launchers_are_told_by_rank_0(runner):
    program = runner.folder / "alone.py"
    program.write_text("import horovod as hvd\nfor _ in range(2):\n    hvd.init(); hvd.shutdown()\n")
    runner.environment["HOROVOD_CYCEL_TIME"] = "3"
    done = subprocess.run([sys.executable, str(program)], env=runner.environment, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (
        0, "horovod: HOROVOD_CYCEL_TIME: no such variable; did you mean HOROVOD_CYCLE_TIME?\n")


def test_gloo_without_its_plug_in_runs_natively(runner):
    runner.environment["HOROVOD_BACKEND_PATH"] = str(runner.folder)
    command = runner.script("print(os.environ.get('HOROVOD_CPU_OPERATIONS'))")
    code, out, err = runner.run("--gloo", "-np", 1, *command)
    assert (code, out) == (0, "[0]<stdout>:None\n")
    assert err.startswith("horovodrun: --gloo: Gloo's plug-in is not here, so the ranks run on the native engine") and err.count("\n") == 1
    runner.environment["HOROVOD_CPU_OPERATIONS"] = "gloo"
    assert runner.run("--gloo", "-np", 1, *command) == (0, "[0]<stdout>:gloo\n", "")


def test_a_process_without_horovodruns_names_is_a_job_of_its_own(runner):
    """As programs start a server: with the environment but for what begins with HOROVOD_."""
    child = "import horovod as hvd; hvd.init(); print(hvd.rank(), hvd.size())"
    environment = "{name: value for name, value in os.environ.items() if not name.startswith('HOROVOD_')}"
    command = runner.script(f"import subprocess; subprocess.run([sys.executable, '-c', {child!r}], env={environment}, timeout=60)")
    code, out, err = runner.run("-np", 2, *command)
    assert (code, sorted(out.splitlines()), err) == (0, ["[0]<stdout>:0 1", "[1]<stdout>:0 1"], "")
