# SPDX-License-Identifier: Apache-2.0
"""Frames: what the launcher and its agents say to each other, over a socket or through ssh.

A frame is a kind (one byte), the length of what follows (four bytes, network order), and that. Three kinds:
  MESSAGE   a JSON object; agent.py lists them
  OUTPUT    rank (four bytes), stream (one byte: 1 stdout, 2 stderr), bytes that the rank wrote; none: the stream has ended
  FILE      length of a name (one byte), the name, bytes to append to the file of this name; none: the file is complete
An agent runs where this package need not exist, so this imports only the standard library.
"""

import json
import os
import struct

MESSAGE, OUTPUT, FILE = b"M", b"O", b"F"
_HEAD = struct.Struct("!cI")
_STREAM = struct.Struct("!IB")
_LONGEST = 64 << 20  # more can only be noise
PIECE = 1 << 16


class BrokenStream(Exception):
    """What arrived is no frame."""


class Channel:
    """Frames over two descriptors (or one socket, given twice). Never blocks: what cannot go out yet waits here."""

    def __init__(self, reader, writer):
        self.reader, self.writer = reader, writer
        self.broken = False  # nobody reads any more; what is sent then is dropped
        os.set_blocking(reader, False)
        os.set_blocking(writer, False)
        self._out = bytearray()
        self._in = bytearray()
        self._flushing = False

    @property
    def pending(self):
        """Bytes that wait to go out."""
        return len(self._out)

    def send(self, **message):
        self._put(MESSAGE, json.dumps(message).encode())

    def send_output(self, rank, stream, data):
        self._put(OUTPUT, _STREAM.pack(rank, stream) + data)

    def send_file(self, name, data):
        encoded = name.encode()
        self._put(FILE, bytes([len(encoded)]) + encoded + data)

    def _put(self, kind, payload):
        self._out += _HEAD.pack(kind, len(payload)) + payload  # one step: a signal handler may send as well
        self.flush()

    def send_raw(self, data):
        """Bytes that are no frame, before the first frame."""
        self._out += data
        self.flush()

    def flush(self):
        """Writes what goes without waiting."""
        if self._flushing:
            return  # called by a signal handler inside the loop below, which goes on by itself
        self._flushing = True
        try:
            while self._out and not self.broken:
                del self._out[: os.write(self.writer, bytes(self._out[: 1 << 18]))]
        except BlockingIOError:
            pass
        except OSError:
            self.broken = True
        finally:
            self._flushing = False
        if self.broken:
            self._out.clear()

    def receive(self):
        """The frames that have arrived, as (kind, payload); None at the end of the stream."""
        data = self.read()
        return None if data is None else self.feed(data)

    def read(self):
        """The bytes that have arrived; None at the end of the stream."""
        try:
            return os.read(self.reader, 1 << 18) or None
        except BlockingIOError:
            return b""
        except OSError:
            return None

    def feed(self, data):
        """The frames that are complete with these bytes."""
        self._in += data
        frames, position = [], 0
        while len(self._in) - position >= _HEAD.size:
            kind, length = _HEAD.unpack_from(self._in, position)
            if kind not in (MESSAGE, OUTPUT, FILE) or length > _LONGEST:
                raise BrokenStream(f"frame of kind {kind!r} with {length} bytes")
            end = position + _HEAD.size + length
            if len(self._in) < end:
                break
            frames.append((kind, bytes(self._in[position + _HEAD.size : end])))
            position = end
        del self._in[:position]
        return frames


def read_message(payload):
    """The object of a MESSAGE frame."""
    message = json.loads(payload)
    if not isinstance(message, dict):
        raise BrokenStream("message that is no object")
    return message


def read_output(payload):
    """Rank, stream and bytes of an OUTPUT frame."""
    rank, stream = _STREAM.unpack_from(payload)
    return rank, stream, payload[_STREAM.size :]


def read_file(payload):
    """Name and bytes of a FILE frame; the name has no folder."""
    end = 1 + payload[0]
    name = payload[1:end].decode()
    if "/" in name or name.startswith("."):
        raise BrokenStream(f'file "{name}"')
    return name, payload[end:]


def append_file(folder, payload):
    """Does what a FILE frame asks for; the file has its name only once it is complete, and only its user can read it."""
    name, data = read_file(payload)
    part = os.path.join(folder, name + ".part")
    descriptor = os.open(part, os.O_CREAT | os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]
    finally:
        os.close(descriptor)
    if not data:
        os.rename(part, os.path.join(folder, name))


def file_pieces(path):
    """The content of a file for FILE frames, with the empty piece that ends it."""
    with open(path, "rb") as file:
        while True:
            piece = file.read(PIECE)
            yield piece
            if not piece:
                return
