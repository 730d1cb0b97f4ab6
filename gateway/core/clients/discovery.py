"""How sensors find this gateway (6.1, 6.2): ADVERTISE, answers to SEARCHGW, and standing by.

- ADVERTISE goes to every group that is joined, each `advertise_s`, and only while the gateway can
  do something with a reading. Nobody is told of a gateway that cannot serve.
- Of what comes by a group only SEARCHGW is ever answered. Searches share the unknown peers' budget,
  and an answer is as long as its question.
- A standby is silent until every other gateway it has heard has missed `missed_max` of its own
  ADVERTISEs. While it can hear no group it knows nothing, so it waits.
- ADVERTISE does not say whether it comes from a standby. Of two that stand in the one with the
  lower id stays: the higher one stops as soon as it hears the lower, and the lower one says
  ADVERTISE once more. A gateway that is heard again after that is no standby, and the lower one
  stops too.

Limits: one entry for each id a gateway can have, 256.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from math import inf

from gateway.core.clients.admission import Admission
from gateway.core.drop_reasons import Reason
from gateway.core.effects import Broadcast, DiscoveryChanged, DiscoveryRole, Dropped, Send
from gateway.core.events import Output
from gateway.core.values import Peer
from gateway.frames import (
    Advertise,
    Frame,
    GwInfo,
    MalformedFrame,
    SearchGw,
    decode,
    has_trailing_octets,
)

# Within this time all gateways of a network begin after a power cut, each in its turn by its id.
TURNS_S = 5.0
IDS = 256
ID_TAKEN_AGAIN_S = 86_400.0  # once a day, for as long as it lasts
REPLY_S_MIN = 1.0  # between two ADVERTISEs that answer others


class SearchAnswer(Enum):
    """How those are answered who search by multicast."""

    UNICAST = "unicast"
    MULTICAST = "multicast"


@dataclass(frozen=True, slots=True)
class DiscoveryOptions:
    gateway_id: int = 1
    advertise_s: int = 900  # T_ADV: more than 15 min (7.2)
    missed_max: int = 3  # N_ADV: 2 to 3 (7.2)
    answer: SearchAnswer = SearchAnswer.UNICAST
    is_standby: bool = False
    has_groups: bool = False  # else there is nobody to tell, and nothing to tell of it
    allow_trailing_octets: bool = True


class Discovery:
    """`due_at` is when `handle_time` is due; infinity for never."""

    def __init__(
        self,
        options: DiscoveryOptions,
        admission: Admission,
        received: dict[type, int],
    ) -> None:
        """`admission` limits the answers to unknown peers; `received` counts frames."""
        self.part = DiscoveryRole.UNABLE
        self.due_at = inf
        self._options = options
        self._admission = admission
        self._received = received
        self._joined: set[int] = set()  # links
        self._hearing: set[int] = set()  # of these, where other gateways would be heard
        self._turn_s = min(TURNS_S, options.advertise_s) * options.gateway_id / IDS
        self._silent_at: dict[int, float] = {}  # when a gateway, by its id, counts as silent
        self._knows_at = inf  # since the first such group was joined, N_ADV durations
        self._rivals: dict[int, float] = {}  # since when heard, while we stand in; ids above ours
        self._advertise_at = inf
        self._advertised_at = -inf
        self._told_taken_at = -inf

    # From the shell

    def set_serving(self, problem: str | None, now: float) -> list[Output]:
        """Say whether a reading that comes now could be taken; `problem`: why not."""
        is_able = self.part is not DiscoveryRole.UNABLE
        if is_able is (problem is None):
            return []
        if problem is not None:
            return self._become(DiscoveryRole.UNABLE, now, problem)
        return self._become(
            DiscoveryRole.STANDBY if self._options.is_standby else DiscoveryRole.ADVERTISING, now
        )

    def joined(self, link: int, now: float, *, hears: bool = True) -> None:
        """What is said to the group of this link is heard from now on. `hears`: and other gateways
        there are heard by us; on a serial line there are none.
        """
        if hears:
            if not self._hearing:
                self._knows_at = now + self._options.missed_max * self._options.advertise_s
            self._hearing.add(link)
        self._joined.add(link)
        self._advertise_at = min(self._advertise_at, now + self._turn_s)
        self._schedule()

    def left(self, link: int) -> None:
        """The group of this link is not available until further notice."""
        self._joined.discard(link)
        self._hearing.discard(link)
        self._schedule()

    def paused(self, seconds: float, now: float) -> None:
        """For `seconds` the gateway was not there. Others may miss its ADVERTISE, and a standby may
        have begun in its place: it stops when it receives ours.
        """
        is_missed = now + seconds >= self._advertised_at + self._options.advertise_s
        if is_missed and self.part is DiscoveryRole.ADVERTISING and not self._options.is_standby:
            self._advertise_at = min(self._advertise_at, now + self._turn_s)
            self._schedule()

    # From the sensors

    def receive(
        self, link: int, datagrams: Iterable[tuple[bytes, bytes]], now: float
    ) -> list[Output]:
        """What came by a group, as (address, datagram) pairs."""
        effects: list[Output] = []
        for address, datagram in datagrams:
            peer = Peer(link, address)
            try:
                frame = decode(datagram)
            except MalformedFrame as error:
                effects.append(
                    Dropped(reason=Reason.MALFORMED, client_id=None, detail=str(error), peer=peer)
                )
                continue
            if has_trailing_octets(datagram):
                effects.append(Dropped(Reason.TRAILING_OCTETS, peer=peer))
                if not self._options.allow_trailing_octets:
                    continue
            self._received[type(frame)] = self._received.get(type(frame), 0) + 1
            effects += self._hear(frame, peer, now)
        return effects

    def search(self, peer: Peer, now: float) -> list[Output]:
        """A search that came to our own address: its answer goes back the same way."""
        refusal = self._refusal(peer, now)
        return [Send(peer, self._information())] if refusal is None else [refusal]

    def _hear(self, frame: Frame, peer: Peer, now: float) -> list[Output]:
        match frame:
            case SearchGw(radius):
                return self._search_by_group(radius, peer, now)
            case Advertise():
                return self._hear_gateway(frame, peer, now)
            case GwInfo():  # for those who search; it says nothing that ADVERTISE does not
                return []
            case _:
                detail = type(frame).__name__.upper()
                return [
                    Dropped(reason=Reason.GROUP_TRAFFIC, client_id=None, detail=detail, peer=peer)
                ]

    def _search_by_group(self, radius: int, peer: Peer, now: float) -> list[Output]:
        refusal = self._refusal(peer, now)
        if refusal is not None:
            return [refusal]
        if self._options.answer is SearchAnswer.MULTICAST:
            return [Broadcast(peer.link, self._information(), radius)]
        return [Send(peer, self._information())]

    def _refusal(self, peer: Peer, now: float) -> Dropped | None:
        if self.part is not DiscoveryRole.ADVERTISING:
            return Dropped(
                reason=Reason.NOT_ADVERTISING, client_id=None, detail=self.part.value, peer=peer
            )
        if not self._admission.may_answer_unknown(now):
            return Dropped(reason=Reason.STRANGER, client_id=None, detail="SEARCHGW", peer=peer)
        return None

    # From other gateways

    def _hear_gateway(self, frame: Advertise, peer: Peer, now: float) -> list[Output]:
        """ADVERTISE of another one: what we say ourselves the link does not bring."""
        duration_s = frame.duration_s or self._options.advertise_s
        self._silent_at[frame.gateway_id] = now + self._options.missed_max * duration_s
        effects: list[Output] = []
        is_told = now - self._told_taken_at < ID_TAKEN_AGAIN_S
        if frame.gateway_id == self._options.gateway_id and not is_told:
            self._told_taken_at = now
            detail = f"another gateway says it is {frame.gateway_id} too"
            effects.append(
                Dropped(reason=Reason.GATEWAY_ID_TAKEN, client_id=None, detail=detail, peer=peer)
            )
        if self._options.is_standby and self.part is DiscoveryRole.ADVERTISING:
            effects += self._meet(frame.gateway_id, duration_s, now)
        self._schedule()
        return effects

    def _meet(self, gateway_id: int, duration_s: int, now: float) -> list[Output]:
        """While we stand in another gateway is heard: the active one, or a second standby."""
        if gateway_id > self._options.gateway_id:
            first_at = self._rivals.setdefault(gateway_id, now)
            if now - first_at < duration_s / 2:  # the first one, or a copy of it
                return self._advertise(now) if now - self._advertised_at >= REPLY_S_MIN else []
        return self._become(DiscoveryRole.STANDBY, now, f"gateway {gateway_id} is heard")

    # Time

    def handle_time(self, now: float) -> list[Output]:
        if now < self.due_at:
            return []
        if self.part is DiscoveryRole.ADVERTISING:
            return self._advertise(now)
        known = ", ".join(map(str, sorted(self._silent_at)))
        detail = f"gateway {known} is silent" if known else "no other gateway is heard"
        return [*self._become(DiscoveryRole.ADVERTISING, now, detail), *self._advertise(now)]

    def _advertise(self, now: float) -> list[Output]:
        self._advertised_at = now
        self._advertise_at = now + self._options.advertise_s
        self._schedule()
        frame = Advertise(self._options.gateway_id, self._options.advertise_s)
        return [Broadcast(link, frame) for link in sorted(self._joined)]

    def _information(self) -> GwInfo:
        return GwInfo(self._options.gateway_id)  # without GwAdd, which is for clients (5.4.3)

    def _become(self, part: DiscoveryRole, now: float, detail: str = "") -> list[Output]:
        before, self.part = self.part, part
        self._advertise_at = now + self._turn_s
        self._rivals.clear()
        self._schedule()
        return [DiscoveryChanged(before, part, detail)] if self._options.has_groups else []

    def _schedule(self) -> None:
        if not self._joined or self.part is DiscoveryRole.UNABLE:
            self.due_at = inf
        elif self.part is DiscoveryRole.ADVERTISING:
            self.due_at = self._advertise_at
        elif not self._hearing:
            self.due_at = inf
        else:
            self.due_at = max([self._knows_at, *self._silent_at.values()]) + self._turn_s
