"""Subscriptions that are wider than the rules of access: granted in part, and what they bring."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.core.access import parts
from gateway.core.access.gate import AccessGate
from gateway.core.access.rules import (
    ACTIONS,
    HEAR,
    HEAR_PART,
    PUBLISH,
    RECEIVE,
    SUBSCRIBE,
    AccessRule,
    AccessRules,
)
from gateway.core.drop_reasons import Reason
from gateway.core.effects import Denied, Dropped
from gateway.core.engine import EngineOptions
from gateway.core.session.options import SessionOptions
from gateway.core.state_records import ClientId
from gateway.core.values import Message, Peer
from gateway.frames import (
    Connect,
    Disconnect,
    Pingreq,
    Puback,
    Publish,
    Pubrec,
    Pubrel,
    Regack,
    Register,
    ReturnCode,
    Suback,
    Subscribe,
)
from tests.core.access.test_rules import CLIENTS, PATTERNS, decided, peers
from tests.core.access.test_rules import Peer as Asking
from tests.core.topics import EVERY_NAME_DEEP, filters, matches
from tests.support.engine_bench import UPSTREAM, Bench, granted_id, published
from tests.support.state_bench import StateBench, sleeper

OWN = AccessRule(["s/{client}/#", "all"])
some_rules = st.builds(
    AccessRule,
    filters=st.lists(
        st.one_of(filters, st.sampled_from(["{client}", "a/{client}", "{client}/#", "{client}/+"])),
        max_size=3,
    ),
    is_allowed=st.booleans(),
    clients=st.lists(st.sampled_from(PATTERNS), max_size=2),
    actions=st.sampled_from([ACTIONS, [SUBSCRIBE], [RECEIVE], [SUBSCRIBE, RECEIVE], [PUBLISH]]),
)


def has_part(rules: AccessRules, topic_filter: str) -> bool:
    """Whether the client may hear anything of it."""
    return rules.verdict("tank", "", HEAR_PART, topic_filter).is_allowed


def hears(rules: list[AccessRule], peer: Asking, topic: str, *, default: bool) -> bool:
    """By looking at each rule: whether it may subscribe to the topic and receive it."""
    by = [decided(rules, peer, action, topic) for action in (SUBSCRIBE, RECEIVE)]
    return all(default if each is None else rules[each].is_allowed for each in by)


@settings(max_examples=400, deadline=None)
@given(st.lists(some_rules, max_size=5), st.booleans(), peers, filters.filter(bool))
def test_nothing_is_allowed_of_a_filter_if_no_topic_in_it_is(
    rules: list[AccessRule], default: bool, peer: Asking, topic_filter: str
) -> None:
    access = AccessRules(rules, is_allowed=default)
    topics = [each for each in EVERY_NAME_DEEP if each and matches(topic_filter, each)]
    heard = [each for each in topics if hears(rules, peer, each, default=default)]
    found = access.verdict(peer.client_id, peer.identity, HEAR_PART, topic_filter).is_allowed
    assert found is bool(heard), heard[:3]
    for each in topics[:20]:
        verdict = access.verdict(peer.client_id, peer.identity, HEAR, each)
        assert verdict.is_allowed is (each in heard)


def test_very_many_filters_and_rules_are_as_each_topic_by_itself_says() -> None:
    random = Random(46)
    words = ("a", "b", "+")
    names = [each for each in EVERY_NAME_DEEP if each.count("/") < 4 and "$" not in each]
    names = [each for each in names if "" not in each.split("/")]

    def some_filter() -> str:
        levels = random.choices(words, k=random.randint(0, 3))
        if not levels or random.random() < 0.4:
            levels.append("#")
        return "/".join(levels)

    both = 0
    for _ in range(4000):
        rules = [
            AccessRule(
                [some_filter() for _ in range(random.randint(1, 2))],
                is_allowed=random.random() < 0.4,
                actions=random.choice([ACTIONS, ACTIONS, [SUBSCRIBE], [RECEIVE]]),
            )
            for _ in range(random.randint(0, 6))
        ]
        default, wanted = random.random() < 0.3, some_filter()
        peer = Asking(random.choice(CLIENTS), "")
        access = AccessRules(rules, is_allowed=default)
        expected = any(
            hears(rules, peer, each, default=default) for each in names if matches(wanted, each)
        )
        verdict = access.verdict(peer.client_id, "", HEAR_PART, wanted)
        assert verdict.is_allowed is expected, (rules, wanted)
        both += expected
    assert 400 < both < 3600


def test_one_that_asks_too_much_of_too_many_rules_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A formula of which the gateway would look for a solution until tomorrow."""
    random = Random(7)
    clauses = []
    for _ in range(120):
        levels = ["+"] * 40
        for place in random.sample(range(40), 4):
            levels[place] = random.choice("ab")
        clauses.append(AccessRule(["/".join(levels)], is_allowed=False))
    rules = AccessRules(
        [*clauses, *[AccessRule(["/".join(["a"] * 40)], is_allowed=True)]], is_allowed=False
    )
    if not hasattr(parts.PartSearch, "__mypyc_attrs__"):
        monkeypatch.setattr(parts, "WORK_MAX", 100)
    assert not has_part(rules, "/".join(["+"] * 40))


def test_a_topic_has_at_least_one_character() -> None:
    assert not has_part(AccessRules([AccessRule([""])], is_allowed=False), "+")
    assert has_part(AccessRules([AccessRule(["/#"])], is_allowed=False), "+/a")


# In the engine


def gate(*rules: AccessRule, narrows: bool = True, default: bool = False) -> AccessGate:
    return AccessGate(
        AccessRules(rules, is_allowed=default),
        lambda link, _: f"anonymous@udp{link}",
        narrows=narrows,
    )


def options(access: AccessGate, *, saves: bool = False) -> EngineOptions:
    return EngineOptions(UPSTREAM, session=SessionOptions(access=access), saves=saves)


def code(answers: list[object]) -> int:
    (suback,) = [each for each in answers if isinstance(each, Suback)]
    return suback.return_code


@pytest.mark.parametrize(
    ("topic_filter", "is_granted"),
    [(b"#", True), (b"s/+/x", True), (b"s/tank", True), (b"s/well/#", False), (b"other/#", False)],
)
def test_a_wider_subscription_is_granted_unless_nothing_of_it_is_allowed(
    topic_filter: bytes, is_granted: bool
) -> None:
    at = Bench(options(gate(OWN)))
    at.join(b"tank")
    answers = at.say(b"tank", Subscribe(3, topic_filter, 1))
    assert code([*answers]) == (ReturnCode.ACCEPTED if is_granted else ReturnCode.NOT_SUPPORTED)
    denied = Denied("anonymous@udp0", "subscribe", topic_filter.decode())
    assert [each.denied for each in at.told(Dropped)] == ([] if is_granted else [denied])


def subscribed(at: Bench, topic_filter: bytes, qos: int) -> list[tuple[bytes, int, bool]]:
    """What is retained, to one that acknowledges all."""
    at.heard += [(b"tank", frame) for frame in at.subscribe(b"tank", topic_filter, qos)]
    return at.hear_all(b"tank")


def test_a_narrowed_subscription_brings_what_is_allowed_and_nothing_else() -> None:
    """Live and retained, from here and from the broker, at each QoS."""
    reads_all = AccessRule(["#"], actions=[RECEIVE])
    at = Bench(options(gate(AccessRule(["s/secret/#"], is_allowed=False), OWN, reads_all)))
    for name in (b"tank", b"well"):
        at.join(name)
    at.subscribe(b"well", b"all", 2)
    at.publishes("all", b"kept", retain=True)
    assert subscribed(at, b"#", 2) == [(b"kept", 0, True)]
    for topic in ("s/well/x", "s/secret/x", "other", "$SYS/x"):
        for qos in (0, 1, 2):
            at.publishes(topic, b"no", qos)
        at.publishes(topic, b"no", 1, retain=True, by="#", is_replay=True)
    assert at.hear_all(b"tank") == []
    at.publishes("s/tank/x", b"yes", 1)
    assert at.hear_all(b"tank") == [(b"yes", 1, False)]
    at.publishes("other", b"no", retain=True)
    assert subscribed(at, b"+", 1) == [(b"kept", 0, True)]


def test_a_reload_keeps_what_is_allowed_in_part_and_ends_the_rest() -> None:
    access = gate(default=True)
    at = Bench(options(access))
    at.join(b"tank")
    for each in (b"#", b"s/well/#"):
        at.subscribe(b"tank", each, 1)
    (session,) = at.engine.sessions.values()
    rules = AccessRules([OWN], is_allowed=False)
    at.ask(at.engine.operator.use_access(rules, narrows=True))
    assert set(session.filters) == {"#"}
    at.publishes("s/well/x")
    assert at.hear_all(b"tank") == []
    at.ask(at.engine.operator.use_access(rules, narrows=False))
    assert not session.filters


def test_of_a_narrowed_subscription_what_it_does_not_grant_is_no_refusal() -> None:
    """Else each message of a busy broker would be one."""
    secret = AccessRule(["s/tank/secret"], is_allowed=False, actions=[RECEIVE])
    at = Bench(options(gate(secret, OWN)))
    at.join(b"tank")
    at.subscribe(b"tank", b"#", 1)
    for topic in ("s/well/x", "s/tank/secret", "other"):
        at.publishes(topic)
    assert [each.denied for each in at.told(Dropped)] == [
        Denied("anonymous@udp0", RECEIVE, "s/tank/secret")
    ]


def test_where_a_client_was_before_it_hears_what_may_be_heard_there() -> None:
    """It is said to be elsewhere, and subscribes there to what is retained."""
    at_home = AccessRule(["secret"], is_allowed=False, identities=["home"])
    access = AccessGate(
        AccessRules([at_home], is_allowed=True), lambda _, address: address.decode(), narrows=True
    )
    at = sleeper(b"home", StateBench(options(access, saves=True)))
    at.join(b"other")
    at.subscribe(b"other", b"+", 1)
    for topic in ("secret", "open"):
        at.publishes(topic, topic.encode(), 1, retain=True)
    at.say(b"away", Connect(b"s1", 60, clean_session=False))
    at.subscribe(b"away", b"+", 1, message_id=2)
    former = at.engine.client_table.formers[ClientId("s1")]
    assert [each.message.topic for each in former.outbound.queue] == ["open"]


def test_in_quarantine_nothing_is_granted_and_nothing_passed_on() -> None:
    access, peer = AccessGate(narrows=True), Peer(0, b"tank")
    assert not access.refuses_delivery("tank", peer, "a")
    assert not access.keeps_back("tank", peer, "a")
    assert not access.refuses_subscription("tank", peer, "#")
    access.isolate("tank")
    assert access.refuses_delivery("tank", peer, "a")
    assert access.keeps_back("tank", peer, "a")
    assert access.refuses_subscription("tank", peer, "#")
    assert not access.refuses_subscription("well", peer, "#")


# What waits


def asleep(access: AccessGate, qos: int = 1) -> Bench:
    """A sleeper for which messages on a, b and a wait."""
    at = Bench(options(access))
    at.join(b"tank")
    for number, each in enumerate((b"a", b"b"), 1):
        granted_id(at.subscribe(b"tank", each, qos, message_id=number))
    at.say(b"tank", Disconnect(600))
    for topic, payload in (("a", b"1"), ("b", b"2"), ("a", b"3")):
        at.publishes(topic, payload, qos)
    return at


@pytest.mark.parametrize("qos", [1, 2])
def test_what_waits_for_a_sleeper_goes_out_by_the_rules_of_then(qos: int) -> None:
    access = gate(default=True)
    at = asleep(access, qos)
    at.ask(at.engine.operator.use_access(AccessRules([AccessRule(["b"])], is_allowed=False)))
    assert at.told(Dropped)[0].denied == Denied("anonymous@udp0", SUBSCRIBE, "a")
    at.seen()
    answers = at.say(b"tank", Pingreq(b"tank"))
    assert published(answers) == [(b"2", qos, False)]
    (session,) = at.engine.sessions.values()
    dropped = at.told(Dropped)
    assert [each.reason for each in dropped] == [Reason.FORBIDDEN]
    assert dropped[0].denied == Denied("anonymous@udp0", RECEIVE, "a")
    assert session.outbound.waiting == 2
    (sent,) = [each for each in answers if isinstance(each, Publish)]
    if qos == 1:
        at.say(b"tank", Puback(sent.topic_id, sent.message_id, 0))
        assert session.outbound.waiting == 0
        assert len(at.told(Dropped)) == 1


def test_a_mistake_in_the_rules_that_was_corrected_in_time_costs_a_sleeper_nothing() -> None:
    access = gate(AccessRule(["+"], actions=[SUBSCRIBE]), default=True)
    at = asleep(access)
    forbidding = AccessRules(
        [AccessRule(["a"], is_allowed=False, actions=[RECEIVE])], is_allowed=True
    )
    at.ask(at.engine.operator.use_access(forbidding, narrows=True))
    at.ask(at.engine.operator.use_access(None))
    assert published(at.say(b"tank", Pingreq(b"tank"))) == [(b"1", 1, False)]


def forbid_a(at: Bench) -> None:
    rules = [AccessRule(["a"], is_allowed=False, actions=[RECEIVE])]
    at.ask(at.engine.operator.use_access(AccessRules(rules, is_allowed=True)))


def test_what_is_under_way_is_not_repeated_and_a_late_answer_to_it_does_no_harm() -> None:
    at = Bench(options(gate(default=True)))
    at.join(b"tank")
    at.subscribe(b"tank", b"a", 1)
    at.subscribe(b"tank", b"b", 1, message_id=2)
    at.publishes("a", b"1", 1)
    at.publishes("b", b"2", 1)
    (sent,) = [each for each in at.hear(b"tank") if isinstance(each, Publish)]
    forbid_a(at)
    at.wake(at.at + 11)
    (following,) = [each for each in at.hear(b"tank") if isinstance(each, Publish)]
    assert following.payload == b"2", "and not the one before again"
    at.say(b"tank", Puback(sent.topic_id, sent.message_id, 0))
    (session,) = at.engine.sessions.values()
    assert session.outbound.waiting == 1
    at.say(b"tank", Puback(following.topic_id, following.message_id, 0))
    assert session.outbound.waiting == 0


def test_the_name_of_a_topic_that_is_forbidden_meanwhile_is_followed_by_nothing() -> None:
    at = Bench(options(gate(default=True)))
    at.join(b"tank")
    at.subscribe(b"tank", b"+", 1)
    at.publishes("a", b"1", 1)
    (register,) = at.hear(b"tank")
    assert isinstance(register, Register)
    forbid_a(at)
    assert at.say(b"tank", Regack(register.topic_id, register.message_id, 0)) == []
    assert [each.reason for each in at.told(Dropped)] == [Reason.FORBIDDEN]


def test_a_client_that_does_not_know_the_number_is_not_sent_what_is_forbidden_meanwhile() -> None:
    at = Bench(options(gate(default=True)))
    at.join(b"tank")
    at.subscribe(b"tank", b"a", 1)
    at.publishes("a", b"1", 1)
    (sent,) = at.hear(b"tank")
    assert isinstance(sent, Publish)
    forbid_a(at)
    unknown = Puback(sent.topic_id, sent.message_id, ReturnCode.INVALID_TOPIC_ID)
    assert at.say(b"tank", unknown) == []
    (session,) = at.engine.sessions.values()
    assert session.outbound.waiting == 0


def test_what_the_client_has_received_at_qos_2_is_completed() -> None:
    at = Bench(options(gate(default=True)))
    at.join(b"tank")
    at.subscribe(b"tank", b"a", 2)
    at.publishes("a", b"1", 2)
    (sent,) = at.hear(b"tank")
    assert isinstance(sent, Publish)
    at.say(b"tank", Pubrec(sent.message_id))
    forbid_a(at)
    at.wake(at.at + 11)
    assert Pubrel(sent.message_id) in at.hear(b"tank")


@pytest.mark.parametrize("is_quarantined", [False, True])
def test_the_operator_sends_nothing_that_a_client_may_not_receive(is_quarantined: bool) -> None:
    access = gate(replace(OWN, actions=[RECEIVE]))
    at = Bench(options(access))
    at.join(b"tank")
    (client_id,) = at.engine.sessions
    if is_quarantined:
        access.isolate(client_id)
    for topic, is_sent in (("s/tank/x", not is_quarantined), ("other", False)):
        at.ask(at.engine.operator.publish(client_id, Message(topic, b"1", 0), at.at))
        assert bool(at.hear(b"tank")) is is_sent
        assert bool(at.told(Dropped)) is not is_sent


# After a restart


def fetched(at: Bench, name: bytes) -> list[bytes]:
    """What a sleeper gets that wakes up and acknowledges all."""
    at.heard += [(name, frame) for frame in at.say(name, Pingreq(name))]
    return [payload for payload, _, _ in at.hear_all(name)]


def restarted(before: AccessGate, after: AccessGate) -> StateBench:
    """A sleeper with a subscription to all, and a message on a and on b; then a restart."""
    at = StateBench(options(before, saves=True))
    at.join(b"tank", clean=False)
    at.subscribe(b"tank", b"#", 1)
    at.say(b"tank", Disconnect(600))
    at.publishes("a", b"1", 1)
    at.publishes("b", b"2", 1)
    at.restart(options(after, saves=True))
    return at


def test_after_a_restart_the_rules_of_then_count_for_all_that_was_kept() -> None:
    rules = [AccessRule(["b", "c"])]
    at = restarted(gate(default=True), gate(*rules))
    (session,) = at.engine.sessions.values()
    assert set(session.filters) == {"#"}
    assert fetched(at, b"tank") == [b"2"]
    at.publishes("a", b"3", 1)
    at.publishes("c", b"4", 1)
    assert fetched(at, b"tank") == [b"4"]
    refusing = restarted(gate(default=True), gate(*rules, narrows=False))
    (session,) = refusing.engine.sessions.values()
    assert not session.filters
    assert fetched(refusing, b"tank") == [b"2"]


def test_what_comes_before_it_is_known_who_is_there_waits_until_it_is() -> None:
    """As for a sleeper whose session of DTLS ended with the gateway's restart."""
    known = {"": "psk:tank"}
    rules = AccessRules([AccessRule(["b"], identities=["psk:*"])], is_allowed=False)
    access = AccessGate(rules, lambda *_: known[""], narrows=True)
    at = StateBench(options(access, saves=True))
    at.join(b"tank", clean=False)
    at.subscribe(b"tank", b"#", 1)
    at.say(b"tank", Disconnect(600))
    at.publishes("b", b"1", 1)
    known[""] = ""
    at.restart(options(AccessGate(rules, lambda *_: known[""], narrows=True), saves=True))
    at.publishes("a", b"no", 1)
    at.publishes("b", b"2", 1)
    (session,) = at.engine.sessions.values()
    assert set(session.filters) == {"#"}
    assert session.outbound.waiting == 3
    known[""] = "psk:tank"
    assert fetched(at, b"tank") == [b"1", b"2"]


def test_a_client_whose_link_is_gone_keeps_what_it_has() -> None:
    access = gate(default=False)
    assert access.is_unknown(Peer(-1, b"tank"))
    assert not access.refuses_delivery("tank", Peer(-1, b"tank"), "a")
    assert not access.is_unknown(Peer(0, b"tank"))
    assert not AccessGate().is_unknown(Peer(0, b"tank"))
