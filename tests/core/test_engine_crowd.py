"""Among very many clients, what readings ask for is looked at first: nothing else comes of them."""

from __future__ import annotations

import pytest

from gateway.core.clients.admission import AdmissionOptions
from gateway.core.clients.client_table import CACHED_MAX
from gateway.core.engine import EngineOptions
from gateway.frames import Pingreq, encode
from tests.support.engine_bench import UPSTREAM, Bench, short

MANY = CACHED_MAX + 1
STRANGER = b"nobody"


def crowd(count: int) -> Bench:
    limits = AdmissionOptions(MANY, connects_at_once_max=MANY, callers_max=MANY)
    bench = Bench(EngineOptions(UPSTREAM, admission=limits))
    for number in range(count):
        bench.join(name_of(number))
    bench.news.clear()
    return bench


def name_of(number: int) -> bytes:
    return b"sensor-%04d" % number


def from_all_over() -> list[tuple[bytes, bytes]]:
    """Readings at each QoS, what is none, and a stranger's."""
    readings = [(name_of(at), encode(short(b"%d" % at, at % 3, at + 1))) for at in range(30)]
    return [*readings, (name_of(31), encode(Pingreq())), (STRANGER, encode(short(b"?", 1, 9)))]


@pytest.fixture(scope="module")
def benches() -> tuple[Bench, Bench]:
    """With one more than are taken as they come, and without; each has heard of ten of them."""
    both = crowd(MANY), crowd(CACHED_MAX)
    for bench in both:
        for at in range(10):
            bench.say(name_of(at), short(b"before", 1, 1000 + at))
    return both


def test_with_a_look_first_the_same_comes_of_all(benches: tuple[Bench, Bench]) -> None:
    came = [bench.engine.receive(0, from_all_over(), bench.at) for bench in benches]
    assert len(came[0]) > 30
    assert list(map(repr, came[0])) == list(map(repr, came[1]))


def test_of_each_that_has_sent_before_all_is_reached(benches: tuple[Bench, Bench]) -> None:
    client_table = benches[0].engine.client_table
    at_link = client_table.on_link(0)
    said = [(name_of(at), b"") for at in (3, 50, 5)] + [(STRANGER, b"")]
    assert client_table.fetch(at_link, said) == 2, "one of them has sent nothing yet"
