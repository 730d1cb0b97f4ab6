"""All states and all frames: what a session answers, the frames that make no sense included.

Every client has registered "a/b" as 1. Towards the active and the awake one a PUBLISH with message
id 1 is under way; the others that stay have it in their outbox.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gateway.core.effects import Dropped, Save, Send, StateChanged
from gateway.core.events import Output
from gateway.core.state_records import State
from gateway.core.values import Reading, SubscribeTo
from gateway.frames import (
    Advertise,
    Connack,
    Connect,
    Disconnect,
    Forwarded,
    Frame,
    GwInfo,
    Pingreq,
    Pingresp,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Regack,
    Register,
    SearchGw,
    Suback,
    Subscribe,
    Unsuback,
    Unsubscribe,
    WillMsg,
    WillMsgReq,
    WillMsgResp,
    WillMsgUpd,
    WillTopic,
    WillTopicReq,
    WillTopicResp,
    WillTopicUpd,
)
from tests.core.session.client import DEV1, Client, asleep, connected
from tests.frames.golden import FRAME_TYPES
from tests.support.samples import named

# A dash is OUT_OF_TURN; the other words that stand for more than one effect are in WORDS.
EXPECTED = """
               disconnected  connecting  active         asleep         awake          lost
ADVERTISE      gone          -           -              -              -              gone
SEARCHGW       gone          -           -              -              -              gone
GWINFO         gone          -           -              -              -              gone
CONNECT        gone          -           -              -              -              gone
CONNACK        gone          -           -              -              -              gone
WILLTOPICREQ   gone          -           -              -              -              gone
WILLTOPIC      gone          WILLMSGREQ  -              -              -              gone
WILLMSGREQ     gone          -           -              -              -              gone
WILLMSG        gone          -           -              -              -              gone
REGISTER       gone          -           REGACK         REGACK         REGACK         gone
REGACK         gone          -           -              -              -              gone
PUBLISH        gone          -           forward        forward        forward        gone
PUBACK         gone          -           finishes       -              sleeps         gone
PUBCOMP        gone          -           -              -              -              gone
PUBREC         gone          -           releases       PUBREL         sleeps-on      gone
PUBREL         gone          -           PUBCOMP        PUBCOMP        PUBCOMP        gone
SUBSCRIBE      gone          -           ask            ask            ask            gone
SUBACK         gone          -           -              -              -              gone
UNSUBSCRIBE    gone          -           UNSUBACK       UNSUBACK       UNSUBACK       gone
UNSUBACK       gone          -           -              -              -              gone
PINGREQ        gone          -           PINGRESP       wakes          nothing        gone
PINGRESP       gone          -           -              -              -              gone
DISCONNECT     gone          gives-up     leaves         leaves         leaves         gone
WILLTOPICUPD   gone          -           WILLTOPICRESP  WILLTOPICRESP  WILLTOPICRESP  gone
WILLTOPICRESP  gone          -           -              -              -              gone
WILLMSGUPD     gone          -           no-will        no-will        no-will        gone
WILLMSGRESP    gone          -           -              -              -              gone
FORWARDED      gone          -           -              -              -              gone
"""
WORDS = {
    "-": "out_of_turn",
    "nothing": "",
    # What is saved before an answer is what the answer promises.
    "REGACK": "+TopicRecord,REGACK",
    "WILLTOPICRESP": "+SessionRecord,WILLTOPICRESP",
    "finishes": "+MessageDeleted",
    "gone": "stranger,DISCONNECT",  # the client must connect again
    "no-will": "out_of_turn,WILLMSGRESP",
    "gives-up": "DISCONNECT,>disconnected",  # as what it was saved when it began
    "leaves": "DISCONNECT,>disconnected,+SessionRecord",
    "releases": "PUBREL,+MessageDeleted",
    "sleeps-on": "PUBREL,+MessageDeleted,>asleep,PINGRESP",
    "sleeps": "+MessageDeleted,>asleep,PINGRESP",
    "wakes": ">awake,PUBLISH",
}
HEAD, *ROWS = (line.split() for line in EXPECTED.strip().splitlines())

FRAMES: dict[str, Frame] = {
    type(frame).__name__.upper(): frame
    for frame in (
        Advertise(1, 900),
        SearchGw(1),
        GwInfo(1),
        Connect(b"dev1", 60),
        Connack(0),
        WillTopicReq(),
        WillTopic(b"lw/dev1"),
        WillMsgReq(),
        WillMsg(b"bye"),
        Register(0, 5, b"c/d"),
        Regack(1, 1, 0),
        Publish(1, 5, b"21.5", qos=1),
        Puback(1, 1, 0),
        Pubcomp(1),
        Pubrec(1),
        Pubrel(1),
        Subscribe(5, b"c/#"),
        Suback(1, 1, 0),
        Unsubscribe(5, b"c/#"),
        Unsuback(1),
        Pingreq(b"dev1"),
        Pingresp(),
        Disconnect(),
        WillTopicUpd(b"lw/dev1"),
        WillTopicResp(0),
        WillMsgUpd(b"bye"),
        WillMsgResp(0),
        Forwarded(b"\x01", b"\x02\x16"),
    )
}


def active() -> Client:
    client = connected(keep_alive_s=60)
    client.is_sent("a/b")
    return client


def connecting() -> Client:
    client = disconnected()
    client.says(Connect(DEV1.encode(), 60, will=True))
    return client


def disconnected() -> Client:
    client = active()
    client.says(Disconnect())
    return client


def asleep_with_a_message() -> Client:
    client = asleep()
    client.is_sent("a/b")
    return client


def awake() -> Client:
    client = asleep_with_a_message()
    client.wakes()
    return client


def lost() -> Client:
    client = active()
    client.waits(until=90.0)
    return client


CLIENT_IN: dict[State, Callable[[], Client]] = {
    State.DISCONNECTED: disconnected,
    State.CONNECTING: connecting,
    State.ACTIVE: active,
    State.ASLEEP: asleep_with_a_message,
    State.AWAKE: awake,
    State.LOST: lost,
}
CELLS = [
    (name, State(before), cell)
    for name, *cells in ROWS
    for before, cell in zip(HEAD, cells, strict=True)
]


def word_for(effect: Output) -> str:
    match effect:
        case Send(_, frame):
            return type(frame).__name__.upper()
        case StateChanged(after=after):
            return f">{after.value}"
        case Dropped(reason):
            return reason.value
        case Reading():
            return "forward"
        case SubscribeTo():
            return "ask"
        case Save(change):
            return f"+{type(change).__name__}"
    raise AssertionError(f"no word for {effect}")


@pytest.mark.parametrize("state", State)
def test_every_frame_has_its_answer_in_every_state(state: State) -> None:
    for name, cell in [(name, cell) for name, before, cell in CELLS if before is state]:
        with named(frame=name):
            client = CLIENT_IN[state]()
            assert client.state() is state
            effects = client.session.receive(FRAMES[name], 0.0)
            assert ",".join(map(word_for, effects)) == WORDS.get(cell, cell)


def test_all_frames_and_all_states_are_here() -> None:
    every_frame = {frame_type.__name__.upper() for frame_type in FRAME_TYPES}
    assert {(name, state) for name, state, _ in CELLS} == {
        (name, state) for name in every_frame for state in State
    }
    assert set(FRAMES) == every_frame


@pytest.mark.parametrize("state", [state for state in State if state is not State.DISCONNECTED])
def test_no_frame_leaves_a_timer_that_nobody_can_serve(state: State) -> None:
    """A late frame once armed the retry timer of a sleeper; when it was spent nothing fitted."""
    for name, frame in FRAMES.items():
        with named(frame=name):
            client = CLIENT_IN[state]()
            client.session.receive(frame, 0.0)
            client.waits(until=100_000.0)
            assert client.session.wake_at() > 100_000.0
