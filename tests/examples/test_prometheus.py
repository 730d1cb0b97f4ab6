"""A real Prometheus and a real gateway: each panel of the dashboard and each alert finds data.

Prometheus has the configuration docs/examples/compose/prometheus/prometheus.yml, with the addresses
of this machine in place of those of containers.
"""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import tty
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from hil.rig.gateway import GatewayProcess
from hil.rig.mosquitto import Mosquitto
from tests.examples import EXAMPLES, REPOSITORY
from tests.examples.test_monitoring import PANELS, RULES
from tests.support.prometheus import Prometheus
from tests.support.starting import PAGE
from tests.support.waiting import until

CONFIG = EXAMPLES / "compose" / "prometheus" / "prometheus.yml"
IN_CONTAINERS, RULES_IN_CONTAINERS = '"tidegate:8080"', "/etc/tidegate-monitoring/alerts.yaml"
# With these each metric has a value: of a group, of a serial line, of a standby, of an ingest.
MORE = """
[discovery]
standby = true
[[udp]]
listen = "127.0.0.1:0"
multicast = "239.192.7.7:1885"
multicast_interface = "lo"
[[udp]]
listen = "127.0.0.1:0"
security = "dtls-psk"
[[serial]]
port = "{port}"
[journal]
keep_until_ingested = true
"""
SCRAPE_S = "1s"
DATA_S_MAX = 30.0
STANDBY = "tidegate-standby"
NOISE = b"~%s~" % bytes(range(128, 160))  # its check is wrong


def configured(page: str) -> str:
    """The example's, at once instead of every 15 s, with this gateway as two jobs."""
    text = CONFIG.read_text(encoding="utf-8")
    assert IN_CONTAINERS in text
    assert RULES_IN_CONTAINERS in text
    address = f'"{page.removeprefix("http://")}"'
    text = text.replace(IN_CONTAINERS, address).replace(RULES_IN_CONTAINERS, str(RULES))
    text = re.sub(r"(scrape_interval|evaluation_interval): \w+", rf"\1: {SCRAPE_S}", text)
    standby = f"  - job_name: {STANDBY}\n    static_configs:\n      - targets: [{address}]\n"
    return text + standby


@contextmanager
def serial_line() -> Iterator[tuple[int, str]]:
    """What is written to the first is read from the port of that name."""
    ours, port = os.openpty()
    tty.setraw(port)
    try:
        yield ours, os.ttyname(port)
    finally:
        os.close(ours)
        os.close(port)


@contextmanager
def simulated(udp_port: int) -> Iterator[None]:
    """Sensors that publish as long as this lasts."""
    where = f"127.0.0.1:{udp_port}"
    words = ["simulate", "--gateway", where, "--seconds", "600", "--interval", "0.5"]
    with subprocess.Popen(
        [sys.executable, "-m", "gateway", *words], cwd=REPOSITORY, stdout=subprocess.DEVNULL
    ) as sensors:
        try:
            yield
        finally:
            sensors.terminate()


def in_grafana(expression: str) -> str:
    """As Grafana asks it, of all gateways."""
    return expression.replace("$instance", ".*").replace("$__rate_interval", "1m")


def measured(expression: str) -> str:
    """What an alert compares, without the comparison, which holds while something is wrong."""
    found = re.fullmatch(r"(.+) (?:==|>) [\d.]+", expression)
    assert found is not None, expression
    return found[1]


def test_each_panel_and_each_alert_finds_data_in_a_gateway_at_work(tmp_path: Path) -> None:
    panels = {in_grafana(target["expr"]) for panel in PANELS for target in panel["targets"]}
    alerts = re.findall(r"^ +expr: '(.*)'$", RULES.read_text(encoding="utf-8"), re.MULTILINE)
    waiting = panels | set(map(measured, alerts))
    with (
        Mosquitto() as broker,
        serial_line() as (line, port),
        GatewayProcess(tmp_path, broker.url, PAGE + MORE.format(port=port)) as gateway,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as unknown,
    ):
        page = gateway.wait_for_log(r"status page on (http://\S+:\d+)").group(1)
        gateway.wait_until_connected()
        udp_port = gateway.port
        with Prometheus(tmp_path / "prometheus", configured(page)) as prometheus:

            def no_data() -> set[str]:
                unknown.sendto(b"\x02\xff", ("127.0.0.1", udp_port))  # it is dropped
                os.write(line, NOISE)
                waiting.difference_update([each for each in waiting if prometheus.query(each)])
                return waiting

            with simulated(udp_port), suppress(AssertionError):
                until(lambda: not no_data(), DATA_S_MAX)
            assert waiting == set()
            assert prometheus.targets() == {"tidegate": "up", STANDBY: "up"}
            rules = prometheus.rules()
            assert len(rules) == len(alerts)
            until(lambda: {each["health"] for each in prometheus.rules().values()} == {"ok"})
            assert rules["TidegateBrokerAway"]["state"] == "inactive"
            broker.kill()
            gateway.wait_for_log("unreachable")
            until(lambda: prometheus.rules()["TidegateBrokerAway"]["state"] == "pending")
            gateway.kill()
            until(lambda: prometheus.rules()["TidegateDown"]["state"] == "pending")
