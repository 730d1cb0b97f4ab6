"""docs/open_to_closed.md with a real gateway: what an attacker can do before a step, and not after.

The blocks are those of the page; addresses, ports and files are those of the test.
"""

from __future__ import annotations

import http.client
import re
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from secrets import token_bytes

import pytest

from gateway.admin.http.passwords import hash_password
from gateway.core.access.device_keys import sender_id_of
from gateway.core.protection.channel import Channel
from gateway.core.protection.envelope import parse
from gateway.frames import Connack, Connect, Frame, Regack, Register, decode, encode
from hil.rig.gateway import GatewayProcess
from hil.rig.mosquitto import free_tcp_port
from hil.rig.ports import free_udp_port
from tests.app.service.test_device_keys import add
from tests.transports.certificates import Certificates

PAGE = Path(__file__).resolve().parents[2] / "docs" / "open_to_closed.md"
STEPS = 5
HOME, ELSEWHERE = "127.0.0.1", "127.0.0.2"
PASSWORD = "a canary to the broker"
KEYS = {"tank": b"the key of a tank", "toy": b"the key of a toy!"}
SILENCE_S = 2.0


def block(step: int) -> str:
    """The TOML of a step."""
    _, _, rest = PAGE.read_text().partition(f"\n## {step}. ")
    found = re.search(r"```toml\n(.*?)```", rest, re.DOTALL)
    assert found is not None
    return found[1]


@dataclass
class Site:
    gateway: GatewayProcess
    port: int
    page: int
    broker: socket.socket

    def asked(self, client_id: str, *frames: Frame, source: str = HOME) -> list[Frame]:
        """What a client without a key hears."""
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sensor:
            sensor.bind((source, 0))
            sensor.settimeout(SILENCE_S)
            heard = []
            for frame in (Connect(client_id.encode(), 60, clean_session=True), *frames):
                sensor.sendto(encode(frame), (HOME, self.port))
                try:
                    heard.append(decode(sensor.recv(1000)))
                except TimeoutError:
                    break
            return heard

    def connects_with_key(self, name: str, client_id: str) -> int | None:
        """The return code for a device with the key of that name, under some client id."""
        channel = Channel(
            sender_id=sender_id_of(name),
            secret=KEYS[name],
            epoch=1,
            random=token_bytes,
            is_device=True,
        )
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sensor:
            sensor.settimeout(SILENCE_S)
            sensor.connect((HOME, self.port))
            sensor.send(channel.seal(encode(Connect(client_id.encode(), 60, clean_session=True))))
            while True:
                opened = channel.open(parse(sensor.recv(1000)), time.monotonic())
                if opened.reply:
                    sensor.send(opened.reply)
                if opened.packet:
                    answer = decode(opened.packet)
                    assert isinstance(answer, Connack)
                    return answer.return_code


@contextmanager
def closed_up_to(step: int, folder: Path, certificates: Certificates) -> Iterator[Site]:
    """A gateway after so many steps, and what stands in the place of its broker."""
    page, port = free_tcp_port(), free_udp_port()
    with socket.create_server((HOME, 0)) as broker:
        broker.settimeout(20)
        (folder / "upstream.password").write_text(PASSWORD)
        upstream = f'username = "greenhouse"\npassword_file = "{folder}/upstream.password"\n'
        scheme = "mqtt"
        if step >= 5:
            assert 'url = "mqtts://' in block(5)
            assert "ca_file = " in block(5)
            scheme, upstream = "mqtts", upstream + f'ca_file = "{certificates.authority}"\n'
        admin = f'[admin]\nlisten = "{HOME}:{page}"\n'
        if step >= 4:
            admin += block(4).partition("[admin]\n")[2]
            admin += '[[admin_user]]\nname = "anna"\nrole = "operator"\n'
            admin += f'password = "{hash_password("tide and time")}"\n'
        parts = [block(each) for each in range(1, min(step, 3) + 1)]
        open_port = [] if step else ['[[udp]]\nlisten = "0.0.0.0:1883"\n']
        extra = "\n".join([upstream, admin, *open_port, *parts])
        gateway = GatewayProcess(folder, f"{scheme}://{HOME}:{broker.getsockname()[1]}", extra)
        text = gateway.config_path.read_text()
        text = text.replace("0.0.0.0:1883", f"{HOME}:{port}")
        gateway.config_path.write_text(text.replace("192.168.4.0/24", f"{HOME}/32"))
        if step >= 3:
            (folder / "state").chmod(0o700)
            for name, secret in KEYS.items():
                add(folder / "state", name, secret)
        with gateway:
            gateway.wait_for_log("listening for sensors", timeout_s=60.0)
            gateway.wait_for_log("status page on", timeout_s=60.0)
            yield Site(gateway, port, page, broker)


def from_another_network(site: Site) -> bool:
    return site.asked("toy", source=ELSEWHERE) == [Connack(0)]


def another_sensors_topic(site: Site) -> bool:
    heard = site.asked("toy", Register(0, 7, b"sensors/tank/level"))
    return any(isinstance(each, Regack) and each.return_code == 0 for each in heard)


def under_another_name(site: Site) -> bool:
    return Connack(0) in site.asked("tank")


def a_look_at_the_page(site: Site) -> bool:
    connection = http.client.HTTPConnection(HOME, site.page, timeout=10)
    try:
        connection.request("GET", "/api/clients")
        return connection.getresponse().status == 200
    finally:
        connection.close()


def the_brokers_password(site: Site) -> bool:
    connection, _ = site.broker.accept()
    with connection:
        connection.settimeout(10)
        return PASSWORD.encode() in connection.recv(10_000)


ATTACKS = (
    from_another_network, another_sensors_topic, under_another_name, a_look_at_the_page,
    the_brokers_password,
)  # fmt: skip


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


@pytest.mark.parametrize("step", range(1, STEPS + 1))
def test_what_an_attacker_can_do_before_a_step_is_impossible_after_it(
    step: int, tmp_path: Path, certificates: Certificates
) -> None:
    attack = ATTACKS[step - 1]
    for done in (step - 1, step):
        folder = tmp_path / str(done)
        folder.mkdir()
        with closed_up_to(done, folder, certificates) as site:
            assert attack(site) is (done < step)
            if done == 3:
                assert site.connects_with_key("tank", "tank") == 0
                assert site.connects_with_key("toy", "tank") == 3, "with a key of its own"
