"""In which order things are said, how many of them, and what is written down of it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, cast

import mqtt5
import pytest

from gateway.core.effects import (
    OwnTopicReceived,
    OwnTopicRefused,
    StateChanged,
    SubscriptionRefused,
    UpstreamUp,
)
from gateway.core.engine import EngineOptions
from gateway.core.session.session import Session
from gateway.core.state_records import ClientId, State
from gateway.core.values import Peer, Reading
from gateway.presence.availability import Availability
from gateway.presence.homeassistant.announcements import Announcements
from gateway.presence.homeassistant.declared_commands import declared_in, is_declaration
from gateway.presence.homeassistant.discovery_documents import DiscoveryDocuments
from gateway.presence.homeassistant.overrides import ValueOptions
from gateway.presence.last_values import Declarations, LastValues
from gateway.presence.latest import Latest
from gateway.presence.numbers import PresenceNumbers
from gateway.presence.pending_commands import PendingCommands
from gateway.presence.publisher import (
    BEAT_S,
    DECODED_MAX,
    WHILE_READINGS_WAIT,
    PresencePublisher,
)
from gateway.presence.queue import STATE_AGAIN_S, STATE_SOON_S, PresenceQueue
from gateway.presence.records_file import FILE as VALUES_FILE
from gateway.presence.records_file import RecordsFile
from gateway.presence.retained_ledger import FILE, RetainedLedgerFile
from gateway.presence.topics import Topics, is_announcement
from tests.admin.conftest import Log
from tests.presence.devices import NONE, RULES, TOPICS, Fleet
from tests.support.engine_bench import UPSTREAM, Bench, short

PER_S = 40
WILL_DELAY_S = 10
BIRTH = "homeassistant/status"
TANK = ClientId("tank")
CLIENT, VALUES, EVENTS = TOPICS.client("tank"), TOPICS.values("tank"), TOPICS.events("tank")
ANNOUNCED = "homeassistant/device/tidegate_greenhouse_2ftank/config"


class House:
    """A herald on an engine that is connected to a broker, from one folder."""

    def __init__(
        self,
        folder: Path,
        *devices: str,
        announces: bool = True,
        gateway: str = "greenhouse",
        options: Sequence[ValueOptions] = (),
    ) -> None:
        """`devices` have sessions of a former life."""
        self.bench = Bench(EngineOptions(UPSTREAM))
        self.at = 0.0
        for name in devices:
            self.enter(name)
        declarations = Declarations(declared_in, is_declaration)
        self.values = LastValues(values_max=64, characters_max=255, declarations=declarations)
        sessions = self.bench.engine.sessions
        topics = Topics("", gateway)
        pending = PendingCommands(sessions)
        board = Availability(sessions, topics, lambda _peer: "udp0", pending=pending)
        documents = DiscoveryDocuments(topics, "homeassistant", gateway, "1", options)
        announcements = Announcements(documents, self.values.document, pending.watch)
        self.saying = PresenceQueue(
            topics,
            RetainedLedgerFile(folder),
            board=board,
            announcements=announcements if announces else None,
            values=self.values if announces else None,
            stats=lambda: {"uptime_s": 1},
            stats_s=60,
            will_delay_s=WILL_DELAY_S,
        )
        self.publisher = PresencePublisher(
            engine=self.bench.engine,
            saying=self.saying,
            perform=self.bench.ask,
            messages_per_s_max=PER_S,
            clock=lambda: self.at,
            birth=BIRTH,
            records=RecordsFile(folder),
        )
        self.latest = Latest()
        self.publisher.listen_to(self.latest)
        self.publisher._restore_records()
        self.saying.restore(lambda client_id: client_id in sessions)
        self.connected()

    def connected(self) -> None:
        self.publisher.record(UpstreamUp(session_present=True))

    def enter(self, name: str) -> Session:
        """A device that sleeps."""
        fleet = Fleet()
        session = fleet.asleep(name, self.at, 3600)
        self.bench.engine.sessions[ClientId(name)] = session
        return session

    def hears(self, name: str, value: float | str | bool | None, key: str = "level") -> None:
        payload = json.dumps(
            [{"n": key, "u": "m", "vb" if isinstance(value, bool) else "v": value}]
        )
        client_id, topic = ClientId(name), "tank/level"
        self.latest.receive(Reading(client_id, topic, payload.encode(), 1, False, 0, 0, self.at))

    def beat(self, times: int = 1) -> list[tuple[str, bytes]]:
        self.bench.seen()
        for _ in range(times):
            self.at += BEAT_S
            self.publisher.beat(self.at)
        said = self.bench.seen_of(mqtt5.PublishPacket)
        for each in said:
            assert each.retain is ("/events/" not in each.topic)
            assert int(each.qos) == is_announcement(each.topic)
        return [(each.topic, each.payload) for each in said]

    def topics(self, times: int = 1) -> list[str]:
        return [topic for topic, _ in self.beat(times)]


class Loop:
    """What the publisher asks of its loop."""

    def __init__(self) -> None:
        self.asked: list[tuple[float, Callable[..., None], tuple[object, ...]]] = []

    def call_later(self, delay_s: float, callback: Callable[..., None], *given: object) -> Loop:
        self.asked.append((delay_s, callback, given))
        return self

    def cancel(self) -> None:
        """As the handle of a timer."""

    def run(self, within_s: float) -> None:
        """Those that are due so soon, once."""
        due = [each for each in self.asked if each[0] <= within_s]
        self.asked = [each for each in self.asked if each not in due]
        for _, callback, given in due:
            callback(*given)


def documents(said: list[tuple[str, bytes]]) -> list[dict[str, Any]]:
    """Of the tank's values."""
    return [json.loads(payload) for topic, payload in said if topic == VALUES and payload]


def lines(folder: Path) -> list[list[object]]:
    return [json.loads(line) for line in (folder / FILE).read_text().splitlines()]


@pytest.mark.guarantee("9")
def test_what_is_to_be_sent_has_a_mark_while_it_may_go(tmp_path: Path) -> None:
    house = House(tmp_path, "tank")
    assert house.publisher.mark() is None
    house.saying.collect(house.at)
    before = house.publisher.mark()
    assert before is not None
    house.bench.engine.congested()
    assert house.publisher.mark() is None
    house.bench.take(house.bench.engine.uncongested(house.at))
    assert house.publisher.mark() == before
    house.hears("tank", 1.5)
    house.beat(1)
    assert house.publisher.mark() != before, "some of it has gone"
    house.beat(3)
    assert house.publisher.mark() is None
    house.saying.collect(house.at)
    house.bench.lose_broker()
    assert house.publisher.mark() is None


def test_what_is_said_is_counted_for_who_looks(tmp_path: Path) -> None:
    house = House(tmp_path, "tank")
    assert house.publisher.numbers() == PresenceNumbers(topic=TOPICS.base, devices=0, announced=0)
    house.saying.collect(house.at)
    assert house.publisher.numbers().waiting == 1
    house.hears("tank", 1.5)
    house.beat(4)
    assert house.publisher.numbers() == PresenceNumbers(topic=TOPICS.base, devices=1, announced=1)
    house.publisher.record(SubscriptionRefused("commands/#", "not authorized", ()))
    assert house.publisher.numbers().refusal is None
    house.publisher.record(SubscriptionRefused(BIRTH, "not authorized", ()))
    assert house.publisher.numbers().refusal == "not authorized"
    house.connected()
    assert house.publisher.numbers().refusal is None
    assert House(tmp_path, announces=False).publisher.numbers().announced is None


def test_a_refused_announcement_is_known_until_the_next_connection(
    tmp_path: Path, log: Log
) -> None:
    house = House(tmp_path)
    for _ in range(2):
        house.publisher.record(OwnTopicRefused(ANNOUNCED, "not authorized"))
    assert house.publisher.numbers().announcement_refusal == "not authorized"
    (line,) = log.read()
    assert f"the broker refused an announcement: {ANNOUNCED}: not authorized" in line
    house.connected()
    assert house.publisher.numbers().announcement_refusal is None


def test_a_hundred_thousand_sleepers_make_no_burst(tmp_path: Path) -> None:
    house = House(tmp_path, announces=False)
    sessions = house.bench.engine.sessions
    for number in range(100_000):
        name = ClientId(f"s{number}")
        session = sessions[name] = Session(
            client_id=name, peer=Peer(0, b""), options=RULES, predefined=NONE
        )
        session.state, session.sleep_s, session.silence_max_s = State.ASLEEP, 600, 660.0
    beats = [house.topics() for _ in range(60)]
    assert max(map(len, beats)) <= PER_S
    said = {topic for beat in beats for topic in beat}
    assert len(said) >= 0.9 * 60 * PER_S * BEAT_S
    assert sum(map(bool, beats)) <= 60 * BEAT_S + 1, "to wake up costs more than what is said"


def test_what_somebody_should_see_does_not_wait_for_company(tmp_path: Path) -> None:
    house = House(tmp_path, *(f"s{number}" for number in range(4 * PER_S)), announces=False)
    tank = house.enter("tank")
    said: list[str] = []
    while CLIENT not in said:
        said = house.topics()
    house.topics()
    tank.state = State.LOST
    assert house.topics(2)[0] == CLIENT
    assert house.saying.waiting > PER_S, "others were there to wait for"


def test_a_few_go_at_once(tmp_path: Path) -> None:
    house = House(tmp_path, announces=False)
    house.beat(4)
    for number in range(PER_S // 2):
        house.enter(f"s{number}")
    assert len(house.topics(2)) == PER_S // 2


def test_while_readings_wait_for_the_broker_a_tenth_is_said(tmp_path: Path) -> None:
    house = House(tmp_path, announces=False)
    for number in range(200):
        house.enter(f"s{number}")
    house.bench.holds = True
    house.bench.lose_broker()
    house.bench.connect_broker(receive_max=1)
    for name in (b"one", b"two"):
        house.bench.join(name)
        house.bench.say(name, short(b"21.5", 1, 7))
    assert house.bench.engine.upstream.publisher.in_flight.has_waiting
    beats = 40
    assert len(house.beat(beats)) <= PER_S * BEAT_S * (1 + beats / WHILE_READINGS_WAIT)
    assert len(house.beat(beats)) >= PER_S * BEAT_S * beats / WHILE_READINGS_WAIT - 1


def test_while_the_broker_takes_nothing_nothing_is_said(tmp_path: Path) -> None:
    house = House(tmp_path)
    house.bench.engine.congested()
    assert house.beat(8) == []
    house.bench.engine.uncongested(house.bench.at)
    assert house.beat(8) != []


def test_while_the_broker_is_away_nothing_is_said_and_all_of_it_after(tmp_path: Path) -> None:
    house = House(tmp_path)
    house.enter("tank")
    house.bench.lose_broker()
    assert house.beat(8) == []
    house.bench.connect_broker()
    house.connected()
    assert {TOPICS.stats, CLIENT, ANNOUNCED} <= set(house.topics(8))


def test_each_connection_begins_anew(tmp_path: Path) -> None:
    house = House(tmp_path)
    house.enter("tank")
    house.hears("tank", 1.0)
    first = set(house.topics(8))
    assert {CLIENT, ANNOUNCED, VALUES} <= first
    assert house.beat(8) == []
    house.publisher.record(UpstreamUp(session_present=False))
    assert set(house.topics(8)) == first


def test_the_gateways_own_word_goes_first_and_again_from_time_to_time(tmp_path: Path) -> None:
    house = House(tmp_path)
    house.enter("tank")
    assert house.topics()[0] == TOPICS.stats  # the session has just said that it is there
    said = [house.beat(int(60 / BEAT_S)) for _ in range(int(STATE_AGAIN_S / 60) + 1)]
    assert [each.count((TOPICS.state, b"online")) for each in said] == [2, 0, 0, 0, 0, 1]
    assert [[topic for topic, _ in each].count(TOPICS.stats) for each in said] == [1] * 6


def test_statistics_go_at_once_when_they_are_due(tmp_path: Path) -> None:
    house = House(tmp_path)
    house.beat(20)
    assert TOPICS.stats not in house.topics()
    house.saying.stats_due()
    assert TOPICS.stats in house.topics()


def test_a_will_that_overtakes_the_new_connection_is_corrected_soon(tmp_path: Path) -> None:
    """A broker may publish it when the new connection takes the session over, or when the delay of
    the will is over; both are behind the `online` of the session.
    """
    house = House(tmp_path)
    for _ in range(3):
        house.connected()
        soon = house.beat(int(STATE_SOON_S / BEAT_S) + 1)
        assert soon.count((TOPICS.state, b"online")) == 1
        assert house.beat(int(WILL_DELAY_S / BEAT_S)).count((TOPICS.state, b"online")) == 1
        assert house.beat(int(WILL_DELAY_S / BEAT_S)).count((TOPICS.state, b"online")) == 0


def test_values_are_said_once_however_often_they_came(tmp_path: Path) -> None:
    house = House(tmp_path)
    house.enter("tank")
    house.beat(8)
    for value in range(100):
        house.hears("tank", float(value))
    house.values.decode(100)
    said = house.beat(8)
    (document,) = documents(said)
    assert document["tank/level"] == {"level": 99}


def test_values_of_a_device_that_is_not_announced_yet_follow_its_announcement(
    tmp_path: Path,
) -> None:
    house = House(tmp_path)
    house.hears("tank", 1.0)
    assert VALUES not in house.topics(8), "it has no session"
    house.enter("tank")
    for door in (False, True):
        house.hears("tank", door, "door")
    house.values.decode(9)
    assert house.saying.is_urgent
    topics = house.topics(8)
    assert topics.count(VALUES) == 1
    assert topics.index(ANNOUNCED) < topics.index(VALUES)


@pytest.mark.parametrize("announces", [True, False])
def test_what_is_switched_off_is_not_said(tmp_path: Path, announces: bool) -> None:
    house = House(tmp_path, announces=announces)
    house.saying.board = None
    house.enter("tank")
    house.connected()
    said = set(house.topics(8))
    assert CLIENT not in said
    assert ("homeassistant/device/tidegate_greenhouse/config" in said) is announces


def test_one_that_left_and_has_its_session_is_looked_at_as_any(tmp_path: Path) -> None:
    house = House(tmp_path, "tank")
    house.beat(8)
    house.publisher.record(StateChanged(TANK, State.ASLEEP, State.LOST, None))
    assert house.beat(8) == [], "its session says that it sleeps"


def test_only_home_assistants_birth_announces_again(tmp_path: Path) -> None:
    house = House(tmp_path)
    house.enter("tank")
    house.beat(8)
    house.publisher.record(OwnTopicReceived(BIRTH, b"offline"))
    assert house.beat(8) == []
    house.publisher.record(OwnTopicReceived(BIRTH, b"online"))
    assert ANNOUNCED in house.topics(8)


def test_what_is_said_of_one_that_left_without_a_session(tmp_path: Path) -> None:
    house = House(tmp_path)
    house.enter("tank")
    house.beat(8)
    del house.bench.engine.sessions[TANK]
    peer = Peer(0, b"")
    house.publisher.record(StateChanged(TANK, State.ACTIVE, State.LOST, peer))
    ((topic, payload),) = house.beat(8)
    assert topic == CLIENT
    assert b'"lost"' in payload


@pytest.mark.parametrize("announces", [True, False])
def test_an_operator_clears_what_is_there_of_one_without_a_session(
    tmp_path: Path, announces: bool
) -> None:
    house = House(tmp_path, announces=announces)
    house.beat(8)
    house.publisher.clear(TANK)
    expected = [ANNOUNCED, VALUES, CLIENT] if announces else [CLIENT]
    assert house.beat(8) == [(topic, b"") for topic in expected]


# Values


def test_values_are_merged_and_known_after_a_kill(tmp_path: Path) -> None:
    house = House(tmp_path)
    house.enter("tank")
    house.hears("tank", 1.0)
    house.hears("tank", 2.0, "battery")
    house.beat(8)
    after = House(tmp_path, "tank")
    (document,) = documents(after.beat(12))
    assert document["tank/level"] == {"level": 1, "battery": 2}
    other = House(tmp_path)
    assert documents(other.beat(12)) == [], "its session is gone"


def test_rows_that_are_none_of_ours_are_passed_over(tmp_path: Path) -> None:
    rows = ('v"tank"\t{"a":1}', 'v"tank"\t[1]', "vtank\t{}", 'x"tank"\t{}', 'v"tank"\t{"a":[')
    (tmp_path / VALUES_FILE).write_text("".join(f"{row}\n" for row in rows))
    house = House(tmp_path, "tank")
    house.hears("tank", 1.0)
    assert documents(house.beat(12))[-1]["tank/level"] == {"level": 1}


def test_a_pulse_is_published_whole_and_at_once(tmp_path: Path) -> None:
    house = House(tmp_path)
    house.enter("tank")
    house.hears("tank", False, "door")
    house.beat(8)
    loop = Loop()
    house.publisher._loop = cast(asyncio.AbstractEventLoop, loop)
    for door in (True, False):
        house.hears("tank", door, "door")
    assert len(loop.asked) == 1
    house.bench.seen()
    loop.run(within_s=0.05)
    said = house.bench.seen_of(mqtt5.PublishPacket)
    assert [json.loads(each.payload)["tank/level"]["door"] for each in said] == [True, False]
    assert {(each.topic, each.retain) for each in said} == {(VALUES, True)}


def test_readings_in_a_flood_are_decoded_a_few_at_a_time(tmp_path: Path) -> None:
    house = House(tmp_path)
    house.enter("tank")
    loop = Loop()
    house.publisher._loop = cast(asyncio.AbstractEventLoop, loop)
    for number in range(DECODED_MAX + 1):
        house.hears("tank", float(number))
    loop.run(within_s=0.05)
    assert house.values.has_pending
    loop.run(within_s=0.05)
    assert not house.values.has_pending
    assert loop.asked == []


def test_changes_wait_while_the_broker_takes_nothing_and_for_the_pace(tmp_path: Path) -> None:
    house = House(tmp_path)
    house.enter("tank")
    house.hears("tank", False, "door")
    house.beat(8)
    house.bench.engine.congested()
    house.hears("tank", True, "door")
    assert house.beat(4) == []
    house.bench.engine.uncongested(house.bench.at)
    assert [each["tank/level"]["door"] for each in documents(house.beat(8))] == [True, True]
    for number in range(10 * PER_S):
        house.hears("tank", number % 2 == 0, "door")
    assert len(house.topics(4)) <= 2 * PER_S


def test_an_event_is_not_retained(tmp_path: Path) -> None:
    house = House(tmp_path)
    house.enter("tank")
    house.beat(8)
    payload = b'{"action":"single"}'
    for _ in range(2):
        house.latest.receive(Reading(TANK, "tank/button", payload, 1, False, 0, 0, house.at))
    said = house.beat(2)
    assert [json.loads(payload)["event_type"] for topic, payload in said if topic == EVENTS] == [
        "single"
    ] * 2


def test_a_value_that_becomes_unknown_is_published_as_null(tmp_path: Path) -> None:
    house = House(tmp_path)
    house.enter("tank")
    house.hears("tank", 1.0)
    house.beat(8)
    house.hears("tank", None)
    assert documents(house.beat(8))[0]["tank/level"] == {"level": None}


def test_what_is_left_out_is_logged_and_counted(tmp_path: Path, log: Log) -> None:
    house = House(tmp_path)
    house.enter("tank")
    payload = json.dumps({f"n{number}": 1 for number in range(65)}).encode()
    house.latest.receive(Reading(TANK, "tank/many", payload, 1, False, 0, 0, house.at))
    house.beat(4)
    assert "more than 64 values" in str(house.publisher.numbers().left_out)


# What is written down


def test_each_topic_is_written_down_once_and_crossed_out_when_it_is_cleared(tmp_path: Path) -> None:
    house = House(tmp_path)
    house.enter("tank")
    house.hears("tank", 1.0)
    house.beat(8)
    for _ in range(5):
        house.connected()
        house.hears("tank", 2.0)
        house.beat(8)
    written = lines(tmp_path)
    assert sorted(str(topic) for topic, *_ in written) == sorted(
        [CLIENT, ANNOUNCED, VALUES, "homeassistant/device/tidegate_greenhouse/config"]
    )
    del house.bench.engine.sessions[TANK]
    assert house.topics(8) == [ANNOUNCED, VALUES, CLIENT]
    assert [line[0] for line in lines(tmp_path)[4:]] == [ANNOUNCED, VALUES, CLIENT]


def test_a_new_life_clears_what_nobody_wants_and_knows_what_was_learned(tmp_path: Path) -> None:
    before = House(tmp_path)
    before.enter("tank")
    before.enter("gone")
    before.hears("tank", 1.0)
    before.beat(8)
    (tmp_path / FILE).open("a").write('["homeassistant/torn", "ta')
    after = House(tmp_path, "tank")
    said = dict(after.beat(12))
    assert said[TOPICS.client("gone")] == b""
    assert b'"Level"' in said[ANNOUNCED]
    assert said[CLIENT]
    assert lines(tmp_path)[-1] != [CLIENT], "the lines are whole again"


def test_one_that_comes_back_before_it_was_cleared_stays(tmp_path: Path) -> None:
    before = House(tmp_path)
    before.enter("tank")
    before.beat(8)
    after = House(tmp_path)
    after.enter("tank")
    said = after.beat(12)
    assert [payload for topic, payload in said if topic == CLIENT][-1] != b""


def test_a_first_start_has_nothing_to_complain_of(tmp_path: Path, log: Log) -> None:
    assert House(tmp_path, "tank").beat(8) != []
    assert log.read() == []


def test_a_disk_that_fails_is_said_once_and_does_no_harm(tmp_path: Path, log: Log) -> None:
    (tmp_path / FILE).mkdir()
    house = House(tmp_path)
    house.enter("tank")
    house.enter("well")
    assert CLIENT in house.topics(8)
    del house.bench.engine.sessions[TANK]
    assert CLIENT in house.topics(8)
    (line,) = log.read()
    assert f"{FILE} cannot be used (Is a directory)" in line
    assert house.publisher.numbers().error == f"{tmp_path / FILE}: Is a directory"


# What an announcement no longer has


def components(said: Iterable[tuple[str, bytes]]) -> list[dict[str, dict[str, object]]]:
    """Of each announcement of the tank, in order."""
    return [json.loads(payload)["components"] for topic, payload in said if topic == ANNOUNCED]


def test_with_home_assistant_switched_off_its_announcements_are_cleared(tmp_path: Path) -> None:
    before = House(tmp_path)
    before.enter("tank")
    before.hears("tank", 1.0)
    before.beat(8)
    said = House(tmp_path, "tank", announces=False).beat(12)
    cleared = [topic for topic, payload in said if not payload]
    assert cleared[:2] == ["homeassistant/device/tidegate_greenhouse/config", ANNOUNCED]
    assert cleared[2:] == [VALUES]


def test_what_is_hidden_since_is_taken_back_once(tmp_path: Path) -> None:
    before = House(tmp_path)
    before.enter("tank")
    before.hears("tank", 1.0)
    before.beat(8)
    after = House(tmp_path, "tank", options=[ValueOptions("level", hide=True)])
    first, second = components(after.beat(12))
    gone = first.keys() - second.keys()
    assert [first[key] for key in gone] == [{"platform": "sensor"}]
    after.connected()
    assert components(after.beat(12)) == [second]


def test_a_value_of_another_kind_is_taken_back_before_it_is_announced_again(tmp_path: Path) -> None:
    house = House(tmp_path)
    house.enter("tank")
    house.hears("tank", True)
    (before,) = components(house.beat(8))
    house.hears("tank", "open")
    between, after = components(house.beat(8))
    (key,) = before.keys() - {"standing", "last_seen"}
    assert [each[key]["platform"] for each in (before, between, after)] == [
        "binary_sensor",
        "binary_sensor",
        "sensor",
    ]
    assert between[key].keys() == {"platform"}


def test_a_gateway_with_another_name_first_clears_its_old_announcement(tmp_path: Path) -> None:
    before = House(tmp_path)
    before.enter("tank")
    before.enter("gone")
    before.hears("tank", 1.0)
    before.beat(8)
    after = House(tmp_path, "tank", gateway="attic")
    after.hears("tank", 1.0)
    said = after.beat(16)
    topics = [topic for topic, payload in said if topic.startswith("homeassistant/")]
    old = "homeassistant/device/tidegate_greenhouse/config"
    assert set(topics[:2]) == {old, ANNOUNCED.replace("tank", "gone")}
    assert topics[2:] == ["homeassistant/device/tidegate_attic/config", ANNOUNCED]
    cleared = [topic for topic, payload in said if not payload]
    assert {CLIENT, VALUES} <= set(cleared[2:]), "its state is cleared after that"


def test_a_device_keeps_the_id_under_which_it_was_announced(tmp_path: Path) -> None:
    old = "homeassistant/device/tidegate_before_2ftank/config"
    (tmp_path / FILE).write_text(
        json.dumps([old, "tank", [["tank/level", "level", "number", "m"]]]) + "\n"
    )
    said = dict(House(tmp_path, "tank").beat(8))
    assert b'"Level"' in said[old]
    assert ANNOUNCED not in said


def test_what_is_left_out_is_logged_once(tmp_path: Path, log: Log) -> None:
    house = House(tmp_path, options=[ValueOptions("level", device_class="temperature")])
    house.enter("tank")
    for _ in range(2):
        house.hears("tank", 1.0)
        house.connected()
        house.beat(8)
    (line,) = [each for each in log.read() if "announced without" in each]
    assert "tank: 'level' is announced without device_class temperature with unit m" in line
