"""Whatever the broker ends the connection for, everything else gets through, and nothing is lost."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gateway.core.mqtt.session import CLOSED
from gateway.core.values import Reading
from tests.core.mqtt.ending_broker import EndingBroker, filters, reading, topics

NAMES = ["a", "b", "c", "d"]
CLIENTS = ["s1", "s2", "s3"]
OWN_TOPIC = "homeassistant/status"  # which no client's filter matches
FILTERS = ["f", "g", "h", "w/#", "+/w"]

Readings = st.lists(
    st.tuples(st.sampled_from(NAMES), st.integers(1, 2), st.sampled_from(CLIENTS)), max_size=12
)


@given(
    Readings,
    st.sets(st.sampled_from(NAMES), max_size=2),
    st.sets(st.sampled_from(FILTERS)),
    st.sets(st.sampled_from(FILTERS), max_size=2),
    st.booleans(),
    st.booleans(),
    st.sampled_from([1, 3, 100]),
    st.sampled_from([0.0, 10.0]),
)
def test_what_the_broker_does_not_end_the_connection_for_gets_through(
    taken: list[tuple[str, int, str]],
    bad_topics: set[str],
    wanted: set[str],
    bad_filters: set[str],
    refuses_first: bool,
    trust_session: bool,
    receive_max: int,
    probe_s: float,
) -> None:
    bad_topic, bad_filter = topics(*bad_topics), filters(*bad_filters)
    broker = EndingBroker(
        lambda packet: bad_filter(packet) or (bad_topic(packet) and not refuses_first),
        refuses=bad_topics if refuses_first else (),
        changed={"probe_s": probe_s},
        receive_max=receive_max,
    )
    broker.connect()
    broker.want(*sorted(wanted))
    readings = [
        reading(topic, qos, client=client, payload=b"%d" % number)
        for number, (topic, qos, client) in enumerate(taken)
    ]
    broker.publish(*readings)
    broker.settle()
    ended = [*broker.acknowledged, *broker.refused, *broker.set_aside]
    assert sorted(map(id, ended)) == sorted(map(id, readings)), "each once"
    assert set(broker.acknowledged) == {each for each in readings if each.topic not in bad_topics}
    assert broker.granted >= wanted - bad_filters
    assert set(broker.filters_refused) == wanted & bad_filters
    bad = len(bad_topics & {topic for topic, _, _ in taken}) * len(CLIENTS)
    assert broker.connections <= 1 + 8 * (bad + len(wanted & bad_filters))
    order = {each: number for number, each in enumerate(broker.acknowledged)}
    for client in CLIENTS:
        for topic in NAMES:
            own = [each for each in readings if (each.client_id, each.topic) == (client, topic)]
            if topic not in bad_topics and len({each.qos for each in own}) == 1:
                assert sorted(own, key=order.__getitem__) == own


Steps = st.lists(
    st.one_of(
        st.tuples(
            st.just("publish"),
            st.sampled_from(NAMES),
            st.integers(0, 2),
            st.sampled_from(CLIENTS),
        ),
        st.tuples(st.sampled_from(["want", "unwant"]), st.sampled_from(FILTERS)),
        st.tuples(st.just("answer"), st.integers(1, 6)),
        st.tuples(st.just("wake"), st.sampled_from([0.5, 3.0, 40.0])),
        st.tuples(st.just("connect"), st.booleans()),
        st.tuples(st.sampled_from(["break", "say"])),
    ),
    max_size=40,
)


@given(
    Steps,
    st.sets(st.sampled_from(NAMES), max_size=2),
    st.sets(st.sampled_from(FILTERS), max_size=2),
    st.sampled_from(["at once", "refuses first", "at release"]),
    st.booleans(),
    st.booleans(),
    st.sampled_from([1, 3, 100]),
    st.sampled_from([0.0, 10.0]),
)
def test_whatever_happens_meanwhile_nothing_waits_for_ever_is_lost_or_overtaken(
    steps: list[tuple[Any, ...]],
    bad_topics: set[str],
    bad_filters: set[str],
    manner: str,
    ends_for_own: bool,
    trust_session: bool,
    receive_max: int,
    probe_s: float,
) -> None:
    broker = EndingBroker(
        changed={
            "probe_s": probe_s,
            "trust_session": trust_session,
            "topic_prefix": "p/",
            "own_topic": OWN_TOPIC,
        },
        receive_max=receive_max,
    )
    bad_at_broker = {f"p/{each}" for each in bad_topics}
    if manner == "refuses first":
        broker.refuses = bad_at_broker
    bad_filter = filters(
        *(f"p/{each}" for each in bad_filters), *([OWN_TOPIC] if ends_for_own else [])
    )
    bad_topic = topics(*bad_at_broker)

    def ends_for(packet: Any) -> bool:
        if manner == "at release":
            return bad_filter(packet) or broker.released_topic(packet) in bad_at_broker
        return bad_filter(packet) or (manner == "at once" and bad_topic(packet))

    broker.ends_for = ends_for
    readings: list[Reading] = []
    wanted: set[str] = set()
    broker.connect()
    for step in steps:
        match step:
            case "publish", topic, qos, client:
                one = reading(topic, qos, client=client, payload=b"%d" % len(readings))
                one.received_at = broker.now
                readings.append(one)
                broker.publish(one)
            case "want", topic_filter:
                wanted.add(topic_filter)
                broker.want(topic_filter)
            case "unwant", topic_filter:
                wanted.discard(topic_filter)
                broker.unwant(topic_filter)
            case "answer", count:
                for _ in range(count):
                    broker.answer()
            case "wake", seconds:
                broker.wake(broker.now + seconds)
            case "connect", session_present if broker.session.phase is CLOSED:
                broker.now += 1.0
                broker.connect(session_present=session_present)
            case ("break",):
                broker.end(by_broker=False)
            case ("say",):
                broker.say("tidegate/gh/diagnostics")
    broker.settle()
    kept = [each for each in readings if each.qos]
    ended = [*broker.acknowledged, *broker.refused, *broker.set_aside]
    assert sorted(map(id, kept)) == sorted(id(each) for each in ended if each.qos), "each once"
    good = {each for each in kept if each.topic not in bad_topics}
    assert good <= set(broker.acknowledged)
    assert {f"p/{each}" for each in wanted - bad_filters} <= broker.at_broker
    assert (OWN_TOPIC in broker.at_broker) is not ends_for_own
    assert not broker.session.publisher.in_flight.has_waiting
    first = {payload: at for at, payload in reversed([*enumerate(broker.delivered)])}
    for client in CLIENTS:
        for topic in set(NAMES) - bad_topics:
            own = [
                first[each.payload]
                for each in kept
                if (each.client_id, each.topic) == (client, topic)
            ]
            assert own == sorted(own), "in order"
