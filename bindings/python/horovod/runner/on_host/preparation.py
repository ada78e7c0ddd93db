# SPDX-License-Identifier: Apache-2.0
"""What an agent makes ready on its host before ranks start: private folder, secret, addresses and port where ranks meet.

Standard library only, see frames.py.
"""

import os

_RENDEZVOUS, SECRET = "rendezvous", "secret"


class Preparation:
    """The job's belongings on this host. A folder that the launcher gave is the launcher's to remove."""

    def __init__(self, order):
        self._own = None
        self._reserved = []
        self.folder = order["folder"]
        if self.folder is None:
            import private_dir

            self._own = private_dir.PrivateDir()
            self.folder = self._own.path
            if order["secret"] is not None:
                write_secret(self.folder, order["secret"])
        try:
            self.facts = self._look(order)
        except BaseException:
            self.close()
            raise

    def _look(self, order):
        facts = {"folder": self.folder, "cores": len(os.sched_getaffinity(0)), "cwd": os.path.isdir(order["cwd"])}
        if order["interfaces"] or order["reserve"]:
            import interfaces

            facts["interfaces"] = sorted({name for name, _, _ in interfaces.every_address()})
            if order["interfaces"]:
                interfaces.check(order["interfaces"])
            if order["reserve"]:
                self._reserve(facts, order)
        return facts

    def _reserve(self, facts, order):
        """Where ranks here can be met: addresses, and a port for each. Only rank 0's host must have an address."""
        import interfaces

        try:
            facts["addresses"] = interfaces.addresses(order["interfaces"])
        except interfaces.InterfaceError:
            if order["first"]:
                raise
            facts["addresses"] = []
        self._reserved = [interfaces.reserve_port() for _ in range(order["reserve"])]
        facts["ports"] = [reserved.getsockname()[1] for reserved in self._reserved]

    def rendezvous(self):
        """The URL of a folder here, for ranks that are all on this host."""
        path = os.path.join(self.folder, _RENDEZVOUS)
        os.makedirs(path, mode=0o700, exist_ok=True)
        return f"file://{path}"

    def close(self):
        for reserved in self._reserved:
            reserved.close()
        self._reserved = []
        if self._own is not None:
            self._own.remove()
            self._own = None


def write_secret(folder, digits):
    """The file from which ranks read the job's secret."""
    flags = os.O_CREAT | os.O_WRONLY | os.O_EXCL | os.O_CLOEXEC
    descriptor = os.open(os.path.join(folder, SECRET), flags, 0o600)
    try:
        os.write(descriptor, digits.encode())
    finally:
        os.close(descriptor)
