"""The blocking client: a call returns when the gateway has answered, and raises OSError when not.

    from mqttsn.client import Client
    from mqttsn.udp import Udp

    client = Client(Udp(("192.168.1.10", 1883)), b"greenhouse-3")
    client.publish(b"greenhouse/3/temperature", b"21.5", qos=1)

Who is not connected is by its next call; so is who was forgotten by the gateway, with all its
subscriptions. A topic is a name in bytes, a short one if it has two, or a predefined id.

Rules
- `OSError`: with ETIMEDOUT nobody answered, and the next call begins with the next gateway. Below 0
  it is what a gateway refused with: -1 congestion, which takes minutes; -2 invalid topic; -3 not
  supported.
- A publish that raised may be tried again, with `again=True` as the same one, which a gateway then
  does not take for another; there may be no other publish with QoS 1 or 2 between them.
- `on_message(topic, payload, is_retained)` is called within the calls of the client. The payload is
  a memoryview that is good until it returns; it must not call the client. The gateway hears that
  the message arrived when it has returned or raised: a node that dies in it gets it again.
- No call lasts longer than its retries at each gateway; `wait` and `wake` have limits.
"""

from random import getrandbits

from .engine import Engine

try:
    from time import ticks_diff, ticks_ms  # type: ignore[attr-defined]

    from micropython import const
except ImportError:
    from .cpython import const, ticks_diff, ticks_ms

_SILENCE = const(-1)
_LOST = const(-2)
_INVALID_TOPIC = const(2)
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Protocol

    Topic = bytes | int
    OnMessage = Callable[[Topic, memoryview, bool], None]

    class Transport(Protocol):
        gateways: int  # how many there are to be tried
        index: int  # of the one in use

        def send(self, frame: bytearray, size: int) -> None: ...
        def receive(self, buffer: bytearray, wait_ms: int) -> int: ...
        def next(self) -> None: ...
        def close(self) -> None: ...


_PINGREQ = const(0x16)
_PINGRESP = const(0x17)
_DISCONNECT = const(0x18)

# What may come between a publish and its end: no connection, no number, and both once more.
_TURNS_MAX = const(6)
_COPIES_MAX = const(8)  # of answers from before a sleep, which would be taken for news
_LONG = const(1 << 29)
_PERIOD_MAX = const((1 << 30) - 1)


class Client:
    """Requests raise OSError as above, and RuntimeError within `on_message`. `subscriptions` has
    the QoS by topic; settings, as `keep_alive_s`, are attributes of `engine`.
    """

    def __init__(self, transport: "Transport", client_id: bytes, size: int = 256) -> None:
        """`size`: the bytes of the longest frame, in either direction."""
        self.transport = transport
        self.engine = Engine(client_id, bytearray(size), getrandbits)
        self.on_message: OnMessage | None = None
        self.subscriptions: dict[bytes | int, int] = {}  # QoS by topic
        self.duration_s = 0  # of the last sleep
        self._heard = bytearray(size)
        self._at = ticks_ms()

    def connect(self) -> None:
        """At the gateway that answered last, or else at the next one."""
        engine = self.engine
        is_known = 0
        for _ in range(self.transport.gateways):
            is_known = engine.state
            engine.connect()
            if not self.wait(_LONG, 1):
                break
        self._check()
        if not is_known:
            for topic in self.subscriptions:
                engine.subscribe(topic, self.subscriptions[topic])
                self.wait(_LONG, 1)

    def publish(
        self, topic: "Topic", payload: bytes, qos: int = 0, retain: int = 0, again: int = 0
    ) -> None:
        """QoS -1 needs no connection, and a topic that needs no REGISTER: else ValueError, as for a
        frame that is longer than `size`. `retain`, `again`: 0 or 1.
        """
        engine = self.engine
        if qos > 0 and not again:
            engine.reading_id = 0
        for _ in range(_TURNS_MAX):
            self._hear(0)  # who only publishes with QoS 0 learns here that nobody knows it
            if qos >= 0 and not engine.state:
                self.connect()
            is_reading = engine.publish(topic, payload, qos, retain)
            code = self.wait(_LONG, 1)
            if not code and is_reading:
                return
            is_forgotten = code == _INVALID_TOPIC and is_reading and not engine.number(topic)
            if code and code != _LOST and not is_forgotten:
                break
        engine.code = engine.code or _SILENCE
        self._check()

    def subscribe(self, topic: "Topic", qos: int = 0) -> None:
        """`qos` below 0: unsubscribe."""
        self.ask(self.engine.subscribe, topic, qos)
        self.subscriptions[topic] = qos
        if qos < 0:
            del self.subscriptions[topic]

    def wait(self, ms: int, asks: int = 0) -> int:
        """Take what comes, for so many ms, and show the gateway that somebody is there.

        `asks`: only until the open request has ended, and its code.
        """
        engine = self.engine
        start = ticks_ms()
        while True:
            if not asks and not engine.state:
                self.connect()
            now = ticks_ms()
            # The difference is signed, and right for half of the ticks' period: six days of sleep.
            size = engine.due(ticks_diff(now, self._at) & _PERIOD_MAX)
            self._at = now
            if size:
                self.transport.send(engine.frame, size)
            left = ms - ticks_diff(now, start)
            if left <= 0 or (asks and not engine.size):
                if not engine.state and engine.code > _LOST:
                    self.transport.next()
                return engine.code
            self._hear(min(left, engine.wait_ms))

    def sleep(self, duration_s: int) -> None:
        """Nobody listens here for so long, and what comes is kept. 0: good-bye."""
        self.duration_s = duration_s
        fixed = duration_s and 2
        self.ask(self.engine.open, _DISCONNECT, _DISCONNECT, fixed, duration_s, b"")

    def wake(self, limit_ms: int = 30_000) -> None:
        """Take what was kept, within a time that more and more of it cannot extend; sleep on."""
        engine = self.engine
        for _ in range(_COPIES_MAX):
            self.transport.receive(self._heard, 0)
        for _ in range(2):
            if not engine.state:
                self.sleep(self.duration_s)
            engine.open(_PINGREQ, _PINGRESP, 0, 0, engine.client_id)
            if self.wait(limit_ms, 1) != _LOST:
                break
        self._check()

    def ask(self, request: "Callable[..., Any]", *details: "Any") -> None:
        """Open a request as one who is connected; once more if the gateway had forgotten that."""
        for _ in range(2):
            if not self.engine.state:
                self.connect()
            request(*details)
            if self.wait(_LONG, 1) != _LOST:
                break
        self._check()

    def _check(self) -> None:
        code = self.engine.code
        if code:
            from errno import ETIMEDOUT  # a name of the module would cost more

            raise OSError(-code if code > 0 else ETIMEDOUT)

    def _hear(self, wait_ms: int) -> None:
        engine = self.engine
        heard = self._heard
        at = engine.receive(heard, self.transport.receive(heard, wait_ms))
        try:
            if at and self.on_message:
                payload = memoryview(heard)[at : engine.end]
                self.on_message(engine.topic, payload, bool(engine.retained))
        finally:
            if engine.answer_size > 0:
                self.transport.send(engine.answer, engine.answer_size)
            engine.answer_size = 0
