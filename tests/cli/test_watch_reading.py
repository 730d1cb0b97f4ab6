"""What `tidegate watch` makes of messages of any kind: pure, without a broker."""

from __future__ import annotations

import json

import cbor2
import mqtt5
import pytest

from gateway.cli.watch.choice import choice_of
from gateway.cli.watch.lines import Lines
from gateway.cli.watch.reading import Arrived, Reading, as_json, reading_of, shown
from gateway.cli.watch.subscription import (
    Ended,
    Granted,
    News,
    Refused,
    Subscribing,
    Subscription,
)
from gateway.config.kinds import MismatchError
from gateway.config.settings import Settings, UpstreamSettings
from tests.support.starting import REPOSITORY

NOW = 1_800_000_000.0
TAG = {"gw": "barn", "client": "tank", "epoch": "3", "seq": "17", "ts": "1799999998500"}


def message(payload: bytes, properties: dict[str, str] | None = None, **other: object) -> Reading:
    fields: dict[str, object] = {"topic": "site/tank", "qos": 1, "retain": False} | other
    tag = TAG if properties is None else properties
    arrived = Arrived(payload=payload, properties=tag, unix_s=NOW, **fields)  # type: ignore[arg-type]
    return reading_of(arrived, "site/")


def pack(*records: dict[int, object]) -> bytes:
    return cbor2.dumps(list(records))


@pytest.mark.parametrize(
    ("payload", "text"),
    [
        (
            pack({-2: "tank/", 0: "level", 1: "m", 2: 1.5}, {0: "open", 4: True}),
            "level 1.5 m, open true",
        ),
        (b'[{"bn":"tank","n":"t","u":"Cel","bv":20,"v":1.5}]', "t 21.5 Cel"),
        (b'{"a": 1, "b": {"c": "x"}}', "a 1, b.c x"),
        (b"21.50", "21.5"),
        (b"door open\n", "door open"),
        (b"two\nlines \x1b]0;title\x07", "two\\nlines \\x1b]0;title\\x07"),
        ("\u202etxt".encode(), "\\u202etxt"),
        (b"\x9b31m\xff", "0x9b33316dff"),
        (bytes(40), f"0x{'00' * 32}... (40 bytes)"),
        (b"", "(empty)"),
        (b"[" * 20_000, "[" * 500 + "..."),
        (b'[{"n":"x","v":1e999}]', '[{"n":"x","v":1e999}]'),
        (pack({0: "bad\x1b[2J", 3: "\x1b[31m"}), "bad [2J  [31m"),
    ],
)
def test_a_payload_is_one_line_that_a_terminal_may_have(payload: bytes, text: str) -> None:
    found = shown(message(payload))
    assert found == text
    assert found.isprintable()


def test_a_reading_has_the_age_that_its_gateway_says() -> None:
    reading = message(b"1")
    assert (reading.client, reading.topic, reading.age_s) == ("tank", "tank", 1.5)


def test_times_of_senml_count_from_when_the_gateway_took_it_on() -> None:
    reading = message(pack({-3: -60, 0: "a", 2: 1.0}, {0: "b", 2: 2.0, 6: -300}))
    assert reading.age_s == 61.5
    assert shown(reading) == "a 1, b 2 (5 min 0 s earlier)"
    absolute = message(b'[{"bt":1799999990,"n":"a","v":1}]', properties={})
    assert absolute.age_s == 10.0
    mixed = message(b'[{"n":"a","v":1},{"n":"b","v":1,"t":-300}]')
    assert mixed.age_s == 1.5


def test_a_time_that_is_still_to_come_makes_no_age() -> None:
    assert message(b'[{"bt":1900000000,"n":"a","v":1}]').age_s == 1.5


def test_who_is_no_gateway_gives_no_sensor_and_no_age() -> None:
    reading = message(b"1", properties={"client": "me", "ts": "1"})
    assert (reading.client, reading.age_s) == (None, None)
    assert "  -  " in Lines(has_colours=False).of(reading, None)
    assert message(b"1", properties=TAG | {"ts": "\u0661"}).age_s is None


def test_json_has_the_names_of_the_delivery_tag_and_the_whole_payload() -> None:
    found = json.loads(json.dumps(as_json(message(b"21.5", retain=True))))
    assert found == {
        "time": NOW, "gw": "barn", "client": "tank", "epoch": 3, "seq": 17, "ts": 1799999998500,
        "topic": "tank", "qos": 1, "retain": True, "age_s": 1.5, "payload": "MjEuNQ==",
        "values": [{"name": "", "value": 21.5, "unit": "", "earlier_s": 0.0}], "text": "21.5",
    }  # fmt: skip


@pytest.mark.parametrize("width", [40, 60, 80, 200])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    lines = Lines(has_colours=False)
    for topic, payload in (
        ("site/" + "long/" * 30, b"x" * 400),
        ("site/a", pack(*({0: f"value-{n}", 2: float(n)} for n in range(20)))),
        ("site/b", b"1"),
    ):
        text = lines.of(message(payload, topic=topic), width)
        assert max(map(len, text.splitlines())) <= width


def test_colours_are_only_around_what_is_shown_anyway() -> None:
    plain = Lines(has_colours=False).of(message(b"1"), None)
    coloured = Lines(has_colours=True).of(message(b"1"), None)
    for code in ("\x1b[1m", "\x1b[2m", "\x1b[0m"):
        coloured = coloured.replace(code, "")
    assert coloured == plain


# What is chosen

SETTINGS = Settings(upstream=UpstreamSettings(topic_prefix="site/"))


@pytest.mark.parametrize(
    ("wanted", "topic_filter"),
    [
        (None, "site/#"),
        ("tank", "site/#"),
        ("a/+/b", "site/a/+/b"),
        ("#", "site/#"),
        ("site/a/#", "site/a/#"),
        ("$SYS/#", "$SYS/#"),
    ],
)
def test_filters_are_written_as_sensors_write_topics(wanted: str | None, topic_filter: str) -> None:
    assert choice_of(wanted, SETTINGS).topic_filter == topic_filter


@pytest.mark.parametrize("wanted", ["a/#/b", "a+/b", "", "x/\0", "$share/a/b", "a/" * 200 + "#"])
def test_what_is_no_filter_is_refused(wanted: str) -> None:
    with pytest.raises(MismatchError):
        choice_of(wanted, SETTINGS)


def test_a_name_is_that_of_a_sensor_or_of_a_topic() -> None:
    choice = choice_of("tank", SETTINGS)
    assert choice.wants(message(b"1", topic="site/x"))
    assert choice.wants(message(b"1", properties={}, topic="site/tank"))
    assert not choice.wants(message(b"1", properties={}, topic="site/tank/x"))


def test_what_gateways_say_of_themselves_is_no_reading() -> None:
    every, asked = choice_of(None, SETTINGS), choice_of("tidegate/#", SETTINGS)
    assert every.hides("site/tidegate/barn/state")
    assert every.hides("homeassistant/device/x/config")
    assert not every.hides("site/tidegates")
    assert not asked.hides("site/tidegate/barn/state")


# At the broker


def subscription() -> Subscription:
    opened = Subscription(Subscribing(client_id="c", topic_filter="#", username="u"))
    assert mqtt5.read(memoryview(opened.opened()))[0].clean_start  # type: ignore[union-attr]
    return opened


def accepted() -> Subscription:
    opened = subscription()
    answers, news = opened.receive(mqtt5.ConnAckPacket().write(), NOW)
    assert news == []
    (subscribe,) = (mqtt5.read(memoryview(each))[0] for each in answers)
    assert isinstance(subscribe, mqtt5.SubscribePacket)
    return opened


def said(opened: Subscription, packet: bytes) -> News:
    (news,) = opened.receive(packet, NOW)[1]
    return news


def test_a_message_at_qos_2_is_shown_once() -> None:
    opened = accepted()
    publish = mqtt5.PublishPacket("t", b"1", qos=mqtt5.QoS.EXACTLY_ONCE, packet_id=5).write()
    assert isinstance(said(opened, publish), Arrived)
    again, news = opened.receive(publish, NOW)
    assert (again, news) == ([mqtt5.PubRecPacket(5).write()], [])
    assert opened.receive(mqtt5.PubRelPacket(5).write(), NOW) == (
        [mqtt5.PubCompPacket(5).write()],
        [],
    )
    assert isinstance(said(opened, publish), Arrived)


def test_packets_may_come_in_any_pieces() -> None:
    opened = accepted()
    data = mqtt5.PublishPacket("t", b"1", qos=mqtt5.QoS.AT_LEAST_ONCE, packet_id=5).write()
    found = [opened.receive(data[n : n + 1], NOW) for n in range(len(data))]
    assert [bool(news) for _, news in found] == [False] * (len(data) - 1) + [True]


@pytest.mark.parametrize(
    ("code", "is_denied"), [(0x87, True), (0x80, True), (0x8F, False), (0x97, False)]
)
def test_a_subscription_that_is_refused_says_why(code: int, is_denied: bool) -> None:
    opened = accepted()
    suback = bytes((0x90, 4, 0, 1, 0, code))
    refused = said(opened, suback)
    assert isinstance(refused, Refused)
    assert (refused.is_lasting, refused.is_denied) == (True, is_denied)
    assert f"{code:#04x}" in refused.reason
    assert said(accepted(), bytes((0x90, 4, 0, 1, 0, 1))) == Granted()


@pytest.mark.parametrize(
    ("code", "is_lasting", "is_denied"),
    [(0x87, True, True), (0x86, True, True), (0x84, True, False), (0x89, False, False)],
)
def test_a_connection_that_is_refused_says_why(
    code: int, is_lasting: bool, is_denied: bool
) -> None:
    refused = said(subscription(), bytes((0x20, 3, 0, code, 0)))
    assert isinstance(refused, Refused)
    assert (refused.is_lasting, refused.is_denied) == (is_lasting, is_denied)


def test_a_broker_of_mqtt_3_1_1_is_named_so() -> None:
    refused = said(subscription(), b"\x20\x02\x00\x01")
    assert isinstance(refused, Refused)
    assert "does not speak MQTT 5" in refused.reason


@pytest.mark.parametrize("data", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\x00" * 9, b"\xff" * 9])
def test_what_is_no_broker_ends_the_connection(data: bytes) -> None:
    assert isinstance(said(subscription(), data), Ended)


def test_a_topic_that_is_no_text_is_acknowledged_and_left_out() -> None:
    opened = accepted()
    data = b"\x32\x08\x00\x02\xff\xfe\x00\x07\x00x"
    assert opened.receive(data, NOW) == ([mqtt5.PubAckPacket(7).write()], [])


def test_after_a_break_what_is_retained_does_not_come_again() -> None:
    opened = accepted()
    assert said(opened, bytes((0x90, 4, 0, 1, 0, 2))) == Granted()
    opened.opened()
    ((subscribe,), _) = opened.receive(mqtt5.ConnAckPacket().write(), NOW)
    packet = mqtt5.read(memoryview(subscribe))[0]
    assert isinstance(packet, mqtt5.SubscribePacket)
    assert packet.topic_filters[0].retain_handling is mqtt5.RetainHandling.SEND_NEVER


def test_the_lines_are_those_that_operating_md_shows() -> None:
    document = (REPOSITORY / "docs/operating.md").read_text(encoding="utf-8")
    shown_there = document.partition("$ tidegate watch 'sensors/#'\n")[2].partition("```")[0]
    climate = pack({0: "temperature", 1: "Cel", 2: 21.5}, {0: "humidity", 1: "%RH", 2: 48})
    level = pack({0: "level", 1: "m", 2: 1.25})
    greenhouse = TAG | {"client": "greenhouse-1", "ts": str(int(NOW * 1000) - 100)}
    tank = TAG | {"ts": str(int(NOW * 1000) - 7_500_000)}
    readings = [
        message(climate, greenhouse, topic="site/sensors/greenhouse-1"),
        message(level, tank, topic="site/sensors/tank", retain=True),
        message(b"pump was oiled", {}, topic="site/sensors/note", qos=0, retain=True),
    ]
    lines = Lines(has_colours=False)
    without_clock = [lines.of(each, 120)[len("14:32:05") :] for each in readings]
    assert [line[len("14:32:05") :] for line in shown_there.splitlines(keepends=True)[1:]] == (
        without_clock
    )
