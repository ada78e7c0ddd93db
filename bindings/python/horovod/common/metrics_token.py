# SPDX-License-Identifier: Apache-2.0
"""The token of a job for its metrics. horovodrun and the ranks make the same one, and nobody has to send it."""

import hashlib
import hmac


def of_secret(secret):
    """The token of the job that has this secret: 64 hexadecimal digits, which tell nothing about the secret."""
    return hmac.new(secret.strip().encode(), b"hvd metrics token", hashlib.sha256).hexdigest()
