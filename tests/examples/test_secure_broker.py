"""docs/secure_broker.md, typed step by step: a real mosquitto with those files, and a real gateway
that it lets in. mosquitto.conf and the others are as they are but for ports, names and folders.
"""

from __future__ import annotations

import asyncio
import shutil
import ssl
import sys
from collections.abc import Iterator
from pathlib import Path

import aiomqtt
import pytest

from hil.rig.logged_process import LoggedProcess
from hil.rig.mosquitto import find_mosquitto, free_tcp_port
from hil.rig.ports import free_udp_port
from hil.rig.scripted_client import sensor
from tests.examples.typed import shell_blocks, typed

CERTIFICATES, PASSWORDS, BROKER, GATEWAY, LOOK = shell_blocks("secure_broker.md")


class Broker(LoggedProcess):
    def __init__(self, root: Path) -> None:
        super().__init__(root / "mosquitto.log")
        self._config = root / "etc/mosquitto/mosquitto.conf"
        # Debian's, but for the user: started by root mosquitto becomes another one.
        included = root / "etc/mosquitto/conf.d"
        self._config.write_text(
            f"persistence true\npersistence_location {root}/\nlog_dest stderr\nuser root\n"
            f"include_dir {included}\n"
        )

    def start(self) -> None:
        self.launch([find_mosquitto(), "-c", str(self._config)])
        self.wait_for_log("mosquitto version .* running")


class Gateway(LoggedProcess):
    def __init__(self, root: Path, log: str = "gateway.log") -> None:
        super().__init__(root / log)
        self._config = root / "etc/tidegate/config.toml"
        self._state = root / "state"
        self.port = free_udp_port()

    def start(self, *settings: str) -> None:
        command = [sys.executable, "-m", "gateway", "run", "--config", str(self._config)]
        for each in (
            f"gateway.state_dir={self._state}",
            f"udp.0.listen=127.0.0.1:{self.port}",
            "admin.listen=",
            *settings,
        ):
            command += ["--set", each]
        self.launch(command)


class Site:
    """What the page has made of an empty machine."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.tls_port, self.plain_port = free_tcp_port(), free_tcp_port()
        self.changes = {
            "broker.lan": "localhost",
            "8883": str(self.tls_port),
            "tidegate doctor": f"tidegate doctor --config {root}/etc/tidegate/config.toml",
        }
        self.folder = root / "home" / "broker"
        for folder in ("etc/mosquitto/certs", "etc/mosquitto/conf.d", "etc/tidegate", "home"):
            (root / folder).mkdir(parents=True)

    def typed(self, block: str) -> str:
        return typed(block, self.root, self.changes)

    def put_names_in(self) -> None:
        """As the page asks: in the copies that are installed."""
        names = {
            "/etc/mosquitto/": f"{self.root}/etc/mosquitto/",
            "broker.lan": "localhost",
            "10.0.0.5": "127.0.0.1",
            "8883": str(self.tls_port),
            "listener 1883": f"listener {self.plain_port}",
        }
        for name in ("mosquitto.conf", "broker.ext", "gateway.toml"):
            text = (self.folder / name).read_text()
            for old, new in names.items():
                text = text.replace(old, new)
            (self.folder / name).write_text(text)

    def password(self, user: str) -> str:
        return (self.folder / f"{user}.password").read_text().strip()

    def client(self, user: str | None, password: str | None, *, tls: bool = True) -> aiomqtt.Client:
        context = ssl.create_default_context(cafile=self.folder / "ca.crt")
        context.verify_flags |= ssl.VERIFY_X509_STRICT
        return aiomqtt.Client(
            "localhost",
            self.tls_port if tls else self.plain_port,
            username=user,
            password=password,
            tls_context=context if tls else None,
            protocol=aiomqtt.ProtocolVersion.V5,
        )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    made = Site(tmp_path_factory.mktemp("site"))
    first, rest = CERTIFICATES.split("\n", 1)
    made.typed(first)
    made.put_names_in()
    assert "broker.crt: OK" in made.typed(f"cd ~/broker && umask 077\n{rest}")
    made.typed(PASSWORDS)
    made.typed(BROKER)
    with Broker(made.root):
        checked, asked = GATEWAY.split("sudo systemctl restart tidegate\n")
        made.typed(checked)
        with Gateway(made.root) as gateway:
            gateway.wait_for_log("connected to broker")
            said = made.typed(asked)
            assert "localhost" in said
            if shutil.which("mosquitto_sub"):  # else the first test looks as that user
                assert "online" in made.typed(LOOK)
        yield made


async def first_reading(site: Site, port: int, topic: str) -> aiomqtt.Message:
    async with site.client("homeassistant", site.password("homeassistant")) as reader:
        await reader.subscribe("sensors/#", qos=1)
        async with sensor(port, "tank") as tank:
            await tank.connect()
            await tank.publish(await tank.register(topic), b"21.5", qos=1)
        return await asyncio.wait_for(anext(reader.messages), 200)


def test_readings_go_to_who_may_read_them_and_no_others(site: Site) -> None:
    with Gateway(site.root) as gateway:
        gateway.wait_for_log("connected to broker")
        message = asyncio.run(first_reading(site, gateway.port, "sensors/tank"))
        assert message.payload == b"21.5"

        async def forbidden() -> None:
            async with sensor(gateway.port, "tank") as tank:
                await tank.connect()
                topic = await tank.register("elsewhere/tank")
                await tank.say(0x0C, b"\x20" + topic.to_bytes(2, "big") + b"\x00\x09x")
                await asyncio.to_thread(gateway.wait_for_log, "broker_refused")

        asyncio.run(forbidden())


@pytest.mark.parametrize("tls", [True, False])
@pytest.mark.parametrize(("user", "password"), [(None, None), ("greenhouse", "a guess")])
def test_no_others_come_in(site: Site, user: str | None, password: str | None, tls: bool) -> None:
    async def story() -> None:
        with pytest.raises(aiomqtt.MqttError, match=r"(?i)not authori[sz]ed|bad user"):
            async with site.client(user, password, tls=tls):
                pass

    asyncio.run(story())


def test_the_gateway_trusts_this_authority_and_no_other(site: Site) -> None:
    gateway = Gateway(site.root, "distrusting.log")
    other = site.root / "other.crt"
    typed(
        f"openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -noenc -keyout {other}.key "
        f"-out {other} -subj /CN=Other",
        site.root,
        {},
    )
    try:
        gateway.start(f"upstream.ca_file={other}")
        gateway.wait_for_log("certificate")
        assert "connected to broker" not in gateway.log_path.read_text()
    finally:
        gateway.kill()
