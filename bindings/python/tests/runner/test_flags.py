# SPDX-License-Identifier: Apache-2.0
"""The command line: every flag of Horovod's horovodrun is known, becomes the right variable, or says that it has no effect."""

import pytest

from horovod.common import environment_names
from horovod.runner.command_line import unsupported
from horovod.runner.command_line.flags import WITHOUT_EFFECT, build_parser, parse
from horovod.runner.plan import environment

# Flags with the variables that they set.
VARIABLES = [
    ("--fusion-threshold-mb 2", {"HOROVOD_FUSION_THRESHOLD": "2097152"}),
    ("--fusion-threshold-mb 0", {"HOROVOD_FUSION_THRESHOLD": "0"}),
    ("--cycle-time-ms 1.5", {"HOROVOD_CYCLE_TIME": "1.5"}),
    ("--cache-capacity 7", {"HOROVOD_CACHE_CAPACITY": "7"}),
    ("--hierarchical-allreduce", {"HOROVOD_HIERARCHICAL_ALLREDUCE": "1"}),
    ("--no-hierarchical-allreduce", {"HOROVOD_HIERARCHICAL_ALLREDUCE": "0"}),
    ("--hierarchical-allgather", {"HOROVOD_HIERARCHICAL_ALLGATHER": "1"}),
    ("--no-hierarchical-allgather", {"HOROVOD_HIERARCHICAL_ALLGATHER": "0"}),
    ("--torus-allreduce", {"HOROVOD_TORUS_ALLREDUCE": "1"}),
    ("--no-torus-allreduce", {"HOROVOD_TORUS_ALLREDUCE": "0"}),
    ("--autotune", {"HOROVOD_AUTOTUNE": "1"}),
    ("--autotune-log-file x", {"HOROVOD_AUTOTUNE_LOG": "x"}),
    ("--autotune-warmup-samples 3", {"HOROVOD_AUTOTUNE_WARMUP_SAMPLES": "3"}),
    ("--autotune-steps-per-sample 4", {"HOROVOD_AUTOTUNE_STEPS_PER_SAMPLE": "4"}),
    ("--autotune-bayes-opt-max-samples 5", {"HOROVOD_AUTOTUNE_BAYES_OPT_MAX_SAMPLES": "5"}),
    ("--autotune-gaussian-process-noise 0.5", {"HOROVOD_AUTOTUNE_GAUSSIAN_PROCESS_NOISE": "0.5"}),
    ("--timeline-filename x", {"HOROVOD_TIMELINE": "x"}),
    ("--timeline-mark-cycles", {"HOROVOD_TIMELINE_MARK_CYCLES": "1"}),
    ("--no-stall-check", {"HOROVOD_STALL_CHECK_DISABLE": "1"}),
    ("--stall-check", {"HOROVOD_STALL_CHECK_DISABLE": "0"}),
    ("--stall-check-warning-time-seconds 5", {"HOROVOD_STALL_CHECK_TIME_SECONDS": "5"}),
    ("--stall-check-shutdown-time-seconds 9", {"HOROVOD_STALL_SHUTDOWN_TIME_SECONDS": "9"}),
    ("--mpi-threads-disable", {"HOROVOD_MPI_THREADS_DISABLE": "1"}),
    ("--no-mpi-threads-disable", {"HOROVOD_MPI_THREADS_DISABLE": "0"}),
    ("--num-nccl-streams 2", {"HOROVOD_NUM_NCCL_STREAMS": "2"}),
    ("--thread-affinity 3", {"HOROVOD_THREAD_AFFINITY": "3"}),
    ("--gloo-timeout-seconds 40", {"HOROVOD_GLOO_TIMEOUT_SECONDS": "40"}),
    ("--log-level DEBUG", {"HOROVOD_LOG_LEVEL": "debug"}),
    ("--log-without-timestamp", {"HOROVOD_LOG_HIDE_TIME": "1"}),
    ("--log-with-timestamp", {"HOROVOD_LOG_HIDE_TIME": "0"}),
    ("--log-hide-timestamp", {"HOROVOD_LOG_HIDE_TIME": "1"}),
    ("--no-log-hide-timestamp", {"HOROVOD_LOG_HIDE_TIME": "0"}),
    ("--start-timeout 11", {"HOROVOD_START_TIMEOUT": "11"}),
    ("--tcp", {"NCCL_IB_DISABLE": "1"}),
    ("--gloo", {"HOROVOD_CONTROLLER": "gloo", "HOROVOD_CPU_OPERATIONS": "gloo"}),
    ("--mpi", {"HOROVOD_CONTROLLER": "mpi", "HOROVOD_CPU_OPERATIONS": "mpi"}),
]
# The others: accepted, and no variable of the engine.
PLAIN = ["-v", "--version", "-np 2", "--num-proc 2", "-cb", "--check-build", "--disable-cache", "--output-filename x",
         "--verbose",
         "-p 2222", "--ssh-port 2222", "-i key", "--ssh-identity-file key", "--ssh-accept-new", "--network-interfaces a,b",
         "--network-interface a", "--no-autotune", "--min-np 2", "--min-num-proc 2", "--max-np 2", "--max-num-proc 2",
         "--slots-per-host 2", "--elastic-timeout 2", "--reset-limit 2", "--blacklist-cooldown-range 1 2",
         "--mpi-args=x", "--binding-args=x", "-prefix-timestamp", "--prefix-output-with-timestamp", "-H a:2", "--hosts a:2",
         "-hostfile x", "--hostfile x", "--host-discovery-script x", "--jsrun", "--no-timeline-mark-cycles"]


@pytest.mark.parametrize("flags, variables", VARIABLES)
def test_flag_becomes_a_variable(flags, variables):
    assert environment.of_flags(parse([*flags.split(), "true"])) == variables


@pytest.mark.parametrize("flags", PLAIN)
def test_flag_is_known(flags):
    args = parse([*flags.split(), "true"])
    assert args.command == ["true"]
    left = environment.of_flags(args)
    assert left in ({}, {"HOROVOD_AUTOTUNE": "0"}, {"HOROVOD_TIMELINE_MARK_CYCLES": "0"})


def test_without_flags_no_variable_is_set():
    assert environment.of_flags(parse(["true"])) == {}


@pytest.mark.parametrize("flags, text", [
    ("--cycle-time-ms -1", "-1 is less than 0"), ("--autotune-gaussian-process-noise 1.5", "1.5 is more than 1"),
    ("--ssh-port 70000", "70000 is more than 65535"), ("--fusion-threshold-mb x", "invalid int value: 'x'"),
    ("--cycle-time-ms nan", "nan is less than 0"), ("--gloo --mpi", "not allowed with argument"),
    ("-H a:2 --hostfile x", "not allowed with argument"), ("--log-level loud", "invalid choice: 'loud'"),
    ("--network-interfaces a,,b", 'network interfaces "a,,b": an empty name'),
])
def test_wrong_values_are_refused(capsys, flags, text):
    with pytest.raises(SystemExit) as end:
        parse([*flags.split(), "true"])
    assert end.value.code == 2 and text in capsys.readouterr().err


@pytest.mark.parametrize("flags, text", [
    ("--slots-per-host 2", "--slots-per-host: slots of a host that the script of --host-discovery-script lists without a number"),
    ("--mpi --host-discovery-script x", "--mpi: mpirun cannot replace ranks"),
    ("--max-np 4", "--max-np: of elastic jobs"), ("--reset-limit 3", "--reset-limit: of elastic jobs"),
    ("--blacklist-cooldown-range 1 2", "--blacklist-cooldown-range: of elastic jobs"),
    ("--mpi --min-np 2", "--mpi: mpirun cannot replace ranks"),
])
def test_flags_of_elastic_jobs_that_cannot_be_served(flags, text):
    assert unsupported.refusal(parse(["-np", "2", *flags.split(), "true"])).startswith(text)


def test_sizes_of_an_elastic_job_rise(runner):
    code, _, err = runner.run("-np", 2, "--min-np", 3, "true")
    assert code == 2 and "--min-np 3, -np 2, --max-np 2: they do not rise" in err


def test_jsrun_is_refused():
    expected = "--jsrun: LSF's jsrun is not in this version; use --mpi, or no such flag"
    assert unsupported.refusal(parse(["--jsrun", "true"])) == expected


@pytest.mark.parametrize("flags, lines", [
    ("--gloo --hierarchical-allreduce --log-level info", []),
    ("--autotune", ["--autotune: this version does not tune itself; the job runs with its fixed settings"]),
    ("--timeline-filename x --timeline-mark-cycles", []),
    ("--hierarchical-allgather --torus-allreduce --num-nccl-streams 2", []),
    ("--no-torus-allreduce --no-autotune --no-timeline-mark-cycles", []),
    ("--thread-affinity 0", ["--thread-affinity: has no effect in this version"]),
    ("--mpi-args=-x", ["--mpi-args: has no effect without --mpi"]),
    ("--mpi --mpi-args=-x --binding-args=-y", []),
    ("--network-interface a,b", ["--network-interface: takes one name; for several use --network-interfaces"]),
])
def test_flags_without_effect_say_so(flags, lines):
    args = parse([*flags.split(), "true"])
    assert unsupported.refusal(args) is None and unsupported.notices(args) == lines


def test_exactly_the_flags_without_effect_are_announced_as_such():
    """What --help calls idle sets variables that nothing reads, and says so; every other variable of a flag is an option."""
    parser = build_parser()
    idle = next(group for group in parser._action_groups if group.title == WITHOUT_EFFECT)
    idle_names = {name for action in idle._group_actions for name in action.option_strings}
    for flags, variables in VARIABLES:
        name = flags.split()[0]
        names = {variable[len("HOROVOD_"):].lower() for variable in variables if variable.startswith("HOROVOD_")}
        without_effect = bool(names) and names <= environment_names.WITHOUT_EFFECT
        assert without_effect == (name in idle_names), name
        notices = unsupported.notices(parse([*flags.split(), "true"]))
        assert any(line.startswith(name) for line in notices) == without_effect, name
        assert without_effect or names <= environment_names.OPTIONS | {"log_hide_time"}, name


def test_interfaces_are_one_list(monkeypatch):
    args = "--network-interfaces b,a --network-interface c --network-interface a,d true".split()
    monkeypatch.setenv("HOROVOD_NETWORK_INTERFACES", "x")
    assert parse(args).interfaces == ["b", "a", "c", "d"]
    assert parse(["true"]).interfaces == ["x"]
    monkeypatch.delenv("HOROVOD_NETWORK_INTERFACES")
    assert parse(["true"]).interfaces is None


def test_start_timeout_may_come_from_the_environment(monkeypatch, capsys):
    assert parse(["true"]).start_limit == 30
    monkeypatch.setenv("HOROVOD_START_TIMEOUT", "7")
    assert parse(["true"]).start_limit == 7 and parse(["--start-timeout", "3", "true"]).start_limit == 3
    monkeypatch.setenv("HOROVOD_START_TIMEOUT", "soon")
    with pytest.raises(SystemExit):
        parse(["true"])
    assert 'HOROVOD_START_TIMEOUT: "soon" is not a number of seconds above 0' in capsys.readouterr().err


def test_flags_after_the_command_are_the_commands():
    args = parse(["-np", "2", "python", "train.py", "-np", "3", "--verbose"])
    assert args.command == ["python", "train.py", "-np", "3", "--verbose"] and args.num_proc == 2 and args.verbose is None


def test_help_has_a_line_for_every_flag_that_does_something():
    text = build_parser().format_help()
    for flags, _ in VARIABLES[:5]:
        assert flags.split()[0] in text
    for flag in ("--hostfile", "--ssh-port", "--ssh-accept-new", "--network-interfaces", "--config-file", "--mpi-args", "--gloo"):
        assert flag in text
    assert max(map(len, text.splitlines())) <= 120


# ---- config file

EVERYTHING = """
controller: gloo
params:
  fusion_threshold_mb: 32
  cycle_time_ms: 2.5
  cache_capacity: 2048
  hierarchical_allreduce: true
  hierarchical_allgather: false
  torus_allreduce: false
autotune:
  enabled: true
  log_file: log
  warmup_samples: 1
  steps_per_sample: 2
  bayes_opt_max_samples: 3
  gaussian_process_noise: 0.25
timeline:
  filename: line.json
  mark_cycles: true
stall_check:
  enabled: false
  warning_time_seconds: 100
  shutdown_time_seconds: 200
library_options:
  mpi_threads_disable: true
  num_nccl_streams: 2
  thread_affinity: 1
  gloo_timeout_seconds: 50
logging:
  level: INFO
  with_timestamp: false
"""


def config(folder, text):
    path = folder / "config.yaml"
    path.write_text(text)
    return str(path)


def test_config_file_sets_every_flag(tmp_path):
    args = parse(["--config-file", config(tmp_path, EVERYTHING), "true"])
    assert environment.of_flags(args) == {
        "HOROVOD_CONTROLLER": "gloo", "HOROVOD_CPU_OPERATIONS": "gloo", "HOROVOD_FUSION_THRESHOLD": "33554432",
        "HOROVOD_CYCLE_TIME": "2.5", "HOROVOD_CACHE_CAPACITY": "2048", "HOROVOD_HIERARCHICAL_ALLREDUCE": "1",
        "HOROVOD_HIERARCHICAL_ALLGATHER": "0", "HOROVOD_TORUS_ALLREDUCE": "0", "HOROVOD_AUTOTUNE": "1",
        "HOROVOD_AUTOTUNE_LOG": "log", "HOROVOD_AUTOTUNE_WARMUP_SAMPLES": "1", "HOROVOD_AUTOTUNE_STEPS_PER_SAMPLE": "2",
        "HOROVOD_AUTOTUNE_BAYES_OPT_MAX_SAMPLES": "3", "HOROVOD_AUTOTUNE_GAUSSIAN_PROCESS_NOISE": "0.25",
        "HOROVOD_TIMELINE": "line.json", "HOROVOD_TIMELINE_MARK_CYCLES": "1", "HOROVOD_STALL_CHECK_DISABLE": "1",
        "HOROVOD_STALL_CHECK_TIME_SECONDS": "100", "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS": "200",
        "HOROVOD_MPI_THREADS_DISABLE": "1", "HOROVOD_NUM_NCCL_STREAMS": "2", "HOROVOD_THREAD_AFFINITY": "1",
        "HOROVOD_GLOO_TIMEOUT_SECONDS": "50", "HOROVOD_LOG_LEVEL": "info", "HOROVOD_LOG_HIDE_TIME": "1"}


@pytest.mark.parametrize("order", [0, 1])
def test_a_flag_wins_over_the_config_file_wherever_it_stands(tmp_path, order):
    parts = [["--config-file", config(tmp_path, EVERYTHING)],
             ["--cycle-time-ms", "9", "--no-hierarchical-allreduce", "--stall-check", "--mpi", "--fusion-threshold-mb", "0"]]
    variables = environment.of_flags(parse([*parts[order], *parts[1 - order], "true"]))
    assert (variables["HOROVOD_CYCLE_TIME"], variables["HOROVOD_HIERARCHICAL_ALLREDUCE"]) == ("9.0", "0")
    assert (variables["HOROVOD_STALL_CHECK_DISABLE"], variables["HOROVOD_CONTROLLER"]) == ("0", "mpi")
    assert variables["HOROVOD_FUSION_THRESHOLD"] == "0"


@pytest.mark.parametrize("text, message", [
    ("params: {cycle_time_ms: fast}", "params.cycle_time_ms is 'fast', expected a number from 0"),
    ("params: {fusion_threshold_mb: -1}", "params.fusion_threshold_mb is -1, expected a number from 0"),
    ("params: {hierarchical_allreduce: 1}", "params.hierarchical_allreduce is 1, expected true or false"),
    ("autotune: {gaussian_process_noise: 2}", "autotune.gaussian_process_noise is 2, expected a number from 0 to 1"),
    ("logging: {level: loud}", "logging.level is 'loud', expected trace, debug, info, warning, error or fatal"),
    ("controller: jsrun", "controller is 'jsrun', expected gloo or mpi"),
    ("speed: {x: 1}", 'unknown section "speed"; known: controller, grace_period, params, autotune,'),
    ("params: {speed: 1}", 'unknown name "speed" in section "params"; known: fusion_threshold_mb,'),
    ("params: 3", 'section "params" holds no names with values'),
    ("- a", "holds no sections"),
    ("params: {", "is no YAML: "),
])
def test_wrong_config_file_names_what_is_wrong(tmp_path, capsys, text, message):
    with pytest.raises(SystemExit) as end:
        parse(["--config-file", config(tmp_path, text), "true"])
    err = capsys.readouterr().err
    assert end.value.code == 2 and message in err and "config.yaml" in err and err.count("\n") == 1


def test_config_file_that_is_not_there_or_empty(tmp_path, capsys):
    with pytest.raises(SystemExit):
        parse(["--config-file", str(tmp_path / "none"), "true"])
    assert "none: No such file or directory" in capsys.readouterr().err
    assert environment.of_flags(parse(["--config-file", config(tmp_path, "params:\n# nothing\n"), "true"])) == {}
