"""Answers that wait for the disk, because they promise what must outlast a restart.

A frame that stands behind a `Save` in what a session answers is withheld until that is durable. As
long as one is, further promises of the same session wait behind it: the client may repeat what it
asked, and then nothing changes and nothing is left to be saved, but it is not durable yet either.

A withheld frame goes to where it was meant for, or nowhere: by then its client may have connected
anew, or another one may be at its address. A client that still waits asks again.

That a client has acknowledged a message is no promise of ours; nothing waits for such a `Save`.
"""

from __future__ import annotations

from gateway.effects import Effect, Save, Send, WhenSaved, Withheld
from gateway.frames import (
    Connack,
    Disconnect,
    Regack,
    Unsuback,
    WillMsgResp,
    WillTopicResp,
)
from gateway.saved import MessageGone
from gateway.session.session import ABSENT, Session

PROMISES = (Connack, Disconnect, Regack, Unsuback, WillMsgResp, WillTopicResp)


def withhold(session: Session, effects: list[Effect]) -> list[Effect]:
    """The effects, with the frames that must wait in a `WhenSaved` at their end."""
    passed: list[Effect] = []
    sends: list[Effect] = []
    is_saving = False
    awaits_others = session.withheld > 0 and session.state not in ABSENT
    for effect in effects:
        if type(effect) is Send:
            if is_saving or (awaits_others and isinstance(effect.frame, PROMISES)):
                sends.append(effect)
                continue
        elif type(effect) is Save and type(effect.change) is not MessageGone:
            is_saving = True
        passed.append(effect)
    if sends:
        session.withheld += 1
        passed.append(WhenSaved([Withheld(session.client_id, session, sends)]))
    return passed


def let_go(session: Session | None, effect: Withheld) -> list[Effect]:
    """What was withheld may go; `session` is the client's present one."""
    if session is None or session is not effect.session:
        return []
    session.withheld -= 1
    if session.state in ABSENT:
        return []
    return [each for each in effect.sends if type(each) is Send and each.peer is session.peer]
