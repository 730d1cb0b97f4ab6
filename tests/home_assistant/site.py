"""A place with Home Assistant: broker, gateway, and sensors that follow a script."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from hil.rig.gateway import GatewayProcess
from hil.rig.mosquitto import Mosquitto, free_tcp_port
from hil.rig.scripted_client import (
    PINGREQ,
    PINGRESP,
    PUBACK,
    PUBLISH,
    REGACK,
    REGISTER,
    BlockingClient,
    opened,
)
from tests.home_assistant.home import Home

ENABLED = "[presence]\nstats_s = 1\n[home_assistant]\nenable = true\n"
PASSWORD = "tide and time"
# This one may not publish below the topics of discovery.
DENIED_USER = "denied"
RIGHTS = f"topic readwrite #\nuser {DENIED_USER}\ntopic readwrite #\ntopic deny homeassistant/#\n"
NAME_OF_RIG = "under-test"
RETRY_S = 1.0
MESSAGE_TIMEOUT_S = 60.0

_numbers = itertools.count(1)


class Gateway(GatewayProcess):
    """One of several at a broker, so it has a name of its own."""

    def __init__(
        self,
        folder: Path,
        broker: Mosquitto,
        config: str = ENABLED,
        *,
        user: str | None = None,
        name: str | None = None,
    ) -> None:
        password = folder / "password"
        password.write_text(PASSWORD)
        password.chmod(0o600)
        own = f'listen = "127.0.0.1:{free_tcp_port()}"\npassword_file = "password"'
        super().__init__(folder, broker.url, f"{config}\n[admin]\n{own}\n")
        self.name = ""
        self.named(name or f"gw{next(_numbers)}")
        if user is not None:
            text = self.config_path.read_text()
            self.config_path.write_text(
                text.replace("[upstream]\n", f'[upstream]\nusername = "{user}"\n')
            )

    def named(self, name: str) -> None:
        """From its next start on."""
        text = self.config_path.read_text()
        before = f'name = "{self.name or NAME_OF_RIG}"\n'
        self.config_path.write_text(text.replace(before, f'name = "{name}"\n', 1))
        self.name = name

    def start(self, *, environment: dict[str, str] | None = None) -> None:
        super().start(environment=environment)
        try:
            self.wait_until_connected()
        except BaseException:
            self.kill()  # nothing else would
            raise

    def restart(self) -> None:
        self.stop()
        self.start()

    def configure(self, config: str) -> None:
        """From its next start on, beside what it has."""
        with self.config_path.open("a", encoding="utf-8") as file:
            file.write(config)

    def verb(self, name: str, *arguments: str) -> str:
        """What a verb of the command line prints. Raises CalledProcessError when it fails."""
        command = (sys.executable, "-m", "gateway", name, "--config", str(self.config_path))
        done = subprocess.run((*command, *arguments), capture_output=True, text=True, check=True)
        return done.stdout

    def forget(self, client_id: str, *options: str) -> None:
        self.verb("forget", *options, client_id)


@contextmanager
def gateway(
    folder: Path,
    broker: Mosquitto,
    config: str = ENABLED,
    *,
    user: str | None = None,
    name: str | None = None,
) -> Iterator[Gateway]:
    folder.mkdir(exist_ok=True)
    with Gateway(folder, broker, config, user=user, name=name) as running:
        yield running


class Sensor(BlockingClient):
    """By its client id, at an address that no other of this run has."""

    def __init__(self, port: int, client_id: str) -> None:
        high, low = divmod(next(_numbers), 250)
        super().__init__(port, client_id, source=f"127.2.{high}.{low + 1}", retry_s=RETRY_S)
        self._topics: dict[str, int] = {}
        self._names: dict[bytes, str] = {}  # of topics to which it has subscribed, by their ids

    def connect(self, *, clean: bool = False, keep_alive_s: int = 600) -> None:
        self._topics.clear()
        self.does(self.connecting(clean=clean, keep_alive_s=keep_alive_s))

    def publish(
        self, topic: str, payload: bytes | str | object, *, qos: int = 1, retain: bool = False
    ) -> None:
        """Anything but bytes and text is JSON."""
        if not isinstance(payload, bytes | str):
            payload = json.dumps(payload)
        data = payload.encode() if isinstance(payload, str) else payload
        if topic not in self._topics:
            self._topics[topic] = self.does(self.registering(topic))
        self.does(self.publishing(self._topics[topic], data, qos=qos, retain=retain))

    def leave(self, sleep_s: int = 0) -> None:
        self.does(self.leaving(sleep_s))

    def subscribe(self, topic: str) -> None:
        """At QoS 1; with wildcards the gateway names what it sends."""
        topic_id = self.does(self.subscribing(topic.encode(), qos=1))
        self._names[topic_id.to_bytes(2, "big")] = topic

    def message(self) -> tuple[str, str]:
        """Topic and payload of the next message at QoS 1, acknowledged."""
        deadline = time.monotonic() + MESSAGE_TIMEOUT_S
        while time.monotonic() < deadline:
            with suppress(TimeoutError):
                found = self._take(*opened(self.socket.recv(65536)))
                if found is not None:
                    return found
        raise AssertionError("no message in time")

    def wake(self) -> list[tuple[str, str]]:
        """What has waited for it while it slept; it sleeps on."""
        self.say(PINGREQ, self.client_id.encode())
        found: list[tuple[str, str]] = []
        deadline = time.monotonic() + MESSAGE_TIMEOUT_S
        while time.monotonic() < deadline:
            with suppress(TimeoutError):
                kind, body = opened(self.socket.recv(65536))
                if kind == PINGRESP:
                    return found
                message = self._take(kind, body)
                found += [] if message is None else [message]
        raise AssertionError("no answer in time")

    def _take(self, kind: int, body: bytes) -> tuple[str, str] | None:
        if kind == REGISTER:
            self._names[body[:2]] = body[4:].decode()
            self.say(REGACK, body[:4] + b"\x00")
        if kind != PUBLISH:
            return None
        self.say(PUBACK, body[1:5] + b"\x00")
        return self._names[body[1:3]], body[5:].decode()

    def visit(self, topic: str, payload: bytes | str | object, *, clean: bool = False) -> None:
        """Connect, publish, and disconnect at once."""
        self.connect(clean=clean)
        self.publish(topic, payload)
        self.leave()


def new_name(word: str = "tank") -> str:
    """Of a device that no other test has."""
    return f"{word}-{next(_numbers)}"


@contextmanager
def sensor(of: GatewayProcess, client_id: str | None = None) -> Iterator[Sensor]:
    with Sensor(of.port, client_id or new_name()) as made:
        yield made


@contextmanager
def home_with_broker(*, has_clock: bool = False) -> Iterator[tuple[Mosquitto, Home]]:
    with tempfile.TemporaryDirectory() as folder:
        rights = Path(folder, "acl")
        rights.write_text(RIGHTS)
        with Mosquitto([f"acl_file {rights}"]) as broker, Home(broker, has_clock=has_clock) as home:
            yield broker, home
