"""What gateways say of themselves is no reading."""

from __future__ import annotations

import pytest

from gateway.presence.topics import Topics
from spark_ingest.config.settings import NO_READINGS
from spark_ingest.payload import own_messages
from spark_ingest.payload.own_messages import LeavingOut
from tests.spark_ingest.examples import delivery, tagged

ROOF = Topics("", "roof")


@pytest.mark.parametrize(
    "topic",
    [
        ROOF.state,
        ROOF.stats,
        ROOF.client("hall/1"),
        ROOF.values("tank"),
        ROOF.events("tank"),
        ROOF.announced("tank"),
        f"{ROOF.commands}restart",
        "tidegate/ingest/roof/ack/c1",
        "homeassistant/device/tidegate_roof_tank/config",
        "homeassistant/status",
    ],
)
def test_what_gateways_say_of_themselves_is_left_out_unless_it_has_a_tag(topic: str) -> None:
    usual = LeavingOut(NO_READINGS)
    for _ in range(2):
        assert usual.leaves_out(delivery(b"1", topic=topic))
        assert not usual.leaves_out(delivery(b"1", tagged(1), topic=topic))
        at_qos_0 = [("gw", "roof"), ("client", "tank"), ("ts", "1")]
        assert not usual.leaves_out(delivery(b"1", at_qos_0, topic=topic))
        assert usual.leaves_out(delivery(b"1", [("gw", "roof")], topic=topic))
    assert not LeavingOut(()).leaves_out(delivery(b"1", topic=topic))


@pytest.mark.parametrize(
    "topic",
    [
        "farm/1/state",
        "tidegate/roof/clients/a/b",
        "tidegate/roof",
        "homeassistant/sensor/t",
        "site/tidegate/roof/state",
        "homeassistant/sensor/t/config",
    ],
)
def test_what_others_publish_is_not_left_out(topic: str) -> None:
    assert not LeavingOut(NO_READINGS).leaves_out(delivery(b"1", topic=topic))


def test_beyond_a_number_of_topics_they_are_found_out_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(own_messages, "TOPICS_MAX", 3)
    usual = LeavingOut(NO_READINGS)
    for number in range(10):
        assert usual.leaves_out(delivery(b"1", topic=f"tidegate/{number}/state"))
        assert not usual.leaves_out(delivery(b"1", topic=f"farm/{number}"))
    assert len(usual._by_topic) <= 3
