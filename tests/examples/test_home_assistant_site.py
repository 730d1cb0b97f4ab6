"""docs/examples/home_assistant.toml, as docs/home_assistant.md installs it: `tidegate check` takes
it, and a gateway runs with it beside a broker that asks for the password, with a sensor on UDP and
one on the cable.
"""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
from pathlib import Path

import aiomqtt
import pytest

from hil.rig.logged_process import LoggedProcess
from hil.rig.mosquitto import Mosquitto
from hil.rig.ports import free_udp_port
from hil.rig.scripted_client import ScriptedClient, sensor
from tests.examples import EXAMPLES
from tests.examples.typed import shell_blocks, typed
from tests.support.pty_line import PtyLine

FILE = EXAMPLES / "home_assistant.toml"
PASSWORD = "tide and ebb"
ADVERTISE = 0x00  # said on a line when it opens
MOSQUITTO_PASSWD = shutil.which("mosquitto_passwd") or "mosquitto_passwd"


@pytest.fixture
def config(tmp_path: Path) -> Path:
    shutil.copy(FILE, tmp_path)
    (tmp_path / "upstream.password").write_text(f"{PASSWORD}\n")
    (tmp_path / "upstream.password").chmod(0o600)
    return tmp_path / FILE.name


def test_the_page_installs_it_and_check_takes_it(tmp_path: Path) -> None:
    (tmp_path / "etc/tidegate").mkdir(parents=True)
    password = tmp_path / "typed"
    password.write_text(f"{PASSWORD}\n")
    [block] = [each for each in shell_blocks("home_assistant.md") if "/etc/tidegate" in each]
    typed(block, tmp_path, {"/dev/stdin": str(password)})
    assert (tmp_path / "etc/tidegate" / "upstream.password").read_text() == f"{PASSWORD}\n"


class Gateway(LoggedProcess):
    def __init__(self, config: Path, broker: Mosquitto) -> None:
        super().__init__(config.parent / "gateway.log")
        self.port = free_udp_port()
        self._settings = {
            "gateway.state_dir": config.parent / "state",
            "udp.0.listen": f"127.0.0.1:{self.port}",
            "upstream.url": broker.url,
            "serial.0.port": config.parent / "board",
            "admin.listen": "",
        }
        self._config = config

    def start(self) -> None:
        given = [
            word for each in self._settings.items() for word in ("--set", "{}={}".format(*each))
        ]
        self.launch([sys.executable, "-m", "gateway", "run", "--config", str(self._config), *given])


async def values_of(broker: Mosquitto, port: int, line: Path) -> set[str]:
    """Whose values Home Assistant hears: a sensor on the network, and one on the cable."""
    found = set()
    async with aiomqtt.Client(
        "127.0.0.1", broker.port, username="homeassistant", password=PASSWORD
    ) as home_assistant:
        await home_assistant.subscribe("tidegate/greenhouse/values/+")
        cable = PtyLine(line)
        try:
            assert (await cable.recv())[1] == ADVERTISE
            async with sensor(port, "tank") as tank:
                for one in (tank, ScriptedClient(cable, "well")):
                    await one.connect()
                    topic = await one.register("sensors/level")
                    await one.publish(topic, b'[{"n":"level","u":"m","v":1.5}]', qos=1)
                async with asyncio.timeout(200):
                    async for message in home_assistant.messages:
                        if b"1.5" in message.payload:
                            found.add(message.topic.value.rsplit("/", 1)[1])
                        if len(found) == 2:
                            break
        finally:
            cable.close()
    return found


def test_a_gateway_runs_with_it(config: Path, tmp_path: Path) -> None:
    passwords = tmp_path / "passwords"
    passwords.write_text(f"tidegate:{PASSWORD}\nhomeassistant:{PASSWORD}\n")
    subprocess.run([MOSQUITTO_PASSWD, "-U", str(passwords)], check=True)
    lines = [f"password_file {passwords}"]
    with (
        Mosquitto(lines, allow_anonymous=False) as broker,
        Gateway(config, broker) as gateway,
    ):
        gateway.wait_for_log("connected to broker")
        found = asyncio.run(values_of(broker, gateway.port, tmp_path / "board"))
    assert found == {"tank", "well"}
