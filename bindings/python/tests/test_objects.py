# SPDX-License-Identifier: Apache-2.0
"""Objects as bytes: what HOROVOD_SAFE_OBJECTS lets through, what it refuses, and what strange bytes can do. Then in jobs."""

import collections
import enum
import functools
import os
import pickle
import random
import struct
import subprocess
import sys
import tracemalloc

import ml_dtypes
import msgpack
import numpy as np
import pytest

from horovod import _codec, _safe_codec

PLAIN = [
    None, True, False, 0, -(2**63), 2**63 - 1, 1.5, float("-inf"), -0.0, 2j, complex(float("nan"), -0.0),
    "", "a\u00e9\ud800\U0001f600", b"", b"\x00\xff" * 500,
    [], [[], [1, "x"]], (), (1, (2,)), {}, {"a": [1], (1, 2): {3}, None: b"x", 2.5: ()}, {1, "x"},
    frozenset([(1, 2)]), collections.OrderedDict([("b", 1), ("a", 2)]),
]
ARRAYS = [
    np.array(3.0), np.zeros((0, 3)), np.zeros((3, 0), ">i2"), np.arange(12).reshape(3, 4)[:, ::2], np.arange(12)[::-1],
    np.arange(4, dtype=">f8"), np.array([True, False]), np.ones(3, np.float16), np.ones(2, np.longdouble),
    np.array([2j], np.complex64), np.ones((1,) * 32, np.uint8),
    np.array(["a", "\u00e9\u00e9"]), np.array(["a", "\u00e9"], ">U2"), np.array([b"ab", b""]),
    np.array(["2020-01-01", "NaT"], "M8[D]"),
    np.array([1], "m8[25s]"), np.asfortranarray(np.arange(6).reshape(2, 3)), np.ones(2, ml_dtypes.bfloat16),
    *[np.arange(5).astype(code) for code in "bBhHiIlLqQfd"],
]
SCALARS = [
    np.float32(2), np.float64(3), np.int8(-3), np.uint64(2**64 - 1), np.bool_(True), np.complex64(1j), np.str_("x\u00e9"),
    np.bytes_(b"q"),
    np.datetime64("2020-01-01"), ml_dtypes.bfloat16(2),
]


class Foo:
    pass


class Color(enum.IntEnum):
    RED = 1


def _itself():
    found = []
    found.append([1, found])
    return found


def _deep(levels):
    found = 1
    for _ in range(levels):
        found = [found]
    return found


@pytest.fixture
def safe(monkeypatch):
    monkeypatch.setenv("HOROVOD_SAFE_OBJECTS", "1")


def _again(value):
    data = _codec.dumps(value, "value")
    assert data[:1] == b"S"
    return _codec.loads(data, "value")


def test_plain_values_come_back(safe):
    for value in PLAIN:
        found = _again(value)
        assert type(found) is type(value) and repr(found) == repr(value)
    assert _again(PLAIN[:-2])[1:3] == [True, False]
    assert _again(_deep(_safe_codec.DEEPEST)) == _deep(_safe_codec.DEEPEST)


def test_arrays_come_back(safe):
    for array in ARRAYS:
        found = _again([array])[0]
        assert (found.dtype, found.shape, found.dtype.byteorder) == (array.dtype, array.shape, array.dtype.byteorder)
        assert found.tobytes() == array.tobytes() and found.flags.writeable and found.flags.aligned
    for scalar in SCALARS:
        found = _again((scalar,))[0]
        assert type(found) is type(scalar) and found == scalar


def test_tensors_come_back(safe):
    torch = pytest.importorskip("torch")
    names = "bool uint8 int64 float16 bfloat16 float32 complex64 float8_e5m2"
    for dtype in [getattr(torch, name) for name in names.split() if hasattr(torch, name)]:
        for shape in ((), (2, 3), (0,), (0, 5)):
            tensor = torch.ones(shape).to(dtype)
            found = _again({"t": tensor})["t"]
            assert type(found) is torch.Tensor and (found.dtype, found.shape) == (tensor.dtype, tensor.shape)
            assert torch.equal(found.to(torch.complex64), tensor.to(torch.complex64))
    transposed = torch.arange(6.0).reshape(2, 3).t().requires_grad_()
    assert torch.equal(_again(transposed), transposed) and _again(transposed).requires_grad
    assert torch.equal(_again(torch.tensor([1 + 2j]).conj()), torch.tensor([1 - 2j]))
    for value, text in (
        (torch.nn.Parameter(torch.ones(1)), "value is a torch.nn.parameter.Parameter; "),
        (torch.eye(2).to_sparse(), "value is a tensor of dtype float32 and layout torch.sparse_coo; "),
        (torch.ones(2, device="meta"), "value is a tensor on meta; "),
    ):
        with pytest.raises(TypeError) as caught:
            _codec.dumps(value, "value")
        assert str(caught.value).startswith(text)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"state": [1, 2, Foo()]}, "value['state'][2] is a test_objects.Foo; HOROVOD_SAFE_OBJECTS=1 allows None, bool, int"),
        ({(1, Foo): 2}, "value[key <tuple>][1] is a type; "),
        (Color.RED, "value is a test_objects.Color; "),
        (collections.defaultdict(list), "value is a collections.defaultdict; "),
        (bytearray(b"x"), "value is a bytearray; "),
        (len, "value is a builtin_function_or_method; "),
        (np.array([None]), "value is an array of dtype object; "),
        (np.zeros(2, "i4,f4"), "value is an array of dtype [('f0', '<i4'), ('f1', '<f4')]; "),
        (np.zeros(2, "V4"), "value is an array of dtype |V4; "),
        (np.ma.ones(2), "value is a numpy.ma.MaskedArray; "),
        ([0, 2**63], "value[1] is an int of 64 bits and a sign; "),
        (-(2**63) - 1, "value is an int of 64 bits and a sign; "),
        (_itself(), "value[0][1][0][1][0][1][0][1][...] lies more than 100 deep, or contains itself"),
        (_deep(101), "value[0][0][0][0][0][0][0][0][...] lies more than 100 deep, or contains itself"),
    ],
)
def test_what_is_refused_is_named_with_its_place(safe, value, text):
    with pytest.raises((TypeError, ValueError)) as caught:
        _codec.dumps(value, "value")
    assert text in str(caught.value) and "\n" not in str(caught.value)


def test_words_of_the_setting(monkeypatch):
    for words, expected in (("1 2 true Yes ON", True), ("0 -1 false NO off", False)):
        for word in words.split():
            monkeypatch.setenv("HOROVOD_SAFE_OBJECTS", word)
            assert _codec.safe_objects() is expected
    for word in ("", None):
        monkeypatch.delenv("HOROVOD_SAFE_OBJECTS") if word is None else monkeypatch.setenv("HOROVOD_SAFE_OBJECTS", word)
        assert _codec.safe_objects() is False
    for word in ("maybe", "1.0", "1_0", "\u0661"):
        monkeypatch.setenv("HOROVOD_SAFE_OBJECTS", word)
        with pytest.raises(ValueError, match="HOROVOD_SAFE_OBJECTS: value .* is not allowed; allowed: 1, true, yes, on"):
            _codec.dumps(1)


class _Touch:
    """Unpickling one makes a file."""

    def __init__(self, path):
        self._path = path

    def __reduce__(self):
        return open, (self._path, "w")


def test_a_safe_reader_does_not_unpickle(monkeypatch, tmp_path):
    path = tmp_path / "touched"
    payload = _codec.dumps(_Touch(str(path)))
    bare = pickle.dumps(_Touch(str(path)))
    monkeypatch.setenv("HOROVOD_SAFE_OBJECTS", "1")
    with pytest.raises(ValueError, match="thing: was pickled by its sender, and HOROVOD_SAFE_OBJECTS is on here; set it"):
        _codec.loads(payload, "thing")
    for data in (bare, b"S" + bare, b"S" + payload):
        with pytest.raises(ValueError, match="thing: "):
            _codec.loads(data, "thing")
    assert not path.exists()
    monkeypatch.setenv("HOROVOD_SAFE_OBJECTS", "0")
    _codec.loads(payload)
    assert path.exists()  # so the payload was one that does something


def test_other_payloads(safe, monkeypatch):
    payload = _codec.dumps([1, np.ones(2)])
    monkeypatch.delenv("HOROVOD_SAFE_OBJECTS")
    assert _codec.loads(payload)[0] == 1  # a reader that may unpickle also reads this
    assert _codec.loads(memoryview(_codec.dumps(Color.RED))) is Color.RED
    with pytest.raises(_codec.NoObjectError, match="^why \u00e9 .udc00$"):
        _codec.loads(_codec.failure("why \u00e9 \udc00"))
    with pytest.raises(ValueError, match="thing: nothing instead of an object"):
        _codec.loads(b"", "thing")
    with pytest.raises(ValueError, match="thing: 2 bytes that begin with 0x80 instead of an object"):
        _codec.loads(b"\x80\x05", "thing")


def test_missing_msgpack_is_named():
    code = (
        "import sys, pickle; sys.modules['msgpack'] = None\n"
        "from horovod import _codec, _objects\n"
        "for do in (lambda: _codec.dumps(1), lambda: _codec.loads(b'S' + bytes(8))):\n"
        "    try:\n        do()\n"
        "    except ImportError as error:\n        print(error)\n"
    )
    environment = {**os.environ, "HOROVOD_SAFE_OBJECTS": "1"}
    result = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=60)
    assert result.stdout.count("HOROVOD_SAFE_OBJECTS: msgpack cannot be imported") == 2, result
    assert result.stdout.count("; pip install msgpack\n") == 2, result


def _payload(*tokens, memory=b""):
    packer = msgpack.Packer(strict_types=True)
    packed = b"".join(packer.pack(token) for token in tokens)
    return b"S" + struct.pack("<Q", len(packed)) + packed + memory


def _open(kind, count):
    return msgpack.ExtType(kind, struct.pack("<Q", count))


ARRAY, SCALAR, TENSOR = 16, 17, 18
MALFORMED = {
    "no token": (_payload(), "0 values instead of 1"),
    "two values": (_payload(1, 2), "2 values instead of 1"),
    "many parts": (_payload(_open(1, 2**63)), "ends inside"),
    "many nested": (_payload(*[_open(1, 2**63)] * 200), "more than 100 deep"),
    "unknown kind": (_payload(_open(99, 0)), "no kind 99"),
    "time": (_payload(msgpack.Timestamp(1, 1)), "a token is a Timestamp"),
    "msgpack list": (_payload([1]), "max_array_len"),
    "empty msgpack list": (_payload([]), "a token is a list"),
    "msgpack dict": (_payload({}), "a token is a dict"),
    "msgpack bytes": (_payload(b""), "a token is a bytes"),
    "msgpack list of 4 G": (b"S" + struct.pack("<Q", 5) + b"\xdd\xff\xff\xff\xff", "max_array_len"),
    "msgpack str of 4 G": (b"S" + struct.pack("<Q", 5) + b"\xdb\xff\xff\xff\xff", "tokens"),
    "cut token": (b"S" + struct.pack("<Q", 2) + b"\xcd\x01", "2 bytes of tokens, the last of which is cut off"),
    "cut token after the object": (b"S" + struct.pack("<Q", 3) + b"\x01\xa3x", "the last of which is cut off"),
    "more tokens than bytes": (b"S" + struct.pack("<Q", 2**63) + b"\xc0", "9223372036854775808 bytes of tokens"),
    "no length": (b"S\x01", "too short"),
    "key without value": (_payload(_open(3, 1), 1), "a key without a value"),
    "list in a set": (_payload(_open(5, 1), _open(1, 0)), "unhashable"),
    "bytes of more": (_payload(_open(8, 1), 5, memory=b"1234"), "5 bytes of memory wanted, 4 are left"),
    "bytes of less": (_payload(_open(8, 1), 3, memory=b"1234"), "4 bytes of memory where its values have 3"),
    "negative bytes": (_payload(_open(8, 1), -1, memory=b"1234"), "-1 bytes"),
    "large array": (_payload(_open(ARRAY, 3), "<f8", 2**20, 2**20, memory=bytes(8)), "8796093022208 bytes of memory wanted"),
    "overflow": (_payload(_open(ARRAY, 3), "<f8", 2**61, 2**61, memory=bytes(8)), "too large"),
    "empty and large": (_payload(_open(ARRAY, 4), "<f8", 0, 2**61, 2**61), "too large"),
    "negative extents": (_payload(_open(ARRAY, 3), "<f8", -1, -1, memory=bytes(8)), "no shape"),
    "fraction of an extent": (_payload(_open(ARRAY, 2), "<f8", 1.0, memory=bytes(8)), "no shape"),
    "truth as extent": (_payload(_open(ARRAY, 2), "<f8", True, memory=bytes(8)), "no shape"),
    "array as extent": (_payload(_open(ARRAY, 2), "<f8", _open(ARRAY, 3), "|i1", 2, 2, memory=bytes(4)), "with <ndarray>"),
    "many dimensions": (_payload(_open(ARRAY, 34), "<f8", *[1] * 33, memory=bytes(8)), "33 dimensions"),
    "object array": (_payload(_open(ARRAY, 2), "|O8", 1, memory=bytes(8)), "no dtype"),
    "structured array": (_payload(_open(ARRAY, 2), "i4,f4", 1, memory=bytes(8)), "no dtype"),
    "array of no size": (_payload(_open(ARRAY, 2), "<U0", 2**60), "no dtype"),
    "no such dtype": (_payload(_open(ARRAY, 2), "<i3", 1, memory=bytes(3)), "kind 16"),
    "dtype a number": (_payload(_open(ARRAY, 2), 8, 1, memory=bytes(8)), "no dtype"),
    "truth of 2": (_payload(_open(ARRAY, 2), "|b1", 1, memory=b"\x02"), "neither 0 nor 1"),
    "no character": (_payload(_open(SCALAR, 1), "<U1", memory=b"\xff" * 4), "beyond Unicode"),
    "no character, swapped": (_payload(_open(SCALAR, 1), ">U1", memory=b"\x00\x11\x00\x00"), "beyond Unicode"),
    "tensor of a function": (_payload(_open(TENSOR, 3), "load", False, 1, memory=bytes(8)), "no tensor of dtype 'load'"),
    "tensor, truth of 2": (_payload(_open(TENSOR, 3), "bool", False, 1, memory=b"\x02"), "neither 0 nor 1"),
    "gradient of integers": (_payload(_open(TENSOR, 3), "int8", True, 1, memory=b"\x02"), "kind 18"),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_payloads_are_refused_without_allocating(name):
    data, text = MALFORMED[name]
    if "tensor" in name or "gradient" in name:
        pytest.importorskip("torch")
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="^thing: malformed payload of ") as caught:
            _codec.loads(data, "thing")
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()
    assert text in str(caught.value)


def test_random_and_mutated_bytes(safe):
    """Each is an object or a ValueError, nothing else; seeded, so that a failure comes back."""
    pytest.importorskip("torch")  # a mutation may ask for a tensor, which imports it: not within the time of this test
    dice = random.Random(4)
    seeds = [_codec.dumps(value) for value in (PLAIN, ARRAYS[:12], SCALARS, PLAIN[-6:], [np.eye(2), {"k": b"xyz"}])]
    seeds += [data for data, _ in MALFORMED.values()]
    refused = 0
    for turn in range(4000):
        if turn % 4:
            data = bytearray(dice.choice(seeds))
            for _ in range(dice.randint(1, 4)):
                at = dice.randrange(1, len(data))
                data[at : at + dice.choice((0, 1, 1, 1, 2))] = dice.randbytes(dice.choice((0, 1, 1, 2)))
                data = data if len(data) > 1 else bytearray(b"S\x00")
        else:
            body = dice.randbytes(dice.randrange(60))
            data = b"S" + struct.pack("<Q", dice.randrange(len(body) + 1)) + body
        try:
            _codec.loads(data)
        except ValueError as error:
            assert "\n" not in str(error)
            refused += 1
    assert 2000 < refused < 4000  # the others came through the whole reader


def module_function():
    return 1


class Callable:
    @staticmethod
    def alone():
        return 2

    def method(self):
        pass

    def __call__(self):
        pass


def test_functions_travel_by_name(safe):
    def closure():
        pass

    for function in (module_function, Callable.alone, print, os.path.join):
        func, args, kwargs = _codec.load_call(_codec.dump_call(function, (1, [2]), {"k": 3}, "run"), "run")
        assert func is function and (args, kwargs) == ((1, [2]), {"k": 3})
    replaced = functools.wraps(module_function)(lambda: 2)
    main = type(closure)(closure.__code__, {}, "work")
    main.__module__, main.__qualname__ = "__main__", "work"
    for function, text in (
        (lambda: 1, "run: function .*<lambda> is a lambda"),
        (closure, "run: function .*closure is defined inside another function"),
        (main, r"run: function work is defined in the program itself or in a notebook \(module __main__\)"),
        (Callable().method, "run: function Callable.method is not what test_objects.Callable.method is"),
        (replaced, "run: function module_function is not what"),
        (functools.partial(print, 1), "run: function an object of class partial has no name"),
        (Callable(), "run: function an object of class Callable has no name"),
    ):
        with pytest.raises(TypeError, match=text + ".*; with HOROVOD_SAFE_OBJECTS it travels as its name in a module"):
            _codec.dump_call(function, (), {}, "run")
    with pytest.raises(TypeError, match=r"run: call\['args'\]\[0\] is a test_objects.Foo"):
        _codec.dump_call(print, (Foo(),), {}, "run")


@pytest.mark.parametrize("ranks", [1, 3])
def test_objects_in_a_job(horovodrun, ranks):
    assert horovodrun(ranks, "objects.py").text.count("objects: ok") == ranks
    assert horovodrun(ranks, "objects.py", env={"HOROVOD_SAFE_OBJECTS": "on"}).text.count("objects: ok") == ranks


def test_optimizer_state_in_a_job(horovodrun):
    pytest.importorskip("torch")
    assert horovodrun(2, "objects_torch.py").text.count("objects_torch: ok") == 2
