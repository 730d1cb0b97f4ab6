"""When a segment is due."""

from __future__ import annotations

from math import inf

from spark_ingest.collect.batch import MESSAGE_BYTES, Batch, RotationOptions
from tests.spark_ingest.examples import delivery

RULES = RotationOptions(messages_max=10, bytes_max=100_000, linger_s=1.0, held_bytes_max=10**6)


def batch_of(messages: int, *, receive_max: int = 1000, payload: bytes = b"1") -> Batch:
    batch = Batch(RULES, receive_max)
    for number in range(messages):
        assert batch.add(delivery(payload), now=5.0 + number / 100)
    return batch


def test_an_empty_batch_is_never_due() -> None:
    assert Batch(RULES, 1000).due_at() == inf
    assert not Batch(RULES, 1000)


def test_the_first_message_waits_for_others_no_longer_than_it_may() -> None:
    assert batch_of(3).due_at() == 6.0


def test_a_batch_of_enough_messages_is_due_at_once() -> None:
    assert batch_of(9).due_at() > 0.0
    assert batch_of(10).due_at() == 0.0


def test_half_of_what_may_come_is_enough() -> None:
    assert batch_of(3, receive_max=8).due_at() > 0.0
    assert batch_of(4, receive_max=8).due_at() == 0.0
    assert batch_of(1, receive_max=2).due_at() == 0.0


def test_a_batch_of_enough_octets_is_due_at_once() -> None:
    assert batch_of(1, payload=b"x" * 99_999).due_at() == 0.0
    assert batch_of(1, payload=b"x" * 50_000).due_at() > 0.0
    assert batch_of(3).bytes == 3 * (MESSAGE_BYTES + len(b"1") + len("farm/1/climate"))


def test_what_is_taken_is_no_longer_there() -> None:
    batch = batch_of(3)
    assert len(batch.take()) == 3
    assert (batch.take(), batch.bytes, batch.due_at()) == ([], 0, inf)


def test_at_qos_0_there_is_room_for_so_many_and_no_more() -> None:
    batch = batch_of(10)
    assert not batch.add(delivery(b"1", qos=0), now=9.0)
    assert batch.add(delivery(b"1", qos=1), now=9.0), "QoS 1 is bounded by what is acknowledged"
    assert len(batch.take()) == 11
