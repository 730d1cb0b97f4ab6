"""Staying awake for an answer: first with numbers for times, then a real loop and its selector."""

from __future__ import annotations

import asyncio
import os
import selectors
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import pytest

from gateway.transports.udp.link import UdpLink
from gateway.transports.udp.tick import SKIPPED_MAX, BusyPoll
from tests.transports.eventually import eventually

SENSOR, OTHER = b"sensor", b"other"


def awake() -> BusyPoll:
    return BusyPoll(0.3, processors=2)


def stays_awake(
    poll: BusyPoll, *, now: float = 0.0, sources: tuple[bytes, ...] = (SENSOR,)
) -> bool:
    poll.arrived([(source, b"reading") for source in sources])
    return poll.starts(now)


def fails(poll: BusyPoll, times: int) -> list[int]:
    """Waits in vain; how many lone datagrams before each time were not waited for."""
    skipped = []
    for _ in range(times):
        skipped.append(0)
        while not stays_awake(poll):
            skipped[-1] += 1
        assert not poll.goes_on(1.0)
    return skipped


def test_a_lone_datagram_is_waited_for_until_it_is_answered() -> None:
    poll = awake()
    assert stays_awake(poll, now=5.0)
    assert poll.goes_on(5.0)
    assert poll.goes_on(5.0002)
    poll.sent([(SENSOR, b"PUBACK")])
    assert not poll.goes_on(5.0002)
    assert stays_awake(poll, now=6.0)


def test_it_ends_after_its_time() -> None:
    poll = awake()
    assert stays_awake(poll, now=5.0)
    assert not poll.goes_on(5.0003)


def test_what_is_answered_at_once_is_not_waited_for() -> None:
    poll = awake()
    poll.arrived([(SENSOR, b"PINGREQ")])
    poll.sent([(SENSOR, b"PINGRESP")])
    assert not poll.starts(0.0)
    assert not poll.goes_on(0.0)


@pytest.mark.parametrize("sources", [(SENSOR, OTHER), (SENSOR, SENSOR)])
def test_what_comes_with_others_is_not_waited_for(sources: tuple[bytes, ...]) -> None:
    poll = awake()
    assert not stays_awake(poll, sources=sources)
    assert stays_awake(poll)  # nothing was in vain


def test_another_datagram_ends_it() -> None:
    poll = awake()
    assert stays_awake(poll)
    assert not stays_awake(poll, sources=(OTHER,))
    assert not poll.goes_on(0.0)
    assert fails(poll, 1) == [0]  # the other was the one that is passed over


@pytest.mark.parametrize("batch", [[(OTHER, b"PUBACK"), (SENSOR, b"PUBACK")], []])
def test_what_goes_to_others_or_to_nobody_ends_it_in_vain(batch: list[tuple[bytes, bytes]]) -> None:
    poll = awake()
    assert stays_awake(poll)
    poll.sent(batch)
    assert not poll.goes_on(0.0)
    assert not stays_awake(poll)


def test_what_is_never_answered_is_hardly_ever_waited_for() -> None:
    assert fails(awake(), 13) == [
        0,
        1,
        3,
        7,
        15,
        31,
        63,
        127,
        255,
        511,
        SKIPPED_MAX,
        SKIPPED_MAX,
        SKIPPED_MAX,
    ]


def test_an_answer_in_time_makes_good_for_all_that_were_in_vain() -> None:
    poll = awake()
    fails(poll, 4)
    while not stays_awake(poll):
        pass
    poll.sent([(SENSOR, b"PUBACK")])
    assert fails(poll, 3) == [0, 1, 3]


@pytest.mark.parametrize(("busy_poll_ms_max", "processors"), [(0, 4), (0.3, 1)])
def test_without_time_or_a_second_processor_it_sleeps(
    busy_poll_ms_max: float, processors: int
) -> None:
    assert not stays_awake(BusyPoll(busy_poll_ms_max, processors=processors))


class WatchedSelector(selectors.DefaultSelector):
    """The real one, which stops the loop before it sleeps, or when it has looked often enough."""

    def __init__(self) -> None:
        super().__init__()
        self.looks = 0
        self.watched: asyncio.AbstractEventLoop | None = None

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self.looks += 1
        if self.watched is not None and (timeout != 0 or self.looks == LOOKS_MAX):
            self.watched.stop()
            timeout = 0
        return super().select(timeout)

    def looks_before_sleep(self, loop: asyncio.AbstractEventLoop) -> int:
        """LOOKS_MAX at most."""
        self.looks, self.watched = 0, loop
        loop.run_forever()
        self.watched = None
        return self.looks


LOOKS_MAX = 100
LOOKS_AWAKE = LOOKS_MAX if len(os.sched_getaffinity(0)) > 1 else 1


@dataclass(frozen=True, slots=True)
class Waiting:
    """A link that was handed a lone reading and has not answered it."""

    link: UdpLink
    source: bytes
    sensor: socket.socket
    looks_before_sleep: Callable[[], int]


@contextmanager
def waiting(busy_poll_ms_max: float) -> Iterator[Waiting]:
    selector = WatchedSelector()
    loop = asyncio.SelectorEventLoop(selector)
    sources: list[bytes] = []
    link = UdpLink(
        ("127.0.0.1", 0),
        lambda batch: sources.extend(source for source, _ in batch),
        busy_poll_ms_max=busy_poll_ms_max,
    )
    link.open(loop)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sensor:
        sensor.sendto(b"reading", link.listening_on)
        loop.run_until_complete(eventually(lambda: sources, "the reading"))
        yield Waiting(link, sources[0], sensor, partial(selector.looks_before_sleep, loop))
    link.close()
    loop.close()


@pytest.mark.parametrize(("busy_poll_ms_max", "looks"), [(60_000, LOOKS_AWAKE), (0, 1)])
def test_the_loop_does_not_sleep_before_the_answer(busy_poll_ms_max: float, looks: int) -> None:
    with waiting(busy_poll_ms_max) as found:
        assert found.looks_before_sleep() == looks
        found.link.send_all([(found.source, b"PUBACK")])
        assert found.looks_before_sleep() <= 2  # what was called already, then sleep
        assert found.sensor.recv(64) == b"PUBACK"


def test_a_link_that_is_closed_lets_the_loop_sleep() -> None:
    with waiting(60_000) as found:
        assert found.looks_before_sleep() == LOOKS_AWAKE
        found.link.close()
        assert found.looks_before_sleep() <= 2
