"""What the rules of access did not allow: how it is listed, logged and shown."""

from __future__ import annotations

import pytest

from gateway.admin.event_log import EventLog
from gateway.admin.http.views import SHOWN_REFUSED_MAX
from gateway.admin.refusals import LISTED_MAX, LOG_S, Refusals
from gateway.core.drop_reasons import Reason
from gateway.core.effects import Denied, Dropped
from gateway.core.state_records import ClientId
from tests.admin.conftest import Log, Run
from tests.admin.example import PEER, Clock, news
from tests.admin.http_client import get, serving
from tests.admin.test_feed import listening


def refusal(
    client_id: str | None = "tank", topic: str = "s/well", action: str = "publish"
) -> Dropped:
    known = None if client_id is None else ClientId(client_id)
    denied = Denied("anonymous@udp0", action, topic)
    return Dropped(Reason.FORBIDDEN, known, f"{action} {topic!r}", PEER, denied=denied)


def listing(clock: Clock | None = None) -> EventLog:
    events = news(clock)
    events.list_refusals()
    return events


def told(log: EventLog, *refusals: Dropped) -> None:
    for each in refusals:
        log.record(each)


def test_each_client_and_topic_is_logged_once_in_a_time_and_counted_each_time(log: Log) -> None:
    clock = Clock()
    events = listing(clock)
    told(events, refusal(), refusal(), refusal(topic="other"), refusal("well"))
    lines = log.read()
    assert [("s/well" in each, "client=tank" in each) for each in lines] == [
        (True, True),
        (False, True),
        (True, False),
    ]
    assert "identity=anonymous@udp0" in lines[0]
    assert "tidegate access explain" in lines[0]
    assert events.dropped[Reason.FORBIDDEN] == 4
    clock.now += LOG_S - 1
    told(events, refusal())
    assert log.read() == []
    clock.now += 1
    told(events, refusal())
    assert len(log.read()) == 1


def test_of_too_many_the_one_that_was_not_refused_for_the_longest_time_goes() -> None:
    refusals = Refusals()
    for number in range(LISTED_MAX):
        note(refusals, refusal(topic=str(number)), number)
    note(refusals, refusal(topic="0"), LISTED_MAX)
    note(refusals, refusal(topic="new"), LISTED_MAX + 1)
    listed = [each.denied.topic for each in refusals]
    assert len(listed) == LISTED_MAX
    assert listed[:3] == ["new", "0", str(LISTED_MAX - 1)]
    assert "1" not in listed


def note(refusals: Refusals, dropped: Dropped, now: float) -> None:
    assert dropped.denied is not None
    refusals.note(dropped, dropped.denied, now)


@pytest.mark.parametrize("client_id", ["tank", None])
def test_it_is_listed_with_who_what_and_when(run: Run, client_id: str | None) -> None:
    events = listing()

    async def story() -> None:
        async with serving(told=events) as server:
            assert (await get(server, "/api/refused")).json["refused"] == []
            told(events, refusal(client_id), refusal(client_id))
            answer = (await get(server, "/api/refused")).json
        (entry,) = answer["refused"]
        assert entry.pop("last_at") > 1e9
        assert entry == {
            "client_id": client_id, "identity": "anonymous@udp0", "action": "publish",
            "topic": "s/well", "count": 2,
        }  # fmt: skip
        assert answer["schema"] == "tidegate.refused/1"

    run(story())


def test_an_open_page_hears_of_each_new_one(run: Run) -> None:
    events = listing()

    async def story() -> None:
        async with serving(told=events) as server, listening(server, "view=overview") as page:
            first = await page.receive("refused")
            assert first["refused"] == []
            told(events, *(refusal(topic=str(each)) for each in range(SHOWN_REFUSED_MAX + 5)))
            shown = (await page.receive("refused"))["refused"]
            assert len(shown) == SHOWN_REFUSED_MAX
            assert shown[0]["topic"] == str(SHOWN_REFUSED_MAX + 4)

    run(story())


def test_without_rules_there_is_no_list(log: Log) -> None:
    events = news()
    told(events, refusal())
    assert events.refusals is None
    assert len(log.read()) == 1
