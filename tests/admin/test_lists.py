"""/api/clients and /api/topics over real sockets: what is asked, and what nonsense hears."""

from __future__ import annotations

import pytest

from gateway.admin.clients import ClientsFound, ClientShown, Details, WillShown
from gateway.admin.http.queries import ClientsQuery, TopicsQuery
from gateway.admin.topics import NamedCounts, TopicsFound, TopicShown
from gateway.core.state_records import State
from tests.admin.conftest import Run
from tests.admin.http_client import get, serving

SLEEPER = ClientShown(
    client_id="pump-1",
    state=State.ASLEEP,
    link="udp0",
    address="192.0.2.7:1883",
    clean=False,
    keep_alive_s=60,
    sleep_s=600,
    heard_s=1.5,
    due_s=598.5,
    away_s=None,
    topics=1,
    subscriptions=2,
    queued=3,
    queued_bytes=400,
    given_up=2,
    given_up_topic="cmd/valve",
    will=WillShown("gone/pump-1", 1, retain=True),
)


def test_a_client_is_answered_as_it_was_asked_for(run: Run) -> None:
    asked: list[ClientsQuery] = []

    async def clients(query: ClientsQuery) -> ClientsFound:
        asked.append(query)
        return ClientsFound([SLEEPER], 7, Details([(1, "t")], [(2, "p")], [("f/#", 1)]))

    async def story() -> None:
        async with serving(clients=clients) as server:
            path = "/api/clients?state=asleep&prefix=pump%2D&after=a&limit=5&id=pump-1"
            answer = await get(server, path)
        assert answer.status == 200
        assert asked == [ClientsQuery("pump-1", "pump-", "asleep", "a", 5)]
        body = answer.json
        assert (body["schema"], body["gateway"]) == ("tidegate.clients/1", "greenhouse")
        assert body["more"] == 7
        (client,) = body["clients"]
        assert client["state"] == "asleep"
        assert client["asleep_until"] == pytest.approx(body["time"] + 598.5, abs=0.01)
        assert (client["overdue"], client["overdue_s"]) == (False, None)
        assert client["will"] == {"topic": "gone/pump-1", "qos": 1, "retain": True}
        assert client["topic_ids"] == [{"id": 1, "topic": "t"}]
        assert client["predefined_topic_ids"] == [{"id": 2, "topic": "p"}]
        assert client["subscribed"] == [{"filter": "f/#", "qos": 1}]

    run(story())


def test_topics_are_answered_as_they_were_asked_for(run: Run) -> None:
    asked: list[TopicsQuery] = []

    async def topics(query: TopicsQuery) -> TopicsFound:
        asked.append(query)
        named = NamedCounts(1, [("pump-1", 4)], 2)
        topic = TopicShown("t", named, NamedCounts(1), NamedCounts(1), 9, "t/#", 1, 0)
        return TopicsFound([topic], 3, more_is_exact=False)

    async def story() -> None:
        async with serving(topics=topics) as server:
            answer = await get(server, "/api/topics?name=t")
        assert asked == [TopicsQuery(name="t")]
        body = answer.json
        assert (body["schema"], body["more"], body["more_is_exact"]) == (
            "tidegate.topics/1",
            3,
            False,
        )
        assert body["topics"] == [
            {
                "topic": "t",
                "predefined_id": 9,
                "predefined_for": {"count": 0, "clients": []},
                "registered_by": {"count": 2, "clients": [{"id": "pump-1", "topic_id": 4}]},
                "subscribed_by": {"count": 0, "clients": []},
                "upstream_filter": "t/#",
                "upstream_qos": 1,
                "retained_bytes": 0,
            }
        ]

    run(story())


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/api/clients?state=tired", "no state 'tired': it is one of disconnected,"),
        ("/api/clients?stat=asleep", "'stat' cannot be asked for, only id, prefix,"),
        ("/api/clients?limit=0", "limit is a whole number from 1 to 1000, not '0'"),
        ("/api/clients?limit=1001", "limit is a whole number from 1 to 1000"),
        ("/api/clients?limit=%C2%B2", "limit is a whole number"),
        ("/api/topics?limit=-1", "limit is a whole number"),
        ("/api/topics?id=x", "'id' cannot be asked for, only name,"),
    ],
)
def test_what_cannot_be_asked_is_refused_with_what_can(run: Run, path: str, said: str) -> None:
    async def story() -> None:
        async with serving() as server:
            answer = await get(server, path)
        assert answer.status == 400
        assert said in answer.json["error"]

    run(story())
