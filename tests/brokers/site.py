"""A broker, the gateway under test, and the tap between them."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, fields
from pathlib import Path

import aiomqtt
import mqtt5

from gateway.config.settings import UpstreamSettings
from hil.rig.gateway import GatewayProcess
from tests.brokers.broker import Broker, Settings
from tests.brokers.models import LimitedBroker
from tests.brokers.tap import Tap
from tests.support.waiting import until

PAYLOAD_BYTES_MAX = 60_000
CONFIG = f"""reconnect_delay_s_min = 0.05
{{keys}}
[limits]
payload_bytes_max = {PAYLOAD_BYTES_MAX}
[mqtt_sn]
retry_after_s = 2
[presence]
stats_s = 1
"""


@dataclass
class Site:
    broker: Broker
    tap: Tap
    gateway: GatewayProcess

    @property
    def connack(self) -> mqtt5.ConnAckPacket:
        """The last one."""
        found = [each.connack for each in self.tap.connections if each.connack is not None]
        assert found, "the broker has accepted no connection"
        return found[-1]

    @asynccontextmanager
    async def application(self, *filters: str) -> AsyncIterator[aiomqtt.Client]:
        """At the broker itself, subscribed."""
        username, password = self.broker.credentials or (None, None)
        async with aiomqtt.Client(
            "127.0.0.1",
            self.broker.port,
            username=username,
            password=password,
            protocol=aiomqtt.ProtocolVersion.V5,
        ) as client:
            for topic_filter in filters:
                await client.subscribe(topic_filter, qos=2)
            yield client

    def wait_until_subscribed(self, *filters: str) -> None:
        """The broker has granted these on the last connection."""
        until(lambda: self._granted().issuperset(filters))

    def _granted(self) -> set[str]:
        last = self.tap.last
        answers = [each for each in last.received if isinstance(each, mqtt5.SubAckPacket)]
        answered = {each.packet_id for each in answers}
        asked = [each for each in last.sent if isinstance(each, mqtt5.SubscribePacket)]
        granted = [each.topic_filters for each in asked if each.packet_id in answered]
        return {each.pattern for filters in granted for each in filters}

    def hold_receipts(self) -> None:
        """From now on, when those of earlier readings have come."""
        until(lambda: not self.tap.last.in_flight)
        self.tap.hold_receipts()

    def lose_sessions(self) -> None:
        """The broker is killed and has forgotten all when it is back."""
        seen = len(self.tap.connections)
        self.broker.kill()
        self.broker.start()
        until(lambda: any(each.connack for each in self.tap.connections[seen:]))


def keys_of(kind: type[Broker], folder: Path) -> list[str]:
    """The lines of [upstream] that it needs, of those keys that this gateway has."""
    known = {each.name for each in fields(UpstreamSettings)} - {"username", "password_file"}
    lines = [key.removeprefix("upstream.") for key in kind.keys]
    lines = [line for line in lines if line.split(" ")[0] in known]
    if kind.credentials is not None:
        username, password = kind.credentials
        (folder / "password").touch(0o600)
        (folder / "password").write_text(password, encoding="utf-8")
        lines += [f'username = "{username}"', f'password_file = "{folder / "password"}"']
    return lines


@contextmanager
def site(kind: type[Broker], folder: Path, settings: Settings | None = None) -> Iterator[Site]:
    """All three running; the gateway has connected if the broker speaks MQTT 5."""
    settings = settings or Settings()
    model = None if kind.limits is None else LimitedBroker(kind.limits, settings)
    config = CONFIG.format(keys="\n".join(keys_of(kind, folder)))
    with contextlib.ExitStack() as stack:
        broker = stack.enter_context(kind(folder, settings))
        tap = stack.enter_context(Tap(broker.port, model))
        gateway = stack.enter_context(GatewayProcess(folder, tap.url, config))
        if kind.speaks_mqtt_5:
            gateway.wait_until_connected()
        yield Site(broker, tap, gateway)
