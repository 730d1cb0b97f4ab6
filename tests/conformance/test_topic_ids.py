"""Topic ids, as stories of whole clients: whose they are, how they are learned again when one side
has forgotten them, and what there is beyond their limit (1.2, 5.3.11, 6.5, 6.7, 6.10).

That they outlast a restart is in tests/core/test_engine_restart.py and tests/end_to_end/restart/.
"""

from __future__ import annotations

import mqtt5

from gateway.core.drop_reasons import Reason
from gateway.core.effects import Dropped
from gateway.core.options import EngineOptions
from gateway.core.session.options import PredefinedTopics, SessionOptions
from gateway.frames import (
    Disconnect,
    Frame,
    Pingreq,
    Pingresp,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Regack,
    Register,
    ReturnCode,
    Suback,
    Subscribe,
    TopicIdType,
)
from tests.support.engine_bench import UPSTREAM, Bench, granted_id, short

ACCEPTED, CONGESTION, INVALID_TOPIC_ID, _ = ReturnCode
TP = int.from_bytes(b"tp", "big")
COMMON = PredefinedTopics.of({"common/boot": 1, "common/time": 2, "common/tp": TP})


def bench_with(session: SessionOptions | None = None, first_topic_id: int = 1) -> Bench:
    own = {"s2": COMMON.overlaid_with({"own/boot": 1})}
    bench = Bench(
        EngineOptions(
            UPSTREAM,
            session or SessionOptions(),
            predefined=COMMON,
            clients_predefined=own,
            first_topic_id=first_topic_id,
        )
    )
    bench.seen()
    return bench


def topics_published(bench: Bench) -> list[str]:
    return [packet.topic for packet in bench.seen_of(mqtt5.PublishPacket)]


def predefined(topic_id: int, message_id: int) -> Publish:
    return Publish(topic_id, message_id, b"x", 1, topic_id_type=TopicIdType.PREDEFINED)


def subscribe_predefined(bench: Bench, name: bytes, topic_id: int) -> list[Frame]:
    topic = topic_id.to_bytes(2, "big")
    return bench.say(name, Subscribe(1, topic, 1, topic_id_type=TopicIdType.PREDEFINED))


# Whose they are


def test_a_number_means_to_each_client_what_it_registered_itself() -> None:
    bench = bench_with()
    s1, s2 = bench.join(b"s1"), bench.join(b"s2")
    assert [bench.register(s1, name) for name in (b"a/b", b"c/d")] == [1, 2]
    assert [bench.register(s2, name) for name in (b"c/d", b"a/b")] == [1, 2]
    bench.say(s1, Publish(1, 1, b"x", 1), Publish(2, 2, b"x", 1))
    bench.say(s2, Publish(1, 1, b"x", 1), Publish(2, 2, b"x", 1))
    assert topics_published(bench) == ["a/b", "c/d", "c/d", "a/b"]


def test_a_number_that_only_another_client_has_is_unknown() -> None:
    bench = bench_with()
    s1, s2 = bench.join(b"s1"), bench.join(b"s2")
    topic_id = bench.register(s1, b"a/b")
    assert bench.say(s2, Publish(topic_id, 9, b"x", 1)) == [Puback(topic_id, 9, INVALID_TOPIC_ID)]
    assert topics_published(bench) == []


def test_one_message_reaches_each_client_under_its_own_number() -> None:
    bench = bench_with()
    s1, s2 = bench.join(b"s1"), bench.join(b"s2")
    bench.register(s2, b"something/else")
    ids = [granted_id(bench.subscribe(client, b"a/b", 1)) for client in (s1, s2)]
    bench.publishes("a/b", b"on", 1)
    sent = [frame for client in (s1, s2) for frame in bench.hear(client)]
    assert [each.topic_id for each in sent if isinstance(each, Publish)] == ids == [1, 2]


def test_an_id_that_is_predefined_for_one_client_hides_the_common_one_for_it_alone() -> None:
    bench = bench_with()
    for name in (b"s1", b"s2"):
        bench.join(name)
        bench.say(name, predefined(1, 1), predefined(2, 2))
    assert topics_published(bench) == ["common/boot", "common/time", "own/boot", "common/time"]


def test_predefined_ids_are_a_clients_own_on_the_way_down_as_well() -> None:
    bench = bench_with()
    s1, s2 = bench.join(b"s1"), bench.join(b"s2")
    for client in (s1, s2):
        assert subscribe_predefined(bench, client, 1) == [Suback(1, 1, ACCEPTED, 1)]
    bench.publishes("own/boot", b"on", 1)
    bench.publishes("common/boot", b"off", 1)
    for client, payload in ((s1, b"off"), (s2, b"on")):
        (sent,) = bench.hear(client)
        assert isinstance(sent, Publish)
        assert (sent.topic_id, sent.topic_id_type) == (1, TopicIdType.PREDEFINED)
        assert sent.payload == payload


def test_a_client_that_may_not_know_a_predefined_id_is_told_a_number_of_its_own() -> None:
    bench = bench_with()
    s1 = bench.join(b"s1")
    bench.subscribe(s1, b"own/#", 1)
    bench.publishes("own/boot", b"on", 1)
    assert bench.hear(s1) == [Register(1, 1, b"own/boot")]


def test_the_same_number_is_three_topics_by_its_three_types() -> None:
    bench = bench_with(first_topic_id=TP)
    s1 = bench.join(b"s1")
    assert bench.register(s1, b"a/b") == TP
    bench.say(s1, Publish(TP, 1, b"x", 1), predefined(TP, 2), short(b"x", 1, 3))
    assert topics_published(bench) == ["a/b", "common/tp", "tp"]


# One side has forgotten


def test_a_client_that_is_told_its_number_is_unknown_registers_and_loses_nothing() -> None:
    bench = bench_with()
    s1 = bench.join(b"s1")
    reading = Publish(5, 9, b"21.5", 1)
    assert bench.say(s1, reading) == [Puback(5, 9, INVALID_TOPIC_ID)]
    topic_id = bench.register(s1, b"a/b")
    assert bench.say(s1, Publish(topic_id, 9, b"21.5", 1)) == [Puback(topic_id, 9, ACCEPTED)]
    assert topics_published(bench) == ["a/b"]


def test_a_client_that_has_forgotten_a_number_is_told_it_and_gets_its_message() -> None:
    bench = bench_with()
    s1 = bench.join(b"s1")
    topic_id = granted_id(bench.subscribe(s1, b"a/b", 1))
    bench.publishes("a/b", b"on", 1)
    assert bench.hear(s1) == [Publish(topic_id, 1, b"on", 1)]
    told = bench.say(s1, Puback(topic_id, 1, INVALID_TOPIC_ID))
    assert told == [Register(topic_id, 1, b"a/b")], "the number that it had"
    again = bench.say(s1, Regack(topic_id, 1, ACCEPTED))
    assert again == [Publish(topic_id, 1, b"on", 1, dup=True)]
    assert bench.say(s1, Puback(topic_id, 1, ACCEPTED)) == []


def test_so_it_is_at_qos_2() -> None:
    bench = bench_with()
    s1 = bench.join(b"s1")
    topic_id = granted_id(bench.subscribe(s1, b"a/b", 2))
    bench.publishes("a/b", b"on", 2)
    bench.say(s1, Puback(topic_id, 1, INVALID_TOPIC_ID))
    again = bench.say(s1, Regack(topic_id, 1, ACCEPTED))
    assert again == [Publish(topic_id, 1, b"on", 2, dup=True)]
    assert bench.say(s1, Pubrec(1)) == [Pubrel(1)]
    assert bench.say(s1, Pubcomp(1)) == []


def test_a_sleeper_that_has_forgotten_a_number_is_told_it_before_pingresp() -> None:
    bench = bench_with()
    s1 = bench.join(b"s1", clean=False)
    topic_id = granted_id(bench.subscribe(s1, b"a/b", 1))
    bench.say(s1, Disconnect(600))
    bench.publishes("a/b", b"on", 1)
    assert bench.say(s1, Pingreq(b"s1")) == [Publish(topic_id, 1, b"on", 1)]
    assert bench.say(s1, Puback(topic_id, 1, INVALID_TOPIC_ID)) == [Register(topic_id, 1, b"a/b")]
    assert bench.say(s1, Regack(topic_id, 1, 0)) == [Publish(topic_id, 1, b"on", 1, dup=True)]
    assert bench.say(s1, Puback(topic_id, 1, ACCEPTED)) == [Pingresp()]


def test_after_a_new_connection_the_number_is_told_again_before_it_is_used() -> None:
    bench = bench_with()
    s1 = bench.join(b"s1", clean=False)
    topic_id = granted_id(bench.subscribe(s1, b"a/b", 1))
    bench.join(b"s1", clean=False)
    bench.publishes("a/b", b"on", 1)
    assert bench.hear(s1) == [Register(topic_id, 1, b"a/b")]


# Beyond the limit


def test_beyond_the_limit_of_names_what_needs_no_number_goes_on() -> None:
    bench = bench_with(session=SessionOptions(topics_max=1))
    s1 = bench.join(b"s1")
    known = bench.register(s1, b"a/b")
    assert bench.say(s1, Register(0, 7, b"c/d")) == [Regack(0, 7, CONGESTION)]
    assert bench.subscribe(s1, b"c/d", message_id=8) == [Suback(0, 8, CONGESTION, 0)]
    accepted = bench.say(s1, Publish(known, 1, b"x", 1), predefined(1, 2), short(b"x", 1, 3))
    codes = [each.return_code for each in accepted if isinstance(each, Puback)]
    assert codes == [ACCEPTED] * 3
    assert topics_published(bench) == ["a/b", "common/boot", "tp"]


def test_a_message_that_finds_no_number_is_counted_and_those_after_it_come() -> None:
    bench = bench_with(session=SessionOptions(topics_max=1))
    s1 = bench.join(b"s1")
    known = bench.register(s1, b"a/b")
    bench.subscribe(s1, b"#", 1)
    bench.told(Dropped)
    bench.publishes("c/d", b"lost", 1)
    assert [each.reason for each in bench.told(Dropped)] == [Reason.TOPICS_FULL]
    bench.publishes("a/b", b"on", 1)
    assert bench.hear(s1) == [Publish(known, 1, b"on", 1)]


def test_a_clean_session_gives_its_numbers_back() -> None:
    bench = bench_with(session=SessionOptions(topics_max=1))
    s1 = bench.join(b"s1")
    bench.register(s1, b"a/b")
    bench.join(b"s1")
    assert bench.register(s1, b"c/d") == 2, "behind those that a copy of CONNECT may have left"
    assert bench.say(s1, Publish(1, 9, b"x", 1)) == [Puback(1, 9, INVALID_TOPIC_ID)]
