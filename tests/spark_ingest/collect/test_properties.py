"""Properties that MQTT 5 does not allow cost neither the packet nor the connection: the table that
the gateway is held to as well.
"""

from __future__ import annotations

import pytest

from spark_ingest.collect.session import (
    CollectorSession,
    Drop,
    PropertiesIgnored,
    Received,
    Subscribed,
    Transmit,
)
from tests.spark_ingest.collect.test_session import RULES, SUBACK, connack, up
from tests.support.golden_properties import MALFORMED, ROWS, Row

# What the codec leaves behind when its native code panics; the outcome is what is tested.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

rows = pytest.mark.parametrize("row", ROWS, ids=[row.id for row in ROWS])
malformed = pytest.mark.parametrize("packet", MALFORMED.values(), ids=MALFORMED)
# What a broker may send to a collector, which publishes at QoS 0 alone.
SENT = ("PUBLISH", "SUBACK", "UNSUBACK", "DISCONNECT")


@pytest.mark.parametrize(
    "row", [each for each in ROWS if each.kind in SENT], ids=lambda row: row.id
)
def test_the_connection_lives(row: Row) -> None:
    effects = up().receive(row.packet, 1.0, 0)
    expected = [PropertiesIgnored(row.kind, row.ignored)] if row.ignored else []
    assert [each for each in effects if isinstance(each, PropertiesIgnored)] == expected
    assert any(isinstance(each, Drop) for each in effects) is (row.kind == "DISCONNECT")
    assert any(isinstance(each, Received) for each in effects) is (row.kind == "PUBLISH")


@pytest.mark.parametrize(
    "row", [each for each in ROWS if each.kind == "CONNACK"], ids=lambda row: row.id
)
def test_a_connection_is_accepted_whatever_is_beside_it(row: Row) -> None:
    session = CollectorSession(RULES)
    session.opened(0.0)
    effects = session.receive(row.packet, 0.0, 0)
    if "28 00" not in row.allowed.hex(" "):
        assert effects[-1:] != []
        assert isinstance(effects[-1], Transmit)
    if "2a 00" not in row.allowed.hex(" "):
        assert session.receive(SUBACK, 0.0, 0)[-1:] == [Subscribed(False)]


@malformed
def test_a_length_that_does_not_fit_ends_the_connection_with_its_reason(packet: str) -> None:
    data = bytes.fromhex(packet)
    session = CollectorSession(RULES)
    session.opened(0.0)
    if data[0] != 0x20:
        session.receive(connack() + SUBACK, 0.0, 0)
    *sent, drop = session.receive(data, 1.0, 0)
    assert isinstance(drop, Drop)
    # What does not answer CONNECT may be no broker; it is sent nothing more.
    expected = [] if data[0] == 0x20 else [Transmit(bytes.fromhex("e0 01 81"))]
    assert sent == expected


def test_the_delivery_tag_counts_beside_a_property_that_cannot_be_read() -> None:
    bad, good = bytes.fromhex("26 0001 61 0001 ff"), bytes.fromhex("26 0002 6777 0001 31")
    body = b"\x00\x01a" + bytes((len(bad + good),)) + bad + good + b"x"
    (noted, received) = up().receive(b"\x30" + bytes((len(body),)) + body, 1.0, 0)
    assert isinstance(noted, PropertiesIgnored)
    assert isinstance(received, Received)
    assert received.delivery.properties == [("gw", "1")]


def test_it_is_logged_once_on_each_connection() -> None:
    session = up()
    odd = bytes.fromhex("30 08 0001 61 03 1f 0000 78")
    assert [type(each) for each in session.receive(odd + odd, 1.0, 0)] == [
        PropertiesIgnored,
        Received,
        Received,
    ]
    session.closed()
    assert type(up(session).receive(odd, 1.0, 0)[0]) is PropertiesIgnored
