"""What an operator is told to look at, and that a good day has no alarms."""

from __future__ import annotations

from dataclasses import replace

from gateway.admin.alarms import alarms
from gateway.admin.numbers import JournalNumbers, LinkNumbers, Numbers, StateNumbers
from gateway.effects import Dropped, Reason, State
from tests.admin.example import LINE, LINK, NUMBERS, SERIAL_LINK, news

QUIET_LINK: LinkNumbers = replace(LINK, receive_buffer_drops=0)
QUIET: Numbers = replace(
    NUMBERS,
    clients_overdue=0,
    links=(QUIET_LINK,),
    event_loop_lag_s=0.01,
    journal=JournalNumbers(),
    state=StateNumbers(),
)


def test_a_good_day_has_no_alarms() -> None:
    told = news()
    told.tell(Dropped(Reason.MALFORMED))
    assert alarms(QUIET, told) == []


def test_a_line_that_is_not_to_be_had_is_told_by_its_name() -> None:
    line = replace(LINE, problem="/dev/ttyUSB0: it was unplugged")
    links = (QUIET_LINK, replace(SERIAL_LINK, line=line))
    assert alarms(replace(QUIET, links=links), news()) == [
        "serial0: /dev/ttyUSB0: it was unplugged"
    ]


def test_a_bad_day_says_what_to_do_about_each() -> None:
    told = news()
    told.tell(Dropped(Reason.CLIENTS_FULL, count=3))
    away = replace(
        NUMBERS,
        upstream_connected=False,
        upstream_state="trying",
        clients_by_state={State.LOST: 2},
    )
    text = "\n".join(alarms(away, told))
    for part in (
        "the broker is away: trying",
        "the journal is full, 201 readings wait",
        "216 readings on disk could not be read back",
        "sessions cannot be saved",
        "lost: 2; `tidegate clients --state lost`",
        "overdue: 1; `tidegate clients --overdue`",
        "the event loop was 0.2 s late",
        "104 datagrams came faster",
        "dropped, clients_full: 3: raise limits.clients_max",
    ):
        assert part in text


def test_a_journal_that_fills_is_told_before_it_is_full() -> None:
    assert alarms(replace(QUIET, journal=JournalNumbers(fill=0.8)), news()) == []
    (alarm,) = alarms(replace(QUIET, journal=JournalNumbers(fill=0.81)), news())
    assert "81 % full" in alarm
