"""SenML in CBOR (RFC 8428), written and never read: a pack of the records that a sensor measured.

A measured value is a whole number and how many of its digits are behind the point: `(2137, 2)` is
21.37. Boards have floats of 32 bits, in which that is 21.3700008; made of whole numbers it goes out
as the double that is nearest to it, or shorter where nothing is lost (RFC 8949, 4.2.1).

Limits: values of up to 60 bits. The library cbor2 would take 6 KB of heap for the same.
"""

try:
    from micropython import const
except ImportError:
    from ..mqttsn.cpython import const

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    Measured = tuple[str, str, int, int]  # name, unit of RFC 8428 12.1, digits, places

# Labels of RFC 8428, table 4
_BASE_NAME = const(-2)
_BASE_TIME = const(-3)
_NAME = const(0)
_UNIT = const(1)
_VALUE = const(2)

_TEXT = const(0x60)  # major types of RFC 8949, 3.1
_ARRAY = const(0x80)
_MAP = const(0xA0)

_DOUBLE_BIAS = const(1023)
_EXTRA_BITS = const(54)  # of a quotient: the 53 of a double, and one to round by
SEQUENCE = "seq"
UNDATED = "undated"


def records(measured: "Sequence[Measured]") -> bytes:
    """Without what a pack has in front, which is only known when it is sent."""
    return b"".join([_record(*each) for each in measured])


def pack(base_name: str, base_time: int | None, sequence: int, count: int, inner: bytes) -> bytes:
    """`inner`: so many records. `base_time` 0: taken now; None: nobody knows when."""
    is_undated = base_time is None
    found = _head(_ARRAY, 1 + count + is_undated)
    found += _head(_MAP, 4 if base_time else 3)
    found += _integer(_BASE_NAME) + _text(base_name)
    if base_time:
        found += _integer(_BASE_TIME) + _integer(base_time)
    found += _integer(_NAME) + _text(SEQUENCE) + _integer(_VALUE) + _integer(sequence)
    if is_undated:
        found += _record(UNDATED, "", 1, 0)
    return found + inner


def _record(name: str, unit: str, value: int, places: int) -> bytes:
    found = _head(_MAP, 3 if unit else 2) + _integer(_NAME) + _text(name)
    if unit:
        found += _integer(_UNIT) + _text(unit)
    return found + _integer(_VALUE) + number(value, places)


def number(value: int, places: int) -> bytes:
    """value / 10**places, in as few bytes as hold it."""
    scale = 10**places
    if value % scale == 0:
        return _integer(value // scale)
    sign = 0x8000 if value < 0 else 0
    quotient, exponent = _rounded(abs(value), scale)
    fraction = quotient & (1 << 52) - 1
    if not fraction & (1 << 42) - 1 and -14 <= exponent <= 15:
        half = sign | exponent + 15 << 10 | fraction >> 42
        return b"\xf9" + half.to_bytes(2, "big")
    if not fraction & (1 << 29) - 1 and -126 <= exponent <= 127:
        single = sign << 16 | exponent + 127 << 23 | fraction >> 29
        return b"\xfa" + single.to_bytes(4, "big")
    double = sign << 48 | exponent + _DOUBLE_BIAS << 52 | fraction
    return b"\xfb" + double.to_bytes(8, "big")


def _rounded(value: int, scale: int) -> tuple[int, int]:
    """The nearest quotient with 53 bits (of two, the even one), and its exponent."""
    shift = 0
    while value < scale << _EXTRA_BITS - 1:
        value <<= 1
        shift += 1
    while value >= scale << _EXTRA_BITS:
        scale <<= 1
        shift -= 1
    quotient, rest = divmod(value, scale)
    is_half = quotient & 1
    quotient >>= 1
    if is_half and (rest or quotient & 1):
        quotient += 1
    # One that rounding made longer has no fraction, and one more as its exponent.
    return quotient, 53 - shift + (quotient >> 53)


def _integer(value: int) -> bytes:
    return _head(0, value) if value >= 0 else _head(0x20, -1 - value)


def _text(text: str) -> bytes:
    octets = text.encode()
    return _head(_TEXT, len(octets)) + octets


def _head(kind: int, size: int) -> bytes:
    if size < 24:
        return bytes((kind | size,))
    for step in range(4):
        if size >> (8 << step) == 0:
            return bytes((kind | 24 + step,)) + size.to_bytes(1 << step, "big")
    raise ValueError(size)
