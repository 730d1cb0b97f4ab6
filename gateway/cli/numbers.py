"""Numbers on the command line: one that is out of its range is answered with the range."""

import argparse
from collections.abc import Callable

from gateway.config.addresses import PORT_MAX

DIGITS_MAX = 18


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
