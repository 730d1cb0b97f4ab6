"""Stories of gateways that are searched, and of one that stands by for another; time in numbers."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from typing import cast

import pytest

from gateway.core.clients.admission import Admission, AdmissionOptions
from gateway.core.clients.discovery import IDS, TURNS_S, Discovery, DiscoveryOptions, SearchAnswer
from gateway.core.drop_reasons import Reason
from gateway.core.effects import Broadcast, DiscoveryChanged, DiscoveryRole, Dropped, Send
from gateway.core.events import Output
from gateway.core.values import Peer
from gateway.frames import Advertise, Connect, Frame, GwInfo, Pingreq, Publish, SearchGw, encode

SENSOR, OTHER = b"sensor", b"other"


def turn_s(gateway_id: int, advertise_s: int = 900) -> float:
    return min(TURNS_S, advertise_s) * gateway_id / IDS


class Answers:
    """As many answers to unknown peers as the gateway's `budget` allows."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    def may_answer_unknown(self, now: float) -> bool:
        self._gateway.budget -= 1
        return self._gateway.budget >= 0


@dataclass
class Gateway:
    """One on link 0, whose time moves; what it says to its group is in `said`, with the time."""

    options: DiscoveryOptions
    serves: bool = True
    budget: int = 1000
    at: float = 0.0
    said: list[tuple[float, Frame]] = field(default_factory=list)
    news: list[DiscoveryChanged | Dropped] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.received: dict[type, int] = {}
        self.discovery = Discovery(self.options, cast(Admission, Answers(self)), self.received)
        if self.serves:
            self.take(self.discovery.set_serving(None, 0.0))
        self.discovery.joined(0, 0.0)

    def pass_time(self, until: float) -> None:
        while self.discovery.due_at <= until:
            self.at = max(self.at, self.discovery.due_at)
            self.take(self.discovery.handle_time(self.at))
        self.at = until

    def hear(self, frame: Frame, address: bytes = OTHER) -> list[Send]:
        return self.hear_octets(encode(frame), address)

    def hear_octets(self, datagram: bytes, address: bytes = OTHER) -> list[Send]:
        return self.take(self.discovery.receive(0, [(address, datagram)], self.at))

    def searched(self, address: bytes = SENSOR) -> list[Send]:
        """By unicast."""
        return self.take(self.discovery.search(Peer(0, address), self.at))

    def take(self, effects: list[Output]) -> list[Send]:
        sends = []
        for effect in effects:
            match effect:
                case Send():
                    sends.append(effect)
                case Broadcast(0, frame):
                    self.said.append((self.at, frame))
                case DiscoveryChanged() | Dropped():
                    self.news.append(effect)
                case _:
                    raise AssertionError(effect)
        return sends

    @property
    def advertised_at(self) -> list[float]:
        expected = Advertise(self.options.gateway_id, self.options.advertise_s)
        assert {frame for _, frame in self.said} <= {expected}
        return [at for at, _ in self.said]

    def has(self, part: DiscoveryRole) -> bool:
        return self.discovery.part is part

    def reasons(self) -> list[Reason]:
        return [each.reason for each in self.news if isinstance(each, Dropped)]


def gateway(
    gateway_id: int = 0,
    *,
    standby: bool = False,
    advertise_s: int = 900,
    answer: SearchAnswer = SearchAnswer.UNICAST,
    serves: bool = True,
    trailing: bool = True,
) -> Gateway:
    options = DiscoveryOptions(
        gateway_id=gateway_id,
        advertise_s=advertise_s,
        answer=answer,
        is_standby=standby,
        has_groups=True,
        allow_trailing_octets=trailing,
    )
    return Gateway(options, serves)


# ADVERTISE


def test_it_advertises_soon_and_then_after_the_time_that_it_says() -> None:
    ours = gateway(51)
    ours.pass_time(2 * 900 + 5)
    first = turn_s(51)
    assert first < 1.0
    assert ours.advertised_at == [first, first + 900, first + 1800]


def test_gateways_of_one_network_take_turns_by_their_ids() -> None:
    firsts = []
    for gateway_id in range(IDS):
        ours = gateway(gateway_id)
        ours.pass_time(TURNS_S)
        firsts += ours.advertised_at
    assert len(firsts) == IDS
    assert firsts == sorted(set(firsts))


def test_it_advertises_only_while_it_can_serve() -> None:
    ours = gateway(serves=False)
    ours.pass_time(3600)
    assert ours.said == []
    ours.take(ours.discovery.set_serving(None, 3600))
    ours.pass_time(4000)
    assert ours.advertised_at == [3600]
    ours.take(ours.discovery.set_serving("the journal is full", 4000))
    ours.pass_time(9000)
    assert ours.advertised_at == [3600]
    assert ours.discovery.due_at == inf
    ours.take(ours.discovery.set_serving(None, 9000))
    ours.pass_time(9000)
    assert ours.advertised_at == [3600, 9000]


def test_each_change_is_told_once_with_its_reason() -> None:
    ours = gateway(serves=False)
    for problem in (None, None, "the journal is full", "the journal cannot be written", None):
        ours.take(ours.discovery.set_serving(problem, 1.0))
    assert ours.news == [
        DiscoveryChanged(DiscoveryRole.UNABLE, DiscoveryRole.ADVERTISING),
        DiscoveryChanged(DiscoveryRole.ADVERTISING, DiscoveryRole.UNABLE, "the journal is full"),
        DiscoveryChanged(DiscoveryRole.UNABLE, DiscoveryRole.ADVERTISING),
    ]


def test_without_a_group_there_is_nothing_to_tell() -> None:
    discovery = Discovery(DiscoveryOptions(), Admission(AdmissionOptions(), {}), {})
    assert discovery.set_serving(None, 0.0) == []
    assert discovery.due_at == inf
    assert discovery.search(Peer(0, SENSOR), 0.0) == [Send(Peer(0, SENSOR), GwInfo(1))]


def test_a_group_that_comes_back_hears_of_us_at_once_and_one_that_is_away_is_not_spoken_to() -> (
    None
):
    ours = gateway(0)
    ours.pass_time(100)
    ours.discovery.left(0)
    ours.pass_time(2000)
    assert ours.advertised_at == [0.0]
    ours.discovery.joined(0, 2000)
    ours.pass_time(2000)
    assert ours.advertised_at == [0.0, 2000]


def test_each_group_hears_it_also_one_that_comes_later() -> None:
    discovery = Discovery(DiscoveryOptions(gateway_id=0), Admission(AdmissionOptions(), {}), {})
    discovery.set_serving(None, 0.0)
    discovery.joined(2, 0.0)
    frame = Advertise(0, 900)
    assert discovery.handle_time(0.0) == [Broadcast(2, frame)]
    assert discovery.handle_time(899.0) == []
    discovery.joined(1, 10.0)
    assert discovery.handle_time(10.0) == [Broadcast(1, frame), Broadcast(2, frame)]
    assert discovery.due_at == 910.0


# SEARCHGW


def test_a_search_by_multicast_is_answered_to_the_one_who_asked() -> None:
    ours = gateway(7)
    assert ours.hear(SearchGw(2), SENSOR) == [Send(Peer(0, SENSOR), GwInfo(7))]
    assert ours.said == []


def test_or_to_the_group_within_the_radius_of_the_search() -> None:
    ours = gateway(7, answer=SearchAnswer.MULTICAST)
    effects = ours.discovery.receive(0, [(SENSOR, encode(SearchGw(2)))], 0.0)
    assert effects == [Broadcast(0, GwInfo(7), radius=2)]


@pytest.mark.parametrize("answer", SearchAnswer)
def test_a_search_that_comes_to_our_own_address_is_answered_from_there(
    answer: SearchAnswer,
) -> None:
    ours = gateway(7, answer=answer)
    assert ours.searched() == [Send(Peer(0, SENSOR), GwInfo(7))]


def test_an_answer_is_no_longer_than_its_question() -> None:
    assert len(encode(GwInfo(7))) <= len(encode(SearchGw(1)))


def test_who_cannot_serve_is_not_found() -> None:
    ours = gateway(serves=False)
    assert ours.hear(SearchGw(0), SENSOR) == []
    assert ours.searched() == []
    assert ours.reasons() == [Reason.NOT_ADVERTISING] * 2
    assert ours.budget == 1000


@pytest.mark.parametrize("answer", SearchAnswer)
def test_searches_share_the_budget_of_strangers(answer: SearchAnswer) -> None:
    ours = gateway(answer=answer)
    ours.budget = 2
    for _ in range(5):
        ours.hear(SearchGw(0), SENSOR)
    answered = 5 - len(ours.reasons())
    assert answered == 2
    assert ours.reasons() == [Reason.STRANGER] * 3


@pytest.mark.parametrize(
    "frame", [Connect(b"c", 60), Publish(1, 1, b"x", 1), Publish(1, 0, b"x", -1), Pingreq()]
)
def test_nothing_else_that_comes_by_a_group_is_answered(frame: Frame) -> None:
    ours = gateway()
    assert ours.hear(frame, SENSOR) == []
    assert ours.reasons() == [Reason.GROUP_TRAFFIC]
    assert ours.received == {type(frame): 1}
    assert ours.said == []


@pytest.mark.parametrize("octets", [b"", b"\x00", b"\x02\x01", b"\x09\x01\x00", b"\x03\xff\x00"])
def test_garbage_from_a_group_is_counted(octets: bytes) -> None:
    ours = gateway()
    assert ours.hear_octets(octets) == []
    assert ours.reasons() == [Reason.MALFORMED]
    assert ours.received == {}


@pytest.mark.parametrize(("allowed", "answers"), [(True, 1), (False, 0)])
def test_octets_after_a_search_are_as_good_as_after_any_frame(allowed: bool, answers: int) -> None:
    ours = gateway(trailing=allowed)
    assert len(ours.hear_octets(encode(SearchGw(0)) + b"\0", SENSOR)) == answers
    assert ours.reasons() == [Reason.TRAILING_OCTETS]


def test_answers_of_others_are_none_of_our_business() -> None:
    ours = gateway()
    assert ours.hear(GwInfo(9)) == []
    assert ours.hear(GwInfo(9, b"\x0a\x00\x00\x01")) == []
    assert ours.reasons() == []
    assert ours.received == {GwInfo: 2}


# Other gateways


def test_a_gateway_that_serves_does_not_mind_others() -> None:
    ours = gateway(5)
    for gateway_id in (1, 9):
        ours.hear(Advertise(gateway_id, 60))
    ours.pass_time(1000)
    assert ours.has(DiscoveryRole.ADVERTISING)
    assert len(ours.said) == 2
    assert ours.reasons() == []


def test_our_id_at_another_address_is_told_once_a_day() -> None:
    ours = gateway(1)
    for hour in range(25):
        ours.at = hour * 3600.0
        ours.hear(Advertise(1, 900))
    taken = [each for each in ours.news if isinstance(each, Dropped)]
    assert [each.reason for each in taken] == [Reason.GATEWAY_ID_TAKEN] * 2
    assert taken[0].detail == "another gateway says it is 1 too"
    assert taken[0].peer == Peer(0, OTHER)


# Standing by


def test_a_standby_that_hears_nobody_waits_as_long_as_it_takes_to_miss_one() -> None:
    standby = gateway(0, standby=True)
    standby.pass_time(2699)
    assert standby.said == []
    assert standby.hear(SearchGw(0), SENSOR) == []
    standby.pass_time(2700)
    assert standby.advertised_at == [2700]
    assert standby.hear(SearchGw(0), SENSOR) == [Send(Peer(0, SENSOR), GwInfo(0))]
    assert standby.news[-1] == DiscoveryChanged(
        DiscoveryRole.STANDBY, DiscoveryRole.ADVERTISING, "no other gateway is heard"
    )


def test_it_waits_for_three_of_the_durations_that_the_other_one_says() -> None:
    standby = gateway(2, standby=True, advertise_s=10)
    standby.pass_time(29)
    standby.hear(Advertise(1, 60))
    silent_at = 29 + 3 * 60 + turn_s(2, 10)
    standby.pass_time(silent_at - 0.001)
    assert standby.has(DiscoveryRole.STANDBY)
    standby.pass_time(silent_at)
    assert standby.has(DiscoveryRole.ADVERTISING)
    assert standby.advertised_at == [silent_at]
    assert standby.news[-1] == DiscoveryChanged(
        DiscoveryRole.STANDBY, DiscoveryRole.ADVERTISING, "gateway 1 is silent"
    )


def test_while_the_other_one_advertises_it_is_silent() -> None:
    standby = gateway(2, standby=True)
    for number in range(100):
        standby.pass_time(number * 900.0)
        standby.hear(Advertise(1, 900))
    assert standby.said == []


def test_a_duration_of_0_counts_as_our_own() -> None:
    standby = gateway(0, standby=True, advertise_s=100)
    standby.pass_time(250)
    standby.hear(Advertise(1, 0))
    assert standby.discovery.due_at == 250 + 300


def test_a_new_duration_takes_the_place_of_the_old_one() -> None:
    standby = gateway(0, standby=True, advertise_s=10)
    standby.hear(Advertise(1, 60_000))
    standby.hear(Advertise(1, 20))
    assert standby.discovery.due_at == 60


def test_it_waits_for_the_last_of_several() -> None:
    standby = gateway(0, standby=True, advertise_s=1)
    standby.hear(Advertise(1, 100))
    standby.hear(Advertise(2, 10))
    assert standby.discovery.due_at == 300


def test_it_stops_when_the_one_that_it_stands_in_for_is_heard_again() -> None:
    standby = gateway(2, standby=True, advertise_s=10)
    standby.pass_time(100)
    assert standby.has(DiscoveryRole.ADVERTISING)
    count = len(standby.said)
    standby.hear(Advertise(1, 10))
    assert standby.has(DiscoveryRole.STANDBY)
    assert standby.news[-1] == DiscoveryChanged(
        DiscoveryRole.ADVERTISING, DiscoveryRole.STANDBY, "gateway 1 is heard"
    )
    standby.pass_time(130)
    assert len(standby.said) == count
    standby.pass_time(130 + turn_s(2, 10))
    assert len(standby.said) == count + 1


def test_an_active_gateway_with_a_higher_id_is_known_by_going_on() -> None:
    standby = gateway(2, standby=True, advertise_s=10)
    standby.pass_time(100)
    count = len(standby.said)
    standby.hear(Advertise(9, 10))
    standby.hear(Advertise(9, 10))  # a copy
    assert standby.has(DiscoveryRole.ADVERTISING)
    assert len(standby.said) == count + 1
    standby.pass_time(105)
    standby.hear(Advertise(9, 10))
    assert standby.has(DiscoveryRole.STANDBY)


def test_its_word_to_a_higher_one_is_not_said_twice_in_a_second() -> None:
    standby = gateway(2, standby=True, advertise_s=10)
    standby.pass_time(30 + turn_s(2, 10))
    assert len(standby.said) == 1
    for gateway_id in range(3, 256):
        standby.hear(Advertise(gateway_id, 60))
    assert len(standby.said) == 1
    standby.pass_time(standby.at + 1.0)
    standby.hear(Advertise(3, 60))
    assert len(standby.said) == 2


def test_of_two_standbys_that_stand_in_at_once_the_lower_id_stays() -> None:
    lower, higher = (gateway(number, standby=True, advertise_s=10) for number in (2, 3))
    for each in (lower, higher):
        each.pass_time(33)
        assert each.has(DiscoveryRole.ADVERTISING)
    lower.hear(Advertise(3, 10))
    assert len(lower.said) == 2  # said once more, and the higher one hears it
    higher.hear(Advertise(2, 10))
    assert lower.has(DiscoveryRole.ADVERTISING)
    assert higher.has(DiscoveryRole.STANDBY)


def test_of_two_standbys_the_lower_id_has_its_turn_first_and_the_other_hears_it() -> None:
    lower, higher = (gateway(number, standby=True) for number in (2, 3))
    for each in (lower, higher):
        each.hear(Advertise(1, 900))
    first_at = lower.discovery.due_at
    assert first_at < higher.discovery.due_at
    lower.pass_time(first_at)
    higher.pass_time(first_at)
    higher.hear(lower.said[-1][1])
    higher.pass_time(first_at + 900)
    assert higher.said == []


def test_a_standby_that_cannot_serve_does_not_stand_in_and_later_at_once() -> None:
    standby = gateway(0, standby=True, advertise_s=10, serves=False)
    standby.pass_time(100)
    assert standby.discovery.due_at == inf
    standby.take(standby.discovery.set_serving(None, 100))
    assert standby.has(DiscoveryRole.STANDBY)
    standby.pass_time(100)
    assert standby.advertised_at == [100]


def test_a_standby_that_was_deaf_knows_nothing() -> None:
    standby = gateway(0, standby=True, advertise_s=10)
    standby.discovery.left(0)
    standby.pass_time(1000)
    assert standby.said == []
    standby.discovery.joined(0, 1000)
    standby.pass_time(1029)
    assert standby.said == []
    standby.pass_time(1030)
    assert standby.advertised_at == [1030]
