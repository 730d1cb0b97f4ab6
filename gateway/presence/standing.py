"""The state of a client as it is published, such as asleep or lost, and the rhythm of what comes
from it.
"""

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


# Of a rhythm: how many gaps it remembers, and how many make one.
GAPS_MAX = 8
GAPS_MIN = 3


class Rhythm:
    """How regularly something comes: the last `GAPS_MAX` gaps between its times, in any unit. The
    longest of them does not count, once there are enough: an outage is no habit.
    """

    __slots__ = ("gaps",)

    def __init__(self, gaps: list[float] | None = None) -> None:
        self.gaps: list[float] = [] if gaps is None else gaps[-GAPS_MAX:]

    def note(self, gap: float) -> None:
        if len(self.gaps) >= GAPS_MAX:
            del self.gaps[0]
        self.gaps.append(gap)

    def usual(self) -> float | None:
        """The longest usual gap; None until that is known."""
        count = len(self.gaps)
        if count < GAPS_MIN:
            return None
        return sorted(self.gaps)[-1 if count == GAPS_MIN else -2]

    def regular(self, slack: float) -> float | None:
        """The longest usual gap of what comes regularly: none of the usual ones is longer than
        twice the median and `slack`. None of anything else, such as what comes when it changes.
        """
        if len(self.gaps) < GAPS_MAX:
            return None
        ordered = sorted(self.gaps)
        longest = ordered[-2]
        return longest if longest <= 2 * ordered[GAPS_MAX // 2] + slack else None


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
