# SPDX-License-Identifier: Apache-2.0
"""The address at which Prometheus reads the metrics of this rank: HTTP, by the standard library and prometheus_client.

It serves the registry of prometheus_client, so what the program itself counts there is read at the same address. A thread sleeps
in accept() and wakes for readers only. What fails here never stops a training: it is said once, and the job goes on.
"""

import hmac
import http.server
import os
import socket
import socketserver
import threading

from horovod._metrics import settings
from horovod._native.logging import line_writer
from horovod._native.logging import settings as log_settings

_SECONDS_FOR_A_REQUEST = 10
_READERS = 16  # at a time; others are turned away, so that strangers cannot fill this process with threads
_ERROR, _WARNING, _INFO = 0, 1, 2  # as in hvd_log_level
_running = None  # the _Endpoint of this process


def of_environment():
    """What the environment asks for, to be started when the rank has joined its job; ValueError if it is wrong."""
    return _Endpoint(settings.of_environment(os.environ))


class _Endpoint:
    """The server of one session, from start() to stop()."""

    def __init__(self, wanted):
        self._wanted = wanted
        self._collector = None
        self._server = None
        self._thread = None

    def start(self, session):
        """Begins to serve; says why if that cannot be."""
        global _running
        try:
            import prometheus_client

            from horovod._metrics.collector import Collector
        except ImportError:
            if session.local_rank == 0:
                _say(session, _WARNING, "no metrics for Prometheus: the package prometheus_client is not installed; "
                     "pip install prometheus_client; training goes on")
            return
        port = self._wanted.port + session.local_rank
        where = f"{self._wanted.address}:{port}"
        try:
            self._server = _Server(self._wanted, port)
        except (OSError, OverflowError) as error:
            why = (error.strerror or str(error)).lower() if isinstance(error, OSError) else "there is no such port"
            _say(session, _WARNING, f"no metrics for Prometheus at {where}: {why}; HOROVOD_METRICS_PORT or horovodrun "
                 "--metrics-port chooses another port, of which local rank N takes the Nth after it; training goes on")
            return
        self._collector = Collector(session)
        prometheus_client.REGISTRY.register(self._collector)
        self._thread = threading.Thread(target=self._server.serve, name="hvd-metrics", daemon=True)
        self._thread.start()
        _running = self
        _say(session, _INFO, f"metrics for Prometheus at http://{where}/metrics")

    def stop(self):
        """Closes the port and forgets the session, if start() could serve."""
        global _running
        if _running is not self:
            return
        import prometheus_client

        _running = None
        prometheus_client.REGISTRY.unregister(self._collector)
        self._collector.forget()
        self._server.wake_to_end()
        self._thread.join()
        self._server.server_close()

    def abandon_in_child(self):
        """In a process made by fork, which would keep the port taken after the end of its parent."""
        self._collector.forget_in_child()
        self._server.socket.close()


def _say(session, level, text):
    place = os.environ.get("HOROVOD_HOSTNAME") or socket.gethostname()
    line_writer(*log_settings())(None, level, session.rank, b"metrics", f"rank {session.rank} on {place}: {text}".encode())


def _after_fork_in_child():
    global _running
    if _running is not None:
        _running.abandon_in_child()
        _running = None


os.register_at_fork(after_in_child=_after_fork_in_child)


class _Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
    block_on_close = False  # nobody waits for a slow reader
    request_queue_size = 16

    def __init__(self, wanted, port):
        self.address_family = socket.AF_INET6 if ":" in wanted.address else socket.AF_INET
        self.token = None if wanted.token is None else wanted.token.encode()
        self._stopped = False
        self._places = threading.BoundedSemaphore(_READERS)
        super().__init__((wanted.address, port), _Handler)

    def server_bind(self):
        """Without the look for the machine's full name, which asks name servers."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = self.server_address[:2]

    def serve(self):
        """Until wake_to_end()."""
        while not self._stopped:
            self.handle_request()

    def process_request(self, request, client_address):
        """A thread for this reader, if there is a place."""
        if not self._places.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except RuntimeError:  # the system refuses a thread
            self._places.release()
            self.shutdown_request(request)

    def process_request_thread(self, request, client_address):
        """Serves a reader and gives its place back."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._places.release()

    def wake_to_end(self):
        """Ends serve(), which sleeps until somebody connects or nobody can any more."""
        self._stopped = True
        self.socket.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request, client_address):
        """A reader that hung up or fell silent is no error of the training."""


class _Handler(http.server.BaseHTTPRequestHandler):
    timeout = _SECONDS_FOR_A_REQUEST
    server_version, sys_version = "hvd", ""

    def do_GET(self):
        """The metrics, for those who have the token."""
        if not self._may_read():
            self._answer(401, "this needs the header Authorization: Bearer TOKEN\n", ("WWW-Authenticate", "Bearer"))
        elif self.path.partition("?")[0] not in ("/", "/metrics"):
            self._answer(404, "metrics are at /metrics\n")
        else:
            self._give_metrics()

    def _may_read(self):
        if self.server.token is None:
            return True
        kind, _, given = self.headers.get("Authorization", "").partition(" ")
        known = hmac.compare_digest(given.strip().encode("utf-8", "replace"), self.server.token)
        return known and kind.lower() == "bearer"

    def _give_metrics(self):
        from prometheus_client import REGISTRY
        from prometheus_client.exposition import choose_encoder

        encode, content_type = choose_encoder(self.headers.get("Accept"))
        try:
            body = encode(REGISTRY)
        except Exception as error:  # of a collector of the program
            self._answer(500, f"a collector failed: {type(error).__name__}: {error}\n")
            return
        self._answer(200, body, ("Content-Type", content_type))

    def _answer(self, status, body, *headers):
        body = body.encode() if isinstance(body, str) else body
        self.send_response(status)
        for name, value in headers or [("Content-Type", "text/plain; charset=utf-8")]:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_arguments):
        """Requests are no news."""
