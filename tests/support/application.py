"""An application at the broker: aiomqtt, an MQTT 5 client that is not ours."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Protocol

import aiomqtt

MESSAGE_TIMEOUT_S = 200.0


class AtPort(Protocol):
    """A broker of this machine."""

    @property
    def port(self) -> int: ...


@asynccontextmanager
async def application(broker: AtPort, *filters: str, qos: int = 2) -> AsyncIterator[aiomqtt.Client]:
    """Connected over MQTT 5 and subscribed."""
    protocol = aiomqtt.ProtocolVersion.V5
    async with aiomqtt.Client("127.0.0.1", broker.port, protocol=protocol) as client:
        for topic_filter in filters:
            await client.subscribe(topic_filter, qos=qos)
        yield client


async def heard(client: aiomqtt.Client) -> aiomqtt.Message:
    """The next message; fails after MESSAGE_TIMEOUT_S."""
    return await asyncio.wait_for(anext(client.messages), MESSAGE_TIMEOUT_S)


def delivery_tag(message: aiomqtt.Message) -> dict[str, str]:
    """The user properties of a reading."""
    properties: object = message.properties
    return dict(getattr(properties, "UserProperty", []))
