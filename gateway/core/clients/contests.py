"""Two conversations in one client's name: the client's own, and one that CONNECT, or PINGREQ with
the client id, began at another address.

One datagram in a client's name must not end its session: its queue, its subscriptions and its will
cannot be had back. So the newcomer is served at once, with a session of its own, and the *former*
session stays beside it: what its subscriptions bring waits in it or goes to its address, and its
rows stay on the disk. After a restart the former session is there, and the newcomer receives
DISCONNECT.

After CONNECT with CleanSession the newcomer begins with nothing, and nothing of it is saved. Else
it continues: it has the client's subscriptions, queue, sleep and will, topic ids and what is known
of its readings. What it adds (topics, subscriptions) is added to the former session too, and saved,
as a client that moves from one address to the next and never acknowledges anything must find it.
What it takes away, it takes away for itself. A message of QoS 0 goes to one newcomer only, and to
the former address.

It ends

- for the newcomer, when it acknowledges what was sent to it under a message id that only one who
  received that can know (ids start at random, `MessageIdStarts`), or when a former session that
  was a clean one is over by its own silence;
- for the former one, when anything comes from its address, when the newcomer leaves or falls
  silent, or when the client is said to be at a third address.

A wrong id is a guess. After one no answer of a newcomer counts for `GUESS_AGAIN_S`: 65,535 ids
would else be tried in a second. Its conversation goes on.

A will is published for the silence of the former session, unless the newcomer has the same one: it
is the same device then. It is published for the newcomer's silence if that has given it, or if the
former session is silent already. A newcomer that has given the same one and leaves in order leaves
for both.

Limits: one newcomer for each client, the latest; `GUESSED_MAX` clients whose ids were guessed, of
which the first one is forgotten.
"""

from __future__ import annotations

from dataclasses import dataclass

from gateway.core.effects import StateChanged
from gateway.core.session.session import ABSENT, Session
from gateway.core.session.will import Will
from gateway.core.state_records import (
    Change,
    ClientId,
    MessageDeleted,
    MessageRecord,
    SessionDeleted,
    SessionRecord,
    State,
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
    is_will_due: bool = False  # the former one is silent, and the newcomer has the same will

    def returned(self, before: State, detail: str) -> StateChanged:
        """The client is where it was."""
        former = self.former
        return StateChanged(
            client_id=former.client_id,
            before=before,
            after=State.LOST if self.is_will_due else former.state,
            peer=former.peer,
            detail=f"is where it was; elsewhere: {detail}",
        )


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

    def may_begin(self, former: Session) -> bool:
        """Whether the client would lose something if it were not there: a session that is away and
        has nothing is where it is said to be.
        """
        is_empty = not former.filters and not former.outbound.waiting and former.will is None
        return former.state not in ABSENT or not is_empty

    def begin(self, former: Session, newcomer: Session, before: Contest | None) -> None:
        """`before`: with whom the former session was until now."""
        newcomer.former = former
        contest = self._contests[former.client_id] = Contest(former, newcomer)
        contest.is_will_due = before is not None and before.is_will_due
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
        """Whether it is of a newcomer, of which nothing is saved but what it adds."""
        contests = self._contests
        if not contests or not isinstance(change, _ROWS_OF_SESSIONS):
            return False
        contest = contests.get(change.client_id)
        if contest is None:
            return False
        if not contest.newcomer.is_continued:
            return True
        if isinstance(change, SubscriptionRecord):
            return change.topic_filter in contest.former.filters
        return not isinstance(change, TopicRecord)

    def has_same_will(self, client_id: ClientId) -> bool:
        """Whether the newcomer has the will of the former session as well: it is the same device
        then, and is there.
        """
        contest = self._contests.get(client_id)
        return contest is not None and contest.newcomer.will == contest.former.will

    def hold_will(self, client_id: ClientId) -> None:
        """The will of the former session waits for what becomes of the newcomer."""
        contest = self._contests.get(client_id)
        if contest is not None:  # else the newcomer has succeeded just now
            contest.is_will_due = True

    def seen(self, change: StateChanged) -> StateChanged:
        """The change of a client's state as others see it: when a newcomer leaves, or is lost, the
        client is where it was, if it is anywhere.
        """
        contest = self._contests.get(change.client_id)
        if contest is None or change.after not in ABSENT:
            return change
        if contest.former.state in ABSENT and not contest.is_will_due:
            return change
        return contest.returned(change.before, change.detail)

    def left(self, contest: Contest, *, in_order: bool) -> Will | None:
        """The newcomer has sent DISCONNECT, or is lost and its will published. The first tells
        nothing of the former one, unless it has given the same will; else that one's will may be
        due now, and is returned.
        """
        if not in_order:
            return None
        given, will = contest.newcomer.will, contest.former.will
        if given is not will and given == will:
            contest.former.forget_will()
            return None
        return will if contest.is_will_due else None

    def holds_will(self, client_id: ClientId) -> bool:
        """Whether the will of the former session waits for what becomes of the newcomer."""
        contest = self._contests.get(client_id)
        return contest is not None and contest.is_will_due

    def judge(self, contest: Contest, answers: bool | None, now: float) -> bool:
        """Whether what a newcomer said counts. `answers`: see `Outbound.answers`."""
        client_id = contest.former.client_id
        if answers is None:
            return True
        if now < self._guessed.get(client_id, now):
            return False
        self._guessed.pop(client_id, None)
        if answers:
            contest.is_proven = True
            return True
        if len(self._guessed) >= GUESSED_MAX:
            del self._guessed[next(iter(self._guessed))]
        self._guessed[client_id] = now + GUESS_AGAIN_S
        return False
