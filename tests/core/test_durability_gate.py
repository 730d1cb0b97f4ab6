"""Which frames wait for the disk, which do not, and which are not worth it any more."""

from __future__ import annotations

import pytest

from gateway.core.durability_gate import hold, let_go
from gateway.core.effects import DeliverySaved, Effect, HeldFrames, Save, Send, WhenSaved
from gateway.core.session.options import PredefinedTopics, SessionOptions
from gateway.core.session.session import Session
from gateway.core.state_records import ClientId, MessageDeleted, TopicRecord
from gateway.core.values import Message, Peer
from gateway.frames import Connack, Connect, Frame, Pingresp, Publish, Regack, Register, Suback

S1 = ClientId("s1")
SAVE = Save(TopicRecord(S1, 1, "a"))
REGACK, SUBACK = Regack(1, 7, 0), Suback(0, 8, 0)


def connected() -> Session:
    session = Session(
        client_id=S1,
        peer=Peer(0, b"here"),
        options=SessionOptions(),
        predefined=PredefinedTopics.of({}),
    )
    session.connect(Connect(b"s1", 60), Peer(0, b"here"), 0.0)
    return session


def send(session: Session, frame: Frame) -> Send:
    return Send(session.peer, frame)


def withheld_in(effects: list[Effect]) -> list[HeldFrames]:
    waiting = [effect for effect in effects if isinstance(effect, WhenSaved)]
    return [each for one in waiting for each in one.then if isinstance(each, HeldFrames)]


def test_what_stands_behind_a_save_waits_for_it() -> None:
    session = connected()
    before, behind = send(session, Pingresp()), send(session, REGACK)
    effects = hold(session, [before, SAVE, behind])
    assert effects[:2] == [before, SAVE]
    (held,) = withheld_in(effects)
    assert let_go(session, held) == [behind]
    assert session.held == ()


@pytest.mark.parametrize("frame", [Register(1, 7, b"a"), Publish(1, 7, b"on", 1, dup=True)])
def test_what_is_acknowledged_meanwhile_is_not_repeated(frame: Frame) -> None:
    session = connected()
    current = session.outbound._begin(Message("a", b"on", 1), 6, None, 0.0)
    assert current.message_id == 7
    (first,) = withheld_in(hold(session, [SAVE, send(session, frame)]))
    assert let_go(session, first) == [send(session, frame)]
    (held,) = withheld_in(hold(session, [SAVE, send(session, frame)]))
    current.message_id = 8
    assert let_go(session, held) == []
    (last,) = withheld_in(hold(session, [SAVE, send(session, frame)]))
    session.outbound.outstanding = None
    assert let_go(session, last) == []


def test_a_message_at_qos_0_is_not_waited_for() -> None:
    session = connected()
    frame = Publish(1, 0, b"on", 0)
    (held,) = withheld_in(hold(session, [SAVE, send(session, frame)]))
    assert let_go(session, held) == [send(session, frame)]


def test_nothing_waits_for_the_end_of_a_message() -> None:
    session = connected()
    effects: list[Effect] = [Save(MessageDeleted(S1, 1)), send(session, Pingresp())]
    assert hold(session, effects) == effects


def test_a_promise_waits_behind_those_that_wait() -> None:
    session = connected()
    hold(session, [SAVE, send(session, REGACK)])
    other = send(session, Regack(1, 9, 0))
    (held,) = withheld_in(hold(session, [other]))
    assert let_go(session, held) == [other]


def test_what_waits_already_is_not_said_twice() -> None:
    """Its copy would come late, perhaps when the client has used the message id again."""
    session = connected()
    (held,) = withheld_in(hold(session, [SAVE, send(session, REGACK)]))
    assert hold(session, [send(session, REGACK)]) == []
    assert let_go(session, held) == [send(session, REGACK)]
    (again,) = withheld_in(hold(session, [SAVE, send(session, REGACK)]))
    assert let_go(session, again) == [send(session, REGACK)]


def test_on_a_full_disk_one_that_may_go_leaves_one_that_waits_for_longer() -> None:
    session = connected()
    (first,) = withheld_in(hold(session, [SAVE, send(session, SUBACK)]))
    (second,) = withheld_in(hold(session, [SAVE, send(session, REGACK)]))
    assert let_go(session, second) == [send(session, REGACK)]
    assert hold(session, [send(session, SUBACK)]) == [], "it waits already"
    assert let_go(session, first) == [send(session, SUBACK)]
    assert session.held == ()


def test_a_new_connection_is_answered_though_the_same_waits_for_the_old_one() -> None:
    session = connected()
    (old,) = withheld_in(hold(session, [SAVE, send(session, Connack(0))]))
    session.connect(Connect(b"s1", 60), Peer(0, b"here"), 1.0)
    (new,) = withheld_in(hold(session, [SAVE, send(session, Connack(0))]))
    assert let_go(session, old) == []
    assert let_go(session, new) == [send(session, Connack(0))]


def test_nothing_that_waits_for_later_changes_goes_before_what_is_withheld() -> None:
    session = connected()
    kept = WhenSaved([DeliverySaved(S1, 1, is_released=False)])
    message = send(session, Publish(1, 0, b"on", 0))
    effects = hold(session, [SAVE, send(session, SUBACK), message, kept, SAVE])
    assert [type(effect) for effect in effects] == [Save, WhenSaved, WhenSaved, Save]
    (held,) = withheld_in(effects[:2])
    assert held.sends == [send(session, SUBACK), message]
    assert effects[2] is kept


def test_what_was_meant_for_a_session_that_is_over_goes_nowhere() -> None:
    session = connected()
    (held,) = withheld_in(hold(session, [SAVE, send(session, REGACK)]))
    assert let_go(None, held) == []
    assert let_go(connected(), held) == []
