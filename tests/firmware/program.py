"""The beginning of what a board runs in tests: a client that prints what it hears."""

from __future__ import annotations

import itertools
import re

NUMBERS = itertools.count(2)
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
    """For a node of another name each time: "node-1" of the body becomes that, too.

    `retry_ms` is short because loopback is; on a network with sleeping radios it is not.
    """
    text = BEGIN.format(port=port, retry_ms=retry_ms) + body
    return text.replace("node-1", f"node-{next(NUMBERS)}")


def name_in(text: str) -> str:
    """Of the node."""
    found = re.search(r"node-\d+", text)
    assert found is not None
    return found[0]
