"""The beginning of what a board runs in tests: a client that prints what it hears."""

from __future__ import annotations

BEGIN = """
import gc, time
from mqttsn import Client, Udp

def heard(topic, payload, is_retained):
    print("heard", topic, bytes(payload), is_retained)

client = Client(Udp(("127.0.0.1", {port})), b"node-1")
client.on_message = heard
client.engine.retry_ms = {retry_ms}
"""


def program(port: int, body: str, *, retry_ms: int = 300) -> str:
    """`retry_ms` is short because loopback is; on a network with sleeping radios it is not."""
    return BEGIN.format(port=port, retry_ms=retry_ms) + body
