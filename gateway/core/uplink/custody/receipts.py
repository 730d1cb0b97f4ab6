"""What an ingest says it has: `tidegate/ingest/<gateway>/ack/<who>`, retained, one for each who.

    {"v": 1, "epochs": {"1764000000": [[0, 1203], [1205, 1300]]}}

Each range is of sequences, both ends included. A receipt says what is durable, not all that is:
what it leaves out was said before, or will be. So receipts may come twice, late, in any order.

Limits: `RECEIPT_BYTES_MAX` bytes, `RANGES_MAX` ranges.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

VERSION = 1
RECEIPT_BYTES_MAX = 64 << 10
RANGES_MAX = 4096

Range = tuple[int, int]


class ReceiptError(ValueError):
    """It is no receipt; the message says why."""


def receipt_topic(gateway_name: str) -> str:
    return f"tidegate/ingest/{gateway_name}/ack"


def read_receipt(payload: bytes) -> list[tuple[int, Range]]:
    """Epochs and their ranges."""
    if len(payload) > RECEIPT_BYTES_MAX:
        raise ReceiptError(f"{len(payload)} bytes, at most {RECEIPT_BYTES_MAX}")
    try:
        said = json.loads(payload)
    except (ValueError, RecursionError):
        raise ReceiptError("it is not JSON") from None
    epochs = said.get("epochs") if isinstance(said, dict) else None
    if not isinstance(epochs, dict) or said.get("v") != VERSION:
        raise ReceiptError(f"it has no epochs, or is not of version {VERSION}")
    found = [
        (_epoch(epoch), each) for epoch, ranges in epochs.items() for each in _ranges_in(ranges)
    ]
    if len(found) > RANGES_MAX:
        raise ReceiptError(f"{len(found)} ranges, at most {RANGES_MAX}")
    return found


def _epoch(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 15:
        raise ReceiptError(f"{text[:20]!r} is no epoch")
    return int(text)


def _ranges_in(ranges: object) -> Iterator[Range]:
    if not isinstance(ranges, list):
        raise ReceiptError("ranges are a list")
    for each in ranges:
        # A bool is an int, but no sequence.
        if not isinstance(each, list) or [type(end) for end in each] != [int, int]:
            raise ReceiptError("a range is two sequences")
        first, last = each
        if not 0 <= first <= last:
            raise ReceiptError("a range goes from a sequence to a later one")
        yield first, last
