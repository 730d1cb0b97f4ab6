"""Discovery under whatever comes, in any order: a seed is a story, and is in the message."""

from __future__ import annotations

from random import Random
from typing import cast

import pytest

from gateway.core.clients.admission import Admission
from gateway.core.clients.discovery import IDS, Discovery, DiscoveryOptions, SearchAnswer
from gateway.core.effects import Broadcast, DiscoveryRole, Send
from gateway.core.events import Output
from gateway.frames import Advertise, Connect, Frame, GwInfo, Pingreq, SearchGw, encode
from tests.support.samples import named, seeds

STORIES, STORIES_SOAKED = 50, 2000
STEPS, OURS, BUDGET = 200, 5, 20
ADDRESSES = (b"a", b"b")
SEARCH = encode(SearchGw(0))


class Answers:
    """As many answers to unknown peers as are `left`."""

    def __init__(self, world: Story) -> None:
        self._world = world

    def may_answer_unknown(self, now: float) -> bool:
        self._world.left -= 1
        return self._world.left >= 0


class Story:
    def __init__(self, seed: int) -> None:
        self.dice = Random(seed)
        self.at = 0.0
        self.left = BUDGET
        options = DiscoveryOptions(
            gateway_id=OURS,
            advertise_s=self.dice.choice((1, 10, 900)),
            answer=self.dice.choice(list(SearchAnswer)),
            is_standby=self.dice.random() < 0.7,
            has_groups=True,
        )
        self.discovery = Discovery(options, cast(Admission, Answers(self)), {})

    def step(self) -> tuple[bytes, list[Output]]:
        """The datagram that came, if one did, and what is done."""
        dice, discovery = self.dice, self.discovery
        match dice.choices(("hear", "wait", "serve", "join", "leave"), (70, 20, 5, 3, 2))[0]:
            case "hear":
                datagram = any_datagram(dice)
                pair = (dice.choice(ADDRESSES), datagram)
                return datagram, discovery.receive(dice.randrange(2), [pair], self.at)
            case "wait":
                self.at += dice.choice((0.0, 0.1, 1.0, 30.0, 3000.0))
                return b"", discovery.handle_time(self.at)
            case "serve":
                problem = dice.choice((None, None, "full"))
                return b"", discovery.set_serving(problem, self.at)
            case "join":
                discovery.joined(dice.randrange(2), self.at)
            case _:
                discovery.left(dice.randrange(2))
        return b"", []


def any_datagram(dice: Random) -> bytes:
    frames: list[Frame] = [
        SearchGw(dice.randrange(256)),
        Advertise(dice.randrange(IDS), dice.randrange(65_536)),
        Advertise(dice.choice((OURS - 1, OURS, OURS + 1)), dice.choice((0, 1, 10))),
        GwInfo(dice.randrange(IDS)),
        Connect(b"c", 60),
        Pingreq(),
    ]
    octets = bytearray(encode(dice.choice(frames)))
    if dice.random() < 0.2:
        octets[dice.randrange(len(octets))] = dice.randrange(256)
    return bytes(octets) if dice.random() < 0.9 else dice.randbytes(dice.randrange(12))


def is_answer(effect: Output) -> bool:
    return isinstance(effect, Send | Broadcast) and isinstance(effect.frame, GwInfo)


@pytest.mark.parametrize("some", seeds(STORIES, STORIES_SOAKED, each=50))
def test_only_searches_are_answered_and_by_who_advertises(some: range) -> None:
    for seed in some:
        with named(seed=seed):
            assert_answers_are_right(Story(seed))


def assert_answers_are_right(story: Story) -> None:
    answers = 0
    for _ in range(STEPS):
        could = story.discovery.part is DiscoveryRole.ADVERTISING
        datagram, effects = story.step()
        found = [effect for effect in effects if is_answer(effect)]
        if found:
            assert could
            assert b"\x01" in datagram[1:4:2]  # the type, behind either form of the length
        answers += len(found)
        said = [effect for effect in effects if isinstance(effect, Broadcast | Send)]
        assert all(isinstance(each.frame, Advertise | GwInfo) for each in said)
        # Whatever was heard, the alarm that rang does not ring again at once.
        story.discovery.handle_time(story.at)
        assert story.discovery.due_at > story.at
    assert answers <= BUDGET


@pytest.mark.parametrize("some", seeds(5, 200, each=5))
def test_after_all_that_it_is_found_again_once_the_others_are_silent(some: range) -> None:
    for seed in some:
        with named(seed=seed):
            assert_is_found_again(Story(seed))


def assert_is_found_again(story: Story) -> None:
    for _ in range(STEPS):
        story.step()
    discovery, at = story.discovery, story.at
    discovery.set_serving(None, at)
    discovery.joined(0, at)
    story.left = 1
    at += 3 * 65_535 + 10  # the longest that anybody can have asked for
    discovery.handle_time(at)
    (answer,) = discovery.receive(0, [(b"a", SEARCH)], at)
    assert is_answer(answer)
