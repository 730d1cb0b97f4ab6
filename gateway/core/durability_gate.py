"""Answers that wait for the disk, because they promise what must outlast a restart.

A frame that stands behind a `Save` in what a session answers is withheld until that is durable. As
long as one is, further promises of the same session wait behind it: the client may repeat what it
asked, and then nothing changes and nothing is left to be saved, but it is not durable yet either.

A withheld frame goes to where it was meant for, or nowhere: by then its client may have connected
again, or another one may be at its address. A client that still waits asks again. And what repeats
a message on its way down goes nowhere once the client has acknowledged that: the next one may be on
its way by then.

That a client has acknowledged a message is no promise of ours; nothing waits for such a `Save`.
"""

from __future__ import annotations

from gateway.core.effects import Effect, HeldFrames, Save, Send, WhenSaved
from gateway.core.session.session import ABSENT, Session
from gateway.core.state_records import MessageDeleted
from gateway.frames import (
    Connack,
    Disconnect,
    Frame,
    Publish,
    Regack,
    Register,
    Unsuback,
    WillMsgResp,
    WillTopicResp,
)

_SAVING = (Save, WhenSaved)
PROMISES = (Connack, Disconnect, Regack, Unsuback, WillMsgResp, WillTopicResp)


def hold(session: Session, effects: list[Effect]) -> list[Effect]:
    """The effects, with `WhenSaved` in place of the frames that must wait.

    What equals a frame that is withheld already is left out: it would say the same again, so late
    that the client may take it for the answer to its next question.
    """
    passed: list[Effect] = []
    sends: list[Send] = []
    is_saving = False
    awaits_others = bool(session.held) and session.state not in ABSENT
    for effect in effects:
        if type(effect) is Send:
            if awaits_others and _is_held(session, effect):
                continue
            if is_saving or (awaits_others and isinstance(effect.frame, PROMISES)):
                sends.append(effect)
                continue
        elif type(effect) is Save and type(effect.change) is not MessageDeleted:
            is_saving = True
        if sends and type(effect) in _SAVING:
            passed.append(_waiting(session, sends))
            sends = []
        passed.append(effect)
    if sends:
        passed.append(_waiting(session, sends))
    return passed


def let_go(session: Session | None, effect: HeldFrames) -> list[Effect]:
    """What was withheld may go; `session` is the client's present one."""
    if session is None or session is not effect.session:
        return []
    sent = set(map(id, effect.sends))  # not always the first: on a full disk some wait for longer
    session.held = tuple(each for each in session.held if id(each) not in sent)
    if session.state in ABSENT:
        return []
    return [
        each
        for each in effect.sends
        if type(each) is Send and each.peer is session.peer and not _is_done(session, each.frame)
    ]


def _is_done(session: Session, frame: Frame) -> bool:
    """Whether it is a message, or REGISTER for one, that the client is done with."""
    if not isinstance(frame, Register | Publish) or frame.message_id == 0:
        return False
    current = session.outbound.outstanding
    return current is None or current.message_id != frame.message_id


def _is_held(session: Session, effect: Send) -> bool:
    """Whether the same is withheld already, for the same connection of the client."""
    return any(
        type(held) is Send and held.peer is effect.peer and held.frame == effect.frame
        for held in session.held
    )


def _waiting(session: Session, sends: list[Send]) -> Effect:
    """Before what is asked for later: nothing that waits less may overtake these."""
    session.held = (*session.held, *sends)
    return WhenSaved([HeldFrames(session.client_id, session, sends)])
