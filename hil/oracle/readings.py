"""Which reading a payload is, and whether it is whole.

Payloads are SenML in CBOR (RFC 8428) with the board's id as base name. Of a node there are its
store's sequence number, a number and its check; of the small sensor one number, a counter and its
check; hil/boards/firmware.py puts them in.
"""

from __future__ import annotations

from typing import NamedTuple

import cbor2

from hil.boards.firmware import TINY_CHECKS

_BASE_NAME, _NAME, _VALUE = -2, 0, 2
_PRIME, _MODULUS = 7919, 10007


class Read(NamedTuple):
    device: str
    counter: int


def check_of(number: int) -> int:
    return number * _PRIME % _MODULUS


def read(payload: bytes) -> Read | None:
    """None: damaged, or never one of ours."""
    try:
        records = cbor2.loads(payload)
        device = records[0][_BASE_NAME].removesuffix("/")
        values = {record[_NAME]: record[_VALUE] for record in records if _VALUE in record}
        counter = _counter(values)
    except (cbor2.CBORError, ValueError, TypeError, KeyError, IndexError, AttributeError):
        return None
    return None if counter is None else Read(device, counter)


def _counter(values: dict[str, int]) -> int | None:
    if "seq" in values:
        return int(values["seq"]) if check_of(values["x"]) == values["check"] else None
    counter, check = divmod(values["temperature"], TINY_CHECKS)
    return counter if counter * 5 % TINY_CHECKS == check else None
