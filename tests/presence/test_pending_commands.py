"""How many messages wait for devices with commands, and which are not subscribed to."""

from __future__ import annotations

import json

from gateway.core.effects import DeliverySaved
from gateway.core.session.session import Session
from gateway.core.state_records import ClientId, State
from gateway.core.values import Message
from gateway.frames import Pingreq
from gateway.presence.availability import Availability
from gateway.presence.pending_commands import BEATS, GRACE_S, PendingCommands
from tests.presence.devices import RULES, TOPICS, Fleet

TANK = ClientId("tank")
SET = {"tank/set": "valve"}


class Watched(Fleet):
    def __init__(self) -> None:
        super().__init__()
        self.pending = PendingCommands(self.sessions)

    def changed(self, now: float = 0.0) -> list[ClientId]:
        """In a second."""
        found: list[ClientId] = []
        for _ in range(BEATS):
            for each in self.pending.look(now):
                self.pending.waiting(each)
                found.append(each)
        return found


def deliver(session: Session, now: float = 0.0) -> None:
    session.deliver(Message("tank/set", b"1", 1), now)


def test_a_message_for_a_sleeper_waits_until_it_wakes_up() -> None:
    fleet = Watched()
    session = fleet.asleep("tank", 0.0)
    fleet.pending.watch(TANK, SET)
    assert fleet.changed() == [TANK], "the first number is to be published"
    assert fleet.changed() == []
    deliver(session)
    deliver(session)
    assert fleet.changed() == [TANK]
    assert fleet.pending.waiting(TANK) == 2


def test_what_a_device_that_is_there_takes_at_once_does_not_wait() -> None:
    fleet = Watched()
    session = fleet.awake("tank", 0.0)
    fleet.pending.watch(TANK, SET)
    deliver(session)
    session.kept(DeliverySaved(TANK, 0, is_released=False), 0.0)
    assert fleet.pending.waiting(TANK) == 0
    session.handle_time(RULES.retry_after_s + 1)
    assert session.state is State.ACTIVE
    assert fleet.pending.waiting(TANK) == 1, "it was sent again"


def test_only_devices_with_commands_are_looked_at() -> None:
    fleet = Watched()
    for number in range(10):
        deliver(fleet.asleep(f"s{number}", 0.0))
    assert fleet.changed() == []
    fleet.pending.watch(ClientId("s3"), SET)
    assert fleet.changed() == [ClientId("s3")]
    assert fleet.pending.waiting(ClientId("s4")) is None


def test_each_beat_looks_at_a_part_of_them() -> None:
    fleet = Watched()
    for number in range(10):
        fleet.pending.watch(ClientId(f"s{number}"), SET)
    looked = [len(fleet.pending.look(0.0)) for _ in range(BEATS)]
    assert (sum(looked), max(looked)) == (10, 3)


def test_a_device_that_went_is_not_looked_at_any_more() -> None:
    fleet = Watched()
    fleet.pending.watch(TANK, SET)
    fleet.pending.watch(ClientId("s"), SET)
    assert fleet.pending.waiting(TANK) == 0, "it has no session"
    assert fleet.pending.look(0.0) == [ClientId("s")], "the round begins"
    fleet.pending.waiting(ClientId("s"))
    fleet.pending.watch(TANK, {})
    assert fleet.changed() == []
    assert fleet.pending.waiting(TANK) is None


def test_a_command_without_a_subscription_is_named_once() -> None:
    fleet = Watched()
    fleet.pending.watch(TANK, SET)
    fleet.changed(0.0)
    session = fleet.asleep("tank", 0.0)
    fleet.changed(0.0)
    assert fleet.pending.take_lines() == [], "it may subscribe yet"
    session.receive(Pingreq(b"tank"), GRACE_S)
    for _ in range(2):
        fleet.changed(GRACE_S)
    (line,) = fleet.pending.take_lines()
    assert "tank: the command 'valve' goes to 'tank/set', to which it has not subscribed" in line
    fleet.pending.watch(TANK, dict(SET))
    fleet.changed(GRACE_S)
    assert fleet.pending.take_lines() == []


def test_a_subscription_to_more_is_one() -> None:
    fleet = Watched()
    session = fleet.asleep("tank", 0.0)
    session.subscribed_elsewhere("tank/#", 1)
    fleet.pending.watch(TANK, SET)
    fleet.changed(0.0)
    session.receive(Pingreq(b"tank"), GRACE_S)
    fleet.changed(GRACE_S)
    assert fleet.pending.take_lines() == []


def test_what_waits_is_part_of_the_presence_and_published_when_it_changes() -> None:
    fleet = Watched()
    fleet.board = Availability(fleet.sessions, TOPICS, lambda _: "udp0", pending=fleet.pending)
    fleet.board.connected()
    session = fleet.asleep("tank", 0.0)
    fleet.asleep("other", 0.0)
    fleet.pending.watch(ClientId("gone"), SET)
    documents = fleet.documents(0.0)
    assert len(documents) == 2
    assert all("waiting" not in each for each in documents)
    fleet.pending.watch(ClientId("gone"), {})
    fleet.pending.watch(TANK, SET)
    assert [each["waiting"] for each in fleet.documents(1.0)] == [0]
    deliver(session, 1.0)
    fleet.board.scan(1.0)
    message = fleet.board.next_change(1.0)
    assert message is not None
    assert json.loads(message.payload)["waiting"] == 1
    assert fleet.documents(2.0) == []
