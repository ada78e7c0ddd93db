# SPDX-License-Identifier: Apache-2.0
"""Connections between the probes of `horovodrun doctor`. Standard library only.

A probe listens on a port that the kernel chose, and answers nobody who does not know the token of this run:
  client: nonce (16 bytes), proof (32), order (1: echo 1-byte pings, or take data until the client stops sending)
  server: its number (2 bytes), proof (32); then the echoes, or how much arrived and in what time
A proof is an HMAC of the token over who speaks, the nonce and the number, so a stranger learns nothing from it.
"""

import hashlib
import hmac
import os
import socket
import struct
import threading
import time

ECHO, TAKE = b"E", b"T"
_NUMBER, _RESULT = struct.Struct("!H"), struct.Struct("!Qd")
_PINGS, _PIECE = 10, 1 << 18
_PATIENCE = 5.0  # of a server with a client that says nothing
_SYN_RECEIVED = "03"


def proof(token, who, nonce, number=b""):
    return hmac.new(token, who + nonce + number, hashlib.sha256).digest()


class Listener:
    """Serves other probes until the process ends."""

    def __init__(self, token, number):
        self._token, self._number = token, number
        self._socket = _listen()
        self.port = self._socket.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self):
        self._socket.close()

    def _accept(self):
        while True:
            try:
                client, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client):
        with client:
            try:
                client.settimeout(_PATIENCE)
                client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                hello = _receive(client, 16 + 32 + 1)
                nonce, theirs, order = hello[:16], hello[16:48], hello[48:]
                if not hmac.compare_digest(theirs, proof(self._token, b"client", nonce + order)):
                    return
                number = _NUMBER.pack(self._number)
                client.sendall(number + proof(self._token, b"server", nonce, number))
                (_echo if order == ECHO else _take)(client)
            except OSError:
                pass  # the client has gone, and says itself what it saw

    def half_open(self):
        """Addresses from which a connection was begun whose first answer was not acknowledged: our answers get lost."""
        found = set()
        for table, width in (("/proc/net/tcp", 8), ("/proc/net/tcp6", 32)):
            try:
                with open(table) as file:
                    rows = [line.split() for line in file.readlines()[1:]]
            except OSError:
                continue
            for row in rows:
                if row[3] == _SYN_RECEIVED and int(row[1].rpartition(":")[2], 16) == self.port:
                    found.add(_address(row[2].partition(":")[0], width))
        return sorted(found)


def _listen():
    try:
        both = socket.socket(socket.AF_INET6, socket.SOCK_STREAM)
        both.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        both.bind(("::", 0))
    except OSError:
        both = socket.socket(socket.AF_INET, socket.SOCK_STREAM)  # the kernel does not know IPv6
        both.bind(("", 0))
    both.listen(1024)
    return both


def _address(digits, width):
    words = [struct.pack("=I", int(digits[at : at + 8], 16)) for at in range(0, width, 8)]
    raw = b"".join(words)
    if width == 32 and raw[:12] == bytes(10) + b"\xff\xff":
        raw = raw[12:]  # IPv4 through a socket of both kinds
    return socket.inet_ntop(socket.AF_INET if len(raw) == 4 else socket.AF_INET6, raw)


def _receive(source, size):
    data = b""
    while len(data) < size:
        piece = source.recv(size - len(data))
        if not piece:
            raise ConnectionResetError("closed early")
        data += piece
    return data


def _echo(client):
    while True:
        ping = client.recv(1)
        if not ping:
            return
        client.sendall(ping)


def _take(client):
    buffer, total, began = bytearray(_PIECE), 0, None
    while True:
        count = client.recv_into(buffer)
        began = began or time.monotonic()
        if not count:
            break
        total += count
    client.sendall(_RESULT.pack(total, time.monotonic() - began))


def _open(token, target, address, order, limit):
    """A connection to a probe that has proved to be the right one. Raises OSError."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.settimeout(limit)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        made.connect((address, target["port"]))
        nonce = os.urandom(16)
        made.sendall(nonce + proof(token, b"client", nonce + order) + order)
        answer = _receive(made, 2 + 32)
        if not hmac.compare_digest(answer[2:], proof(token, b"server", nonce, answer[:2])):
            raise ConnectionAbortedError("a stranger answers")
        if _NUMBER.unpack(answer[:2])[0] != target["number"]:
            raise ConnectionAbortedError("another host answers")
        return made
    except BaseException:
        made.close()
        raise


def connect_all(token, targets, limit):
    """Tries every address of every target at once; returns one result for each."""
    results, threads = [], []
    for target in targets:
        for address in target["addresses"]:
            result = {"to": target["number"], "address": address}
            results.append(result)
            threads.append(threading.Thread(target=_try, args=(token, target, address, limit, result), daemon=True))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def _try(token, target, address, limit, result):
    try:
        with _open(token, target, address, ECHO, limit) as made:
            best = None
            for _ in range(_PINGS):
                began = time.monotonic()
                made.sendall(b"p")
                _receive(made, 1)
                took = time.monotonic() - began
                best = took if best is None else min(best, took)
            result.update(state="connected", round_trip=best, source=made.getsockname()[0])
    except socket.timeout:
        result.update(state="no answer", error=f"no answer within {limit:g} s")
    except ConnectionAbortedError as error:
        result.update(state="wrong host", error=str(error))
    except OSError as error:
        result.update(state="refused", error=(error.strerror or str(error)).lower())


def send(token, target, address, seconds, most, limit):
    """Sends data as fast as it goes for a while; returns what arrived, in what time, as the receiver saw it."""
    data = bytes(_PIECE)
    try:
        with _open(token, target, address, TAKE, limit) as made:
            began, sent = time.monotonic(), 0
            while sent < most and time.monotonic() - began < seconds:
                sent += made.send(data)
            made.shutdown(socket.SHUT_WR)
            arrived, took = _RESULT.unpack(_receive(made, _RESULT.size))
            return {"bytes": arrived, "seconds": took}
    except OSError as error:
        return {"error": str(error)}
