"""Readings on their way up: forwarded once, acknowledged when settled and not before."""

from __future__ import annotations

import pytest

from gateway.core.drop_reasons import Reason
from gateway.core.effects import RecordRelease
from gateway.core.session.inbound import (
    COPY_S,
    HOLD_DOWN_S,
    RECENT_MAX,
    RELEASES_MAX,
    UNACKNOWLEDGED_MAX,
)
from gateway.core.session.options import SessionOptions
from gateway.core.values import Reading
from gateway.frames import (
    Connack,
    Connect,
    Disconnect,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    ReturnCode,
    TopicIdType,
)
from tests.core.session.client import DEV1, ELSEWHERE, Client, asleep, connected

ACCEPTED, CONGESTION, INVALID_TOPIC_ID, NOT_SUPPORTED = ReturnCode
SHORT_TP = int.from_bytes(b"tp", "big")


def settled_long_ago(qos: int, payload: bytes = b"21.5") -> Client:
    """Reading 1 came, was settled, acknowledged and, for QoS 2, released, all at second 0."""
    client = connected()
    client.settles(client.reads(payload, 1, qos)[0])
    if qos == 2:
        assert client.says(Pubrel(1)) == [Pubcomp(1)]
    return client


# Acknowledged means settled


@pytest.mark.guarantee("1")
def test_puback_waits_for_settlement() -> None:
    client = connected()
    assert client.says(Publish(1, 7, b"21.5", qos=1), at=0.0) == []
    (reading,) = client.readings
    assert client.settles(reading) == [Puback(1, 7, ACCEPTED)]


@pytest.mark.guarantee("1")
def test_pubrec_waits_for_settlement() -> None:
    client = connected()
    assert client.says(Publish(1, 8, b"21.5", qos=2), at=0.0) == []
    (reading,) = client.readings
    assert client.settles(reading) == [Pubrec(8)]
    assert client.says(Pubrel(8), at=1.0) == [Pubcomp(8)]


def test_a_reading_is_forwarded_as_it_came() -> None:
    client = connected()
    client.says(Publish(1, 7, b"21.5", qos=2, retain=True), at=3.0)
    (reading,) = client.readings
    assert (reading.client_id, reading.topic, reading.payload) == (DEV1, "a/b", b"21.5")
    assert (reading.qos, reading.retain, reading.received_at) == (2, True, 3.0)


def test_a_reading_of_qos_0_is_forwarded_and_not_answered() -> None:
    client = connected()
    assert client.says(Publish(1, 0, b"21.5")) == []
    (reading,) = client.readings
    assert client.settles(reading) == []
    assert client.heard(client.session.refused(reading, CONGESTION)) == []


def test_a_settlement_is_acknowledged_once() -> None:
    client = connected()
    (reading,) = client.reads(b"21.5")
    client.settles(reading)
    assert client.settles(reading) == []


@pytest.mark.parametrize("qos", [1, 2])
def test_a_reading_that_cannot_go_on_is_refused_by_puback(qos: int) -> None:
    client = connected()
    (reading,) = client.reads(b"21.5", 7, qos)
    refused = client.session.refused(reading, CONGESTION)
    assert client.heard(refused) == [Puback(1, 7, CONGESTION)]
    assert client.settles(reading) == []


def test_a_refused_reading_may_come_again() -> None:
    client = connected()
    client.session.refused(client.reads(b"21.5", 7)[0], CONGESTION)
    (again,) = client.reads(b"21.5", 7, dup=True, at=300.0)
    assert client.settles(again) == [Puback(1, 7, ACCEPTED)]


def test_readings_may_be_settled_in_any_order() -> None:
    client = connected()
    first, second = client.reads(b"1", 1) + client.reads(b"2", 2)
    assert client.settles(second) == [Puback(1, 2, ACCEPTED)]
    assert client.settles(first) == [Puback(1, 1, ACCEPTED)]


# Topics


@pytest.mark.parametrize(
    ("topic_id", "kind", "topic"),
    [
        (1, TopicIdType.NORMAL, "a/b"),
        (7, TopicIdType.PREDEFINED, "sensors/boot"),
        (SHORT_TP, TopicIdType.SHORT, "tp"),
    ],
)
def test_a_topic_may_be_named_in_three_ways(topic_id: int, kind: TopicIdType, topic: str) -> None:
    client = connected()
    client.says(Publish(topic_id, 5, b"x", qos=1, topic_id_type=kind))
    assert [reading.topic for reading in client.readings] == [topic]
    assert client.settles(client.readings[0]) == [Puback(topic_id, 5, ACCEPTED)]


@pytest.mark.parametrize("kind", [TopicIdType.PREDEFINED, TopicIdType.SHORT])
def test_a_clients_own_number_may_be_called_predefined_or_a_short_name(kind: TopicIdType) -> None:
    """Several clients do, and nothing else has that number."""
    client = connected()
    client.says(Publish(1, 5, b"x", qos=1, topic_id_type=kind))
    assert [reading.topic for reading in client.readings] == ["a/b"]


@pytest.mark.parametrize("qos", [0, 1, 2])
@pytest.mark.parametrize(
    ("topic_id", "kind"),
    [
        (0x0000, TopicIdType.NORMAL),
        (2, TopicIdType.NORMAL),
        (0xFFFF, TopicIdType.NORMAL),
        (2, TopicIdType.PREDEFINED),
        (int.from_bytes(b"t+", "big"), TopicIdType.SHORT),
        (int.from_bytes(b"\x00t", "big"), TopicIdType.SHORT),
        (int.from_bytes(b"\xff\xff", "big"), TopicIdType.SHORT),
        (1, TopicIdType.RESERVED),
    ],
)
def test_an_unknown_topic_is_answered_at_every_qos(
    topic_id: int, kind: TopicIdType, qos: int
) -> None:
    client = connected()
    answer = client.says(Publish(topic_id, 5, b"x", qos, topic_id_type=kind))
    assert answer == [Puback(topic_id, 5, INVALID_TOPIC_ID)]
    assert client.drops == [Reason.UNKNOWN_TOPIC_ID]
    assert client.readings == []


def test_a_payload_may_be_as_large_as_the_limit_and_no_larger() -> None:
    client = connected(options=SessionOptions(payload_bytes_max=4))
    assert len(client.reads(b"21.5", 1)) == 1
    assert client.says(Publish(1, 2, b"21.55", qos=1)) == [Puback(1, 2, NOT_SUPPORTED)]
    assert client.drops == [Reason.PAYLOAD_TOO_LARGE]


# Once


@pytest.mark.guarantee("2")
@pytest.mark.parametrize("qos", [1, 2])
@pytest.mark.parametrize("dup", [False, True])
def test_a_copy_of_an_unsettled_reading_is_forwarded_once(qos: int, dup: bool) -> None:
    client = connected()
    (reading,) = client.reads(b"21.5", 7, qos)
    assert client.says(Publish(1, 7, b"21.5", qos, dup=dup), at=10.0) == []
    assert client.readings == []
    assert client.drops == [Reason.REPEATED]
    assert len(client.settles(reading)) == 1


def test_a_copy_of_a_settled_reading_is_acknowledged_again() -> None:
    client = settled_long_ago(qos=1)
    again = Publish(1, 1, b"21.5", qos=1, dup=True)
    assert client.says(again, at=COPY_S - 0.1) == [Puback(1, 1, ACCEPTED)]
    assert client.readings == []


def test_a_client_that_goes_on_sending_copies_is_known_all_the_while() -> None:
    client = settled_long_ago(qos=1)
    for at in (COPY_S - 1.0, 2 * COPY_S - 2.0):
        assert client.says(Publish(1, 1, b"21.5", 1, dup=True), at=at) == [Puback(1, 1, ACCEPTED)]


def test_after_the_longest_retry_nothing_is_a_copy() -> None:
    client = settled_long_ago(qos=1)
    assert len(client.reads(b"21.5", 1, dup=True, at=COPY_S)) == 1


def test_copies_are_known_long_after_a_slow_settlement() -> None:
    client = connected()
    (reading,) = client.reads(b"21.5", 1)
    client.reads(b"21.5", 1, dup=True, at=600.0)
    client.settles(reading)
    assert client.reads(b"21.5", 1, dup=True, at=615.0) == []


@pytest.mark.parametrize(
    ("payload", "dup"), [(b"21.5", False), (b"21.6", True)], ids=["no DUP", "another payload"]
)
def test_a_new_reading_under_an_old_id_is_forwarded(payload: bytes, dup: bool) -> None:
    """Clients that always use the same message id would else lose readings."""
    client = settled_long_ago(qos=1)
    (reading,) = client.reads(payload, 1, dup=dup, at=1.0)
    assert client.settles(reading) == [Puback(1, 1, ACCEPTED)]


def test_message_id_0_is_accepted_and_echoed() -> None:
    client = connected()
    for second, payload in enumerate((b"21.5", b"21.5", b"21.6")):
        (reading,) = client.reads(payload, 0, at=float(second))
        assert client.settles(reading) == [Puback(1, 0, ACCEPTED)]


@pytest.mark.guarantee("1")
@pytest.mark.parametrize("qos", [1, 2])
def test_a_new_reading_under_an_unsettled_id_gets_an_acknowledgement_of_its_own(qos: int) -> None:
    """A client that restarts counts from 1 again, while the broker is slow."""
    client = connected()
    (before,) = client.reads(b"21.5", 1, qos)
    (after,) = client.reads(b"30.0", 1, qos, at=20.0)
    assert client.settles(before) == []
    assert len(client.settles(after)) == 1


@pytest.mark.guarantee("2")
def test_a_copy_before_pubrel_gets_pubrec_again_and_is_not_forwarded() -> None:
    client = connected()
    client.settles(client.reads(b"21.5", 8, qos=2)[0])
    assert client.says(Publish(1, 8, b"21.5", qos=2, dup=True), at=5000.0) == [Pubrec(8)]
    assert client.readings == []


def test_a_new_reading_under_an_id_that_waits_for_pubrel_is_forwarded() -> None:
    client = connected()
    client.settles(client.reads(b"21.5", 1, qos=2)[0])
    (reading,) = client.reads(b"30.0", 1, qos=2, at=20.0)
    assert client.settles(reading) == [Pubrec(1)]


@pytest.mark.guarantee("2")
def test_a_late_copy_is_held_down_after_pubrel() -> None:
    client = settled_long_ago(qos=2)
    late = Publish(1, 1, b"21.5", qos=2)
    assert client.says(late, at=HOLD_DOWN_S - 0.1) == [Pubrec(1)]
    assert client.readings == []
    assert client.says(Pubrel(1), at=HOLD_DOWN_S) == [Pubcomp(1)]


@pytest.mark.parametrize(("payload", "at"), [(b"21.5", HOLD_DOWN_S), (b"21.6", 0.1)])
def test_the_hold_down_ends_and_holds_only_copies(payload: bytes, at: float) -> None:
    client = settled_long_ago(qos=2)
    assert len(client.reads(payload, 1, qos=2, at=at)) == 1


def test_a_client_that_misses_pubcomp_may_repeat_publish_in_place_of_pubrel() -> None:
    """Zephyr does, some 15 s after its PUBREL, and as often as it repeats anything."""
    client = settled_long_ago(qos=2)
    repeat = Publish(1, 1, b"21.5", qos=2, dup=True)
    assert client.says(repeat, at=COPY_S - 0.1) == [Pubrec(1)]
    assert client.readings == []
    assert client.says(Pubrel(1), at=COPY_S) == [Pubcomp(1)]
    assert len(client.reads(b"21.5", 1, qos=2, dup=True, at=2 * COPY_S)) == 1


def counted(ids: list[int], payload: bytes = b"21.5") -> Client:
    """Readings with these message ids came and were acknowledged at second 0."""
    client = connected()
    for message_id in ids:
        client.settles(client.reads(payload, message_id)[0])
    return client


@pytest.mark.parametrize("message_id", [1, 2, 4, 5])
def test_a_copy_that_the_network_made_of_one_of_several_is_known(message_id: int) -> None:
    client = counted([1, 2, 4, 5])
    late = Publish(1, message_id, b"21.5", qos=1)
    assert client.says(late, at=HOLD_DOWN_S - 0.1) == [Puback(1, message_id, ACCEPTED)]
    assert client.readings == []


@pytest.mark.parametrize(
    ("ids", "payload", "at"),
    [
        ([1, 1, 1, 1], b"21.5", 1.0),
        ([1, 2, 1, 2, 1], b"21.5", 1.0),
        ([3, 4, 0, 1], b"21.5", 1.0),
        ([1, 2], b"21.5", 1.0),
        ([1, 2, 3], b"21.6", 1.0),
        ([1, 2, 3], b"21.5", HOLD_DOWN_S),
    ],
    ids=["one id", "two in turn", "wrapped", "too few to tell", "another payload", "too late"],
)
def test_else_an_id_that_comes_again_is_a_new_reading(
    ids: list[int], payload: bytes, at: float
) -> None:
    client = counted(ids)
    assert len(client.reads(payload, 1, at=at)) == 1


def test_in_the_next_connection_a_client_may_count_from_1_again() -> None:
    client = counted([1, 2, 3])
    assert client.says(Connect(b"dev1", 60, clean_session=False), at=1.0)
    assert client.readings == []
    for message_id in (1, 2, 3):
        (reading,) = client.reads(b"21.5", message_id, at=2.0)
        client.settles(reading)
    assert client.reads(b"21.5", 2, at=3.0) == []


def test_another_qos_is_no_copy() -> None:
    client = settled_long_ago(qos=1)
    assert len(client.reads(b"21.5", 1, qos=2, at=1.0)) == 1


def test_an_unknown_pubrel_is_answered() -> None:
    assert connected().says(Pubrel(99)) == [Pubcomp(99)]


def test_a_repeated_pubrel_is_answered_again() -> None:
    client = settled_long_ago(qos=2)
    assert client.says(Pubrel(1), at=10.0) == [Pubcomp(1)]


def test_a_copy_of_a_pubrel_that_is_being_recorded_waits_with_it() -> None:
    client = connected()
    (stored,) = client.reads(b"21.5", 8, qos=2)
    stored.record = 0
    client.settles(stored)
    (recorded,) = client.session.receive(Pubrel(8), 1.0)
    assert isinstance(recorded, RecordRelease)
    assert client.session.receive(Pubrel(8), 1.1) == []


def test_pubrel_ends_its_own_exchange_only() -> None:
    client = connected()
    for message_id in (1, 2):
        client.settles(client.reads(b"x", message_id, qos=2)[0])
    assert client.says(Pubrel(1), at=1.0) == [Pubcomp(1)]
    assert client.says(Publish(1, 2, b"x", qos=2, dup=True), at=100.0) == [Pubrec(2)]
    assert client.says(Pubrel(2), at=101.0) == [Pubcomp(2)]


# Never to another


def reconnected(client: Client, at: float = 20.0) -> None:
    assert client.says(Connect(DEV1.encode(), 60), at) == [Connack(ACCEPTED)]


@pytest.mark.guarantee("1")
@pytest.mark.parametrize("qos", [1, 2])
def test_a_reading_of_the_connection_before_is_not_acknowledged_in_this_one(qos: int) -> None:
    """The client may have restarted and sent another reading under this id, which was lost."""
    client = connected()
    (reading,) = client.reads(b"21.5", 1, qos)
    reconnected(client)
    assert client.settles(reading) == []


@pytest.mark.parametrize(("qos", "answer"), [(1, Puback(1, 1, ACCEPTED)), (2, Pubrec(1))])
def test_a_client_that_still_waits_after_reconnecting_asks_by_a_copy(
    qos: int, answer: Puback | Pubrec
) -> None:
    before, after = connected(), connected()
    (reading,) = before.reads(b"21.5", 1, qos)
    reconnected(before)
    assert before.says(Publish(1, 1, b"21.5", qos, dup=True), at=21.0) == []
    assert before.settles(reading) == [answer]

    (reading,) = after.reads(b"21.5", 1, qos)
    reconnected(after)
    after.settles(reading)
    assert after.says(Publish(1, 1, b"21.5", qos, dup=True), at=21.0) == [answer]
    assert after.readings == []


def test_only_the_readings_before_the_reconnect_are_not_acknowledged() -> None:
    client = connected()
    old = client.reads(b"1", 1) + client.reads(b"2", 2)
    reconnected(client)
    (new,) = client.reads(b"3", 3, at=21.0)
    assert [client.settles(reading) for reading in (old[0], new, old[1])] == [
        [],
        [Puback(1, 3, ACCEPTED)],
        [],
    ]


def test_a_client_that_left_hears_nothing_more() -> None:
    client = connected()
    readings = client.reads(b"1", 1) + client.reads(b"2", 2, qos=2) + client.reads(b"3", 3)
    client.says(Disconnect(), at=1.0)
    assert client.settles(readings[0]) == []
    assert client.settles(readings[1]) == []
    assert client.heard(client.session.refused(readings[2], CONGESTION)) == []


def test_a_client_whose_address_another_one_took_hears_nothing_more() -> None:
    client = connected()
    (reading,) = client.reads(b"21.5", 1)
    client.heard(client.session.displace())
    assert client.settles(reading) == []


def test_a_sleeper_that_published_is_acknowledged_where_it_is_now() -> None:
    client = asleep()
    (reading,) = client.reads(b"21.5", 1, at=5.0)
    client.says(Connect(DEV1.encode(), 60), at=6.0, peer=ELSEWHERE)
    assert client.settles(reading) == [Puback(1, 1, ACCEPTED)]
    assert [getattr(effect, "peer", None) for effect in client.effects] == [ELSEWHERE]


# When it is full


@pytest.mark.guarantee("6")
def test_more_unsettled_readings_than_the_limit_are_congestion() -> None:
    client = connected()
    readings: list[Reading] = []
    for message_id in range(1, UNACKNOWLEDGED_MAX + 1):
        readings += client.reads(b"%d" % message_id, message_id)
    one_more = Publish(1, 1000, b"x", qos=1)
    assert client.says(one_more) == [Puback(1, 1000, CONGESTION)]
    assert client.drops == [Reason.UNSETTLED_FULL]
    client.settles(readings[0])
    assert client.says(one_more) == []
    assert len(client.readings) == 1


def test_at_the_limit_a_new_reading_may_take_the_place_of_one_under_its_id() -> None:
    client = connected()
    for message_id in range(1, UNACKNOWLEDGED_MAX + 1):
        client.reads(b"before", message_id)
    (reading,) = client.reads(b"after", 1, at=20.0)
    assert client.settles(reading) == [Puback(1, 1, ACCEPTED)]


def test_of_too_many_finished_ids_the_oldest_is_forgotten() -> None:
    client = connected()
    for message_id in range(1, RECENT_MAX + 2):
        client.settles(client.reads(b"x", message_id, at=1.0)[0])
    assert client.reads(b"x", 2, dup=True, at=2.0) == []
    assert len(client.reads(b"x", 1, dup=True, at=2.0)) == 1


def test_of_too_many_exchanges_without_pubrel_the_oldest_is_forgotten() -> None:
    client = connected()
    for message_id in range(1, RELEASES_MAX + 2):
        client.settles(client.reads(b"x", message_id, qos=2)[0])
    assert client.reads(b"x", 2, qos=2, dup=True, at=1.0) == []
    assert len(client.reads(b"x", 1, qos=2, dup=True, at=1.0)) == 1


@pytest.mark.parametrize(("qos", "remembered_max"), [(1, RECENT_MAX), (2, RELEASES_MAX)])
def test_an_id_that_is_used_again_is_the_youngest(qos: int, remembered_max: int) -> None:
    client = connected()
    for message_id in range(1, remembered_max + 1):
        client.settles(client.reads(b"before", message_id, qos)[0])
    for message_id in (2, remembered_max + 1, remembered_max + 2):
        client.settles(client.reads(b"after", message_id, qos)[0])
    assert client.reads(b"after", 2, qos, dup=True, at=1.0) == []
    assert client.reads(b"before", 4, qos, dup=True, at=1.0) == []
    assert len(client.reads(b"before", 3, qos, dup=True, at=1.0)) == 1


def test_a_sleeper_keeps_no_recent_reading_that_is_outdated() -> None:
    client = connected()
    client.settles(client.reads(b"21.5", 1, 1)[0])
    client.sleeps(at=1.0)
    assert client.session.inbound.recent is not None
    client.sleeps(at=COPY_S + 1.0)
    assert client.session.inbound.recent is None
