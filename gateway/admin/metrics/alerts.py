"""What is worth an alert. docs/metrics.md lists it, and the rules for Prometheus are made from it:
`python -m gateway.admin.metrics.alerts >docs/examples/monitoring/alerts.yaml`.
"""

from __future__ import annotations

import json
import re
import sys
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Alert:
    """`minutes`: for how long the expression must hold. `meaning` may have links and code of
    Markdown; `critical` is what risks readings or stops service.
    """

    name: str
    expression: str
    meaning: str
    minutes: int = 0
    severity: Literal["warning", "critical"] = "warning"


# fmt: off
ALERTS = (
    Alert("StandsStill",
          'tidegate_alarm{alarm=~".*_stalled|.*_unanswered|answer_overdue|timer_overdue'
          '|.*_for_disk"} == 1',
          "something [stands still](guarantees.md#liveness); `/healthz` says what, since when and "
          "why", severity="critical"),
    Alert("BrokerAway", "tidegate_upstream_connected == 0",
          "readings wait for the broker", minutes=5),
    Alert("LimitReached", 'rate(tidegate_dropped_total{reason=~".*_full"}[5m]) > 0',
          "a limit of the configuration is reached"),
    Alert("JournalNotWell", 'tidegate_journal_condition{condition="ok"} == 0',
          "the journal is full, or the disk fails", severity="critical"),
    Alert("JournalFills", "tidegate_journal_fill_ratio > 0.8", "the journal will be full"),
    Alert("JournalDamaged", "increase(tidegate_journal_lost_total[1d]) > 0",
          "the card has damaged what was stored on it", severity="critical"),
    Alert("JournalFilesGone", "tidegate_journal_out_of_reach_readings > 0",
          "files of the journal were removed, moved, or belong to another user now",
          severity="critical"),
    Alert("SlowDisk", 'tidegate_journal_sync_seconds{quantile="0.99"} > 0.5',
          "the card is worn out or overloaded"),
    Alert("SetAside", "tidegate_aside_readings > 0",
          "the broker refuses readings for good: `tidegate buffer aside` lists them"),
    Alert("IngestAway", "tidegate_ingest_oldest_kept_seconds > 3600",
          "readings are kept for an ingest that does not take them, or does not say so"),
    Alert("SensorLost", 'increase(tidegate_client_transitions_total{state="lost"}[1h]) > 0',
          "a sensor has gone silent"),
    Alert("SensorsOverdue", "tidegate_clients_overdue > 0",
          "sensors keep coming later than they said; those that do not come at all are lost soon",
          minutes=5),
    Alert("DtlsRefused",
          'increase(tidegate_dtls_refused_total{reason=~"failed|unknown_key|not_allowed"}[10m])'
          " > 5",
          "handshakes come with a wrong key, name or certificate: a sensor that was set up wrong, "
          "or one that guesses", minutes=10),
    Alert("DtlsFull",
          'increase(tidegate_dtls_refused_total{reason="sessions_full"}[10m]) > 0',
          "sensors find no place: see dtls.sessions_max"),
    Alert("NotHeardByMulticast", "tidegate_multicast_joined == 0",
          "sensors cannot search for this gateway"),
    Alert("StandbyTookOver", 'tidegate_discovery{part="advertising", job="tidegate-standby"} == 1',
          "the gateway that this standby stands in for is gone (others always advertise, so scrape "
          "a standby as a job of its own)"),
    Alert("DatagramsLost", "rate(tidegate_receive_buffer_drops_total[5m]) > 0",
          "datagrams come faster than they are taken"),
    Alert("SerialPortGone", "tidegate_serial_open == 0",
          "a cable is pulled, or the port cannot be opened", minutes=5),
    Alert("SerialNoise", 'rate(tidegate_serial_frames_total{result!="good"}[15m]) > 0',
          "a cable, a missing ground, or a baud rate that fits only nearly"),
    Alert("Overloaded", "tidegate_event_loop_lag_seconds > 1",
          "the machine is overloaded; `rate(tidegate_slow_callbacks_total[5m])` says by what"),
    Alert("LogNotRead", "increase(tidegate_log_lines_lost_total[1h]) > 0",
          "the log is not read, or its disk is full"),
)
# fmt: on

_HEAD = """\
# Made by `python -m gateway.admin.metrics.alerts`; docs/metrics.md has them with their meanings.
groups:
  - name: tidegate
    rules:
      - alert: TidegateDown
        expr: 'up{job=~"tidegate.*"} == 0'
        for: 2m
        labels: {severity: critical}
        annotations:
          summary: "{{ $labels.instance }}: no answer to a scrape"
"""


def listed() -> str:
    """As docs/metrics.md has them."""
    return "".join(
        f"- `{alert.expression}`{_minutes(alert)}: {alert.meaning}.\n" for alert in ALERTS
    )


def rules() -> str:
    return _HEAD + "".join(_rule(alert) for alert in ALERTS)


def _minutes(alert: Alert) -> str:
    return f" for {alert.minutes} minutes" if alert.minutes else ""


def _rule(alert: Alert) -> str:
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", alert.meaning).replace("`", "")
    held = f"        for: {alert.minutes}m\n" if alert.minutes else ""
    return (
        f"      - alert: Tidegate{alert.name}\n"
        f"        expr: '{alert.expression}'\n"
        f"{held}"
        f"        labels: {{severity: {alert.severity}}}\n"
        "        annotations:\n"
        f"          summary: {json.dumps('{{ $labels.instance }}: ' + plain)}\n"
    )


if __name__ == "__main__":
    sys.stdout.write(rules())
