"""What an operator reads and counts, for each thing that can happen."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

import pytest

from gateway.admin.event_levels import DROPPED
from gateway.admin.event_log import DROPPED_LINES_MAX, STATE_LINES_MAX
from gateway.admin.http.throttle import HOLD_S_MAX, WINDOW_S
from gateway.config.keys import ROOT
from gateway.config.schema import known_keys
from gateway.config.spelling import dotted
from gateway.core.drop_reasons import Reason
from gateway.core.effects import (
    DiscoveryChanged,
    DiscoveryRole,
    Dropped,
    Effect,
    IdShared,
    PropertiesIgnored,
    Rebound,
    Send,
    StateChanged,
    SubscriptionRefused,
    Transmit,
    UpstreamRefused,
    UpstreamUp,
)
from gateway.core.state_records import ClientId, State
from gateway.frames import Pingresp
from tests.admin.conftest import Log
from tests.admin.example import ELSEWHERE, GREENHOUSE, PEER, Clock, eventful_news, news
from tests.support.samples import for_each

MALFORMED = Dropped(Reason.MALFORMED, None, "length 9, bytes 3", PEER)

LINES = [
    (
        StateChanged(GREENHOUSE, State.CONNECTING, State.ACTIVE, PEER, "keep-alive 60 s"),
        "<6>INFO  tidegate.client = active client=greenhouse-7 peer=192.0.2.7:1883 "
        "before=connecting detail='keep-alive 60 s'",
    ),
    (
        StateChanged(GREENHOUSE, State.ACTIVE, State.LOST),
        "<4>WARN  tidegate.client = lost client=greenhouse-7 before=active",
    ),
    (
        IdShared(GREENHOUSE, PEER, ELSEWHERE),
        "<4>WARN  tidegate.client client id in use at two addresses client=greenhouse-7 "
        "peer=192.0.2.8:1883 before=192.0.2.7:1883 "
        "advice='give each sensor an id of its own'",
    ),
    (
        Rebound(GREENHOUSE, PEER, ELSEWHERE),
        "<6>INFO  tidegate.client = rebound client=greenhouse-7 peer=192.0.2.8:1883 "
        "before=192.0.2.7:1883",
    ),
    (
        MALFORMED,
        "<6>INFO  tidegate.client dropped malformed peer=192.0.2.7:1883 detail='length 9, bytes 3'",
    ),
    (
        Dropped(Reason.OUTBOX_FULL, GREENHOUSE, "100 messages", count=3),
        "<4>WARN  tidegate.client dropped outbox_full client=greenhouse-7 count=3 "
        "detail='100 messages' "
        "advice='raise limits.outbox_messages_max and limits.outbox_bytes_max'",
    ),
    (
        Dropped(Reason.RETAINED_FULL, None, "a/b"),
        "<4>WARN  tidegate.upstream dropped retained_full detail=a/b "
        "advice='raise limits.retained_messages_max and limits.retained_bytes_max'",
    ),
    (
        UpstreamUp(session_present=True, resent=4),
        "<6>INFO  tidegate.upstream = connected session=kept resent=4",
    ),
    (
        UpstreamUp(session_present=False),
        "<6>INFO  tidegate.upstream = connected session=new resent=0",
    ),
    (
        UpstreamRefused("the broker answered CONNACK 0x86"),
        "<4>WARN  tidegate.upstream the broker refused us "
        "reason='the broker answered CONNACK 0x86'",
    ),
    (
        SubscriptionRefused("a/#", "SUBACK 0x87", (GREENHOUSE, ClientId("b"))),
        "<4>WARN  tidegate.upstream the broker refused a subscription client=greenhouse-7 "
        "clients=2 filter=a/# reason='SUBACK 0x87'",
    ),
    (
        DiscoveryChanged(DiscoveryRole.UNABLE, DiscoveryRole.ADVERTISING),
        "<6>INFO  tidegate.discovery = advertising before=unable",
    ),
    (
        DiscoveryChanged(DiscoveryRole.STANDBY, DiscoveryRole.ADVERTISING, "gateway 1 is silent"),
        "<4>WARN  tidegate.discovery = advertising before=standby detail='gateway 1 is silent'",
    ),
    (
        DiscoveryChanged(DiscoveryRole.ADVERTISING, DiscoveryRole.UNABLE, "the journal is full"),
        "<4>WARN  tidegate.discovery = unable before=advertising detail='the journal is full'",
    ),
    (
        Dropped(Reason.GATEWAY_ID_TAKEN, None, "another gateway says it is 1 too", PEER),
        "<4>WARN  tidegate.client dropped gateway_id_taken peer=192.0.2.7:1883 "
        "detail='another gateway says it is 1 too' "
        "advice='give each gateway of a network another gateway.id'",
    ),
]


@pytest.mark.parametrize(("effect", "line"), LINES, ids=lambda value: type(value).__name__)
def test_an_event_is_one_line(log: Log, effect: Effect, line: str) -> None:
    news().record(effect)
    assert log.read() == [line]


def test_ignored_properties_are_a_line_for_who_looks_for_it(
    log: Log, caplog: pytest.LogCaptureFixture
) -> None:
    ignored = PropertiesIgnored("PUBACK", "0x1c may not be in this packet")
    news().record(ignored)
    assert log.read() == []
    with caplog.at_level(logging.DEBUG, "tidegate"):
        news().record(ignored)
    (line,) = log.read()
    assert line == (
        "<7>DEBUG tidegate.upstream ignored properties that the broker may not send packet=PUBACK "
        "properties='0x1c may not be in this packet'"
    )


def test_work_is_no_news(log: Log) -> None:
    told = news()
    told.record(Send(PEER, Pingresp()))
    told.record(Transmit(b""))
    told.close()
    assert log.read() == []
    assert sum(told.dropped.values()) == 0


def test_a_sleeper_that_wakes_and_sleeps_on_is_not_worth_a_line(log: Log) -> None:
    told = news()
    told.record(StateChanged(GREENHOUSE, State.ASLEEP, State.AWAKE))
    told.record(StateChanged(GREENHOUSE, State.AWAKE, State.ASLEEP))
    told.record(StateChanged(GREENHOUSE, State.ASLEEP, State.ACTIVE))
    told.record(StateChanged(GREENHOUSE, State.ACTIVE, State.ASLEEP))
    assert log.read() == []
    told.record(StateChanged(GREENHOUSE, State.CONNECTING, State.ACTIVE))
    told.record(StateChanged(GREENHOUSE, State.ASLEEP, State.DISCONNECTED))
    assert len(log.read()) == 2
    assert told.state_changes[State.ASLEEP] == 2


@for_each("reason", Reason)
def test_each_reason_has_a_level_and_its_advice_names_settings_that_exist(reason: Reason) -> None:
    level, advice = DROPPED[reason]
    assert level in (logging.DEBUG, logging.INFO, logging.WARNING)
    assert advice is not None or level < logging.WARNING
    settings = set(map(dotted, known_keys(ROOT)))
    words = (advice or "").replace(",", "").split()
    assert {word for word in words if "." in word.strip(".")} <= settings


def test_everything_is_counted_under_its_enum() -> None:
    told = eventful_news()
    assert told.dropped == {reason: 7 * (reason is Reason.OUTBOX_FULL) for reason in Reason}
    assert told.state_changes == {state: int(state is State.LOST) for state in State}
    assert (told.upstream_sessions_new, told.upstream_sessions_kept) == (1, 2)
    assert told.upstream_resent == 10
    assert told.rebound == 6
    assert told.upstream_refusals == 3
    assert told.subscription_refusals == 4


def test_what_is_counted_does_not_depend_on_what_is_logged(log: Log) -> None:
    logging.getLogger("tidegate").setLevel(logging.ERROR)
    told = eventful_news()
    assert told.dropped[Reason.OUTBOX_FULL] == 7
    assert log.read() == []


def test_a_flood_costs_a_few_lines_and_then_one_with_its_number(log: Log) -> None:
    clock = Clock()
    told = news(clock)
    for _ in range(1000):
        told.record(MALFORMED)
    assert len(log.read()) == DROPPED_LINES_MAX
    clock.now += WINDOW_S - 0.1
    told.flush()
    assert log.read() == []
    clock.now += 0.1
    told.flush()
    assert log.read() == [
        "<6>INFO  tidegate.client dropped malformed: 995 more in 10 s, the last of them "
        "peer=192.0.2.7:1883 detail='length 9, bytes 3'"
    ]
    assert told.dropped[Reason.MALFORMED] == 1000


def test_a_flood_of_states_costs_a_few_lines(log: Log) -> None:
    told = news()
    for _ in range(1000):
        told.record(StateChanged(GREENHOUSE, State.ACTIVE, State.DISCONNECTED))
    assert len(log.read()) == STATE_LINES_MAX


def test_one_flood_does_not_hide_another_event(log: Log) -> None:
    told = news()
    for _ in range(1000):
        told.record(MALFORMED)
    log.read()
    told.record(StateChanged(GREENHOUSE, State.ACTIVE, State.LOST))
    told.record(Dropped(Reason.STRANGER, None, "PUBLISH", PEER))
    assert len(log.read()) == 2


def test_a_flood_of_a_day_is_told_less_and_less_often(log: Log) -> None:
    clock = Clock()
    told = news(clock)
    for _ in range(86_400):
        told.record(MALFORMED)
        told.flush()
        clock.now += 1.0
    told.close()
    lines = log.read()
    assert len(lines) < DROPPED_LINES_MAX + 86_400 / HOLD_S_MAX + 10
    held_back = sum(int(line.split(": ")[1].split()[0]) for line in lines if "more in" in line)
    assert held_back == 86_400 - DROPPED_LINES_MAX


def test_after_a_quiet_hold_lines_are_written_again(log: Log) -> None:
    clock = Clock()
    told = news(clock)
    for _ in range(DROPPED_LINES_MAX + 1):
        told.record(MALFORMED)
    for _ in range(2):
        clock.now += 2 * WINDOW_S
        told.flush()
    log.read()
    told.record(MALFORMED)
    assert len(log.read()) == 1


def test_what_was_held_back_is_said_at_the_end(log: Log) -> None:
    told = news()
    for _ in range(DROPPED_LINES_MAX):
        told.record(MALFORMED)
    told.record(Dropped(Reason.MALFORMED, count=40))
    log.read()
    told.close()
    told.close()
    (line,) = log.read()
    assert "dropped malformed: 40 more in 0 s" in line


def test_in_no_ten_seconds_there_are_more_lines_than_promised(log: Log) -> None:
    clock = Clock()
    told = news(clock)
    written: list[float] = []
    for step in range(2000):  # 100 s in which the peer pauses now and then
        if step % 130 < 90:
            told.record(MALFORMED)
        if step % 20 == 0:
            told.flush()
        written += [clock.now] * len(log.read())
        clock.now += 0.05
    # Two more: the line that ends a hold, and the one of the hold before.
    for first in written:
        assert sum(first <= other < first + WINDOW_S for other in written) <= DROPPED_LINES_MAX + 2


FORGED = "x\n<0>2026-11-21T10:02:03.123Z INFO tidegate.client = active client=admin\x1b[31m\u202e"


def test_nobody_forges_a_line_or_a_field(log: Log) -> None:
    told = news()
    told.record(StateChanged(ClientId(FORGED), State.CONNECTING, State.ACTIVE, PEER, "a" * 5000))
    (line,) = log.read()
    assert line.isprintable()
    assert r"client='x\n<0>2026-11-21T10:02:03.123Z INFO" in line
    assert r"client=admin\x1b[31m\u202e' peer=192.0.2.7:1883" in line
    assert line.endswith("detail='" + "a" * 200 + "... (5000 characters)'")


def test_a_drop_that_is_held_back_costs_a_tenth_of_one_that_is_written(log: Log) -> None:
    told = news()
    for _ in range(DROPPED_LINES_MAX + 1):
        told.record(MALFORMED)
    held_back_s = min(_time_of_a_hundred(lambda: told.record(MALFORMED)) for _ in range(50))
    assert len(log.read()) == DROPPED_LINES_MAX
    logger = logging.getLogger("tidegate.client")
    written_s = min(_time_of_a_hundred(lambda: logger.info("dropped")) for _ in range(50))
    assert held_back_s < written_s / 10


def _time_of_a_hundred(do: Callable[[], None]) -> float:
    begun = time.perf_counter()
    for _ in range(100):
        do()
    return time.perf_counter() - begun
