"""docs/examples/compose, which docs/service.md starts: both files against the Containerfile and the
gateway's keys, mosquitto.conf by a real mosquitto, and the whole by an engine's compose if there is
one. No engine runs in the tests.
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

yaml: Any = pytest.importorskip("yaml", reason="PyYAML is in the environment on 64 bits only")
FOLDER = EXAMPLES / "compose"
FILES = ("compose.yaml", "host_broker.yaml")


def services(name: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((FOLDER / name).read_text())["services"]
    return found


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
    within = re.search(r"ends within (\d+) s", (REPOSITORY / "docs" / "service.md").read_text())
    assert within is not None
    assert int(GATEWAY["stop_grace_period"].removesuffix("s")) > int(within[1])
    assert GATEWAY["depends_on"] == ["mosquitto"], "a broker that is stopped first takes nothing"


def test_what_it_mounts_is_there_and_the_configuration_is_right() -> None:
    mounts = [mount for one in services("compose.yaml").values() for mount in one["volumes"]]
    folders = [mount.split(":")[0] for mount in mounts if mount.startswith(".")]
    assert all((FOLDER / each).is_dir() for each in folders)
    file = FOLDER / "tidegate" / "config.toml"
    settings = load(file, environment={}, overrides=()).settings
    assert settings.upstream.host in services("compose.yaml")
    assert settings.admin.listen is not None
    beside = load(file, environment=OVERRIDE["environment"], overrides=()).settings
    [host] = OVERRIDE["extra_hosts"]
    assert host == f"{beside.upstream.host}:host-gateway"
    assert beside.upstream.username == "greenhouse"


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
        pytest.skip("no docker compose on this machine; compose-go 2.16.2 has read both")
    names = [word for name in FILES for word in ("-f", str(FOLDER / name))]
    subprocess.run([docker, "compose", *names, "config", "-q"], check=True, timeout=60)
