"""One waiting reading, as text for people and as JSON for programs.

A payload is whatever a sensor sent: it is shown as text only if every letter of it can be printed,
as SenML (RFC 8428) only if all of it is one pack, else as bytes.
"""

import base64
import json
from io import BytesIO
from typing import Any

from gateway.config.spelling import printable, shortened
from gateway.core.values import Reading

PAYLOAD_LENGTH_MAX = 100  # shown to people

# RFC 8428, table 4: the labels of CBOR and the names of JSON.
SENML_NAMES = {
    **{-1: "bver", -2: "bn", -3: "bt", -4: "bu", -5: "bv", -6: "bs"},
    **{0: "n", 1: "u", 2: "v", 3: "vs", 4: "vb", 5: "s", 6: "t", 7: "ut", 8: "vd"},
}


def age_s(reading: Reading, now: float) -> float:
    """0 where it cannot be known: the machine was restarted, and its clock was not set."""
    return max(0.0, now - reading.received_at)


def as_json(gateway: str, reading: Reading) -> dict[str, Any]:
    """With the names of the delivery tag. QoS 0 has no place in a sequence."""
    has_place = reading.sequence >= 0
    document = {
        "gw": gateway,
        "client": reading.client_id,
        "epoch": reading.epoch if has_place else None,
        "seq": reading.sequence if has_place else None,
        "ts": reading.unix_ms,
        "topic": reading.topic,
        "qos": reading.qos,
        "retain": reading.retain,
        "payload": base64.b64encode(reading.payload).decode(),
    }
    text = text_of(reading.payload)
    return document if text is None else document | {"text": text}


def text_of(payload: bytes) -> str | None:
    try:
        return payload.decode()
    except UnicodeDecodeError:
        return None


def shown(payload: bytes) -> str:
    """On one line, and not at any length."""
    if not payload:
        return "(empty)"
    text = text_of(payload)
    if text is not None and text.isprintable():
        return shortened(text, PAYLOAD_LENGTH_MAX)
    senml = _senml(payload)
    return shortened(
        f"0x{payload.hex()}" if senml is None else printable(senml), PAYLOAD_LENGTH_MAX
    )


def _senml(payload: bytes) -> str | None:
    """The pack as JSON, or None if it is none."""
    import cbor2

    try:
        stream = BytesIO(payload)
        records = cbor2.load(stream)
        if stream.read(1) or not _is_pack(records):
            return None
        named = [
            {SENML_NAMES.get(key, str(key)): value for key, value in record.items()}
            for record in records
        ]
        return json.dumps(named, default=_plain, ensure_ascii=False)
    except Exception:  # of any type: tags of CBOR make objects of any kind
        return None


def _plain(value: object) -> str:
    return value.hex() if isinstance(value, bytes) else str(value)


def _is_pack(records: object) -> bool:
    return (
        isinstance(records, list)
        and bool(records)
        and all(isinstance(record, dict) and record for record in records)
        and all(isinstance(key, int | str) for record in records for key in record)
    )
