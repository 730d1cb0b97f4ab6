"""A sensor that moves to another gateway of the broker is the same device in Home Assistant."""

from __future__ import annotations

import json
from random import Random

import pytest

from gateway.core.state_records import ClientId, State
from gateway.presence import claims
from gateway.presence.claims import Claim
from gateway.presence.documents import RetainedMessage
from gateway.presence.homeassistant import identities
from gateway.presence.homeassistant.identities import (
    MOVES_MAX,
    OFFLINE_S,
    RETAINED_S,
    Identities,
)
from gateway.presence.retained_search import QUIET_S, SETTLE_S_MAX
from gateway.presence.topics import Topics, announcement
from tests.presence.site import Gateway, Ledger, Site

OF_A = "homeassistant/device/tidegate_a_2ftank/config"
OF_B = "homeassistant/device/tidegate_b_2ftank/config"
SECOND = "homeassistant/device/tidegate_a_2ftank_2f2/config"
TANK = ClientId("tank")


def two(seed: int = 0) -> tuple[Site, Gateway, Gateway]:
    """The tank is at gateway a."""
    site = Site(seed)
    a, b = site.gateway("a"), site.gateway("b")
    a.hears("tank", site.now)
    site.run(5)
    assert site.announced() == {OF_A: "a"}
    return site, a, b


def moved(seed: int = 0) -> tuple[Site, Gateway, Gateway]:
    site, a, b = two(seed)
    b.hears("tank", site.now)
    a.loses("tank")
    site.run(60)
    assert site.announced() == {OF_A: "b"}
    return site, a, b


def ids(payload: bytes) -> set[str]:
    return {each["unique_id"] for each in json.loads(payload)["components"].values()}


@pytest.mark.parametrize("seed", range(5))
def test_one_that_moves_keeps_its_device(seed: int) -> None:
    site, a, b = moved(seed)
    published = site.broker.published(OF_A)
    assert b"" not in published, "it was never away"
    assert ids(published[-1]) == ids(published[0])
    document = json.loads(published[-1])
    states = {each["state_topic"] for each in document["components"].values()}
    assert states == {"tidegate/b/values/tank", "tidegate/b/clients/tank"}
    left = [topic for topic in site.broker.retained if topic.startswith("tidegate/a/")]
    assert left == ["tidegate/a/state"]
    assert OF_A not in a.ledger.entries
    assert b.ledger.entries[OF_A].turn == 1
    assert any("it keeps its device" in line for line in b.lines)
    assert any("is at gateway b now" in line for line in a.lines)


def test_it_waits_while_the_other_gateway_may_still_have_it() -> None:
    site, a, b = two()
    a.hears("tank", site.now, sleep_s=600)
    site.run(5)
    b.hears("tank", site.now)
    site.run(400)
    assert site.announced() == {OF_A: "a"}, "asleep there"
    b.pings("tank", site.now)
    a.loses("tank", State.DISCONNECTED)
    site.run(60)
    assert site.announced() == {OF_A: "b"}


@pytest.mark.parametrize("seed", range(3))
def test_two_sensors_of_one_name_are_two_devices(seed: int) -> None:
    site, a, b = two(seed)
    for _ in range(12):
        b.hears("tank", site.now)
        site.run(20)
        a.hears("tank", site.now)
        site.run(70)
    assert site.announced() == {OF_A: "a", OF_B: "b"}
    assert [line for line in b.lines if "is also at gateway a" in line] == b.lines[:1]
    count = len(site.broker.published(OF_A)), len(site.broker.published(OF_B))
    for _ in range(5):
        a.loses("tank")
        site.run(90)
        a.hears("tank", site.now)
        site.run(90)
    assert (len(site.broker.published(OF_A)), len(site.broker.published(OF_B))) == count


def test_it_may_come_back() -> None:
    site, a, b = moved()
    b.loses("tank")
    a.hears("tank", site.now)
    site.run(60)
    assert site.announced() == {OF_A: "a"}
    assert a.ledger.entries[OF_A].turn == 2
    assert "tidegate/b/clients/tank" not in site.broker.retained
    assert b"" not in site.broker.published(OF_A)


def test_one_that_goes_back_and_forth_without_end_becomes_two_in_the_end() -> None:
    site, a, b = two()
    gateways = [b, a]
    for n in range(60):
        here, there = gateways[n % 2], gateways[1 - n % 2]
        there.loses("tank")
        here.hears("tank", site.now)
        site.run(300)
    announced = set(site.announced())
    assert len(announced) == 2
    moves = [line for line in a.lines + b.lines if "it keeps its device" in line]
    assert len(moves) <= 2 * MOVES_MAX
    last = site.now
    site.run(3600)
    assert set(site.announced()) == announced, last


def test_a_gateway_that_is_offline_has_lost_it() -> None:
    site, a, b = two()
    a.disconnect()
    b.hears("tank", site.now)
    site.run(OFFLINE_S - 5)
    assert site.announced() == {OF_A: "a"}, "it may restart"
    site.run(10)
    assert site.announced() == {OF_A: "b"}
    a.connect()
    site.run(10)
    assert site.announced() == {OF_A: "b"}
    assert "tidegate/a/clients/tank" not in site.broker.retained


@pytest.mark.parametrize("has_retained", [True, False])
@pytest.mark.parametrize("first", ["a", "b"])
@pytest.mark.parametrize("seed", range(3))
def test_in_whatever_order_they_start_it_stays_where_it_is(
    seed: int, first: str, has_retained: bool
) -> None:
    """`has_retained`: the broker kept what it retained."""
    site, a, b = two(seed)
    kept = dict(a.ledger.entries)
    a.stop()
    b.hears("tank", site.now)
    site.run(OFFLINE_S + 10)
    ledgers = {"a": Ledger(kept), "b": b.ledger}
    b.stop()
    if not has_retained:
        site.broker.retained.clear()
    for name in (first, "b" if first == "a" else "a"):
        site.gateway(name, ledger=ledgers[name], sessions=["tank"])
        site.run(20)
    b = next(each for each in site.broker.gateways if each.name == "b")
    b.hears("tank", site.now)
    site.run(90)
    assert site.announced() == {OF_A: "b"}
    assert site.broker.retained.get("tidegate/a/values/tank") is None
    if has_retained:
        assert b"" not in site.broker.published(OF_A)


def test_to_forget_it_at_the_first_gateway_leaves_it_at_the_second() -> None:
    site, a, _b = moved()
    del a.sessions[TANK]
    a.queue.clear(TANK)
    site.run(40)
    assert site.announced() == {OF_A: "b"}
    assert b"" not in site.broker.published(OF_A)
    assert "tidegate/b/values/tank" in site.broker.retained


def test_without_home_assistant_the_first_gateway_does_not_clear_it_either() -> None:
    site, a, b = two()
    kept = Ledger(dict(a.ledger.entries))
    a.stop()
    b.hears("tank", site.now)
    site.run(OFFLINE_S + 10)
    site.gateway("a", ledger=kept, home_assistant=False)
    site.run(20)
    assert site.announced() == {OF_A: "b"}
    assert OF_A not in kept.entries
    assert "tidegate/a/values/tank" not in site.broker.retained


def test_a_renamed_gateway_is_not_its_own_rival() -> None:
    site = Site()
    before = site.gateway("zeta")
    before.hears("tank", site.now)
    site.run(5)
    before.stop()
    after = site.gateway("alpha", ledger=before.ledger, sessions=["tank"])
    site.run(10)
    after.hears("tank", site.now)
    site.run(60)
    assert site.announced() == {"homeassistant/device/tidegate_zeta_2ftank/config": "alpha"}
    assert after.lines == []
    assert "tidegate/zeta/announced/tank" not in site.broker.retained


def test_a_broker_that_refuses_subscriptions_changes_nothing() -> None:
    site = Site()
    a, b = site.gateway("a"), site.gateway("b")
    a.refuses = b.refuses = True
    a.hears("tank", site.now)
    b.hears("tank", site.now)
    site.run(QUIET_S + 5)
    assert site.announced() == {OF_A: "a", OF_B: "b"}


def test_a_broker_that_does_not_answer_is_not_waited_for_for_good() -> None:
    site = Site()
    a = site.gateway("a")
    assert a.queue.search is not None
    a.queue.search.is_granted = lambda _filter: False
    a.hears("tank", site.now)
    site.run(SETTLE_S_MAX - 2)
    assert site.announced() == {}
    site.run(5)
    assert site.announced() == {OF_A: "a"}


def test_a_gateway_of_which_nothing_is_known_keeps_its_device() -> None:
    site = Site()
    claim = {"client": "tank", "topic": OF_A, "turn": 0}
    site.broker.publish(
        "x", RetainedMessage("tidegate/a/announced/tank", json.dumps(claim).encode())
    )
    b = site.gateway("b")
    site.run(5)
    b.hears("tank", site.now)
    site.run(20)
    assert site.announced() == {}
    site.run(40)
    assert site.announced() == {OF_B: "b"}
    assert "of which nothing is known" in b.lines[0]


def test_one_that_the_other_gateway_forgot_is_adopted() -> None:
    """As far as its claim is still there."""
    site, a, b = two()
    site.broker.gateways.remove(a)
    site.broker.publish("a", RetainedMessage("tidegate/a/clients/tank", b""))
    b.hears("tank", site.now)
    site.run(30)
    assert site.announced() == {OF_A: "b"}


def test_what_is_no_claim_is_none() -> None:
    site = Site()
    for n, wrong in enumerate(
        [
            b"{",
            b"[]",
            b'{"client":"x","topic":"homeassistant/device/tidegate_a/config","turn":0}',
            b'{"client":"tank","topic":"elsewhere","turn":0}',
            b'{"client":"tank","topic":"homeassistant/device/tidegate_a/config","turn":-1}',
            b'{"client":"tank","topic":"other/device/tidegate_a_2ftank/config","turn":0}',
            b" " * 5000,
        ]
    ):
        site.broker.publish("x", RetainedMessage(f"tidegate/g{n}/announced/tank", wrong))
    b = site.gateway("b")
    b.hears("tank", site.now)
    site.run(10)
    assert site.announced() == {OF_B: "b"}


def test_only_so_many_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(identities, "WAITING_MAX", 1)
    site = Site()
    a, b = site.gateway("a"), site.gateway("b")
    for name in ("tank", "well", "pump"):
        a.hears(name, site.now)
    site.run(5)
    for name in ("tank", "well", "pump"):
        b.hears(name, site.now)
    site.run(5)
    assert sum(gateway == "b" for gateway in site.announced().values()) == 2


class Story:
    """Sensors, gateways and the broker do what chance has them do."""

    def __init__(self, seed: int) -> None:
        self.dice = Random(seed)
        self.site = Site(seed)
        self.gateways = {name: self.site.gateway(name) for name in ("a", "b", "c")}
        self.place = self.gateways["a"]

    def move(self, one: Gateway) -> None:
        if TANK in self.place.sessions:
            self.place.loses("tank")
        self.place = one
        one.hears("tank", self.site.now)

    def lose_connection(self, one: Gateway) -> None:
        (one.disconnect if one.is_connected else one.connect)()

    def restart(self, one: Gateway) -> None:
        if one.is_connected:
            one.disconnect()
        self.site.broker.gateways.remove(one)
        self.site.run(self.dice.choice([0, 10, 100]))
        known = ["tank"] if TANK in one.sessions else []
        after = self.site.gateway(one.name, ledger=one.ledger, sessions=known)
        self.gateways[one.name] = after
        if self.place is one:
            self.place = after

    def lose_retained(self, _one: Gateway) -> None:
        self.site.broker.retained.clear()
        for each in self.gateways.values():
            if each.is_connected:
                each.disconnect()
                each.connect()

    def hear(self, _one: Gateway) -> None:
        self.place.hears("tank", self.site.now)

    def tell(self) -> None:
        acts = [self.move, self.move, self.lose_connection, self.restart, self.lose_retained]
        for _ in range(12):
            self.site.run(self.dice.choice([1, 5, 30, 100]))
            act = self.dice.choice([*acts, self.hear])
            act(self.gateways[self.dice.choice("abc")])
        for each in self.gateways.values():
            if not each.is_connected:
                each.connect()
        self.place.hears("tank", self.site.now)
        for _ in range(60):
            self.site.run(60)
            self.place.pings("tank", self.site.now)


# Of lines that only they reach, and the others are not measured: coverage makes
# a story five times as long.
MEASURED = (26, 32)


@pytest.mark.parametrize(
    "seed",
    [
        *MEASURED,
        *(
            pytest.param(seed, marks=pytest.mark.no_cover)
            for seed in range(40)
            if seed not in MEASURED
        ),
        *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(40, 200)),
    ],
)
def test_whatever_happens_each_device_is_announced_by_one_gateway_in_the_end(seed: int) -> None:
    story = Story(seed)
    story.tell()
    site, announced = story.site, story.site.announced()
    assert list(announced.values()).count(story.place.name) == 1
    count = len(site.broker.history)
    site.run(600)
    assert site.announced() == announced
    assert len(site.broker.history) < count + 100, "nothing goes back and forth"
    claims = [each.identities.claim_of(TANK) for each in story.gateways.values()]
    topics = [each.topic for each in claims if each is not None]
    assert len(topics) == len(set(topics)), "none is announced by two"


# One gateway alone, and what others say


class Alone:
    """The identities of gateway a; `heard` is when the tank was received."""

    def __init__(self, heard: float | None = 1.0) -> None:
        self.heard = heard
        self.found = Identities(
            topics=Topics("", "a"), prefix="homeassistant", heard_at=lambda _client_id: self.heard
        )
        self.found.is_granted = lambda _filter: True
        self.found.settle(0.0)

    def claim(self, gateway: str, topic: str = OF_B, turn: int = 0, now: float = 0.0) -> None:
        payload = Claim(turn, gateway, topic, TANK).payload
        self.found.claim_received(f"tidegate/{gateway}/announced/tank", payload, now)

    def offline(self, gateway: str, now: float = 0.0) -> None:
        self.found.state_received(gateway, b"offline", now)

    def topic(self, now: float) -> str | None:
        claim = self.found.decide(TANK, now)
        return None if claim is None else claim.topic


def test_nothing_is_decided_before_it_is_known_what_there_is() -> None:
    alone = Alone()
    alone.found.connected()
    assert alone.topic(1.0) is None
    assert alone.found.take_due(1.0) == []
    alone.found.settle(1.0)
    assert alone.topic(1.0) == OF_A


def test_an_id_of_its_own_is_none_that_another_gateway_has() -> None:
    alone = Alone()
    alone.claim("b", OF_A)
    alone.claim("c", SECOND)
    alone.found.state_received("b", b"online", 0.0)
    alone.found.state_received("c", b"online", 0.0)
    assert alone.topic(0.0) is None
    for gateway in "bc":
        topic = f"tidegate/{gateway}/clients/tank"
        assert topic in alone.found.watched
        for second in range(3):
            document = {"state": "awake", "last_seen": f"2026-11-27T10:00:0{second}Z"}
            alone.found.presence_received(
                topic, json.dumps(document).encode(), 2.0, is_retained=False
            )
    assert alone.topic(3.0) is None, "it was not received here since"
    alone.heard = 4.0
    assert alone.topic(5.0) == SECOND.replace("_2f2", "_2f3")
    assert not list(alone.found.watched)


def test_what_is_no_presence_says_nothing() -> None:
    alone = Alone()
    alone.claim("b")
    alone.found.state_received("b", b"online", 0.0)
    assert alone.topic(0.0) is None
    for wrong in (b"{", b"[]", b"7"):
        alone.found.presence_received("tidegate/b/clients/tank", wrong, 0.0, is_retained=True)
    alone.found.presence_received("tidegate/b/clients/well", b"{}", 0.0, is_retained=True)
    assert alone.topic(2.0) is None
    assert alone.topic(RETAINED_S) == OF_B, "it has none"


def test_a_gateway_that_is_offline_again_and_again_is_offline_since_the_first_time() -> None:
    alone = Alone()
    alone.claim("b")
    alone.offline("b", 0.0)
    alone.offline("b", 50.0)
    assert alone.topic(OFFLINE_S) == OF_B


def test_a_gateway_whose_state_was_cleared_is_not_known() -> None:
    alone = Alone()
    alone.claim("b")
    alone.offline("b", 0.0)
    alone.found.state_received("b", b"", 1.0)
    assert alone.topic(OFFLINE_S) is None
    assert alone.topic(2 * OFFLINE_S) == OF_A


def test_who_has_the_stronger_claim_announces_again_but_not_too_often() -> None:
    alone = Alone()
    alone.found.restore(TANK, OF_B, 2)
    alone.claim("b", turn=1, now=10.0)
    assert alone.found.take_due(11.0) == []
    assert alone.found.take_due(12.0) == [TANK]
    alone.found.claim_received("tidegate/b/announced/tank", b"", 13.0)
    assert alone.found.take_due(20.0) == []
    assert alone.found.take_due(72.0) == [TANK]
    assert alone.found.take_let_go() == {}


def test_a_claim_that_was_cleared_meanwhile_is_gone() -> None:
    alone = Alone()
    alone.claim("b", OF_A)
    assert alone.found.is_anothers(OF_A)
    alone.found.connected()
    alone.found.settle(5.0)
    assert not alone.found.is_anothers(OF_A)


def test_of_two_claims_of_one_turn_the_later_name_counts() -> None:
    for gateway, expected in (("b", {TANK: OF_B}), ("Z", {})):
        alone = Alone()
        alone.found.restore(TANK, OF_B, 1)
        alone.claim(gateway, turn=1)
        assert alone.found.take_let_go() == expected
        assert alone.found.is_anothers(OF_B) is bool(expected)


def test_tables_have_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(identities, "WAITING_MAX", 1)
    monkeypatch.setattr(identities, "NOTES_MAX", 1)
    monkeypatch.setattr(claims, "CLAIMS_MAX", 2)
    alone = Alone()
    names = [ClientId(f"s{n}") for n in range(3)]
    alone.offline("b")
    for name in names:
        topic = announcement("homeassistant", f"tidegate_b_2f{name}")
        payload = Claim(0, "b", topic, name).payload
        alone.found.claim_received(f"tidegate/b/announced/{name}", payload, 0.0)
        alone.found.claim_received(f"tidegate/a/announced/{name}", payload, 0.0)
    found = [alone.found.decide(name, OFFLINE_S) for name in names]
    assert all(found)
    assert len(alone.found.take_notes()) == 1
    assert len(alone.found.claims.own) == 2


def test_two_entries_of_one_announcement_do_no_harm() -> None:
    alone = Alone()
    for name in ("tank", "well"):
        alone.found.restore(ClientId(name), OF_A, 0)
    for name in ("tank", "well"):
        alone.found.forget(ClientId(name))
    assert alone.topic(1.0) == OF_A
