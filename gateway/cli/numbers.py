"""Numbers and times on the command line: one out of its range is answered with the range."""

import argparse
import re
from collections.abc import Callable

from gateway.config.addresses import PORT_MAX

DIGITS_MAX = 18
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_SPAN = re.compile(r"([0-9]{1,6})([smhd])")


def whole_number(least: int, most: int) -> Callable[[str], int]:
    """For `type=` of an argument."""

    def read(text: str) -> int:
        is_number = text.isascii() and text.isdigit() and len(text) <= DIGITS_MAX
        if not is_number or not least <= int(text) <= most:
            message = f"expected a whole number from {least} to {most}, got {text[:20]!r}"
            raise argparse.ArgumentTypeError(message)
        return int(text)

    return read


def port_number(text: str) -> int:
    """Behind the host of an address. Raises ArgumentTypeError."""
    if len(text) > DIGITS_MAX or not 1 <= int(text) <= PORT_MAX:
        message = f"expected a port from 1 to {PORT_MAX}, got {text[:20]!r}"
        raise argparse.ArgumentTypeError(message)
    return int(text)


def seconds_in(text: str) -> int | None:
    """`90s`, `5m`, `12h` or `7d`; None for what is no such time."""
    found = _SPAN.fullmatch(text)
    return None if found is None else int(found[1]) * _SECONDS[found[2]]
