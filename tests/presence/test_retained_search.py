"""What a previous run left at the broker under the name of the gateway."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.core.state_records import ClientId
from gateway.presence import retained_search
from gateway.presence.availability import VISITOR_AVAILABLE_S
from gateway.presence.documents import RetainedMessage
from gateway.presence.topics import Topics, level, text_of
from tests.presence.site import Gateway, Ledger, Site

OF_A = "homeassistant/device/tidegate_a_2ftank/config"
GATEWAY = "homeassistant/device/tidegate_a/config"
CLIENT, VALUES, CLAIM = (f"tidegate/a/{kind}/tank" for kind in ("clients", "values", "announced"))
FOREIGN = "homeassistant/device/tidegate_a_2fother/config"
TANK = ClientId("tank")


def without_state(**given: Any) -> tuple[Site, Gateway]:
    """Gateway a, whose state folder was lost after it had announced the tank."""
    site = Site()
    before = site.gateway("a")
    before.hears("tank", site.now)
    site.run(5)
    before.stop()
    site.broker.retained[FOREIGN] = b"{}"
    site.broker.history.clear()
    return site, site.gateway("a", **given)


def standing(site: Site) -> tuple[str, bool]:
    document = json.loads(site.broker.retained[CLIENT])
    return document["state"], document["available"]


def test_it_is_lost_at_once_and_cleared_after_a_while() -> None:
    site, a = without_state()
    site.run(5)
    assert standing(site) == ("lost", False)
    assert site.broker.published(OF_A) == []
    site.broker.history.clear()
    a.board._left_over[TANK] = site.now
    site.run(40)
    cleared = [topic for _, topic, payload in site.broker.history if not payload]
    assert cleared == [OF_A, VALUES, CLAIM, CLIENT], "its announcement first"
    assert set(site.broker.retained) == {"tidegate/a/state", GATEWAY, FOREIGN}


def test_it_has_a_day() -> None:
    site, a = without_state()
    site.run(5)
    (until,) = a.board._left_over.values()
    assert site.now - 5 <= until - VISITOR_AVAILABLE_S <= site.now


def test_one_that_comes_back_keeps_its_device() -> None:
    site, a = without_state()
    site.run(5)
    a.hears("tank", site.now)
    site.run(40)
    assert standing(site) == ("awake", True)
    assert b"" not in site.broker.published(OF_A)
    assert b"tank/level" in site.broker.published(OF_A)[-1]
    assert a.board._left_over == {}
    assert {OF_A, VALUES, CLAIM, CLIENT} <= a.ledger.entries.keys(), "it is written down now"


def test_one_that_comes_back_keeps_the_id_that_it_had_from_elsewhere() -> None:
    site = Site()
    topic = "homeassistant/device/tidegate_old_2ftank/config"
    claim = json.dumps({"client": "tank", "topic": topic, "turn": 3}).encode()
    for where, payload in ((CLAIM, claim), (CLIENT, b"{}"), (topic, b"{}")):
        site.broker.publish("a", RetainedMessage(where, payload))
    a = site.gateway("a")
    site.run(5)
    a.hears("tank", site.now)
    site.run(5)
    assert site.announced() == {topic: "a"}
    assert a.ledger.entries[topic].turn == 3


def test_a_restart_within_that_time_finds_it_again() -> None:
    site, a = without_state()
    site.run(5)
    assert CLIENT not in a.ledger.entries
    a.stop()
    site.gateway("a", ledger=a.ledger)
    site.run(5)
    assert standing(site) == ("lost", False)
    assert OF_A in site.broker.retained


def test_an_operator_may_clear_it_before() -> None:
    site, a = without_state()
    site.run(5)
    a.queue.clear(TANK)
    site.run(40)
    assert set(site.broker.retained) == {"tidegate/a/state", GATEWAY, FOREIGN}


def test_one_that_another_gateway_has_meanwhile_stays_there() -> None:
    site, a = without_state()
    a.stop()
    b = site.gateway("b")
    site.run(5)
    b.hears("tank", site.now)
    site.run(70)
    a = site.gateway("a")
    site.run(5)
    a.board._left_over[TANK] = site.now
    site.run(40)
    assert json.loads(site.broker.retained[OF_A])["device"]["via_device"] == "tidegate_b"
    assert VALUES not in site.broker.retained


def test_without_home_assistant_its_announcements_are_cleared_at_once() -> None:
    site, a = without_state(home_assistant=False)
    site.run(5)
    assert standing(site) == ("lost", False)
    assert set(site.broker.retained) == {"tidegate/a/state", CLIENT, FOREIGN}
    cleared = [topic for _, topic, payload in site.broker.history if not payload]
    assert set(cleared[:2]) == {OF_A, GATEWAY}
    assert a.filters == set(), "nothing more is listened to"
    a.disconnect()
    a.connect()
    a.hears("tank", site.now)
    site.run(3)
    assert standing(site) == ("awake", True)


def test_without_presence_everything_is_cleared_at_once() -> None:
    site, _a = without_state(home_assistant=False, has_board=False)
    site.run(5)
    assert set(site.broker.retained) == {"tidegate/a/state", FOREIGN}


def test_what_was_announced_without_a_claim_is_found_by_its_values() -> None:
    site = Site()
    for topic in (OF_A, VALUES, CLIENT):
        site.broker.publish("a", RetainedMessage(topic, b"{}"))
    site.gateway("a", home_assistant=False, has_board=False)
    site.run(5)
    assert set(site.broker.retained) == {"tidegate/a/state"}


def test_presence_alone_leaves_home_assistant_alone() -> None:
    site = Site()
    for topic in (OF_A, CLIENT):
        site.broker.publish("a", RetainedMessage(topic, b"{}"))
    site.gateway("a", home_assistant=False, has_board=False)
    site.run(5)
    assert set(site.broker.retained) == {"tidegate/a/state", OF_A}


def test_with_a_ledger_and_without_home_assistant_nothing_is_looked_for() -> None:
    site = Site()
    before = site.gateway("a", home_assistant=False)
    before.hears("tank", site.now)
    site.run(5)
    before.stop()
    after = site.gateway("a", home_assistant=False, ledger=before.ledger, sessions=["tank"])
    assert after.queue.search is None


def test_a_connection_that_ends_meanwhile_is_continued_by_the_next() -> None:
    site, a = without_state()
    a.step(site.now + 0.5)
    a.disconnect()
    site.run(5)
    a.connect()
    site.run(5)
    assert standing(site) == ("lost", False)


def test_devices_that_are_known_are_none_of_it() -> None:
    site = Site()
    before = site.gateway("a")
    before.hears("tank", site.now)
    site.run(5)
    before.stop()
    after = site.gateway("a", ledger=before.ledger, sessions=["tank"])
    site.run(5)
    assert after.board._left_over == {}


def test_so_many_are_found_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retained_search, "FOUND_MAX", 2)
    site = Site()
    for name in ("tank", "well", "pump"):
        site.broker.publish("a", RetainedMessage(f"tidegate/a/clients/{name}", b"{}"))
    a = site.gateway("a")
    site.run(5)
    assert len(a.board._left_over) == 2


@pytest.mark.parametrize("text", ["tank", "a/b", "50%", "ä+#", "%41", "\ufffe", "%C3"])
def test_a_level_of_a_topic_gives_its_text_again(text: str) -> None:
    assert text_of(level(text)) == text


def test_a_level_that_is_none_of_ours_is_some_text() -> None:
    assert text_of("%FF%zz") == "\ufffd%zz"
    assert Topics("", "a").announced("x/y") == "tidegate/a/announced/x%2Fy"


def test_one_that_comes_without_a_session_is_left_over_no_more() -> None:
    site = Site()
    site.broker.publish("a", RetainedMessage(CLIENT, b"{}"))
    a = site.gateway("a", ledger=Ledger())
    site.run(5)
    assert a.board.knows(TANK)
    assert a.board.received_without_connection(TANK, site.now)
    assert not a.board.is_left_over(TANK)


def test_without_home_assistant_one_that_has_come_already_is_not_left_over() -> None:
    site, a = without_state(home_assistant=False)
    a.hears("tank", site.now)
    site.run(5)
    assert standing(site) == ("awake", True)
    assert OF_A not in site.broker.retained
    assert a.queue.search is not None
    for topic in ("tidegate/b/clients/tank", "tidegate/b/state", "tidegate/b/other/x"):
        a.queue.search.receive(topic, b"online", site.now, is_retained=False)


def test_other_topics_of_other_gateways_say_nothing() -> None:
    site = Site()
    search = site.gateway("a").queue.search
    assert search is not None
    search.receive("tidegate/b/stats", b"{}", 0.0, is_retained=True)
    search.receive("elsewhere", b"{}", 0.0, is_retained=True)
    assert not search.refused("elsewhere")


def test_one_without_a_session_is_let_go_as_well() -> None:
    site = Site()
    a = site.gateway("a")
    site.run(5)
    assert a.board.heard_at(TANK) is None
    assert a.board.received_without_connection(TANK, site.now)
    assert a.board.heard_at(TANK) == site.now
    a.board.let_go(TANK)
    assert not a.board.knows(TANK)
