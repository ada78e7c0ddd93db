# SPDX-License-Identifier: Apache-2.0
"""The token with which Prometheus reads the metrics of a job."""

import os

from horovod.common.metrics_token import of_secret

from .flags import fail


def write(path: str, secret: str) -> None:
    """Puts the token of the job with this secret into a file that only this user can read, also if it was there before."""
    part = f"{path}.{os.getpid()}.part"
    try:
        with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "w") as file:
            file.write(of_secret(secret) + "\n")
        os.replace(part, path)
    except OSError as error:
        fail(f"--metrics-token-out {path}: cannot be written: {error.strerror.lower()}")
