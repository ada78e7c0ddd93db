# SPDX-License-Identifier: Apache-2.0
"""One row for each flag of horovodrun that sets a variable or can stand in a config file.

The command line, the config file, the environment of the ranks and the notices about flags without effect are made from it.
"""

import argparse
from dataclasses import dataclass
from typing import Any, Callable, Optional, Tuple


def at_least(kind, smallest, largest=None):
    """A type for values of flags that are numbers of this kind, not smaller than `smallest`."""

    def convert(text):
        value = kind(text)
        if not value >= smallest:
            raise argparse.ArgumentTypeError(f"{text} is less than {smallest}")
        if largest is not None and value > largest:
            raise argparse.ArgumentTypeError(f"{text} is more than {largest}")
        return value

    convert.__name__ = kind.__name__
    return convert


COUNT, WHOLE, REAL, SHARE = at_least(int, 1), at_least(int, 0), at_least(float, 0), at_least(float, 0, 1)


@dataclass(frozen=True)
class Kind:
    """What values a flag takes. `read`: from text. `holds`: the types that a config file may have for it. `expected`: for errors."""

    read: Callable[[str], Any]
    holds: Tuple[type, ...]
    expected: str
    choices: Optional[Tuple[str, ...]] = None

    def of_file(self, value: Any) -> Any:
        """The value as the flag would give it; ValueError or ArgumentTypeError where it is none."""
        is_truth = isinstance(value, bool)
        if not isinstance(value, self.holds) or is_truth != (bool in self.holds):  # Python counts True among the integers
            raise ValueError
        if is_truth:
            return value
        value = self.read(str(value))
        if self.choices is not None and value not in self.choices:
            raise ValueError
        return value


_LEVELS = ("trace", "debug", "info", "warning", "error", "fatal")
SWITCH = Kind(bool, (bool,), "true or false")
_COUNT = Kind(COUNT, (int,), "a number from 1")
_WHOLE = Kind(WHOLE, (int, float), "a number from 0")
_REAL = Kind(REAL, (int, float), "a number from 0")
_SHARE = Kind(SHARE, (int, float), "a number from 0 to 1")
_SECONDS = Kind(REAL, (int, float), "a number of seconds from 0")
_FILE = Kind(str, (str,), "a file name")
_PORT = Kind(at_least(int, 1, 65535), (int,), "a port from 1 to 65535")
_ADDRESS = Kind(str, (str,), "an IP address")
_LEVEL = Kind(str.lower, (str,), "trace, debug, info, warning, error or fatal", _LEVELS)

# The groups of --help in which flags of the table stand. MAIN is the first one, without a title.
MAIN, CARRIERS, ENGINE, STALLS, METRICS, IDLE = range(6)


@dataclass(frozen=True)
class Flag:
    """A row. `name`: as on the command line, without --. `help`: None hides the flag.

    `key`: section and name in a config file; the section of a name outside of sections is "". `key_negates`: the config file
    says the opposite. `also`, `opposites`: other spellings of a switch, and spellings of its opposite. `scale`: by what the value is
    multiplied for the variable. `idle`: what a user of a flag without effect misses; "" says only that there is no effect.
    """

    name: str
    kind: Kind
    group: int
    help: Optional[str]
    variable: Optional[str] = None
    key: Optional[Tuple[str, str]] = None
    key_negates: bool = False
    metavar: Optional[str] = None
    also: Tuple[str, ...] = ()
    opposites: Tuple[str, ...] = ()
    shows_opposite: bool = False
    scale: int = 1
    idle: str = ""

    @property
    def attribute(self) -> str:
        """The name of its value in what argparse returns."""
        return self.name.replace("-", "_")

    def setting(self, value: Any) -> str:
        """What the variable becomes."""
        if self.kind is SWITCH:
            return "1" if value else "0"
        return str(value if self.scale == 1 else value * self.scale)


def _switch(name, group, help, variable, key, shows_opposite=False, idle=""):
    return Flag(name, SWITCH, group, help, variable, key, opposites=(f"--no-{name}",), shows_opposite=shows_opposite, idle=idle)


FLAGS = (
    Flag("start-timeout", _COUNT, MAIN, "time for all hosts to get ready, and for all ranks to have called init (default 30)",
         "HOROVOD_START_TIMEOUT", metavar="SECONDS"),
    Flag("grace-period", _SECONDS, MAIN,
         "how long ranks may go on, to save a checkpoint, after a signal has told horovodrun to stop (default 30, after "
         "Ctrl-C 3, or HOROVOD_GRACE_PERIOD); a second signal kills them", key=("", "grace_period"), metavar="SECONDS"),
    _switch("mpi-threads-disable", CARRIERS, "use MPI from one thread only", "HOROVOD_MPI_THREADS_DISABLE",
            ("library_options", "mpi_threads_disable")),
    Flag("gloo-timeout-seconds", _WHOLE, CARRIERS, "longest wait of Gloo for other ranks", "HOROVOD_GLOO_TIMEOUT_SECONDS",
         ("library_options", "gloo_timeout_seconds"), metavar="SECONDS"),
    Flag("fusion-threshold-mb", _WHOLE, ENGINE, "most data reduced as one operation; 0 reduces each tensor alone",
         "HOROVOD_FUSION_THRESHOLD", ("params", "fusion_threshold_mb"), metavar="MB", scale=1 << 20),
    Flag("cycle-time-ms", _REAL, ENGINE, "longest wait for more tensors to reduce together", "HOROVOD_CYCLE_TIME",
         ("params", "cycle_time_ms"), metavar="MS"),
    Flag("cache-capacity", _WHOLE, ENGINE, "operations whose agreement is remembered", "HOROVOD_CACHE_CAPACITY",
         ("params", "cache_capacity"), metavar="N"),
    _switch("hierarchical-allreduce", ENGINE, "reduce inside each host first", "HOROVOD_HIERARCHICAL_ALLREDUCE",
            ("params", "hierarchical_allreduce"), shows_opposite=True),
    _switch("hierarchical-allgather", ENGINE, "gather every rank's data once on each host", "HOROVOD_HIERARCHICAL_ALLGATHER",
            ("params", "hierarchical_allgather"), shows_opposite=True),
    _switch("torus-allreduce", ENGINE, "NCCL reduces inside each host, then between hosts, then inside",
            "HOROVOD_TORUS_ALLREDUCE", ("params", "torus_allreduce")),
    Flag("num-nccl-streams", _WHOLE, ENGINE, "streams of NCCL, with a communicator for each", "HOROVOD_NUM_NCCL_STREAMS",
         ("library_options", "num_nccl_streams"), metavar="N"),
    Flag("no-stall-check", SWITCH, STALLS, "do not report tensors that some ranks never submit", "HOROVOD_STALL_CHECK_DISABLE",
         ("stall_check", "enabled"), key_negates=True, opposites=("--stall-check",)),
    Flag("stall-check-warning-time-seconds", _WHOLE, STALLS, "report them after this time", "HOROVOD_STALL_CHECK_TIME_SECONDS",
         ("stall_check", "warning_time_seconds"), metavar="SECONDS"),
    Flag("stall-check-shutdown-time-seconds", _WHOLE, STALLS, "end the job after this time; 0 never does",
         "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", ("stall_check", "shutdown_time_seconds"), metavar="SECONDS"),
    Flag("timeline-filename", _FILE, STALLS,
         "write every rank's operations in Chrome's trace format, rank 0's to FILE; horovodrun timeline --help says how to look at "
         "them; DYNAMIC leaves the start to hvd.start_timeline", "HOROVOD_TIMELINE", ("timeline", "filename"), metavar="FILE"),
    _switch("timeline-mark-cycles", STALLS, "mark in it when a group of operations that run together was agreed on",
            "HOROVOD_TIMELINE_MARK_CYCLES", ("timeline", "mark_cycles")),
    Flag("log-level", _LEVEL, STALLS, _LEVEL.expected, "HOROVOD_LOG_LEVEL", ("logging", "level"), metavar="LEVEL"),
    Flag("log-without-timestamp", SWITCH, STALLS, "log lines without the time", "HOROVOD_LOG_HIDE_TIME",
         ("logging", "with_timestamp"), key_negates=True, also=("--log-hide-timestamp",),
         opposites=("--log-with-timestamp", "--no-log-hide-timestamp")),
    Flag("metrics-port", _PORT, METRICS, "serve the metrics of each rank for Prometheus, of local rank N at the Nth port after this one",
         "HOROVOD_METRICS_PORT", ("metrics", "port"), metavar="PORT"),
    Flag("metrics-address", _ADDRESS, METRICS, "where, if not on 127.0.0.1; 0.0.0.0 for every interface, which needs a token",
         "HOROVOD_METRICS_ADDRESS", ("metrics", "address"), metavar="ADDRESS"),
    Flag("metrics-token-out", _FILE, METRICS, "make a token for this job, and write it to FILE, for Prometheus' credentials_file",
         key=("metrics", "token_out"), metavar="FILE"),
    _switch("autotune", IDLE, "tune the engine while it works", "HOROVOD_AUTOTUNE", ("autotune", "enabled"),
            idle="this version does not tune itself; the job runs with its fixed settings"),
    Flag("autotune-log-file", _FILE, IDLE, None, "HOROVOD_AUTOTUNE_LOG", ("autotune", "log_file")),
    Flag("autotune-warmup-samples", _WHOLE, IDLE, None, "HOROVOD_AUTOTUNE_WARMUP_SAMPLES", ("autotune", "warmup_samples")),
    Flag("autotune-steps-per-sample", _WHOLE, IDLE, None, "HOROVOD_AUTOTUNE_STEPS_PER_SAMPLE", ("autotune", "steps_per_sample")),
    Flag("autotune-bayes-opt-max-samples", _WHOLE, IDLE, None, "HOROVOD_AUTOTUNE_BAYES_OPT_MAX_SAMPLES",
         ("autotune", "bayes_opt_max_samples")),
    Flag("autotune-gaussian-process-noise", _SHARE, IDLE, None, "HOROVOD_AUTOTUNE_GAUSSIAN_PROCESS_NOISE",
         ("autotune", "gaussian_process_noise")),
    Flag("thread-affinity", _WHOLE, IDLE, "core of the engine's thread", "HOROVOD_THREAD_AFFINITY",
         ("library_options", "thread_affinity"), metavar="N"),
)
