"""What is pending: each row once, nothing written for nothing, and nobody answered too early."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.effects import Durable, ReleaseRecorded
from gateway.core.state_records import (
    AsideDeleted,
    Change,
    ClientId,
    DueWillDeleted,
    DueWillRecord,
    FilterDeleted,
    FilterRecord,
    MessageDeleted,
    PacketDeleted,
    PacketRecord,
    PacketsDeleted,
    RetainedDeleted,
    RetainedRecord,
    SessionDeleted,
    State,
    SubscriptionDeleted,
    SubscriptionRecord,
)
from gateway.storage.state.pending import Batch, Pending
from tests.storage.state.examples import (
    ANN,
    ASIDE,
    BOB,
    EVERYTHING,
    EXPIRY,
    Rows,
    apply,
    message,
    session,
    topic,
)

ANSWER: Durable = ReleaseRecorded(ANN, 1)


def pending(*changes: Change) -> Pending:
    found = Pending()
    for change in changes:
        found.add(change, 0.0)
    return found


def taken(found: Pending, changes_max: int | None = None) -> Batch:
    batch = found.take(changes_max)
    assert batch is not None
    return batch


def test_of_a_row_only_its_last_form_is_written() -> None:
    found = pending(session(state=State.ACTIVE), session(state=State.ASLEEP))
    assert taken(found).changes == [session(state=State.ASLEEP)]


def test_a_message_acknowledged_before_it_was_written_costs_nothing() -> None:
    found = pending(message(position=4), MessageDeleted(ANN, 4))
    assert (len(found), found.take()) == (0, None)


def test_a_message_that_is_being_written_is_taken_away_after_it() -> None:
    found = pending(message(position=4))
    batch = taken(found)
    found.add(MessageDeleted(ANN, 4), 0.0)
    found.committed(batch)
    assert taken(found).changes == [MessageDeleted(ANN, 4)]


def test_a_message_of_a_former_life_is_taken_away() -> None:
    found = Pending(EVERYTHING)
    found.add(MessageDeleted(ANN, 11), 0.0)
    assert taken(found).changes == [MessageDeleted(ANN, 11)]
    # The one after it never was on the disk.
    found = Pending(EVERYTHING)
    found.add(message(position=12), 0.0)
    found.add(MessageDeleted(ANN, 12), 0.0)
    assert found.take() is None


def test_a_message_whose_writing_failed_and_that_went_meanwhile_costs_nothing_either() -> None:
    found = pending(message(position=4))
    batch = taken(found)
    found.add(MessageDeleted(ANN, 4), 0.0)
    found.failed(batch)
    assert (len(found), found.take()) == (0, None)


def test_an_outage_of_the_disk_leaves_nothing_of_what_came_and_went() -> None:
    found = pending(session())
    found.committed(taken(found))
    for position in range(100):
        found.add(message(position=position), 0.0)
        batch = taken(found)
        found.add(MessageDeleted(ANN, position), 0.0)
        found.failed(batch)
    assert len(found) == 0


def test_a_session_that_is_gone_takes_its_pending_rows_with_it() -> None:
    found = pending(session(), topic(), message(), session(BOB), SessionDeleted(ANN))
    assert taken(found).changes == [session(BOB)]


def test_a_session_on_the_disk_goes_before_the_rows_of_the_next_one() -> None:
    found = Pending(EVERYTHING)
    found.add(topic(topic_id=8), 0.0)
    found.add(SessionDeleted(ANN), 0.0)
    found.add(session(), 0.0)
    assert taken(found).changes == [SessionDeleted(ANN), session()]


def test_packets_of_a_lost_session_go_before_those_of_the_next() -> None:
    found = Pending(EVERYTHING)
    found.add(PacketRecord(3, 1), 0.0)
    found.add(PacketsDeleted(), 0.0)
    found.add(PacketRecord(4, 2), 0.0)
    assert taken(found).changes == [PacketsDeleted(), PacketRecord(4, 2)]


def test_what_failed_goes_back_under_what_came_meanwhile() -> None:
    found = pending(session(state=State.ACTIVE), topic(name="old"), topic(BOB))
    batch = taken(found)
    found.add(session(state=State.LOST), 0.0)
    found.add(topic(name="new"), 0.0)
    found.failed(batch)
    again = taken(found).changes
    assert len(again) == 3
    assert {session(state=State.LOST), topic(name="new"), topic(BOB)} == set(again)


def test_a_session_that_ended_while_its_rows_failed_is_gone_without_a_trace() -> None:
    found = pending(session(), topic())
    batch = taken(found)
    found.add(SessionDeleted(ANN), 0.0)
    found.failed(batch)
    assert found.take() is None


def test_packets_of_a_lost_session_whose_writing_failed_are_not_written_again() -> None:
    found = pending(PacketRecord(3, 1))
    batch = taken(found)
    found.add(PacketsDeleted(), 0.0)
    found.failed(batch)
    assert taken(found).changes == [PacketsDeleted()]


def test_a_session_that_is_gone_from_the_disk_need_not_go_again() -> None:
    found = Pending(EVERYTHING)
    found.add(SessionDeleted(ANN), 0.0)
    found.committed(taken(found))
    found.add(session(), 0.0)
    found.add(SessionDeleted(ANN), 0.0)
    assert found.take() is None


# Waiting


def test_an_effect_waits_for_what_was_added_before_it() -> None:
    found = pending(session())
    found.wait([ANSWER], 0.0)
    batch = taken(found)
    assert found.committed(batch) == [ANSWER]


def test_an_effect_waits_for_what_is_being_written_too() -> None:
    found = pending(session())
    batch = taken(found)
    found.wait([ANSWER], 0.0)
    assert found.committed(batch) == [ANSWER]


def test_an_effect_whose_changes_failed_waits_on() -> None:
    found = pending(session())
    batch = taken(found)
    found.wait([ANSWER], 0.0)
    found.failed(batch)
    again = taken(found)
    assert (again.changes, found.committed(again)) == ([session()], [ANSWER])


def test_effects_come_back_in_the_order_in_which_they_waited() -> None:
    found = pending(session())
    effects: list[Durable] = [ReleaseRecorded(ANN, number) for number in range(4)]
    found.wait(effects[:2], 0.0)
    batch = taken(found)
    found.add(topic(), 0.0)
    found.wait(effects[2:], 0.0)
    found.failed(batch)
    assert found.committed(taken(found)) == effects


def test_with_nothing_to_wait_for_an_effect_is_due_at_once() -> None:
    found = Pending()
    found.wait([ANSWER], 5.0)
    assert found.due_at == 5.0
    batch = taken(found)
    assert (batch.changes, found.committed(batch)) == ([], [ANSWER])


def test_what_nobody_waits_for_is_due_a_quarter_of_a_second_later() -> None:
    found = pending(session())
    assert found.due_at == 0.25
    found.add(topic(), 0.1)
    assert found.due_at == 0.25


def test_the_first_that_is_waited_for_sets_the_time() -> None:
    found = pending(session())
    found.wait([ANSWER], 0.1)
    assert found.due_at == 0.1 + 0.002
    found.wait([ANSWER], 0.101)
    assert found.due_at == 0.1 + 0.002
    taken(found)
    assert found.due_at == inf


def test_what_need_not_wait_any_more_is_let_go_and_the_rest_waits_on() -> None:
    found = pending(session())
    other: Durable = ReleaseRecorded(ANN, 2)
    found.wait([ANSWER, other], 0.0)
    assert found.let_go(lambda effect: effect is ANSWER) == [ANSWER]
    assert found.committed(taken(found)) == [other]


# In parts


def test_in_parts_what_makes_room_comes_first_and_by_itself() -> None:
    found = Pending(EVERYTHING)
    for change in (topic(BOB), message(position=12), MessageDeleted(ANN, 11), session()):
        found.add(change, 0.0)
    first = taken(found, 32)
    assert first.changes == [MessageDeleted(ANN, 11), session()]
    found.committed(first)
    second = taken(found, 32)
    assert second.changes == [topic(BOB), message(position=12)]


def test_a_part_of_what_makes_room_is_no_larger_than_it_may_be() -> None:
    gone = [MessageDeleted(ANN, position) for position in range(11, 16)]
    found = Pending(EVERYTHING)
    found.add(message(position=15), 0.0)
    found.committed(taken(found))
    for change in gone:
        found.add(change, 0.0)
    parts = []
    while (batch := found.take(2)) is not None:
        parts.append(batch.changes)
        found.committed(batch)
    assert parts == [gone[:2], gone[2:4], gone[4:]]


def test_in_parts_effects_wait_for_the_last() -> None:
    found = pending(*(topic(topic_id=number) for number in range(1, 6)))
    found.wait([ANSWER], 0.0)
    sizes, answers = [], []
    while (batch := found.take(2)) is not None:
        sizes.append(len(batch.changes))
        answers.append(found.committed(batch))
    assert (sizes, answers) == ([2, 2, 1], [[], [], [ANSWER]])


@pytest.mark.guarantee("9")
def test_in_parts_there_is_always_one_though_what_was_gone_is_there_again() -> None:
    found = pending(RetainedDeleted("r/1"), RetainedRecord("r/1", b"", 0), topic(ANN))
    assert taken(found, 1).changes == [RetainedRecord("r/1", b"", 0)]


def test_a_part_that_failed_lets_the_others_go_first() -> None:
    found = pending(topic(ANN), topic(BOB))
    first = taken(found, 1)
    found.failed(first)
    assert taken(found, 1).changes != first.changes


# In any order, with any failure: what the disk has in the end is what was said


@dataclass
class Disk:
    """A model of a database that does as told or fails, and of the core before it."""

    pending: Pending = field(default_factory=Pending)
    rows: Rows = field(default_factory=dict)
    said: Rows = field(default_factory=dict)
    under_way: Batch | None = None
    owed: list[tuple[Durable, Rows]] = field(default_factory=list)
    numbers: int = 0

    def say(self, change: Change) -> None:
        apply(self.said, change)
        self.pending.add(change, 0.0)

    def wait(self) -> None:
        self.numbers += 1
        effect: Durable = ReleaseRecorded(ANN, self.numbers)
        self.owed.append((effect, dict(self.said)))
        self.pending.wait([effect], 0.0)

    def begin(self, changes_max: int | None) -> None:
        if self.under_way is None:
            is_any = len(self.pending) > 0
            self.under_way = self.pending.take(changes_max)
            assert not is_any or self.under_way is not None, "nobody would look again"

    def end(self, *, is_written: bool) -> None:
        batch, self.under_way = self.under_way, None
        if batch is None:
            return
        if not is_written:
            self.pending.failed(batch)
            return
        for change in batch.changes:
            apply(self.rows, change)
        for effect in self.pending.committed(batch):
            expected, promised = self.owed.pop(0)
            assert effect is expected
            self.check(promised)

    def check(self, promised: Rows) -> None:
        """Everything promised is there, unless the core has changed its mind about it since."""
        for key, row in promised.items():
            assert self.rows.get(key) == row or self.said.get(key) is not row

    def settle(self) -> None:
        self.end(is_written=True)
        for _ in range(3):
            self.begin(None)
            self.end(is_written=True)


CLIENTS = st.sampled_from([ANN, BOB])
FEW = st.integers(1, 3)


def saved_or_gone(client_id: ClientId, number: int) -> list[Change]:
    expiry = EXPIRY if number == 3 else None  # of a message always the same
    return [
        session(client_id),
        session(client_id, State.ASLEEP),
        topic(client_id, number),
        SubscriptionRecord(client_id, f"f/{number}", 1),
        SubscriptionDeleted(client_id, f"f/{number}"),
        message(client_id, number, expiry=expiry),
        message(client_id, number, is_released=True, expiry=expiry),
        MessageDeleted(client_id, number, expires=expiry is not None),
        SessionDeleted(client_id),
        RetainedRecord(f"r/{number}", b"", 0),
        RetainedRecord(f"r/{number}", b"", 0, expiry=EXPIRY),
        RetainedDeleted(f"r/{number}"),
        PacketRecord(number, 1),
        PacketDeleted(number),
        PacketsDeleted(),
        FilterRecord(f"f/{number}"),
        FilterDeleted(f"f/{number}"),
        DueWillRecord(client_id, f"w/{number}", b"", 1, False, 1, number, 1, 0),
        DueWillDeleted(client_id),
        replace(ASIDE, number=number, client_id=client_id),
        AsideDeleted(number),
    ]


CHANGES = st.builds(saved_or_gone, CLIENTS, FEW).flatmap(st.sampled_from)
STEPS = st.one_of(
    CHANGES,
    CHANGES,
    st.just("wait"),
    st.sampled_from([None, 1, 2]).map(lambda part: ("begin", part)),
    st.booleans().map(lambda is_written: ("end", is_written)),
)


@given(st.lists(STEPS, max_size=60))
def test_whatever_fails_the_disk_has_in_the_end_what_was_said(steps: list[object]) -> None:
    disk = Disk()
    for step in steps:
        match step:
            case "wait":
                disk.wait()
            case ("begin", None | int() as part):
                disk.begin(part)
            case ("end", bool() as is_written):
                disk.end(is_written=is_written)
            case _:
                disk.say(step)  # type: ignore[arg-type]
    disk.settle()
    assert disk.rows == disk.said
    assert disk.owed == []
    assert len(disk.pending) == 0
