"""Intel HEX, as a micro:bit's drive takes it, with a program of ours put in.

The first edition looks for a program at SCRIPT_AT: `MP`, its length, its text.
"""

from __future__ import annotations

from collections.abc import Iterator

from gateway.flashing.errors import Failure, FlashError

SCRIPT_AT = 0x3E000
SCRIPT_OCTETS_MAX = 0x2000
_RECORD_OCTETS = 16
_DATA, _END, _UPPER = 0, 1, 4
# Above the flash: what the firmware's file says of the chip's own settings.
_SETTINGS_UPPER = 0x1000


def with_script(text: str, script: bytes, name: str) -> str:
    """The file with the script in it. Raises FlashError."""
    records = list(_records(text, name))
    if not any(kind == _DATA for _, kind, _, _ in records) or records[-1][1] != _END:
        raise FlashError(Failure.WRONG, f"{name} is no whole HEX file: it has no data, or no end")
    assert len(script) <= SCRIPT_OCTETS_MAX
    upper = 0
    lines: list[str] = []
    place: int | None = None
    for line, kind, address, octets in records:
        if kind == _UPPER:
            upper = int.from_bytes(octets, "big")
        if place is None and (kind not in (_DATA, _UPPER, 2) or upper == _SETTINGS_UPPER):
            place = len(lines)
        if kind == _DATA and upper << 16 | address >= SCRIPT_AT and upper < _SETTINGS_UPPER:
            text = f"{name} has something where the program belongs: take one without a program"
            raise FlashError(Failure.WRONG, text)
        lines.append(line)
    lines[place:place] = _as_records(script)
    return "".join(f"{line}\n" for line in lines)


def _as_records(octets: bytes) -> Iterator[str]:
    yield _record(_UPPER, 0, (SCRIPT_AT >> 16).to_bytes(2, "big"))
    for at in range(0, len(octets), _RECORD_OCTETS):
        part = octets[at : at + _RECORD_OCTETS].ljust(_RECORD_OCTETS, b"\xff")
        yield _record(_DATA, SCRIPT_AT + at & 0xFFFF, part)


def _record(kind: int, address: int, octets: bytes) -> str:
    body = bytes((len(octets), address >> 8, address & 255, kind)) + octets
    return f":{body.hex().upper()}{-sum(body) & 255:02X}"


def _records(text: str, name: str) -> Iterator[tuple[str, int, int, bytes]]:
    """Line, kind, address, bytes."""
    for number, line in enumerate(text.split(), start=1):
        try:
            body = bytes.fromhex(line.removeprefix(":"))
        except ValueError:
            body = b""
        if not line.startswith(":") or len(body) < 5 or len(body) != body[0] + 5 or sum(body) & 255:
            raise FlashError(Failure.WRONG, f"{name}:{number}: no HEX record, or a damaged one")
        yield line, body[3], int.from_bytes(body[1:3], "big"), body[4:-1]
