"""What the gateway publishes when a node is lost: neither heard nor asleep.

    will = Will(b"greenhouse/3/state", b"lost", qos=1, retain=True)
    will.join(client)                      # before its first call, or at any time
    will.update(client, b"greenhouse/3/state", b"low battery")

The gateway keeps it over connections; a plain good-bye, `client.sleep(0)`, does not publish it.
"""

try:
    from micropython import const
except ImportError:
    from .cpython import const

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .client import Client
    from .engine import Engine

_CONNACK = const(0x05)
_WILLTOPICREQ = const(0x06)
_WILLTOPIC = const(0x07)
_WILLMSG = const(0x09)
_WILLTOPICUPD = const(0x1A)
_WILLTOPICRESP = const(0x1B)
_WILLMSGUPD = const(0x1C)
_WILLMSGRESP = const(0x1D)

_WILL = const(8)  # flag of CONNECT


class Will:
    def __init__(self, topic: bytes, message: bytes, qos: int = 0, retain: int = 0) -> None:
        self.topic = topic
        self.message = message
        self.qos = qos
        self.retain = retain

    def join(self, client: "Client") -> None:
        """Let it be told in each new connection."""
        client.engine.will = self
        client.engine.flags |= _WILL

    def update(self, client: "Client", topic: bytes, message: bytes) -> None:
        """Change it at once, or if this raises in the next connection. No topic: delete it."""
        self.topic, self.message = topic, message
        self.join(client)
        client.ask(client.engine.open, _WILLTOPICUPD, _WILLTOPICRESP, 0, 0, self._topic())
        if topic:
            client.ask(client.engine.open, _WILLMSGUPD, _WILLMSGRESP, 0, 0, message)
        else:
            client.engine.will = None
            client.engine.flags &= ~_WILL

    def open(self, engine: "Engine", kind: int) -> None:
        """Answer what the gateway asks in the handshake (6.2)."""
        if kind == _WILLTOPICREQ:
            engine.open(_WILLTOPIC, _CONNACK, 0, 0, self._topic())
        else:
            engine.open(_WILLMSG, _CONNACK, 0, 0, self.message)

    def _topic(self) -> bytes:
        """With its flags in front; nothing at all for none (5.4.7)."""
        flags = self.qos << 5 | bool(self.retain) << 4
        return bytes((flags,)) + self.topic if self.topic else b""
