"""/metrics as Prometheus' own parser reads it, and the reference made from the same table."""

from __future__ import annotations

import math
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest
from prometheus_client.parser import text_string_to_metric_families

from gateway.admin.event_log import EventLog
from gateway.admin.metrics.exposition import METRICS, PROCESS_METRICS, Metrics
from gateway.admin.metrics.metric import Kind
from gateway.admin.metrics.reference import FRAME_RESULTS, reference
from gateway.admin.numbers import Numbers
from gateway.admin.part_numbers import Condition, JournalNumbers
from gateway.core.alarm_names import AlarmName
from gateway.core.drop_reasons import Reason
from gateway.core.effects import Dropped
from gateway.core.state_records import ClientId, State
from gateway.transports.framing.counters import Fault
from tests.admin.example import DTLS_LINK, LINK, NUMBERS, eventful_news, news

REPOSITORY = Path(__file__).parents[2]


def exposition(told: EventLog, numbers: Numbers = NUMBERS) -> str:
    body, content_type = Metrics(lambda: numbers, told, "0.1.0").render()
    assert content_type == "text/plain; version=0.0.4; charset=utf-8"
    return body.decode()


def samples(told: EventLog, numbers: Numbers = NUMBERS) -> dict[str, float]:
    """By `name{value,value}`, labels by alphabet; without those of the process."""
    return {
        f"{sample.name}{{{','.join(sample.labels.values())}}}": sample.value
        for family in text_string_to_metric_families(exposition(told, numbers))
        for sample in family.samples
        if sample.name.startswith("tidegate_")
    }


EXPECTED = {
    "tidegate_build_info{0.1.0}": 1,
    "tidegate_uptime_seconds{}": 1.5,
    "tidegate_event_loop_lag_seconds{}": 0.25,
    "tidegate_process_pauses_total{}": 2,
    "tidegate_process_pause_seconds_total{}": 20.5,
    "tidegate_clients{disconnected}": 0,
    "tidegate_clients{connecting}": 0,
    "tidegate_clients{active}": 2,
    "tidegate_clients{asleep}": 30,
    "tidegate_clients{awake}": 0,
    "tidegate_clients{lost}": 0,
    "tidegate_unproven_clients{}": 3,
    "tidegate_clients_overdue{}": 1,
    **{f"tidegate_client_transitions_total{{{state.value}}}": 0 for state in State},
    "tidegate_client_transitions_total{lost}": 1,
    "tidegate_client_rebinds_total{}": 6,
    "tidegate_readings_total{0}": 20,
    "tidegate_readings_total{1}": 21,
    "tidegate_readings_total{2}": 22,
    "tidegate_deliveries_total{0}": 40,
    "tidegate_deliveries_total{1}": 41,
    "tidegate_deliveries_total{2}": 42,
    **{f"tidegate_dropped_total{{{reason.value}}}": 0 for reason in Reason},
    "tidegate_dropped_total{outbox_full}": 7,
    "tidegate_outbox_messages{}": 61,
    "tidegate_subscriptions{}": 4,
    "tidegate_covering_subscriptions{}": 3,
    "tidegate_retained_messages{}": 5,
    "tidegate_retained_bytes{}": 600,
    "tidegate_upstream_connected{}": 1,
    "tidegate_upstream_connects_total{}": 7,
    "tidegate_upstream_sessions_kept_total{}": 2,
    "tidegate_upstream_sessions_new_total{}": 1,
    "tidegate_upstream_resent_total{}": 10,
    "tidegate_upstream_refusals_total{}": 3,
    "tidegate_subscription_refusals_total{}": 4,
    "tidegate_upstream_in_flight_messages{}": 8,
    "tidegate_upstream_waiting_messages{}": 9,
    "tidegate_upstream_waiting_bytes{}": 1000,
    "tidegate_upstream_received_bytes_total{}": 1100,
    "tidegate_upstream_sent_bytes_total{}": 1200,
    "tidegate_said_total{}": 1250,
    **{f"tidegate_journal_condition{{{condition.value}}}": 0 for condition in Condition},
    "tidegate_journal_condition{full}": 1,
    "tidegate_journal_readings{}": 201,
    "tidegate_journal_parked_readings{}": 202,
    "tidegate_journal_used_bytes{}": 300 * 2**20,
    "tidegate_journal_budget_bytes{}": 400 * 2**20,
    "tidegate_journal_oldest_age_seconds{}": 205.5,
    "tidegate_journal_segments{}": 206,
    "tidegate_journal_fill_ratio{}": 0.75,
    "tidegate_journal_damages_total{}": 207,
    "tidegate_journal_lost_total{}": 216,
    "tidegate_journal_out_of_reach_readings{}": 0,
    "tidegate_journal_dropped_oldest_total{}": 217,
    "tidegate_journal_syncs_total{}": 218,
    "tidegate_journal_failures_total{}": 219,
    "tidegate_journal_stored_total{}": 208,
    "tidegate_journal_finished_total{}": 209,
    "tidegate_journal_groups_total{}": 211,
    "tidegate_journal_written_bytes_total{}": 212,
    "tidegate_journal_sync_seconds{0.5}": 0.213,
    "tidegate_journal_sync_seconds{0.99}": 0.214,
    "tidegate_journal_sync_seconds{1}": 0.215,
    "tidegate_journal_sync_seconds_sum{}": 0.216,
    "tidegate_journal_sync_seconds_count{}": 217.0,
    "tidegate_ingest_kept_readings{}": 401,
    "tidegate_ingest_oldest_kept_seconds{}": 402.0,
    "tidegate_ingest_ingested_total{}": 404,
    "tidegate_ingest_sent_again_total{}": 405,
    "tidegate_ingest_receipts_total{}": 406,
    "tidegate_ingest_bad_receipts_total{}": 407,
    "tidegate_ingest_unkept_total{}": 408,
    "tidegate_ingest_given_up_total{}": 409,
    "tidegate_ingest_unreadable_total{}": 410,
    **{f"tidegate_state_condition{{{condition.value}}}": 0 for condition in Condition},
    "tidegate_state_condition{degraded}": 1,
    "tidegate_state_pending_rows{}": 301,
    "tidegate_state_commits_total{}": 302,
    "tidegate_state_commit_failures_total{}": 303,
    "tidegate_state_file_bytes{}": 304,
    "tidegate_memory_scarce{}": 0,
    "tidegate_memory_used_bytes{}": 504,
    "tidegate_memory_limit_bytes{}": 505,
    "tidegate_log_lines_lost_total{}": 501,
    "tidegate_slow_callbacks_total{page}": 601,
    "tidegate_discovery{unable}": 0,
    "tidegate_discovery{standby}": 1,
    "tidegate_discovery{advertising}": 0,
    "tidegate_multicast_joined{udp 0.0.0.0:1883}": 1,
    "tidegate_frames_total{received,PUBLISH}": 51,
    "tidegate_frames_total{received,CONNECT}": 52,
    "tidegate_frames_total{sent,PUBACK}": 53,
    "tidegate_datagrams_total{received,udp 0.0.0.0:1883}": 101,
    "tidegate_datagrams_total{sent,udp 0.0.0.0:1883}": 102,
    "tidegate_datagram_send_failures_total{udp 0.0.0.0:1883}": 103,
    "tidegate_receive_buffer_drops_total{udp 0.0.0.0:1883}": 104,
    "tidegate_truncated_datagrams_total{udp 0.0.0.0:1883}": 105,
    "tidegate_outside_networks_datagrams_total{udp 0.0.0.0:1883}": 106,
    "tidegate_datagrams_total{received,serial0}": 115,
    "tidegate_datagrams_total{sent,serial0}": 119,
    "tidegate_datagram_send_failures_total{serial0}": 109,
    "tidegate_serial_open{serial0}": 1,
    "tidegate_serial_opens_total{serial0}": 111,
    "tidegate_serial_losses_total{serial0}": 110,
    "tidegate_serial_frames_total{serial0,good}": 115,
    "tidegate_serial_frames_total{serial0,bad_check}": 116,
    "tidegate_serial_resyncs_total{serial0}": 117,
    "tidegate_serial_chatter_bytes_total{serial0}": 118,
    "tidegate_serial_bytes_total{received,serial0}": 112,
    "tidegate_serial_bytes_total{sent,serial0}": 113,
    "tidegate_serial_waiting_bytes{serial0}": 114,
    "tidegate_aside_readings{}": 701,
    "tidegate_aside_bytes{}": 702,
    "tidegate_set_aside_total{}": 703,
    "tidegate_upstream_blocked_subjects{}": 4,
    **{f"tidegate_alarm{{{name.value}}}": 0 for name in AlarmName},
    "tidegate_alarm{set_aside}": 1,
    "tidegate_alarm{broker_ends_connections}": 1,
    "tidegate_alarm{journal_full}": 1,
    "tidegate_alarm{readings_unreadable}": 1,
    "tidegate_alarm{state_not_saved}": 1,
    "tidegate_alarm{ingest}": 1,
    "tidegate_alarm{clients_overdue}": 1,
    "tidegate_alarm{event_loop_late}": 1,
    "tidegate_alarm{datagrams_lost}": 1,
    "tidegate_alarm{dropped}": 1,
    "tidegate_unmoved_seconds{uplink_stalled}": 12.5,
}


def test_each_number_is_where_it_belongs() -> None:
    assert samples(eventful_news()) == EXPECTED


def test_a_journal_that_never_synced_has_no_time_of_syncing_and_no_oldest_reading() -> None:
    text = exposition(news(), replace(NUMBERS, journal=JournalNumbers()))
    assert "\ntidegate_journal_sync_seconds{" not in text
    assert "\ntidegate_journal_oldest_age_seconds 0.0\n" in text
    assert '\ntidegate_journal_condition{condition="ok"} 1.0\n' in text


def test_a_link_with_dtls_has_series_of_its_own() -> None:
    found = samples(news(), replace(NUMBERS, links=(LINK, DTLS_LINK)))
    assert {name: value for name, value in found.items() if "_dtls_" in name} == {
        "tidegate_dtls_sessions{udp1}": 121,
        "tidegate_dtls_half_open{udp1}": 122,
        "tidegate_dtls_handshakes_total{udp1}": 123,
        "tidegate_dtls_refused_total{udp1,failed}": 124,
        "tidegate_dtls_refused_total{udp1,unknown_key}": 125,
        "tidegate_dtls_hellos_total{udp1}": 126,
        "tidegate_dtls_hellos_dropped_total{udp1}": 127,
        "tidegate_dtls_records_refused_total{udp1}": 128,
        "tidegate_dtls_unsent_total{udp1}": 129,
        "tidegate_dtls_sessions_ended_total{udp1,idle}": 130,
    }


def test_a_link_without_a_group_has_no_series_about_one() -> None:
    links = (replace(LINK, group_joined=None), replace(LINK, name="udp1", group_joined=False))
    text = exposition(news(), replace(NUMBERS, links=links))
    (line,) = [line for line in text.splitlines() if line.startswith("tidegate_multicast_joined")]
    assert line == 'tidegate_multicast_joined{link="udp1"} 0.0'


@pytest.mark.parametrize("name", ['a "b"', "a\\b", "a\nb", "a{b=1}", "é"])
def test_any_name_of_a_link_reaches_prometheus(name: str) -> None:
    text = exposition(news(), replace(NUMBERS, links=(replace(LINK, name=name),)))
    found = {
        sample.labels["link"]
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == "tidegate_multicast_joined"
    }
    assert found == {name}


@pytest.mark.parametrize("number", [0.0, 1e300, -1.5, math.inf, -math.inf, math.nan])
def test_any_number_reaches_prometheus(number: float) -> None:
    text = exposition(news(), replace(NUMBERS, uptime_s=number))
    (family,) = (
        family
        for family in text_string_to_metric_families(text)
        if family.name == "tidegate_uptime_seconds"
    )
    (sample,) = family.samples
    assert sample.value == number or (math.isnan(number) and math.isnan(sample.value))


def test_the_results_of_frames_are_those_that_a_line_counts() -> None:
    assert ("good", *get_args(Fault)) == FRAME_RESULTS


def test_what_clients_choose_makes_no_series() -> None:
    told = news()
    before = set(samples(told))
    for number in range(100):
        told.record(Dropped(Reason.BAD_TOPIC, ClientId(f"client{number}"), f"topic{number}"))
    assert set(samples(told)) == before
    assert "client1" not in exposition(told)


def test_types_and_help_reach_prometheus_as_the_table_has_them() -> None:
    families = {
        family.name: family for family in text_string_to_metric_families(exposition(news()))
    }
    for metric in METRICS:
        # The parser, as Prometheus itself once did, names a counter without its suffix.
        family = families[metric.name.removesuffix("_total")]
        assert family.type == metric.kind.value
        assert family.documentation == f"{metric.help}."
        for sample in family.samples:
            is_whole = sample.name in (f"{metric.name}_sum", f"{metric.name}_count")
            assert set(sample.labels) == (set() if is_whole else set(metric.labels))


def test_names_follow_the_conventions() -> None:
    names = [metric.name for metric in METRICS]
    assert len(set(names)) == len(names)
    for metric in METRICS:
        assert metric.name.startswith("tidegate_")
        assert metric.name.endswith("_total") == (metric.kind is Kind.COUNTER)


def test_the_process_is_measured_as_documented() -> None:
    found = {
        sample.name: sample.value
        for family in text_string_to_metric_families(exposition(news()))
        for sample in family.samples
    }
    assert {name for name, _, _ in PROCESS_METRICS} <= set(found)
    assert found["process_resident_memory_bytes"] > 1_000_000
    assert not any(name.startswith("python_") for name in found)


def test_the_reference_in_docs_is_what_the_code_says() -> None:
    made = subprocess.run(
        [sys.executable, "-m", "gateway.admin.metrics.reference"],
        cwd=REPOSITORY,
        capture_output=True,
        check=True,
    )
    stale = "docs/metrics.md is stale: python -m gateway.admin.metrics.reference > docs/metrics.md"
    assert (REPOSITORY / "docs" / "metrics.md").read_bytes() == made.stdout, stale


def test_the_reference_names_every_metric_and_label_value() -> None:
    text = reference()
    for metric in METRICS:
        assert f"| `{metric.name}` | {metric.kind.value} |" in text
        for label in metric.labels:
            assert f"\n| `{label}` |" in text
