"""docs/metrics.md, made from the table of metrics: `python -m gateway.admin.metrics.reference`."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from gateway.admin.metrics.alerts import listed
from gateway.admin.metrics.exposition import METRICS, PROCESS_METRICS
from gateway.admin.part_numbers import Condition
from gateway.core.alarm_names import AlarmName
from gateway.core.drop_reasons import Reason
from gateway.core.effects import DiscoveryRole
from gateway.core.state_records import State
from gateway.host.slow_callbacks import Callback

_HEAD = """\
# Metrics

<!-- Made by `python -m gateway.admin.metrics.reference` from the metrics in numbers.py,
exposition.py, and alerts.py; edit those. -->

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

Worth an alert ([rules for Prometheus](examples/monitoring/alerts.yaml), and a
[dashboard for Grafana](examples/monitoring/grafana.json) to import; both in containers:
[service.md](service.md#with-a-broker)):

"""

# The counters of gateway/lines that are about one frame.
FRAME_RESULTS = ("good", "bad_check", "too_long", "too_short", "aborted", "not_messages")


def reference() -> str:
    from gateway.transports.dtls.link import REFUSALS  # brings OpenSSL

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
        f"| `reason` | {_code(dict.fromkeys([*(reason.value for reason in Reason), *REFUSALS]))} |",
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
    return f"{_HEAD}{listed()}\n" + "\n".join(lines) + "\n"


def _code(words: Iterable[str]) -> str:
    return ", ".join(f"`{word}`" for word in words)


if __name__ == "__main__":
    sys.stdout.write(reference())
