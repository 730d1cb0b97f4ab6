"""Whatever the broker ends the connection for, all else gets through, and nothing is lost."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.mqtt.session import Phase
from gateway.core.values import Reading
from tests.core.mqtt.ending_broker import EndingBroker, filters, reading, topics

NAMES = ["a", "b", "c", "d"]
CLIENTS = ["s1", "s2", "s3"]
OWN_TOPIC = "homeassistant/status"  # which no client's filter matches
FILTERS = ["f", "g", "h", "w/#", "+/w"]

CONNECTIONS_MAX = 100  # for two topics of three clients each, and two filters

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
    broker.finish()
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
        st.tuples(st.sampled_from(["break", "say"]), st.just(False)),
    ),
    max_size=40,
)


class Story:
    """What was taken and wanted, and a broker that ends connections for some of it."""

    def __init__(
        self,
        *,
        bad_topics: set[str],
        bad_filters: set[str],
        manner: str,
        receive_max: int,
        **changed: object,
    ) -> None:
        """`manner`: when the broker ends the connection for a reading."""
        self.broker = EndingBroker(
            changed={"topic_prefix": "p/", "own_filters": ((OWN_TOPIC, 0),), **changed},
            receive_max=receive_max,
        )
        self.readings: list[Reading] = []
        self.wanted: set[str] = set()
        self._bad_topics = bad_topics
        self._bad_at_broker = {f"p/{each}" for each in bad_topics}
        self.bad_filters = {each if each == OWN_TOPIC else f"p/{each}" for each in bad_filters}
        self._manner = manner
        if manner == "refuses first":
            self.broker.refuses = self._bad_at_broker
        self.broker.ends_for = self._ends_for

    def _ends_for(self, packet: Any) -> bool:
        if filters(*self.bad_filters)(packet):
            return True
        if self._manner == "at release":
            return self.broker.released_topic(packet) in self._bad_at_broker
        return self._manner == "at once" and topics(*self._bad_at_broker)(packet)

    def step(self, name: str, *rest: Any) -> None:
        broker = self.broker
        match name, *rest:
            case "publish", topic, qos, client:
                self.publish(topic, qos, client)
            case "want", topic_filter:
                self.wanted.add(topic_filter)
                broker.want(topic_filter)
            case "unwant", topic_filter:
                self.wanted.discard(topic_filter)
                broker.unwant(topic_filter)
            case "answer", count:
                for _ in range(count):
                    broker.answer()
            case "wake", seconds:
                broker.wake(broker.now + seconds)
            case "connect", session_present if broker.session.phase is Phase.CLOSED:
                broker.now += 1.0
                broker.connect(session_present=session_present)
            case "break", False:
                broker.end(by_broker=False)
            case "say", False:
                broker.say("tidegate/gh/diagnostics")

    def publish(self, topic: str, qos: int, client: str) -> None:
        one = reading(topic, qos, client=client, payload=b"%d" % len(self.readings))
        one.received_at = self.broker.now
        self.readings.append(one)
        self.broker.publish(one)

    def end(self) -> None:
        broker = self.broker
        broker.finish(CONNECTIONS_MAX)
        assert not broker.session.publisher.in_flight.has_waiting
        kept = [each for each in self.readings if each.qos]
        ended = [*broker.acknowledged, *broker.refused, *broker.set_aside]
        assert sorted(map(id, kept)) == sorted(id(each) for each in ended if each.qos), "each once"
        good = [each for each in kept if each.topic not in self._bad_topics]
        assert set(good) <= set(broker.acknowledged)
        wanted = {f"p/{each}" for each in self.wanted} | {OWN_TOPIC}
        assert wanted - self.bad_filters <= broker.at_broker
        assert not self.bad_filters & broker.at_broker
        self._check_order(good)

    def _check_order(self, good: list[Reading]) -> None:
        """Of what the broker passed on first."""
        passed_on = reversed([*enumerate(self.broker.delivered)])
        first = {payload: number for number, payload in passed_on}
        for key in {(each.client_id, each.topic) for each in good}:
            own = [first[each.payload] for each in good if (each.client_id, each.topic) == key]
            assert own == sorted(own), f"{key} in order"


@given(
    Steps,
    st.sets(st.sampled_from(NAMES), max_size=2),
    st.sets(st.sampled_from([*FILTERS, OWN_TOPIC]), max_size=2),
    st.sampled_from(["at once", "refuses first", "at release"]),
    st.booleans(),
    st.sampled_from([1, 3, 100]),
    st.sampled_from([0.0, 10.0]),
)
def test_whatever_happens_meanwhile_nothing_waits_for_ever_is_lost_or_overtaken(
    steps: list[tuple[Any, ...]],
    bad_topics: set[str],
    bad_filters: set[str],
    manner: str,
    trust_session: bool,
    receive_max: int,
    probe_s: float,
) -> None:
    story = Story(
        bad_topics=bad_topics,
        bad_filters=bad_filters,
        manner=manner,
        receive_max=receive_max,
        trust_session=trust_session,
        probe_s=probe_s,
    )
    story.broker.connect()
    for step in steps:
        story.step(*step)
    story.end()


def random_steps(random: Random) -> list[tuple[Any, ...]]:
    weights = [random.choice([1, 3, 10]) for _ in range(6)]
    steps: list[tuple[Any, ...]] = []
    for _ in range(random.choice([20, 60, 150])):
        name = random.choices(["publish", "want", "answer", "wake", "connect", "break"], weights)[0]
        choices: dict[str, tuple[Any, ...]] = {
            "publish": (random.choice(NAMES), random.randrange(3), random.choice(CLIENTS)),
            "want": (random.choice(FILTERS),),
            "answer": (random.randrange(1, 7),),
            "wake": (random.choice([0.5, 3.0, 40.0, 700.0]),),
            "connect": (random.random() < 0.7,),
            "break": (False,),
        }
        others = {"want": "unwant", "break": "say"}
        is_other = name in others and random.random() < 0.5
        steps.append((others[name] if is_other else name, *choices[name]))
    return steps


@pytest.mark.parametrize("seeds", [range(first, first + 50) for first in range(0, 200, 50)])
def test_long_stories_come_to_a_good_end(seeds: range) -> None:
    for seed in seeds:
        random = Random(seed)
        steps = random_steps(random)
        story = Story(
            bad_topics=set(random.sample(NAMES, random.randrange(3))),
            bad_filters=set(random.sample([*FILTERS, OWN_TOPIC], random.randrange(3))),
            manner=random.choice(["at once", "refuses first", "at release"]),
            receive_max=random.choice([1, 3, 100]),
            trust_session=random.random() < 0.5,
            probe_s=random.choice([0.0, 10.0]),
        )
        try:
            story.broker.connect()
            for step in steps:
                story.step(*step)
            story.end()
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
