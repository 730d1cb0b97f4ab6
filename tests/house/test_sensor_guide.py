"""The bytes that docs/sensors.md shows are those that the gateway understands and says."""

from __future__ import annotations

import re
from pathlib import Path

from gateway.core.addresses import address_behind
from gateway.frames import Disconnect, decode, encode
from tests.support.engine_bench import Bench

GUIDE = Path(__file__).parents[2] / "docs" / "sensors.md"
SPOKEN = re.compile(r'^((?:[0-9A-F]{2,4} )+(?: ?[0-9A-F]{2,4}\b)*(?:"[^"]+")?)', re.MULTILINE)
ANSWERED = re.compile(r"-> ((?:[0-9A-F]{2,4}\b ?)+)")
SENSOR = b"sensor"


def octets(text: str) -> bytes:
    spelled = re.search(r'"([^"]+)"', text)
    raw = bytes.fromhex(re.sub(r'"[^"]*"', "", text))
    return raw + (spelled[1].encode() if spelled else b"")


def examples() -> list[tuple[bytes, bytes | None]]:
    """Each line of bytes in the guide, with the answer that it shows on the same line."""
    found = []
    for block in re.findall(r"^```\n(.*?)^```", GUIDE.read_text(), re.MULTILINE | re.DOTALL):
        for line in block.splitlines():
            spoken, answered = SPOKEN.match(line), ANSWERED.search(line)
            if spoken is not None:
                said = octets(spoken[1])
                found.append((said, octets(answered[1]) if answered else None))
    return found


def test_each_line_is_answered_as_the_guide_says() -> None:
    bench = Bench()
    bench.engine.discovery.set_serving(None, 0.0)
    said = [spoken for spoken, _ in examples()]
    assert len(said) == 7, [each.hex(" ") for each in said]
    for spoken, answered in examples():
        heard = [encode(frame) for frame in bench.say_octets(SENSOR, spoken)]
        heard += [encode(frame) for frame in bench.hear(address_behind(SENSOR, b"\1\2"))]
        if answered is not None:
            assert heard == [answered], (
                f"{spoken.hex(' ')} hears {[each.hex(' ') for each in heard]}"
            )


def test_the_example_of_a_bridge_is_a_nodes_pingreq() -> None:
    bench = Bench()
    envelope = octets("05 FE 00 0102 02 16")
    assert envelope.hex() in GUIDE.read_text().replace(" ", "").lower()
    bench.say_octets(SENSOR, envelope)
    assert bench.hear(address_behind(SENSOR, b"\1\2")) == [Disconnect()], "a node that nobody knows"
    assert decode(envelope[5:]) == decode(b"\2\x16")
