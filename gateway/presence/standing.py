"""The state of a client as it is published: asleep, overdue, lost and so on."""

from __future__ import annotations

from enum import Enum

from gateway.core.session.session import Session
from gateway.core.state_records import State


class Standing(Enum):
    """The values are those of messages."""

    AWAKE = "awake"
    ASLEEP = "asleep"
    OVERDUE = "overdue"  # its keep-alive or sleep time is over, its tolerance is not used up yet
    LOST = "lost"
    DISCONNECTED = "disconnected"  # it sent DISCONNECT


OFFLINE = (Standing.LOST, Standing.DISCONNECTED)

_STANDINGS = {
    State.ACTIVE: Standing.AWAKE,
    State.AWAKE: Standing.AWAKE,
    State.CONNECTING: Standing.AWAKE,
    State.ASLEEP: Standing.ASLEEP,
    State.LOST: Standing.LOST,
    State.DISCONNECTED: Standing.DISCONNECTED,
}


# Most clients of a large fleet. To find a member in its class, or by its hash, costs ten times what
# a name does.
SLEEPS = State.ASLEEP
ASLEEP = Standing.ASLEEP


def standing_of(session: Session, now: float) -> Standing:
    if is_overdue(session, now):
        return Standing.OVERDUE
    return ASLEEP if session.state is SLEEPS else _STANDINGS[session.state]


def standing_in(state: State) -> Standing:
    return _STANDINGS[state]


def is_overdue(session: Session, now: float) -> bool:
    """Its keep-alive or sleep time is over, and its tolerance is not used up yet."""
    declared_s = session.sleep_s if session.state is SLEEPS else session.keep_alive_s
    if now <= session.last_received_at + declared_s:  # most of all, at a third of the price
        return False
    due_at = session.due_at
    return due_at is not None and now > due_at
