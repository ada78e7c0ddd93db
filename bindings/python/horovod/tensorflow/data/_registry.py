# SPDX-License-Identifier: Apache-2.0
"""Who serves data where: a small server that dispatchers and workers tell, and that trainers ask.

A message is one line of JSON each way. The server sends a number that is never used again; the answer to it, and what comes back,
carry an HMAC with the key of the configuration, so nobody without the key is listened to.
"""

import hmac
import json
import secrets
import socket
import socketserver
import threading
import time

_LONGEST = 1 << 16


class TimeoutException(Exception):
    """What was waited for did not happen in time."""


def _sign(key, nonce, body):
    return hmac.new(key, nonce + body, "sha256").hexdigest().encode()


def _send(stream, key, nonce, message):
    body = json.dumps(message).encode()
    stream.write(_sign(key, nonce, body) + b" " + body + b"\n")
    stream.flush()


def _receive(stream, key, nonce, who):
    given, _space, body = stream.readline(_LONGEST).rstrip(b"\n").partition(b" ")
    if not hmac.compare_digest(given, _sign(key, nonce, body)):
        raise ConnectionError(f"data service: {who}: the message is not signed with this job's key")
    return json.loads(body)


class _Handler(socketserver.StreamRequestHandler):
    def handle(self):
        service, nonce = self.server.service, secrets.token_hex(16).encode()
        self.wfile.write(nonce + b"\n")
        self.wfile.flush()
        try:
            request = _receive(self.rfile, service.key, nonce + b"?", self.client_address[0])
        except (ConnectionError, ValueError):
            return  # a stranger
        try:
            answer = {"result": service.answer(request)}
        except (IndexError, ValueError, TimeoutException) as error:
            answer = {"error": type(error).__name__, "text": str(error)}
        _send(self.wfile, service.key, nonce + b"!", answer)


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True


class ComputeService:
    """The server. It runs in threads of this process until ``shutdown()`` of a client or of its own."""

    def __init__(self, dispatchers, workers_per_dispatcher, key, nics=None):
        self.key = key
        self._workers_wanted = workers_per_dispatcher
        self._dispatchers = [None] * dispatchers
        self._workers = [set() for _ in range(dispatchers)]
        self._over = False
        self._changed = threading.Condition()
        self._server = _Server(("", 0), _Handler)
        self._server.service = self
        threading.Thread(target=self._server.serve_forever, daemon=True, name="hvd-data-service").start()

    def addresses(self):
        """[host, port] pairs under which the server may be reached."""
        port = self._server.server_address[1]
        hosts = [socket.gethostname(), "127.0.0.1"]
        return [[host, port] for host in dict.fromkeys(hosts)]

    def shutdown(self):
        """Tells everybody who waits for the end; the server stops when it is closed."""
        with self._changed:
            self._over = True
            self._changed.notify_all()

    def close(self):
        """Ends the server."""
        self.shutdown()
        self._server.shutdown()
        self._server.server_close()

    def answer(self, request):
        """The result of a request, which may have to wait for it."""
        kind, number, timeout = request["kind"], request.get("dispatcher"), request.get("timeout")
        if number is not None and not 0 <= number < len(self._dispatchers):
            raise IndexError(f"dispatcher {number}: there are {len(self._dispatchers)}")
        with self._changed:
            if kind == "register_dispatcher":
                known = self._dispatchers[number]
                if known not in (None, request["address"]):
                    raise ValueError(f"dispatcher {number}: registered as {known}, now as {request['address']}")
                self._dispatchers[number] = request["address"]
            elif kind == "register_worker":
                self._workers[number].add(request["worker"])
            elif kind == "shutdown":
                self._over = True
            elif kind == "dispatcher":
                self._wait(lambda: self._dispatchers[number], timeout, f"dispatcher {number} did not register")
                return self._dispatchers[number]
            elif kind == "workers":
                ready = lambda: len(self._workers[number]) >= self._workers_wanted  # noqa: E731
                self._wait(ready, timeout, f"the {self._workers_wanted} workers of dispatcher {number} did not register")
            elif kind == "over":
                self._wait(lambda: self._over, timeout, "nobody shut the service down")
            else:
                raise ValueError(f"request {kind!r} is unknown")
            self._changed.notify_all()
        return None

    def _wait(self, ready, timeout, what):
        if not self._changed.wait_for(lambda: ready() or self._over, timeout) or not (ready() or what.startswith("nobody")):
            raise TimeoutException(f"data service: {what} within {timeout} s")


_ERRORS = {"IndexError": IndexError, "ValueError": ValueError, "TimeoutException": TimeoutException}


class ComputeClient:
    """Calls the server of a :class:`ComputeService`, wherever it answers."""

    def __init__(self, addresses, key, verbose=1, timeout=60):
        self._addresses, self._key, self._timeout = addresses, key, timeout

    def _connect(self):
        tried = []
        for host, port in self._addresses:
            try:
                return socket.create_connection((host, port), timeout=10)
            except OSError as error:
                tried.append(f"{host}:{port}: {error}")
        raise ConnectionError(f"data service: no address answers: {'; '.join(tried)}")

    def _call(self, kind, timeout=None, **arguments):
        with self._connect() as connection, connection.makefile("rwb") as stream:
            connection.settimeout(None if timeout is None else timeout + 10)
            nonce = stream.readline(_LONGEST).rstrip(b"\n")
            _send(stream, self._key, nonce + b"?", {"kind": kind, "timeout": timeout, **arguments})
            answer = _receive(stream, self._key, nonce + b"!", "server")
        if "error" in answer:
            raise _ERRORS[answer["error"]](answer["text"])
        return answer["result"]

    def register_dispatcher(self, dispatcher_id, dispatcher_address):
        """This dispatcher serves there. ValueError if it is registered with another address, IndexError if there is none."""
        self._call("register_dispatcher", dispatcher=dispatcher_id, address=dispatcher_address)

    def wait_for_dispatcher_registration(self, dispatcher_id, timeout):
        """The address of the dispatcher, as soon as it is known."""
        return self._call("dispatcher", timeout, dispatcher=dispatcher_id)

    def register_worker_for_dispatcher(self, dispatcher_id, worker_id):
        """This worker serves that dispatcher."""
        self._call("register_worker", dispatcher=dispatcher_id, worker=worker_id)

    def wait_for_dispatcher_worker_registration(self, dispatcher_id, timeout):
        """Returns when all workers of the dispatcher are there."""
        self._call("workers", timeout, dispatcher=dispatcher_id)

    def shutdown(self):
        """Ends the service for everybody."""
        self._call("shutdown")

    def wait_for_shutdown(self, timeout=None):
        """Returns when somebody has called shutdown, or when the server is gone."""
        try:
            self._call("over", timeout)
        except (ConnectionError, OSError):
            time.sleep(0)
