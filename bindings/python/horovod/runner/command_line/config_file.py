# SPDX-License-Identifier: Apache-2.0
"""The config file of horovodrun: YAML with values for flags. A flag on the command line wins over it."""

import argparse
from typing import Any, Callable

from .flags import REAL, SHARE, WHOLE


class ConfigError(ValueError):
    """The file cannot be used; the text says which value and why."""


def _truth(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError
    return value


def _not(value: Any) -> bool:
    return not _truth(value)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError
    return value


def _number(kind: Callable) -> Callable:
    def convert(value):
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise ValueError
        return kind(str(value))

    return convert


def _level(value: Any) -> str:
    level = _text(value).lower()
    if level not in ("trace", "debug", "info", "warning", "error", "fatal"):
        raise ValueError
    return level


def _controller(value: Any) -> str:
    if value not in ("gloo", "mpi"):
        raise ValueError
    return value


_WHOLE, _REAL, _SHARE = _number(WHOLE), _number(REAL), _number(SHARE)
# section: {key: (flag as argparse names it, how the value is read, what is expected)}
_TABLE = {
    "params": {
        "fusion_threshold_mb": ("fusion_threshold_mb", _WHOLE, "a number from 0"),
        "cycle_time_ms": ("cycle_time_ms", _REAL, "a number from 0"),
        "cache_capacity": ("cache_capacity", _WHOLE, "a number from 0"),
        "hierarchical_allreduce": ("hierarchical_allreduce", _truth, "true or false"),
        "hierarchical_allgather": ("hierarchical_allgather", _truth, "true or false"),
        "torus_allreduce": ("torus_allreduce", _truth, "true or false"),
    },
    "autotune": {
        "enabled": ("autotune", _truth, "true or false"),
        "log_file": ("autotune_log_file", _text, "a file name"),
        "warmup_samples": ("autotune_warmup_samples", _WHOLE, "a number from 0"),
        "steps_per_sample": ("autotune_steps_per_sample", _WHOLE, "a number from 0"),
        "bayes_opt_max_samples": ("autotune_bayes_opt_max_samples", _WHOLE, "a number from 0"),
        "gaussian_process_noise": ("autotune_gaussian_process_noise", _SHARE, "a number from 0 to 1"),
    },
    "timeline": {
        "filename": ("timeline_filename", _text, "a file name"),
        "mark_cycles": ("timeline_mark_cycles", _truth, "true or false"),
    },
    "stall_check": {
        "enabled": ("no_stall_check", _not, "true or false"),
        "warning_time_seconds": ("stall_check_warning_time_seconds", _WHOLE, "a number from 0"),
        "shutdown_time_seconds": ("stall_check_shutdown_time_seconds", _WHOLE, "a number from 0"),
    },
    "library_options": {
        "mpi_threads_disable": ("mpi_threads_disable", _truth, "true or false"),
        "num_nccl_streams": ("num_nccl_streams", _WHOLE, "a number from 0"),
        "thread_affinity": ("thread_affinity", _WHOLE, "a number from 0"),
        "gloo_timeout_seconds": ("gloo_timeout_seconds", _WHOLE, "a number from 0"),
    },
    "logging": {
        "level": ("log_level", _level, "trace, debug, info, warning, error or fatal"),
        "with_timestamp": ("log_without_timestamp", _not, "true or false"),
    },
}


def apply(args: argparse.Namespace, path: str) -> None:
    """Fills in the flags that were not given."""
    for key, content in _load(path).items():
        if content is None:
            continue
        if key == "controller":
            _set(args, path, key, content, ("controller", _controller, "gloo or mpi"))
        elif key == "grace_period":
            _set(args, path, key, content, ("grace_period", _REAL, "a number of seconds from 0"))
        elif key not in _TABLE:
            known = ", ".join(["controller", "grace_period", *_TABLE])
            raise ConfigError(f'config file {path}: unknown section "{key}"; known: {known}')
        elif not isinstance(content, dict):
            raise ConfigError(f'config file {path}: section "{key}" holds no names with values')
        else:
            for name, value in content.items():
                if name not in _TABLE[key]:
                    known = ", ".join(_TABLE[key])
                    raise ConfigError(f'config file {path}: unknown name "{name}" in section "{key}"; known: {known}')
                if value is not None:
                    _set(args, path, f"{key}.{name}", value, _TABLE[key][name])


def _load(path: str) -> dict:
    try:
        import yaml
    except ImportError:
        raise ConfigError("config files need PyYAML; pip install pyyaml") from None
    try:
        with open(path, encoding="utf-8") as file:
            content = yaml.safe_load(file)
    except OSError as error:
        raise ConfigError(f"config file {path}: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"config file {path}: is no YAML: {' '.join(str(error).split())}") from None
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise ConfigError(f"config file {path}: holds no sections")
    return content


def _set(args: argparse.Namespace, path: str, name: str, value: Any, entry: tuple) -> None:
    flag, read, expected = entry
    try:
        converted = read(value)
    except (ValueError, argparse.ArgumentTypeError):
        raise ConfigError(f"config file {path}: {name} is {value!r}, expected {expected}") from None
    if getattr(args, flag) is None:
        setattr(args, flag, converted)
