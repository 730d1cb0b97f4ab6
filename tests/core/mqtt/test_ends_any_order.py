"""Whatever the broker ends the connection for, everything else gets through, and nothing is lost."""

from __future__ import annotations

import mqtt5
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.core.mqtt.ending_broker import EndingBroker, filters, reading, topics

NAMES = ["a", "b", "c", "d"]
CLIENTS = ["s1", "s2", "s3"]
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
