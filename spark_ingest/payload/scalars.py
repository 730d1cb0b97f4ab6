"""What both forms of payload have in common: numbers, texts and times that a table can hold."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction

from spark_ingest.payload.record import UNIX_US_MAX, Fault, UndecodableError

NAME_LENGTH_MAX = 256
SHOWN_LENGTH_MAX = 80


def number(value: object, what: str) -> float:
    """A finite number; CBOR has big ones, decimals and fractions too."""
    try:
        found = float(value)  # type: ignore[arg-type]  # what it is not good for is caught
    except (TypeError, ValueError, ArithmeticError):
        raise UndecodableError(Fault.NUMBER, f"{what} is {shown(value)}") from None
    if not math.isfinite(found):
        raise UndecodableError(Fault.NUMBER, f"{what} is {shown(value)}")
    return found


def is_number(value: object) -> bool:
    return isinstance(value, int | float | Decimal | Fraction) and not isinstance(value, bool)


def text(value: str, what: str) -> str:
    """JSON can spell halves of characters, which no file can hold."""
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise UndecodableError(Fault.FORM, f"{what} is no valid text") from None
    return value


def name(value: str) -> str:
    if len(value) > NAME_LENGTH_MAX:
        raise UndecodableError(
            Fault.TOO_LARGE, f"a name of {len(value)} characters, at most {NAME_LENGTH_MAX}"
        )
    return text(value, "a name")


def fitting_name(value: object, otherwise: str) -> str:
    """Of a value that is wrong, whatever it is called: always a name that a table can hold."""
    if not isinstance(value, str) or not value:
        return otherwise
    return value[:NAME_LENGTH_MAX].encode("utf-8", "replace").decode()


def microseconds(seconds: float, what: str) -> int:
    found = seconds * 1e6
    if not 0 <= found <= UNIX_US_MAX:
        raise UndecodableError(Fault.CLOCK, f"{what} is {seconds:g} s")
    return round(found)


def moment(value: datetime) -> int:
    """As Unix microseconds. What names no zone is in UTC, not in that of this machine."""
    aware = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
    return microseconds(aware.timestamp(), "the time")


def shown(value: object) -> str:
    """For people, on one line. A container is only named: CBOR can refer to itself, and the text
    of such a one can be longer than any memory.
    """
    if not isinstance(value, str | bytes | int | float | None):
        return f"a {type(value).__name__}"
    if isinstance(value, str | bytes):
        value = value[: SHOWN_LENGTH_MAX + 1]
    elif isinstance(value, int) and abs(value) >= 10**20:
        return "a number of more than 20 digits"
    shown_text = ascii(value)
    return (
        shown_text if len(shown_text) <= SHOWN_LENGTH_MAX else f"{shown_text[:SHOWN_LENGTH_MAX]}..."
    )
