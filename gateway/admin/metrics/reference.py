"""docs/metrics.md, made from the table of metrics: `python -m gateway.admin.metrics.reference`."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from gateway.admin.metrics.table import METRICS, PROCESS_METRICS
from gateway.admin.numbers import Condition
from gateway.core.alarm_names import AlarmName
from gateway.core.drop_reasons import Reason
from gateway.core.effects import DiscoveryRole
from gateway.core.state_records import State
from gateway.host.slow_callbacks import Callback

_HEAD = """\
# Metrics

<!-- Made by `python -m gateway.admin.metrics.reference` from table.py beside it; edit that. -->

`http://127.0.0.1:8080/metrics` (see `admin.listen`) answers in Prometheus' text format:

```yaml
scrape_configs:
  - job_name: tidegate
    static_configs:
      - targets: ["127.0.0.1:8080"]
```

Names end with their base unit, and with `_total` where they only grow. Counters begin at 0 with
each start of the gateway. No label holds anything a sensor chose, so the number of series does not
grow with the number of sensors; which sensor it was stands in the log.

Worth an alert:

- `tidegate_alarm{alarm=~".*_stalled|.*_unanswered|answer_overdue|timer_overdue|.*_for_disk"} == 1`:
  something [stands still](guarantees.md#liveness); `/healthz` says what, since when and why.
- `tidegate_upstream_connected == 0` for some minutes: readings wait for the broker.
- `rate(tidegate_dropped_total{reason=~".*_full"}[5m]) > 0`: a limit of the configuration is
  reached.
- `tidegate_journal_condition{condition="ok"} == 0`: the journal is full, or the disk fails.
- `tidegate_multicast_joined == 0`, or `tidegate_discovery{part="advertising"}` of a standby at 1:
  sensors cannot search for this gateway, or the one it stands in for is gone.
- `tidegate_journal_fill_ratio > 0.8`: the journal will be full.
- `tidegate_ingest_oldest_kept_seconds > 3600`: readings are kept for an ingest that does not take
  them, or does not say so.
- `increase(tidegate_journal_lost_total[1d]) > 0`: the card has damaged what was stored on it.
- `tidegate_journal_out_of_reach_readings > 0`: files of the journal were removed, moved, or belong
  to another user now.
- `tidegate_journal_sync_seconds{quantile="0.99"} > 0.5`: the card is worn out or overloaded.
- `increase(tidegate_client_transitions_total{state="lost"}[1h]) > 0`: a sensor has gone silent.
- `tidegate_clients_overdue > 0` for some minutes: sensors keep coming later than they said; those
  that do not come at all are lost soon.
- `rate(tidegate_receive_buffer_drops_total[5m]) > 0`: datagrams come faster than they are taken.
- `tidegate_serial_open == 0` for some minutes: a cable is pulled, or a port is not to be had.
- `rate(tidegate_serial_frames_total{result!="good"}[15m]) > 0`: a cable, a missing ground, or a
  baud rate that fits only nearly.
- `tidegate_event_loop_lag_seconds > 1`: the machine is overloaded;
  `rate(tidegate_slow_callbacks_total[5m])` says by what.
- `increase(tidegate_log_lines_lost_total[1h]) > 0`: nobody reads the log, or its disk is full.

"""

# The counters of gateway/lines that are about one frame.
FRAME_RESULTS = ("good", "bad_check", "too_long", "too_short", "aborted", "not_messages")


def reference() -> str:
    lines = [
        "## The gateway",
        "",
        "| Name | Type | Labels | Meaning |",
        "|---|---|---|---|",
        *(
            f"| `{metric.name}` | {metric.kind.value} | {_code(metric.labels)} | {metric.help}. |"
            for metric in METRICS
        ),
        "",
        "## Its process",
        "",
        "| Name | Type | Meaning |",
        "|---|---|---|",
        *(f"| `{name}` | {kind.value} | {help_}. |" for name, kind, help_ in PROCESS_METRICS),
        "",
        "## Labels",
        "",
        "| Label | Values |",
        "|---|---|",
        f"| `state` | {_code(state.value for state in State)} |",
        f"| `reason` | {_code(reason.value for reason in Reason)} |",
        "| `qos` | `0`, `1`, `2` |",
        "| `type` | MQTT-SN's name of the frame, such as `PUBLISH` |",
        "| `direction` | `received`, `sent` |",
        "| `link` | `udp0`, `serial0`: the first `[[udp]]`, the first `[[serial]]`, and so on |",
        f"| `result` | {_code(FRAME_RESULTS)} |",
        f"| `condition` | {_code(condition.value for condition in Condition)} |",
        f"| `alarm` | {_code(name.value for name in AlarmName)} |",
        f"| `part` | {_code(part.value for part in DiscoveryRole)} |",
        f"| `callback` | {_code(callback.value for callback in Callback)} |",
        "| `quantile` | `0.5`, `0.99`, `1` |",
        "| `version` | of Tidegate |",
    ]
    return _HEAD + "\n".join(lines) + "\n"


def _code(words: Iterable[str]) -> str:
    return ", ".join(f"`{word}`" for word in words)


if __name__ == "__main__":
    sys.stdout.write(reference())
