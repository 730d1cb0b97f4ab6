"""How a gateway ends, and how it is back."""

from __future__ import annotations

from collections.abc import Callable

import aiomqtt
import pytest

from hil.rig.gateway import GatewayProcess
from tests.end_to_end.on_air import (
    ACCEPTED,
    PUBACK,
    PUBCOMP,
    PUBLISH,
    PUBREC,
    PUBREL,
    REGACK,
    REGISTER,
    Node,
    assert_untroubled,
    fresh,
)
from tests.support.application import heard

End = Callable[[GatewayProcess], object]
both_ends = pytest.mark.parametrize(
    "end", [GatewayProcess.kill, GatewayProcess.stop], ids=["killed", "stopped"]
)
both_sessions = pytest.mark.parametrize("clean", [True, False], ids=["clean", "persistent"])


def begin_again(gateway: GatewayProcess) -> None:
    gateway.start()
    assert gateway.port
    gateway.wait_until_connected()


def restart(gateway: GatewayProcess, end: End) -> None:
    end(gateway)
    assert_untroubled(gateway)
    begin_again(gateway)


async def gets(node: Node, *payloads: bytes, till: int | None = None) -> list[int]:
    """Messages arrive, and first arrivals in this order; their topic ids.

    Behaves as a sensor does that keeps its half: at QoS 2 nothing may come twice. At QoS 1 it may,
    where the gateway ended before the broker heard that it has the message. With `till` it goes on
    until a frame of that kind has come.
    """
    found: dict[bytes, int] = {}
    receiving: set[bytes] = set()
    while list(found) != list(payloads) or receiving or till is not None:
        kind, body = await node.hear()
        if kind == till:
            break
        if kind == REGISTER:
            await node.say(REGACK, body[:4] + ACCEPTED)
        elif kind == PUBREL:
            receiving.discard(body)
            await node.say(PUBCOMP, body)
        elif kind == PUBLISH:
            message_id, payload = body[3:5], body[5:]
            is_qos_2 = bool(body[0] & 0x40)
            assert not (is_qos_2 and payload in found and message_id not in receiving), payload
            found.setdefault(payload, int.from_bytes(body[1:3], "big"))
            if is_qos_2:
                receiving.add(message_id)
            answer = message_id if is_qos_2 else body[1:5] + ACCEPTED
            await node.say(PUBREC if is_qos_2 else PUBACK, answer)
        assert list(found) == list(payloads[: len(found)]), f"{list(found)}, not {payloads}"
    assert list(found) == list(payloads)
    return list(found.values())


async def hears_up_to(app: aiomqtt.Client, node: Node, topic_id: int) -> list[aiomqtt.Message]:
    """All that the application has yet to hear, by a mark that is published now."""
    mark = fresh("mark").encode()
    await node.publish(topic_id, mark, qos=2)
    messages = []
    while (message := await heard(app)).payload != mark:
        messages.append(message)
    return messages
