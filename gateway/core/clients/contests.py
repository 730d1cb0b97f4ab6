"""Two conversations in one client's name: the client's own, and one that a CONNECT with
CleanSession began at another address.

One datagram in a client's name must not end its session: its queue, its subscriptions and its will
cannot be had back. So the newcomer is served at once, with a session of its own, and the *former*
session stays beside it: what its subscriptions bring waits in it or goes to its address, and its
rows stay on the disk. Nothing of the newcomer is saved; after a restart the former session is
there, and the newcomer hears DISCONNECT.

It ends

- for the newcomer, when it acknowledges what was sent to it under a message id that only one who
  received that can know (ids start at random, `MessageIdStarts`), or when a former session that
  was a clean one is over by its own silence;
- for the former one, when anything comes from its address, when the newcomer leaves or falls
  silent, or when the client connects with CleanSession 0: it wants what is there.

A wrong id is a guess. After one no answer of a newcomer counts for `GUESS_AGAIN_S`: 65,535 ids
would else be tried in a second. Its conversation goes on.

Limits: one newcomer for each client, the latest; `GUESSED_MAX` clients whose ids were guessed, of
which the first one is forgotten.
"""

from __future__ import annotations

from dataclasses import dataclass

from gateway.core.session.session import ABSENT, Session
from gateway.core.state_records import (
    Change,
    ClientId,
    MessageDeleted,
    MessageRecord,
    SessionDeleted,
    SessionRecord,
    SubscriptionDeleted,
    SubscriptionRecord,
    TopicRecord,
)
from gateway.core.values import Peer

GUESS_AGAIN_S = 60.0
GUESSED_MAX = 10_000
# What no client id has in it: a former session's subscriptions are its own under this name.
_FORMER = "\0former"

_ROWS_OF_SESSIONS = (
    SessionRecord,
    SessionDeleted,
    TopicRecord,
    SubscriptionRecord,
    SubscriptionDeleted,
    MessageRecord,
    MessageDeleted,
)


def former_name(client_id: ClientId) -> ClientId:
    """Under which a former session's subscriptions are kept."""
    return ClientId(client_id + _FORMER)


def client_of(name: ClientId) -> ClientId:
    return ClientId(name.removesuffix(_FORMER))


@dataclass(slots=True)
class Contest:
    former: Session
    newcomer: Session
    is_proven: bool = False


class Contests:
    def __init__(self) -> None:
        self._contests: dict[ClientId, Contest] = {}
        self._by_former: dict[Peer, Session] = {}
        self._guessed: dict[ClientId, float] = {}  # until when no answer counts

    def of(self, client_id: ClientId) -> Contest | None:
        return self._contests.get(client_id)

    def former_at(self, peer: Peer) -> Session | None:
        """The former session whose client has this address."""
        return self._by_former.get(peer)

    def begin(self, former: Session, newcomer: Session) -> None:
        newcomer.former = former
        self._contests[former.client_id] = Contest(former, newcomer)
        if former.state not in ABSENT:
            self._by_former[former.peer] = former

    def end(self, client_id: ClientId) -> Contest:
        contest = self._contests.pop(client_id)
        self.leave_address(contest.former)
        contest.newcomer.former = None
        return contest

    def leave_address(self, former: Session) -> None:
        """Nothing from there speaks for it any more."""
        if self._by_former.get(former.peer) is former:
            del self._by_former[former.peer]

    def is_unsaved(self, change: Change) -> bool:
        """Whether it is of a newcomer, of which nothing is saved."""
        contests = self._contests
        if not contests or not isinstance(change, _ROWS_OF_SESSIONS):
            return False
        return change.client_id in contests

    def has_same_will(self, client_id: ClientId) -> bool:
        """Whether the newcomer has given the will of the former session as well: it is the same
        device then, and is there.
        """
        contest = self._contests.get(client_id)
        return contest is not None and contest.newcomer.will == contest.former.will

    def judge(self, contest: Contest, answers: bool | None, now: float) -> None:
        """`answers`: see `Outbound.answers`."""
        client_id = contest.former.client_id
        if answers is None or now < self._guessed.get(client_id, now):
            return
        self._guessed.pop(client_id, None)
        if answers:
            contest.is_proven = True
            return
        if len(self._guessed) >= GUESSED_MAX:
            del self._guessed[next(iter(self._guessed))]
        self._guessed[client_id] = now + GUESS_AGAIN_S
