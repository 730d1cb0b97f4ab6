"""Which answers the gateway owes to its clients, and since when: what came in and was neither
answered nor refused.

Looked at where the gateway is, so the air does not matter: from when a datagram arrives until the
gateway sends what answers it. What it drops with a reason is not owed. A client that begins a new
connection, or is gone, is owed nothing of the one before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from gateway.core.drop_reasons import Reason
from gateway.core.effects import Dropped, Effect, StateChanged
from gateway.core.session.session import ABSENT, Session
from gateway.core.state_records import State
from gateway.frames import (
    Connack,
    Connect,
    Disconnect,
    Frame,
    Pingreq,
    Pingresp,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Regack,
    Register,
    Suback,
    Subscribe,
    WillMsg,
    WillMsgReq,
    WillTopic,
    WillTopicReq,
)

Key = tuple[str, int]  # what answers it, message id

HANDSHAKE, READING, PING = "CONNACK", "PUBACK or PUBREC", "PINGRESP"
GOODBYE = "DISCONNECT"

# What is owed for a frame, and what of it a frame answers.
_ASKS: dict[type, str] = {
    Connect: HANDSHAKE,
    WillTopic: HANDSHAKE,
    WillMsg: HANDSHAKE,
    Publish: READING,
    Pubrel: "PUBCOMP",
    Register: "REGACK",
    Subscribe: "SUBACK",
    Pingreq: PING,
    Disconnect: GOODBYE,
}
_ANSWERS: dict[type, str] = {
    Connack: HANDSHAKE,
    WillTopicReq: HANDSHAKE,
    WillMsgReq: HANDSHAKE,
    Puback: READING,
    Pubrec: READING,
    Pubcomp: "PUBCOMP",
    Regack: "REGACK",
    Suback: "SUBACK",
    Pingresp: PING,
}


class OwedAnswers:
    def __init__(self) -> None:
        self._owed: dict[str, dict[Key, float]] = {}  # by client: since when
        self._newest: tuple[str, Key] | None = None  # of the datagram that is being received

    # At the gateway

    def heard(self, client_id: str, frame: Frame, session: Session | None, now: float) -> None:
        """A datagram of this client is about to be received, in this session."""
        self._newest = None
        name = _ASKS.get(type(frame))
        if isinstance(frame, Connect):
            self._owed.pop(client_id, None)
        elif name is None or session is None or session.state in ABSENT:
            return
        if isinstance(frame, Publish) and frame.qos <= 0:
            return
        assert name is not None
        key = name, getattr(frame, "message_id", 0)
        owed = self._owed.setdefault(client_id, {})
        if key not in owed:
            owed[key] = now
            self._newest = client_id, key

    def received(self) -> None:
        """The datagram has been received; what is dropped from now on is another one."""
        self._newest = None

    def said(self, client_id: str, frame: Frame) -> None:
        owed = self._owed.get(client_id)
        if not owed:
            return
        if isinstance(frame, Disconnect):  # whatever it waits for: it is to connect again
            owed.clear()
            return
        name = _ANSWERS.get(type(frame))
        if name is not None:
            owed.pop((name, getattr(frame, "message_id", 0)), None)

    def told(self, news: Effect) -> None:
        if isinstance(news, StateChanged):
            if news.after in (State.DISCONNECTED, State.LOST):
                self._owed.pop(news.client_id, None)
        elif isinstance(news, Dropped) and news.reason is not Reason.REPEATED:
            newest, self._newest = self._newest, None
            if newest is not None:
                self._owed.get(newest[0], {}).pop(newest[1], None)

    def ended(self) -> None:
        """The gateway's run is over; its clients ask again."""
        self._owed.clear()

    # For the check

    def all(self) -> Iterator[tuple[str, Key, float]]:
        for client_id, owed in self._owed.items():
            for key, since in owed.items():
                yield client_id, key, since

    def excuse(self, is_excused: Callable[[str, Key], bool]) -> None:
        """Forget what is not owed any more."""
        for client_id, owed in self._owed.items():
            for key in [each for each in owed if is_excused(client_id, each)]:
                del owed[key]
