"""What an operator is told to look at, and that a good day has no alarms."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from gateway.admin.alarms import alarms, named_alarms
from gateway.admin.aside import AsideNumbers
from gateway.admin.http.answers import status
from gateway.admin.numbers import Numbers
from gateway.admin.part_numbers import (
    Cause,
    Condition,
    IngestNumbers,
    JournalNumbers,
    LinkNumbers,
    LogNumbers,
    MemoryNumbers,
    SharedId,
    Standstill,
    StateNumbers,
)
from gateway.core.alarm_names import AlarmName
from gateway.core.drop_reasons import Reason
from gateway.core.effects import Dropped
from gateway.core.state_records import State
from gateway.presence.numbers import PresenceNumbers
from tests.admin.example import LINE, LINK, NUMBERS, SERIAL_LINK, news

QUIET_LINK: LinkNumbers = replace(LINK, receive_buffer_drops=0)
QUIET: Numbers = replace(
    NUMBERS,
    clients_overdue=0,
    links=(QUIET_LINK,),
    event_loop_lag_s=0.01,
    journal=JournalNumbers(),
    state=StateNumbers(),
    ingest=IngestNumbers(),
    aside=AsideNumbers(),
)


def test_values_that_a_limit_keeps_from_home_assistant_are_an_alarm() -> None:
    notices = PresenceNumbers(left_out="'tank' on 't': more than 64 values")
    (told,) = alarms(replace(QUIET, notices=notices), news())
    assert "more than 64 values: raise the limit" in told


def test_keys_that_wait_for_a_restart_are_an_alarm_with_the_command() -> None:
    wanted = "1 changed keys wait for a restart (udp.0.security): sudo systemctl restart tidegate"
    ((name, told),) = named_alarms(replace(QUIET, restart_wanted=wanted), news())
    assert (name, told) == (AlarmName.RESTART_WANTED, wanted)


def test_a_good_day_has_no_alarms() -> None:
    told = news()
    told.record(Dropped(Reason.MALFORMED))
    assert alarms(QUIET, told) == []


STALLED = Standstill(
    name=AlarmName.UPLINK_STALLED, cause=Cause.BROKER, what="7 readings wait", unmoved_s=31.4
)


def test_a_standstill_is_told_with_its_name_its_cause_and_what_helps() -> None:
    ((name, sentence),) = named_alarms(replace(QUIET, standstills=(STALLED,)), news())
    assert name is AlarmName.UPLINK_STALLED
    assert sentence.startswith("7 readings wait; nothing of it has moved for 31 s: the broker is")
    body = status("gh", "1.0", replace(QUIET, standstills=(STALLED,)), news())
    assert body["alarms"] == [sentence]
    assert body["alarm_names"] == ["uplink_stalled"]
    assert body["standstills"] == [{"name": "uplink_stalled", "cause": "broker", "unmoved_s": 31.4}]


def test_a_client_id_at_two_addresses_is_named_with_both() -> None:
    shared = SharedId(client="s1", one="192.0.2.7:1883", other="192.0.2.8:1883")
    ((name, sentence),) = named_alarms(replace(QUIET, shared_ids=[shared]), news())
    assert name is AlarmName.CLIENT_ID_SHARED
    assert sentence == (
        "client id 's1' is in use at two addresses in turn, 192.0.2.7:1883 and 192.0.2.8:1883: "
        "give each sensor an id of its own"
    )
    ((_, of_two),) = named_alarms(replace(QUIET, shared_ids=[shared, shared]), news())
    assert "; so is 1 more: give" in of_two


@pytest.mark.parametrize(
    ("journal", "name"),
    [
        (JournalNumbers(condition=Condition.FAILED), AlarmName.JOURNAL_FAILED),
        (JournalNumbers(out_of_reach=7, backlog_problem="gone"), AlarmName.BACKLOG_UNREADABLE),
        (JournalNumbers(condition=Condition.DEGRADED), AlarmName.JOURNAL_DEGRADED),
        (JournalNumbers(condition=Condition.FULL), AlarmName.JOURNAL_FULL),
        (JournalNumbers(fill=0.9), AlarmName.JOURNAL_FILLING),
        (JournalNumbers(lost=1), AlarmName.READINGS_UNREADABLE),
    ],
)
def test_each_trouble_of_the_journal_has_a_name(journal: JournalNumbers, name: AlarmName) -> None:
    ((found, _),) = named_alarms(replace(QUIET, journal=journal), news())
    assert found is name


def test_a_line_that_is_not_to_be_had_is_told_by_its_name() -> None:
    line = replace(LINE, problem="/dev/ttyUSB0: it was unplugged")
    links = (QUIET_LINK, replace(SERIAL_LINK, line=line))
    assert alarms(replace(QUIET, links=links), news()) == [
        "serial0: /dev/ttyUSB0: it was unplugged"
    ]


def test_a_listener_without_its_address_is_reported() -> None:
    links = (replace(QUIET_LINK, lost_address="it is gone"),)
    assert alarms(replace(QUIET, links=links), news()) == [f"{LINK.name}: it is gone"]


def test_a_bad_day_says_what_to_do_about_each() -> None:
    told = news()
    told.record(Dropped(Reason.CLIENTS_FULL, count=3))
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


def test_what_was_lost_of_the_state_and_little_memory_are_told() -> None:
    state = StateNumbers(lost="the write-ahead log of state.db is damaged: 2 commits")
    memory = MemoryNumbers(True, 95 << 20, 100 << 20, "its control group (x)")
    found = dict(named_alarms(replace(QUIET, state=state, memory=memory), news()))
    assert found[AlarmName.STATE_LOST].startswith("the write-ahead log of state.db is damaged")
    assert "95 % of the 100 MiB of its control group (x)" in found[AlarmName.MEMORY_SCARCE]


def test_a_log_that_is_not_read_or_written_is_told_while_it_lasts() -> None:
    (alarm,) = alarms(replace(QUIET, log=LogNumbers(12, blocked_s=125.0)), news())
    assert alarm.startswith(
        "the log is not read, nothing could be written for 2 min 5 s, 12 lines were lost: "
    )
    (alarm,) = alarms(replace(QUIET, log=LogNumbers(3, error="Broken pipe")), news())
    assert alarm.startswith("the log cannot be written (Broken pipe), 3 lines were lost: ")
    assert alarms(replace(QUIET, log=LogNumbers(12)), news()) == []


def test_what_home_assistant_does_not_get_is_told() -> None:
    notices = PresenceNumbers(
        refusal="SUBACK 0x87",
        announcement_refusal="PUBACK 0x87",
        error="/state/announced.jsonl: disk full",
    )
    refused, unannounced, failed = alarms(replace(QUIET, notices=notices), news())
    assert "does not say when Home Assistant starts, SUBACK 0x87: let the gateway" in refused
    assert "takes no announcement for Home Assistant, PUBACK 0x87: let the gateway" in unannounced
    assert "not noted, /state/announced.jsonl: disk full" in failed


KEPT = IngestNumbers(is_on=True, timeout_s=300.0, kept=7, oldest_age_s=700.0, heard_age_s=2.0)


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"oldest_age_s": 500.0}, None),
        ({"oldest_age_s": None, "kept": 0}, None),
        ({}, "7 readings are kept, the oldest for .* collector.topics cover"),
        ({"heard_age_s": None}, "no ingest says that it has any: .*tidegate/ingest/gh/ack/#"),
        ({"heard_age_s": 301.0}, "no ingest says that it has any"),
        (
            {"refusal": "SUBACK 0x87"},
            "receipts are not heard, SUBACK 0x87: let it subscribe to",
        ),
        ({"kept": 0, "oldest_age_s": None, "bad_receipts": 3}, "3 receipts were not believed"),
        ({"kept": 0, "oldest_age_s": None, "unkept": 2, "given_up": 3}, "5 readings are at the"),
    ],
)
def test_what_is_not_ingested_is_told_with_what_to_see_to(
    changed: dict[str, Any], told: str | None
) -> None:
    found = alarms(replace(QUIET, ingest=replace(KEPT, **changed)), news(), "gh")
    assert len(found) == (told is not None)
    assert told is None or re.search(told, found[0])


def test_what_is_set_aside_names_its_sensor_and_topic() -> None:
    (first, second) = alarms(replace(QUIET, aside=NUMBERS.aside), news())
    assert first == (
        "701 readings are set aside, which the broker does not take, of pump on 'pumps/x' and of 1 "
        "more: see `tidegate buffer aside`"
    )
    assert second.startswith(
        "the broker has ended the connection for readings of pump on 'pumps/x' and 3 more: not sent"
    )


def test_what_ends_the_connection_is_named_alone_if_it_is_alone() -> None:
    filters = AsideNumbers(blocked_filters=("cmd/#",))
    (one,) = alarms(replace(QUIET, aside=filters), news())
    assert one.startswith("the broker has ended the connection for the filter 'cmd/#': not sent")
    own = AsideNumbers(blocked_own_topics=("tidegate/gh/stats",))
    (one,) = alarms(replace(QUIET, aside=own), news())
    assert "for our own topic 'tidegate/gh/stats': not sent" in one
