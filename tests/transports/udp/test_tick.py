"""The tick against simulated traffic: times are numbers, nobody waits."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gateway.transports.udp.tick import COUNTED_MAX, AdaptiveTick


def coarse(tick_ms_max: float = 3.0) -> AdaptiveTick:
    return AdaptiveTick(tick_ms_max, is_fine=False)


def fine(tick_ms_max: float = 3.0) -> AdaptiveTick:
    return AdaptiveTick(tick_ms_max, is_fine=True)


Form = Callable[[], AdaptiveTick]
in_both_forms = pytest.mark.parametrize("form", [coarse, fine])


def sources(count: int) -> list[bytes]:
    return [index.to_bytes(8, "big") for index in range(count)]


def after_traffic(
    tick: AdaptiveTick,
    *,
    senders: int,
    each_per_s: float,
    seconds: float = 0.5,
    start: float = 0.0,
    busy_share: float = 0.0,
    answered_share: float = 0.0,
) -> float:
    """The wait after looking each millisecond at open-loop senders, evenly spread."""
    names, sent, wait_s = sources(senders), 0, 0.0
    for millisecond in range(1, int(seconds * 1000) + 1):
        due = int(millisecond / 1000 * senders * each_per_s)
        tick.arrived([(names[index % senders], b"x") for index in range(sent, due)])
        tick.sent(round(answered_share * due) - round(answered_share * sent))
        sent = due
        now = start + millisecond / 1000
        wait_s = tick.wait_s(now - busy_share / 1000, now, full=False)
    return wait_s


@pytest.mark.parametrize(
    ("senders", "each_per_s", "wait_s"),
    [
        (100, 50, 0.003),  # sensors: the longest wait
        (1000, 5, 0.003),
        (100, 200, 0.001),  # 20,000/s: a quarter of 5 ms
        (25, 200, 0.001),
        (1000, 30, 0.001),  # 30,000/s: 32 datagrams in a millisecond are enough
        (100, 400, 0.0),  # they may be waiting for us
        (1, 2000, 0.0),
        (1000, 100, 0.0),  # 100,000/s: 32 are there in a third of a millisecond
        (10, 10, 0.0),  # 100/s: nothing to gather
        (100, 6, 0.0),  # 600/s: fewer than 2 in 3 ms
    ],
)
def test_the_wait_follows_the_traffic(senders: int, each_per_s: float, wait_s: float) -> None:
    assert after_traffic(coarse(), senders=senders, each_per_s=each_per_s) == wait_s


@pytest.mark.parametrize(
    ("senders", "each_per_s", "wait_s"),
    [
        (100, 50, 0.003),  # a millisecond and more: whole ones, as without
        (1000, 30, 0.001),
        (100, 400, 0.000625),  # 40,000/s: a quarter of 2.5 ms
        (1000, 100, 0.00032),  # 100,000/s: 32 datagrams are enough
        (40, 1000, 0.00025),
        (20, 1000, 0.0),  # 20,000/s: fewer than 8 in a quarter of a millisecond
        (1, 2000, 0.0),
        (40, 3000, 0.0),  # a quarter of a third of a millisecond
        (1000, 260, 0.0),  # 260,000/s: 32 are there sooner than a timer would ring
    ],
)
def test_a_wait_of_less_than_a_millisecond_gathers_enough(
    senders: int, each_per_s: float, wait_s: float
) -> None:
    found = after_traffic(fine(), senders=senders, each_per_s=each_per_s)
    assert found == pytest.approx(wait_s, rel=0.05)


@in_both_forms
@pytest.mark.parametrize(
    ("answered_share", "each_per_s", "wait_s"),
    [(0.09, 400, 0.000625), (0.11, 400, 0.0), (1.0, 400, 0.0), (1.0, 50, 0.003)],
)
def test_who_is_answered_is_not_kept_waiting_for_parts_of_a_millisecond(
    form: Form, answered_share: float, each_per_s: float, wait_s: float
) -> None:
    found = after_traffic(form(), senders=100, each_per_s=each_per_s, answered_share=answered_share)
    expected = wait_s if form is fine or wait_s >= 0.001 else 0.0
    assert found == pytest.approx(expected, rel=0.05)


@pytest.mark.parametrize(
    ("form", "senders", "tick_ms_max", "wait_s"),
    [
        (coarse, 150, 0, 0.0),
        (coarse, 150, 0.9, 0.0),
        (coarse, 150, 1, 0.001),
        (coarse, 150, 5, 0.005),
        (fine, 150, 5, 0.005),
        (fine, 600, 2.5, 0.002),
        (fine, 600, 0, 0.0),
        (fine, 600, 0.1, 0.0),
        (fine, 600, 0.9, 0.0009),
    ],
)
def test_the_longest_wait_is_the_owners(
    form: Callable[[float], AdaptiveTick], senders: int, tick_ms_max: float, wait_s: float
) -> None:
    assert after_traffic(form(tick_ms_max), senders=senders, each_per_s=20) == wait_s


@in_both_forms
def test_there_is_no_wait_while_batches_are_full(form: Form) -> None:
    tick = form()
    assert after_traffic(tick, senders=100, each_per_s=50) > 0
    assert tick.wait_s(0.501, 0.501, full=True) == 0.0
    assert tick.wait_s(0.502, 0.502, full=False) > 0


@in_both_forms
def test_the_first_datagrams_after_silence_are_not_kept_waiting(form: Form) -> None:
    tick = form()
    assert after_traffic(tick, senders=100, each_per_s=50) > 0
    tick.arrived([(b"sensor", b"x")])
    assert tick.wait_s(60.0, 60.0, full=False) == 0.0


def in_closed_loop(tick: AdaptiveTick, clients: int, turn_s: Callable[[float], float]) -> float:
    """Clients that send as soon as they are answered; returns their rate, each."""
    names, now, answered = sources(clients), 0.0, 0
    while now < 2.0:
        tick.arrived([(name, b"x") for name in names])
        answered += 1
        now += turn_s(tick.wait_s(now, now, full=False))
    return answered / now


@in_both_forms
@pytest.mark.parametrize("clients", [1, 10, 50, 300])
@pytest.mark.parametrize("round_trip_s", [0.0001, 0.001, 0.003])
def test_clients_in_closed_loop_keep_nine_tenths_of_their_rate(
    form: Form, clients: int, round_trip_s: float
) -> None:
    rate = in_closed_loop(form(), clients, lambda wait_s: max(wait_s, round_trip_s))
    assert rate >= 0.9 / round_trip_s


@in_both_forms
def test_one_client_in_closed_loop_among_sensors_does_not_wait(form: Form) -> None:
    tick, names, now, wait_s, done = form(), sources(100), 0.0, 0.0, 0
    while now < 1.0:
        sensors = int(now * 5000)
        tick.arrived([(names[index % 100], b"x") for index in range(done, sensors)])
        tick.arrived([(b"waiting", b"x")])
        done = sensors
        wait_s = tick.wait_s(now, now, full=False)
        now += max(wait_s, 0.0003)
    assert wait_s == 0.0


@in_both_forms
@pytest.mark.parametrize("clients", [1, 10, 100, 1000])
@pytest.mark.parametrize("work_s", [2e-6, 40e-6, 200e-6])
def test_clients_whom_only_our_work_holds_up_never_wait(
    form: Form, clients: int, work_s: float
) -> None:
    tick, names, now, waited_s = form(), sources(clients), 0.0, 0.0
    while now < 2.0:
        for first in range(0, clients, 256):
            began, turn = now, names[first : first + 256]
            tick.arrived([(name, b"x") for name in turn])
            now += len(turn) * work_s
            wait_s = tick.wait_s(began, now, full=False)
            now, waited_s = now + wait_s, waited_s + wait_s
    assert waited_s == 0.0


@in_both_forms
def test_a_wait_ends_when_the_work_takes_most_of_the_time(form: Form) -> None:
    tick = form()
    assert after_traffic(tick, senders=100, each_per_s=50, busy_share=0.6) > 0
    assert after_traffic(tick, senders=100, each_per_s=50, busy_share=0.8, start=0.5) == 0.0


@in_both_forms
def test_a_sensor_that_empties_its_memory_does_not_end_the_waiting_of_all(form: Form) -> None:
    tick = form()
    after_traffic(tick, senders=100, each_per_s=50)
    tick.arrived([(b"awake", b"x")] * 20)
    assert after_traffic(tick, senders=100, each_per_s=50, seconds=0.06, start=0.5) > 0


@in_both_forms
def test_a_flood_of_sources_is_not_remembered(form: Form) -> None:
    tick = form()
    for first in range(0, 100_000, 64):
        tick.arrived([(index.to_bytes(8, "big"), b"x") for index in range(first, first + 64)])
    assert len(tick._by_source) <= COUNTED_MAX + 64
