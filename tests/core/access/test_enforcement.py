"""Where the rules of access are asked, and what a client is answered."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.core.access.gate import AccessGate
from gateway.core.access.rules import PUBLISH, QOS_MINUS_ONE, RECEIVE, AccessRule, AccessRules
from gateway.core.clients.qos_minus_one import QosMinusOneOptions
from gateway.core.drop_reasons import Reason
from gateway.core.effects import Denied, Dropped, Save
from gateway.core.engine import EngineOptions
from gateway.core.session.options import PredefinedTopics, SessionOptions
from gateway.core.state_records import SubscriptionDeleted
from gateway.core.values import Peer
from gateway.frames import (
    Connack,
    Connect,
    Frame,
    Puback,
    Publish,
    Regack,
    Register,
    ReturnCode,
    Suback,
    Subscribe,
    TopicIdType,
    WillMsg,
    WillTopic,
    WillTopicResp,
    WillTopicUpd,
)
from tests.support.engine_bench import UPSTREAM, Bench

OWN = AccessRule(["s/{client}", "s/{client}/#"])
FORBIDDEN = ReturnCode.NOT_SUPPORTED


def gate(*rules: AccessRule, default: bool = False) -> AccessGate:
    return AccessGate(
        AccessRules(rules, is_allowed=default), lambda link, _: f"anonymous@udp{link}"
    )


def bench(access: AccessGate) -> Bench:
    return Bench(
        EngineOptions(
            UPSTREAM,
            session=SessionOptions(access=access),
            predefined=PredefinedTopics.of({"s/tank": 1, "other": 2}),
            qos_minus_one=QosMinusOneOptions(allow=True),
        )
    )


def reasons(bench: Bench) -> list[Reason]:
    return [each.reason for each in bench.told(Dropped)]


def published(
    topic_id: int, qos: int = 1, *, retain: bool = False, payload: bytes = b"1"
) -> Publish:
    return Publish(
        topic_id=topic_id, topic_id_type=TopicIdType.PREDEFINED, message_id=7 if qos else 0,
        payload=payload, qos=qos, retain=retain,
    )  # fmt: skip


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_a_publish_that_is_forbidden_is_answered_with_0x03_and_goes_nowhere(qos: int) -> None:
    at = bench(gate(OWN))
    at.join(b"tank")
    at.seen()
    answers = at.say(b"tank", published(2, qos))
    assert answers == [Puback(2, 7 if qos else 0, FORBIDDEN)]
    assert reasons(at) == [Reason.FORBIDDEN]
    assert at.seen() == []
    at.say(b"tank", published(1, qos))
    assert at.seen() != []


@pytest.mark.parametrize(
    ("frame", "is_allowed"),
    [
        (published(1), True),
        (published(1, 2), False),
        (published(1, retain=True), False),
        (published(1, payload=b"12345"), False),
    ],
)
def test_a_rule_limits_what_it_allows(frame: Publish, is_allowed: bool) -> None:
    at = bench(gate(replace(OWN, qos_max=1, may_retain=False, payload_bytes_max=4)))
    at.join(b"tank")
    at.seen()
    at.say(b"tank", frame)
    assert (at.seen() != []) is is_allowed


def test_a_name_is_registered_that_may_be_published_or_received() -> None:
    at = bench(gate(OWN, AccessRule(["commands/#"], actions=[RECEIVE])))
    at.join(b"tank")

    def code(name: bytes) -> int:
        (answer,) = at.say(b"tank", Register(0, 9, name))
        assert isinstance(answer, Regack)
        return answer.return_code

    assert code(b"s/tank/t") == ReturnCode.ACCEPTED
    assert code(b"commands/all") == ReturnCode.ACCEPTED
    assert code(b"s/well") == FORBIDDEN
    assert reasons(at) == [Reason.FORBIDDEN]


@pytest.mark.parametrize(
    ("topic_filter", "is_allowed"),
    [(b"s/tank/#", True), (b"s/tank", True), (b"s/+", False), (b"#", False), (b"s/well", False)],
)
def test_a_subscription_wider_than_the_grant_is_refused(
    topic_filter: bytes, is_allowed: bool
) -> None:
    at = bench(gate(OWN))
    at.join(b"tank")
    (answer,) = at.say(b"tank", Subscribe(3, topic_filter, 1))
    assert isinstance(answer, Suback)
    assert answer.return_code == (ReturnCode.ACCEPTED if is_allowed else FORBIDDEN)
    assert (topic_filter.decode() in at.subscribed) is is_allowed


def test_what_may_not_be_received_is_kept_back_live_and_retained() -> None:
    secret = AccessRule(["s/tank/secret"], is_allowed=False, actions=[RECEIVE])
    at = bench(gate(secret, OWN))
    at.join(b"tank")
    at.join(b"tank2")
    at.publishes("s/tank/secret", b"old", retain=True)
    at.subscribe(b"tank", b"s/tank/#", 1)
    at.hear(b"tank")
    at.publishes("s/tank/secret", b"1", qos=1)
    at.publishes("s/tank/secret", b"2", retain=True, by="s/tank/#", is_replay=True)
    assert at.hear(b"tank") == []
    at.publishes("s/tank/open", b"3")
    assert at.hear(b"tank") != []


def test_what_is_kept_back_is_counted_and_named_once_for_each_message() -> None:
    secret = AccessRule(["s/tank/secret"], is_allowed=False, actions=[RECEIVE])
    at = bench(gate(secret, OWN))
    at.join(b"tank")
    at.subscribe(b"tank", b"s/tank/#", 1)
    denied = Denied("anonymous@udp0", RECEIVE, "s/tank/secret")

    def news() -> list[tuple[Reason, str | None, Denied | None]]:
        return [(each.reason, each.client_id, each.denied) for each in at.told(Dropped)]

    once = [(Reason.FORBIDDEN, "tank", denied)]
    for qos in (0, 1, 2):
        at.publishes("s/tank/secret", b"1", qos=qos)
        assert news() == once
    # What is retained, when the client comes, and not each time the broker says it again.
    for expected in (once, []):
        at.publishes("s/tank/secret", b"4", retain=True, by="s/tank/#", is_replay=True)
        assert news() == expected
    at.subscribe(b"tank", b"s/tank/open", 1, message_id=2)
    assert news() == []
    at.subscribe(b"tank", b"s/tank/#", 1, message_id=3)
    assert news() == once


def will(topic: bytes) -> tuple[Frame, ...]:
    return WillTopic(topic, 1, False), WillMsg(b"gone")


def test_a_will_on_a_topic_that_is_forbidden_is_refused() -> None:
    at = bench(gate(OWN))
    at.say(b"tank", Connect(b"tank", 60, clean_session=True, will=True))
    topic, message = will(b"other")
    assert at.say(b"tank", topic) == [Connack(FORBIDDEN)]
    assert reasons(at) == [Reason.FORBIDDEN]
    at.say(b"tank", Connect(b"tank", 60, clean_session=True, will=True))
    at.say(b"tank", will(b"s/tank/will")[0])
    assert at.say(b"tank", message) == [Connack(ReturnCode.ACCEPTED)]
    assert at.say(b"tank", WillTopicUpd(b"other", 1, False)) == [WillTopicResp(FORBIDDEN)]
    assert at.say(b"tank", WillTopicUpd(b"s/tank/x", 1, False)) == [
        WillTopicResp(ReturnCode.ACCEPTED)
    ]


def test_a_reading_without_a_session_has_an_action_of_its_own() -> None:
    at = bench(gate(AccessRule(["s/tank"], actions=[QOS_MINUS_ONE], identities=["*@udp0"])))
    at.seen()
    at.say(b"anyone", published(2, -1))
    assert at.seen() == []
    assert reasons(at) == [Reason.FORBIDDEN]
    at.say(b"anyone", published(1, -1))
    assert len(at.seen()) == 1


def test_without_identities_only_rules_for_all_of_them_fit() -> None:
    of_some, of_all = AccessRule(["a"], identities=["*@udp0"]), AccessRule(["b"])
    access = AccessGate(AccessRules([of_some, of_all], is_allowed=False))
    assert access.refuses("tank", Peer(0, b"tank"), PUBLISH, "a")
    assert not access.refuses("tank", Peer(0, b"tank"), PUBLISH, "b")


def test_the_identity_is_that_of_the_link() -> None:
    at = bench(gate(AccessRule(["#"], identities=["anonymous@udp1"])))
    at.join(b"tank")
    assert at.say(b"tank", published(1)) == [Puback(1, 7, FORBIDDEN)]


def test_other_rules_end_what_is_not_allowed_any_more() -> None:
    access = gate(default=True)
    at = bench(access)
    at.say(b"tank", Connect(b"tank", 60, clean_session=False, will=True))
    for frame in will(b"other"):
        at.say(b"tank", frame)
    at.subscribe(b"tank", b"s/+", 1)
    at.subscribe(b"tank", b"s/tank", 1)
    session = next(iter(at.engine.sessions.values()))
    rules = AccessRules([OWN], is_allowed=False)
    outputs = at.engine.operator.use_access(rules)
    assert Save(SubscriptionDeleted(session.client_id, "s/+")) in outputs
    at.ask(outputs)
    assert set(session.filters) == {"s/tank"}
    assert session.will is None
    assert "s/+" not in at.subscribed
    assert reasons(at) == [Reason.FORBIDDEN] * 2
    at.ask(at.engine.operator.use_access(None))
    at.seen()
    at.say(b"tank", published(2))
    assert len(at.seen()) == 1, "without rules all may do all"
