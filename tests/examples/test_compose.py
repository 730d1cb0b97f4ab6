"""docs/examples/compose, which docs/service.md starts: the files against the Containerfile and the
gateway's keys, against the schema of compose files, mosquitto.conf by a real mosquitto, and the
whole by an engine's compose if there is one. No engine runs in the tests.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from gateway.config import load
from hil.rig.mosquitto import free_tcp_port
from tests.app.service.test_container import CONTAINERFILE, instructions
from tests.examples import EXAMPLES, REPOSITORY
from tests.examples.test_secure_broker import Broker
from tests.support.schemas import schema_fault

yaml: Any = pytest.importorskip("yaml", reason="PyYAML is in the environment on 64 bits only")
FOLDER = EXAMPLES / "compose"
FILES = ("compose.yaml", "host_broker.yaml", "monitoring.yaml")
MONITORING = EXAMPLES / "monitoring"


def services(name: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((FOLDER / name).read_text())["services"]
    return found


def mounted(service: dict[str, Any]) -> dict[str, Path]:
    """The folders of ours that a service sees, by their paths there."""
    mounts = (mount.split(":") for mount in service["volumes"] if mount.startswith("."))
    return {there: (FOLDER / here).resolve() for here, there, *_ in mounts}


def read(name: str) -> Any:
    return yaml.safe_load((FOLDER / name).read_text())


GATEWAY, OVERRIDE = services("compose.yaml")["tidegate"], services("host_broker.yaml")["tidegate"]


def test_it_builds_and_runs_what_the_containerfile_describes() -> None:
    said = dict(instructions())
    build = GATEWAY["build"]
    assert (FOLDER / build["context"] / build["dockerfile"]).resolve() == CONTAINERFILE
    assert GATEWAY["volumes"][0] == f"state:{said['VOLUME']}"
    assert [port.rsplit(":", 1)[1] for port in GATEWAY["ports"]] == ["1883/udp", "8080"]
    check = GATEWAY["healthcheck"]
    options = {"interval": "30s", "timeout": "5s", "start_period": "60s", "retries": 3}
    written = " ".join(f"--{name.replace('_', '-')}={value}" for name, value in options.items())
    assert said["HEALTHCHECK"] == f"{written} CMD {json.dumps(check.pop('test')[1:])}"
    assert check == options


def test_the_engine_waits_longer_than_the_gateway_takes_to_stop() -> None:
    within = re.search(
        r"ends\s+within\s+(\d+)\s+s", (REPOSITORY / "docs" / "service.md").read_text()
    )
    assert within is not None
    assert int(GATEWAY["stop_grace_period"].removesuffix("s")) > int(within[1])
    assert GATEWAY["depends_on"] == ["mosquitto"], "a broker that is stopped first takes nothing"


def test_what_it_mounts_is_there_and_the_configuration_is_right() -> None:
    every = [one for name in ("compose.yaml", "monitoring.yaml") for one in services(name).values()]
    assert all(folder.is_dir() for one in every for folder in mounted(one).values())
    file = FOLDER / "tidegate" / "config.toml"
    settings = load(file, environment={}, overrides=()).settings
    assert settings.upstream.host in services("compose.yaml")
    assert settings.admin.listen is not None
    beside = load(file, environment=OVERRIDE["environment"], overrides=()).settings
    [host] = OVERRIDE["extra_hosts"]
    assert host == f"{beside.upstream.host}:host-gateway"
    assert beside.upstream.username == "greenhouse"


def test_they_fit_the_schema_of_compose_files(tmp_path: Path) -> None:
    known = schema_fault("compose-spec", *(FOLDER / name for name in FILES))
    assert known is None, known
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text("services: {a: {image: x, port: [1]}}\n")
    assert "'port' was unexpected" in str(schema_fault("compose-spec", wrong))


def test_prometheus_scrapes_the_gateway_and_has_our_alerts() -> None:
    config = read("prometheus/prometheus.yml")
    [job] = config["scrape_configs"]
    port = GATEWAY["ports"][1].rsplit(":", 1)[1]
    assert job["static_configs"] == [{"targets": [f"tidegate:{port}"]}]
    folders = mounted(services("monitoring.yaml")["prometheus"])
    assert folders["/etc/prometheus"] == FOLDER / "prometheus"
    [rules] = map(Path, config["rule_files"])
    assert folders[str(rules.parent)] / rules.name == MONITORING / "alerts.yaml"


def test_grafana_finds_prometheus_and_our_dashboard() -> None:
    both = services("monitoring.yaml")
    folders = mounted(both["grafana"])
    assert folders["/etc/grafana/provisioning"] == FOLDER / "grafana"
    [source] = read("grafana/datasources/prometheus.yaml")["datasources"]
    port = both["prometheus"]["ports"][0].rsplit(":", 1)[1]
    assert (source["type"], source["url"]) == ("prometheus", f"http://prometheus:{port}")
    [provider] = read("grafana/dashboards/tidegate.yaml")["providers"]
    assert provider["type"] == "file"
    assert folders[provider["options"]["path"]] == MONITORING
    [dashboard] = MONITORING.glob("*.json")
    variables = json.loads(dashboard.read_text())["templating"]["list"]
    assert [each["query"] for each in variables if each["type"] == "datasource"] == [source["type"]]
    assert source["isDefault"], "the dashboard asks the default one"


def test_a_real_mosquitto_takes_its_configuration(tmp_path: Path) -> None:
    config = tmp_path / "etc/mosquitto/conf.d/compose.conf"
    config.parent.mkdir(parents=True)
    text = (FOLDER / "mosquitto" / "mosquitto.conf").read_text()
    text = re.sub(r"^persistence.*\n", "", text, flags=re.MULTILINE)
    config.write_text(text.replace("listener 1883", f"listener {free_tcp_port()}"))
    with Broker(tmp_path) as broker:
        assert "Error" not in broker.log_path.read_text()


def test_an_engine_reads_them() -> None:
    docker = shutil.which("docker")
    asked = [str(docker), "compose", "version"]
    if docker is None or subprocess.run(asked, capture_output=True, check=False).returncode:
        pytest.skip("no docker compose on this machine")
    names = [word for name in FILES for word in ("-f", str(FOLDER / name))]
    subprocess.run([docker, "compose", *names, "config", "-q"], check=True, timeout=200)
