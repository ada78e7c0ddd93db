# SPDX-License-Identifier: Apache-2.0
"""Numbers as people read them."""


def duration(nanoseconds: float) -> str:
    """For example 31.4 ms; three digits or so. A dash for nothing."""
    if nanoseconds == 0:
        return "–"
    for limit, divisor, unit in ((1e3, 1, "ns"), (1e6, 1e3, "µs"), (1e9, 1e6, "ms")):
        if abs(nanoseconds) < limit:
            return f"{_digits(nanoseconds / divisor)} {unit}"
    return f"{_digits(nanoseconds / 1e9)} s"


def amount(number: float) -> str:
    """Bytes, for example 1.50 MiB."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(number) < 1024:
            return f"{number:.0f} B" if unit == "B" else f"{_digits(number)} {unit}"
        number /= 1024
    return f"{_digits(number)} TiB"


def rate(bytes_per_second: float) -> str:
    """Bytes per second in units of 1000, as networks are measured."""
    for unit in ("B/s", "kB/s", "MB/s"):
        if abs(bytes_per_second) < 1000:
            return f"{_digits(bytes_per_second)} {unit}"
        bytes_per_second /= 1000
    return f"{_digits(bytes_per_second)} GB/s"


def percent(part: float) -> str:
    """A share as a whole percentage, 0.4 % where that would be zero, and a dash for nothing."""
    if part == 0:
        return "–"
    return f"{100 * part:.0f} %" if part >= 0.01 else f"{100 * part:.1f} %"


def _digits(number: float) -> str:
    size = abs(number)
    return f"{number:.0f}" if size >= 100 or number == int(number) and size < 10 else f"{number:.1f}" if size >= 10 else f"{number:.2f}"
