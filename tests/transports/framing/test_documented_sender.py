"""The sender that docs/serial.md gives to those who write firmware is one."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.transports.framing.golden import ROWS, Row

DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "serial.md"


def documented_sender() -> Callable[[bytes], bytes]:
    (source,) = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    names: dict[str, Any] = {}
    exec(source, names)
    sender: Callable[[bytes], bytes] = names["frame"]
    return sender


@pytest.mark.parametrize(
    "row",
    [row for row in ROWS if row.is_sent and row.kind == "hdlc"],
    ids=lambda row: row.name,
)
def test_the_sender_of_the_document_sends_what_the_golden_file_has(row: Row) -> None:
    (message,) = row.messages
    assert documented_sender()(message) == row.octets


def test_the_frames_in_the_document_are_in_the_golden_file() -> None:
    shown = re.findall(r"  (7E(?: [0-9A-F]{2})+ 7E)$", DOCUMENT.read_text(), re.MULTILINE)
    sent = [row.octets for row in ROWS if row.is_sent]
    assert len(shown) == 3
    assert all(bytes.fromhex(octets) in sent for octets in shown)
