"""What waits for a client: which messages are kept in which state, and what a full outbox drops."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from gateway.core.drop_reasons import Reason
from gateway.core.effects import DeliveryComplete, Dropped, Save
from gateway.core.events import UnsubscribeFrom
from gateway.core.session.options import SessionOptions, WhenOutboxFull
from gateway.core.session.outbox import OVERHEAD_BYTES
from gateway.core.state_records import MessageDeleted, MessageRecord, SessionDeleted, State
from gateway.core.values import Message, Publication
from gateway.frames import Connect, Disconnect, Pingresp, Puback, Publish, Register, Subscribe
from tests.core.session.client import DEV1, Client, acknowledged, asleep, connected


def kept(client: Client) -> list[bytes]:
    """The payloads that a sleeper receives when it wakes."""
    payloads = []
    frames = client.wakes()
    while frames and isinstance(frames[-1], Publish):
        payloads += [frame.payload for frame in frames if isinstance(frame, Publish)]
        if frames[-1].qos == 0:
            break
        frames = client.says(acknowledged(frames[-1]))
    return payloads


@pytest.mark.guarantee("4d")
def test_a_sleeper_gets_what_came_in_order_of_coming() -> None:
    client = asleep(options=SessionOptions(queues_qos_0_for_sleepers=True))
    for number, qos in enumerate((1, 0, 1, 1)):
        assert client.is_sent("a/b", b"%d" % number, qos) == []
        assert client.drops == []
    assert kept(client) == [b"0", b"1", b"2", b"3"]


def test_qos_0_is_not_kept_for_a_sleeper_unless_that_is_wished_and_counted() -> None:
    client = asleep()
    client.is_sent("a/b", b"0", qos=0)
    assert client.drops == [Reason.ASLEEP]
    assert client.wakes() == [Pingresp()]


def test_qos_0_for_a_client_that_is_awake_waits_for_its_turn() -> None:
    client = asleep()
    client.is_sent("a/b", b"1")
    client.wakes()
    assert client.is_sent("a/b", b"2", qos=0) == []
    assert client.says(Puback(1, 1, 0)) == [Publish(1, 0, b"2"), Pingresp()]


def test_what_is_kept_of_qos_0_is_not_saved() -> None:
    client = asleep(options=SessionOptions(queues_qos_0_for_sleepers=True))
    client.is_sent("a/b", b"0", qos=0)
    assert client.saved == []


DROP_NEWEST = SessionOptions(outbox_messages_max=2, when_outbox_full=WhenOutboxFull.DROP_NEWEST)


def test_by_choice_the_newest_is_dropped_and_what_waits_stays() -> None:
    client = asleep(options=DROP_NEWEST)
    for payload in (b"1", b"2", b"3"):
        client.is_sent("a/b", payload)
    assert client.effects == [Dropped(Reason.OUTBOX_FULL, DEV1, "more than 2 messages")]
    saved = [change.position for change in client.saved if isinstance(change, MessageRecord)]
    assert [MessageDeleted(DEV1, position) for position in saved] == client.saved[len(saved) :]
    assert kept(client) == [b"1", b"2"]


def test_the_broker_hears_at_once_of_the_newest_that_was_dropped() -> None:
    session = asleep(options=SessionOptions(outbox_messages_max=1)).session
    refusing = asleep(options=replace(DROP_NEWEST, outbox_messages_max=1)).session
    for one, told in ((session, 0), (refusing, 1)):
        copies = [
            Publication(Message("a/b", b"%d" % number, 1), number, copies=1) for number in (0, 1)
        ]
        answers = [one.deliver(copy.message, 0.0, copy) for copy in copies]
        assert [each.copies for each in copies] == [told, 1 - told]
        assert DeliveryComplete(copies[1 - told]) not in answers[1]
        assert DeliveryComplete(copies[told]) in answers[1]


@pytest.mark.parametrize(
    ("policy", "left"),
    [
        (WhenOutboxFull.DROP_OLDEST, [b"1", b"c", b"3"]),
        (WhenOutboxFull.DROP_NEWEST, [b"1", b"b", b"3"]),
    ],
)
def test_qos_0_gives_way_before_anything_that_was_promised(
    policy: WhenOutboxFull, left: list[bytes]
) -> None:
    client = asleep(
        options=SessionOptions(
            outbox_messages_max=3, when_outbox_full=policy, queues_qos_0_for_sleepers=True
        )
    )
    for payload, qos in ((b"1", 1), (b"b", 0), (b"c", 0), (b"3", 1)):
        client.is_sent("a/b", payload, qos)
    assert client.drops == [Reason.OUTBOX_FULL]
    assert kept(client) == left


def test_beyond_the_limit_of_messages_the_oldest_is_dropped_and_counted() -> None:
    client = asleep(options=SessionOptions(outbox_messages_max=2))
    for payload in (b"1", b"2", b"3"):
        client.is_sent("a/b", payload)
    assert client.effects == [Dropped(Reason.OUTBOX_FULL, DEV1, "more than 2 messages")]
    assert kept(client) == [b"2", b"3"]


def test_beyond_the_limit_of_bytes_as_many_of_the_oldest_are_dropped_as_needed() -> None:
    small = len("a/b") + 1 + OVERHEAD_BYTES
    client = asleep(options=SessionOptions(outbox_bytes_max=3 * small))
    for payload in (b"1", b"2", b"3"):
        client.is_sent("a/b", payload)
        assert client.effects == []
    client.is_sent("a/b", b"4" * (1 + small))
    detail = f"more than {3 * small} bytes"
    assert client.effects == [Dropped(Reason.OUTBOX_FULL, DEV1, detail, count=2)]
    assert kept(client) == [b"3", b"4" * (1 + small)]


def test_one_message_is_kept_however_large_it_is() -> None:
    client = asleep(options=SessionOptions(outbox_bytes_max=1))
    client.is_sent("a/b", b"1")
    client.is_sent("a/b", b"2")
    assert client.drops == [Reason.OUTBOX_FULL]
    assert kept(client) == [b"2"]


def test_what_was_sent_leaves_its_room_to_others() -> None:
    client = asleep(options=SessionOptions(outbox_bytes_max=2 * (len("a/b") + 1 + OVERHEAD_BYTES)))
    for payloads in ([b"1", b"2"], [b"3", b"4"]):
        for payload in payloads:
            client.is_sent("a/b", payload)
            assert client.drops == []
        assert kept(client) == payloads


def test_the_message_under_way_is_never_dropped() -> None:
    client = connected(options=SessionOptions(outbox_messages_max=1))
    client.is_sent("a/b", b"1")
    client.is_sent("a/b", b"2")
    client.is_sent("a/b", b"3")
    assert client.drops == [Reason.OUTBOX_FULL]
    assert client.says(Puback(1, 1, 0)) == [Publish(1, 3, b"3", qos=1)]


def leave(client: Client) -> None:
    client.says(Disconnect())


def be_lost(client: Client) -> None:
    client.waits(until=1000.0)


def shake_hands(client: Client) -> None:
    client.says(Connect(DEV1.encode(), 60, will=True))


@pytest.mark.parametrize("go", [leave, be_lost, shake_hands])
def test_qos_1_is_kept_for_a_client_that_is_away(go: Callable[[Client], None]) -> None:
    client = connected(keep_alive_s=60)
    go(client)
    assert client.is_sent("a/b", qos=1) == []
    assert client.drops == []
    assert client.session.outbound.waiting == 1


@pytest.mark.parametrize("go", [leave, be_lost])
def test_qos_0_is_dropped_for_a_client_that_is_away(go: Callable[[Client], None]) -> None:
    client = connected(keep_alive_s=60)
    go(client)
    assert client.is_sent("a/b", qos=0) == []
    assert client.drops == [Reason.NOT_CONNECTED]


def test_qos_0_is_kept_for_a_client_that_is_about_to_be_there() -> None:
    client = connected()
    shake_hands(client)
    client.is_sent("a/b", qos=0)
    assert (client.drops, client.session.outbound.waiting) == ([], 1)


def test_what_waited_goes_out_when_the_client_comes_back() -> None:
    client = connected()
    leave(client)
    client.is_sent("a/b", b"1")
    client.says(Connect(DEV1.encode(), 60), at=9.0)
    assert Register(1, 1, b"a/b") in [getattr(effect, "frame", None) for effect in client.effects]


def test_the_end_of_a_session_counts_what_is_lost_and_leaves_nothing() -> None:
    client = connected()
    client.says(Subscribe(5, b"x/#"))
    client.session.subscribed(client.wishes[0], 0)
    client.is_sent("a/b", b"1")
    client.is_sent("a/b", b"2")
    assert client.session.end() == [
        UnsubscribeFrom(DEV1, "x/#"),
        Dropped(Reason.SESSION_ENDED, DEV1, count=2),
        Save(SessionDeleted(DEV1)),
    ]


def test_the_end_of_an_idle_session_is_quiet() -> None:
    assert connected().session.end() == [Save(SessionDeleted(DEV1))]
    assert Client().session.end() == [], "it never came to be"


def test_a_message_is_not_sent_to_one_that_never_connected() -> None:
    client = Client()
    assert client.state() is State.DISCONNECTED
    assert client.heard(client.session.deliver(Message("a/b", b"on", 0), 0.0)) == []
    assert client.drops == [Reason.NOT_CONNECTED]
