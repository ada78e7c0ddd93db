# SPDX-License-Identifier: Apache-2.0
"""Plain values and arrays as bytes and back, for HOROVOD_SAFE_OBJECTS. Reading runs no code that the bytes choose.

A payload is the length of the tokens (8 bytes, little-endian), the tokens, then the memory of arrays and bytes objects.
Tokens are msgpack objects in a row: None, bool, int, float and str as they are, everything else begins with a token
that says its kind and how many values follow, which are its parts. So nothing is nested for msgpack, and no number in
the bytes decides about an allocation: what is built is never larger than a fixed multiple of what was received.
"""

import struct
from collections import OrderedDict

from horovod import _safe_arrays

DEEPEST = 100
_ON = "HOROVOD_SAFE_OBJECTS=1"
ALLOWED = ("None, bool, int of 64 bits, float, complex, str, bytes, list, tuple, dict, OrderedDict, set, frozenset, "
           "NumPy arrays and scalars, and PyTorch tensors on the CPU")
_LIST, _TUPLE, _DICT, _ORDERED, _SET, _FROZENSET, _COMPLEX, _BYTES = range(1, 9)
_ARRAY, _SCALAR, _TENSOR = range(16, 19)
_SEQUENCES = {list: _LIST, tuple: _TUPLE, set: _SET, frozenset: _FROZENSET}
_MAPPINGS = {dict: _DICT, OrderedDict: _ORDERED}
_LENGTH = struct.Struct("<Q")


def encode(obj, what):
    """The payload as a list of buffers. TypeError or ValueError names the part of ``what`` that cannot be sent."""
    encoder = _Encoder(what)
    encoder.add(obj)
    tokens = encoder.packer.bytes()
    return [_LENGTH.pack(len(tokens)), tokens, *encoder.memory]


def decode(data, what):
    """The object of a payload; ValueError if it is none."""
    try:
        return _Decoder(memoryview(data)).object()
    except _Malformed as error:
        raise ValueError(f"{what}: malformed payload of {len(data)} bytes: {error}") from None


class _Malformed(Exception):
    """What is wrong with a payload."""


def _msgpack():
    try:
        import msgpack
    except ImportError as error:
        raise ImportError(f"HOROVOD_SAFE_OBJECTS: msgpack cannot be imported ({error}); pip install msgpack") from error
    return msgpack


class _Encoder:
    def __init__(self, what):
        # Exact types were looked at before, so that the packer sees only what it has tokens for.
        self.packer = _msgpack().Packer(autoreset=False, strict_types=True, unicode_errors="surrogatepass")
        self.memory = []
        self._what = what
        self._path = []

    def add(self, value):
        kind = type(value)
        if value is None or kind is bool or kind is float:
            self.packer.pack(value)
        elif kind is int:
            if not -(1 << 63) <= value < 1 << 63:
                bits = value.bit_length()
                raise ValueError(f"{self._place()} is an int of {bits} bits and a sign; {_ON} allows 63")
            self.packer.pack(value)
        elif kind is str:
            if len(value) >= 1 << 30:  # at most 4 bytes for each, and msgpack counts them with 32 bits
                size = len(value)
                raise ValueError(f"{self._place()} is a str of {size} characters; {_ON} allows less than {1 << 30}")
            self.packer.pack(value)
        elif kind in _SEQUENCES:
            self._open(_SEQUENCES[kind], len(value))
            self._parts(enumerate(value))
        elif kind in _MAPPINGS:
            self._open(_MAPPINGS[kind], 2 * len(value))
            self._pairs(value)
        elif kind is complex:
            self._whole(_COMPLEX, [value.real, value.imag])
        elif kind is bytes:
            self._whole(_BYTES, [len(value)], value)
        else:
            self._array(value)

    def _array(self, value):
        try:
            taken = _safe_arrays.take(value)
        except TypeError as error:
            raise TypeError(f"{self._place()} is {error}; {_ON} allows {ALLOWED}") from None
        name, parts, memory = taken
        self._whole({"array": _ARRAY, "scalar": _SCALAR, "tensor": _TENSOR}[name], parts, memory)

    def _open(self, kind, count):
        self.packer.pack_ext_type(kind, _LENGTH.pack(count))

    def _whole(self, kind, parts, memory=b""):
        self._open(kind, len(parts))
        for part in parts:
            self.packer.pack(part)
        if len(memory):
            self.memory.append(memory)

    def _parts(self, parts):
        if len(self._path) == DEEPEST:
            raise ValueError(f"{self._place()} lies more than {DEEPEST} deep, or contains itself")
        for key, part in parts:
            self._path.append(key)
            self.add(part)
            self._path.pop()

    def _pairs(self, mapping):
        for key, part in mapping.items():
            self._parts(((_KeyOf(key), key), (key, part)))

    def _place(self):
        """Where the value of now is, as one would write it: value["state"][2]."""
        shown = "".join(f"[{key if type(key) is _KeyOf else _safe_arrays.brief(key)}]" for key in self._path[:8])
        return self._what + shown + ("[...]" if len(self._path) > 8 else "")


class _KeyOf:
    """In a path: a key itself, not what it leads to."""

    def __init__(self, key):
        self._key = key

    def __str__(self):
        return f"key {_safe_arrays.brief(self._key)}"


class _Decoder:
    def __init__(self, data):
        if len(data) < _LENGTH.size:
            raise _Malformed("too short for its length")
        size = _LENGTH.unpack_from(data)[0]
        if size > len(data) - _LENGTH.size:
            raise _Malformed(f"{size} bytes of tokens announced")
        end = _LENGTH.size + size
        self._tokens, self._memory, self._at = data[_LENGTH.size : end], data[end:], 0

    def object(self):
        """The one object of the payload, which must use up all tokens and all memory."""
        found, open_kinds = [], []  # open_kinds: (kind, number of its parts, where they go)
        into = found
        for token in self._each_token():
            if type(token) is _Open:
                if len(open_kinds) > DEEPEST:
                    raise _Malformed(f"more than {DEEPEST} deep")
                open_kinds.append((token.kind, token.count, into))
                into = []
            else:
                into.append(token)
            while open_kinds and len(into) == open_kinds[-1][1]:
                kind, _, outer = open_kinds.pop()
                outer.append(self._build(kind, into))
                into = outer
        if open_kinds:
            raise _Malformed(f"ends inside a value that is {len(open_kinds)} deep")
        if len(found) != 1:
            raise _Malformed(f"{len(found)} values instead of 1")
        if self._at != len(self._memory):
            raise _Malformed(f"{len(self._memory)} bytes of memory where its values have {self._at}")
        return found[0]

    def _each_token(self):
        msgpack = _msgpack()
        size = len(self._tokens) + 1
        # Lengths of 0 refuse whatever msgpack could nest or allocate by itself.
        reader = msgpack.Unpacker(raw=False, unicode_errors="surrogatepass", ext_hook=_Open, max_buffer_size=size,
                                  max_array_len=0, max_map_len=0, max_bin_len=0, max_ext_len=_LENGTH.size)
        try:
            reader.feed(self._tokens)
            for token in reader:
                if token is not None and type(token) not in (_Open, bool, int, float, str):
                    raise _Malformed(f"a token is a {type(token).__name__}")
                yield token
            # One more None tells whether the last token was complete: else it becomes part of that.
            reader.feed(b"\xc0")
            ended = next(reader, False) is None
        except (ValueError, TypeError, OverflowError, msgpack.UnpackException) as error:
            raise _Malformed(f"{type(error).__name__} in its tokens: {error}") from None
        if not ended:
            raise _Malformed(f"{len(self._tokens)} bytes of tokens, the last of which is cut off")

    def _build(self, kind, parts):
        try:
            return _BUILD[kind](parts, self._take)
        except (TypeError, ValueError, OverflowError) as error:
            raise _Malformed(f"kind {kind}: {error}") from None

    def _take(self, size):
        """The next bytes of the memory."""
        if type(size) is not int or not 0 <= size <= len(self._memory) - self._at:
            left = len(self._memory) - self._at
            raise ValueError(f"{_safe_arrays.brief(size)} bytes of memory wanted, {left} are left")
        self._at += size
        return self._memory[self._at - size : self._at]


class _Open:
    """The token that begins a value with parts. msgpack makes it of each of its extension types."""

    __slots__ = ("count", "kind")

    def __init__(self, kind, data):
        if kind not in _BUILD or len(data) != _LENGTH.size:
            raise ValueError(f"no kind {kind} with {len(data)} bytes")
        self.kind, self.count = kind, _LENGTH.unpack(data)[0]


def _complex(parts, _take):
    real, imaginary = parts
    if type(real) is not float or type(imaginary) is not float:
        raise TypeError("a complex number of other parts than two floats")
    return complex(real, imaginary)


def _bytes(parts, take):
    (size,) = parts
    return bytes(take(size))


def _mapping(kind):
    def build(parts, _take):
        if len(parts) % 2:
            raise ValueError("a key without a value")
        return kind(zip(parts[::2], parts[1::2]))

    return build


_BUILD = {
    _LIST: lambda parts, _take: parts,
    _TUPLE: lambda parts, _take: tuple(parts),
    _SET: lambda parts, _take: set(parts),
    _FROZENSET: lambda parts, _take: frozenset(parts),
    _DICT: _mapping(dict),
    _ORDERED: _mapping(OrderedDict),
    _COMPLEX: _complex,
    _BYTES: _bytes,
    _ARRAY: _safe_arrays.make_array,
    _SCALAR: _safe_arrays.make_scalar,
    _TENSOR: _safe_arrays.make_tensor,
}
