"""Sessions as the board looks at them: real ones, brought where a test wants them."""

from __future__ import annotations

import json
from typing import Any

from gateway.core.session.options import PredefinedTopics, SessionOptions
from gateway.core.session.session import Session
from gateway.core.state_records import ClientId, State
from gateway.core.values import Peer
from gateway.frames import Connect, Disconnect, Pingreq
from gateway.presence.availability import VISITOR_AVAILABLE_S, Availability, FixedTimes
from gateway.presence.documents import RetainedMessage
from gateway.presence.topics import Topics

TOPICS = Topics("", "greenhouse")
RULES = SessionOptions()
NONE = PredefinedTopics.of({})


class Fleet:
    """A board and its sessions, by client id."""

    def __init__(
        self,
        fixed: FixedTimes | None = None,
        visitor_available_s: float = VISITOR_AVAILABLE_S,
    ) -> None:
        self.sessions: dict[ClientId, Session] = {}
        self.board = Availability(
            self.sessions,
            TOPICS,
            lambda peer: f"udp{peer.link}",
            fixed=fixed,
            visitor_available_s=visitor_available_s,
        )
        self.board.connected()

    def awake(self, name: str, now: float, keep_alive_s: int = 60) -> Session:
        session = self.sessions.get(ClientId(name))
        if session is None:
            session = Session(
                client_id=ClientId(name),
                peer=Peer(0, name.encode()),
                options=RULES,
                predefined=NONE,
            )
            self.sessions[ClientId(name)] = session
        session.connect(Connect(name.encode(), keep_alive_s, clean_session=True), session.peer, now)
        assert session.state is State.ACTIVE
        return session

    def asleep(self, name: str, now: float, sleep_s: int = 600) -> Session:
        session = self.awake(name, now)
        session.receive(Disconnect(sleep_s), now)
        assert session.state is State.ASLEEP
        return session

    def wakes_up(self, name: str, now: float) -> None:
        """For a moment: asleep again at once, as nothing waits for it."""
        session = self.sessions[ClientId(name)]
        session.receive(Pingreq(name.encode()), now)
        assert session.state is State.ASLEEP

    def said(self, now: float, most: int = 10_000) -> list[RetainedMessage]:
        """All that is to be said after a whole round."""
        self.board.scan(now)
        found: list[RetainedMessage] = []
        while len(found) < most:
            message = self.board.next_change(now) or self.board.next_refresh(now)
            if message is None:
                break
            found.append(message)
        return found

    def documents(self, now: float) -> list[dict[str, Any]]:
        return [json.loads(message.payload) for message in self.said(now)]

    def states(self, now: float) -> dict[str, str]:
        return {each["client"]: each["state"] for each in self.documents(now)}
