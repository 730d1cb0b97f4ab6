"""A message that is larger than we take, or whose topic is not UTF-8, from a broker that sends it
all the same: it is skipped, refused, counted, and the connection goes on.
"""

from __future__ import annotations

import re
import socket
from pathlib import Path

import mqtt5
import pytest

from spark_ingest.collect.session import CollectorSession, Effect, Received, Skipped, Transmit
from tests.spark_ingest.collect.test_session import connack, publish, up
from tests.support.collector import CollectorProcess, rows_in
from tests.support.waiting import until

LARGE = publish(7, b"x" * 2000)
REFUSED = bytes.fromhex("40 03 0007 97")
NO_TEXT = publish(9).replace(b"farm/1", b"farm/\xff")
NO_TEXT_REFUSED = bytes.fromhex("40 03 0009 90")
SMALL = publish(8, b"2")


def in_pieces(session: CollectorSession, data: bytes, size: int) -> list[Effect]:
    effects: list[Effect] = []
    for at in range(0, len(data), size):
        effects += session.receive(data[at : at + size], 1.0, 0)
    return effects


@pytest.mark.parametrize("size", [1, 2, 7, 100, 1999, 10_000])
def test_it_is_skipped_as_it_comes_in_and_refused_when_it_has_come(size: int) -> None:
    session = up()
    effects = in_pieces(session, SMALL + LARGE + SMALL, size)
    assert [type(each) for each in effects] == [Received, Skipped, Transmit, Received]
    assert effects[1:3] == [Skipped("farm/1", len(LARGE)), Transmit(REFUSED)]
    assert session.is_up


def test_nothing_of_it_is_held() -> None:
    session = up()
    huge = bytes.fromhex("32 80808004 0006") + b"farm/1" + b"\x00\x07\x00"  # 8 MiB
    assert session.receive(huge, 1.0, 0) == [Skipped("farm/1", (8 << 20) + 5)]
    left = (8 << 20) - (len(huge) - 5)
    while left:
        piece = min(left, 100_000)
        effects = session.receive(bytes(piece), 1.0, 0)
        left -= piece
        assert session._partial == b""
    assert effects == [Transmit(REFUSED)]


def test_at_qos_0_there_is_nothing_to_refuse() -> None:
    session = up()
    large = publish(None, b"x" * 2000, qos=0)
    assert session.receive(large + SMALL, 1.0, 0)[0] == Skipped("farm/1", len(large))
    assert session.unacknowledged == 1


def test_a_connection_that_ends_in_the_middle_of_it_leaves_nothing() -> None:
    session = up()
    session.receive(LARGE[:500], 1.0, 0)
    session.closed()
    up(session)
    assert [type(each) for each in session.receive(SMALL, 2.0, 0)] == [Received]


def test_what_was_held_by_its_packet_id_is_no_longer_waited_for() -> None:
    session = up()
    (first,) = session.receive(publish(7), 1.0, 0)
    assert isinstance(first, Received)
    session.closed()
    up(session)
    session.receive(LARGE, 2.0, 0)
    assert session.unacknowledged == 0
    assert session.acknowledge([first.delivery]) == []


def test_a_topic_that_is_no_text_is_still_named() -> None:
    large = LARGE.replace(b"farm/1", b"farm/\xff")
    assert up().receive(large, 1.0, 0)[0] == Skipped("farm/\ufffd", len(LARGE))


def read_until(connection: socket.socket, wanted: bytes, heard: bytes = b"") -> bytes:
    while wanted not in heard:
        more = connection.recv(65_536)
        assert more, f"the collector ended the connection after {heard!r}"
        heard += more
    return heard


def test_the_log_names_the_topic_and_the_key_once_and_the_rest_is_collected(
    tmp_path: Path,
) -> None:
    config = 'message_bytes_max = "1 KiB"\n[rotation]\nlinger_ms = 20\n'
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with CollectorProcess(tmp_path, f"mqtt://127.0.0.1:{port}", "c1", config) as collector:
            server.settimeout(30)
            connection, _ = server.accept()
            with connection:
                connection.settimeout(30)
                read_until(connection, b"MQTT")
                connection.sendall(connack())
                read_until(connection, b"$share")
                one = mqtt5.SubAckReasonCode.GRANTED_QOS_AT_LEAST_ONCE
                connection.sendall(mqtt5.SubAckPacket(1, [one]).write())
                connection.sendall(LARGE[:1000])
                connection.sendall(LARGE[1000:] + LARGE + NO_TEXT + NO_TEXT + SMALL)
                heard = read_until(connection, bytes.fromhex("40 02 0008"))
                assert heard.count(REFUSED) == heard.count(NO_TEXT_REFUSED) == 2
            until(lambda: len(rows_in(collector.lake)) == 1)
        lines = [line for line in collector.log.splitlines() if "is skipped" in line]
        (refused,) = (line for line in collector.log.splitlines() if "is not UTF-8" in line)
    assert len(lines) == 1
    assert "farm/" in refused
    assert f"a message of {len(LARGE)} bytes on topic" in lines[0]
    assert re.search(r"farm/1.*collector\.message_bytes_max \(1024\)", lines[0])
