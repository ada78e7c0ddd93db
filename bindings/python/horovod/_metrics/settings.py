# SPDX-License-Identifier: Apache-2.0
"""Where a rank serves its metrics, and who may read them: what the environment says."""

import ipaddress
import os
import re
from typing import Mapping, NamedTuple, Optional

from horovod.common import metrics_token

PORT = "HOROVOD_METRICS_PORT"
ADDRESS = "HOROVOD_METRICS_ADDRESS"
TOKEN_FILE = "HOROVOD_METRICS_TOKEN_FILE"
JOB_TOKEN = "HOROVOD_METRICS_JOB_TOKEN"  # horovodrun says 1: the token is made from the job's secret
SECRET_FILE = "HOROVOD_SECRET_FILE"
_LOOPBACK = "127.0.0.1"
_TOKEN = re.compile(r"[!-~]{16,}")  # printable characters of ASCII without spaces: what a line of HTTP can carry


class Settings(NamedTuple):
    """``port`` is that of local rank 0; the others follow it. Without a ``token`` everybody who reaches the address may read."""

    port: int
    address: str
    token: Optional[str]


def of_environment(environment: Mapping[str, str]) -> Settings:
    """The settings; ValueError with what is wrong and what to do."""
    address = environment.get(ADDRESS) or _LOOPBACK
    token = _token(environment)
    check_address(address, token is not None)
    return Settings(_port(environment[PORT]), address, token)


def check_address(address: str, has_token: bool) -> None:
    """ValueError if the metrics may not be served there."""
    if not _is_loopback(address) and not has_token:
        raise ValueError(
            f"{ADDRESS} is {address}, where other machines could read the metrics without a token: "
            f"set {TOKEN_FILE} to a file with one, or give horovodrun --metrics-token-out FILE, which makes one"
        )


def _port(text):
    if not text.isdecimal() or not 1 <= int(text) <= 65535:
        raise ValueError(f'{PORT}: "{text}" is not a port from 1 to 65535')
    return int(text)


def _is_loopback(address):
    if address == "localhost":
        return True
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        raise ValueError(f'{ADDRESS}: "{address}" is no IP address; for example 0.0.0.0 for every interface') from None


def _token(environment):
    if environment.get(TOKEN_FILE):
        return _checked(_read(TOKEN_FILE, environment[TOKEN_FILE]).strip(), environment[TOKEN_FILE])
    if environment.get(JOB_TOKEN) == "1" and environment.get(SECRET_FILE):
        return metrics_token.of_secret(_read(SECRET_FILE, environment[SECRET_FILE]))
    return None


def _read(variable, path):
    try:
        with open(path) as file:
            return file.read()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror.lower() if isinstance(error, OSError) else "it is not text"
        raise ValueError(f"{variable}: {os.path.abspath(path)} cannot be read: {why}") from None


def _checked(token, path):
    if not _TOKEN.fullmatch(token):
        raise ValueError(
            f"{TOKEN_FILE}: {os.path.abspath(path)} has to hold one word of 16 characters or more and nothing else; "
            "openssl rand -hex 32 makes one"
        )
    return token
