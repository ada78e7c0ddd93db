# SPDX-License-Identifier: Apache-2.0
"""The config file of horovodrun: YAML with values for flags. A flag on the command line wins over it."""

import argparse
from typing import Any, List

from ..plan.flag_table import FLAGS, Kind


class ConfigError(ValueError):
    """The file cannot be used; the text says which value and why."""


_CONTROLLER = Kind(str, (str,), "gloo or mpi", ("gloo", "mpi"))
# (section, name): (the flag as argparse names it, what values it takes, whether the file says the opposite)
_KEYS = {("", "controller"): ("controller", _CONTROLLER, False)}
_KEYS.update({flag.key: (flag.attribute, flag.kind, flag.key_negates) for flag in FLAGS if flag.key is not None})
_SECTIONS = ("params", "autotune", "timeline", "stall_check", "library_options", "logging")


def _names(section: str) -> List[str]:
    return [name for place, name in _KEYS if place == section]


def apply(args: argparse.Namespace, path: str) -> None:
    """Fills in the flags that were not given."""
    for key, content in _load(path).items():
        if content is None:
            continue
        if ("", key) in _KEYS:
            _set(args, path, key, content, *_KEYS["", key])
        elif key not in _SECTIONS:
            known = ", ".join([*_names(""), *_SECTIONS])
            raise ConfigError(f'config file {path}: unknown section "{key}"; known: {known}')
        elif not isinstance(content, dict):
            raise ConfigError(f'config file {path}: section "{key}" holds no names with values')
        else:
            for name, value in content.items():
                if (key, name) not in _KEYS:
                    known = ", ".join(_names(key))
                    raise ConfigError(f'config file {path}: unknown name "{name}" in section "{key}"; known: {known}')
                if value is not None:
                    _set(args, path, f"{key}.{name}", value, *_KEYS[key, name])


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


def _set(args: argparse.Namespace, path: str, name: str, value: Any, flag: str, kind: Kind, negates: bool) -> None:
    try:
        converted = kind.of_file(value)
    except (ValueError, argparse.ArgumentTypeError):
        raise ConfigError(f"config file {path}: {name} is {value!r}, expected {kind.expected}") from None
    if getattr(args, flag) is None:
        setattr(args, flag, not converted if negates else converted)
