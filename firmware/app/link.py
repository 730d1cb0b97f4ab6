"""A node's conversation with its gateway, and with those behind it who serve nodes.

Topics, below the node's own (`sensors/<id>`), on which its readings are:

    .../state          what the node says of itself, retained (JSON)
    .../ask            questions, see below
    .../set/settings   settings, retained (JSON)
    .../set/NAME       one of the settings, retained (a number as text; settings.py)
    .../set/restart    anything but nothing, not retained: the node restarts, once
    .../set/update     which application there is, retained (ota.py)
    .../set/answer     answers to questions

A question is one byte, what tells it from others, and more; its answer begins with the same. It
is asked by one who is connected, because the answer to a sleeper would wait for its next wake.

Limits: a message of each kind is kept until it is looked at, a newer one in its place; of those
that are none of these the last PROBLEMS_MAX are named.
"""

from .settings import RULES, WHOLE

try:
    from time import ticks_diff, ticks_ms  # type: ignore[attr-defined]

    from micropython import const
except ImportError:
    from ..mqttsn.cpython import const, ticks_diff, ticks_ms

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..mqttsn import Client

FRAME_OCTETS = 400  # the longest frame, each way
PROBLEMS_MAX = 2
_ACTIVE = const(1)
_PART_MS = const(10)


class Link:
    def __init__(
        self, client: "Client", topic: str, publication: "Callable[[], tuple[int, bool]]"
    ) -> None:
        """`publication`: message id and DUP of the message that is being delivered."""
        self.client = client
        self._publication = publication
        self.readings = topic.encode()
        self.state = self.readings + b"/state"
        # By name, and whether it comes again because it is retained; in the order to be taken.
        self.settings: list[tuple[str, bytes, bool]] = []
        self.restart: tuple[int, bool] | None = None  # as `publication` says
        self.problems: list[str] = []
        self.update: bytes | None = None  # an empty one withdraws the last
        self.on_answer: Callable[[memoryview], None] | None = None
        self._ask = self.readings + b"/ask"
        self._set = self.readings + b"/set/"
        client.on_message = self._heard

    def listen(self, silence_s: int, limit_ms: int) -> None:
        """Take what was kept for us."""
        self.rest(silence_s)
        self.client.wake(limit_ms)

    def rest(self, silence_s: int) -> None:
        """Nobody listens from now on, and for so long nothing may be heard of us."""
        if self._set + b"+" not in self.client.subscriptions:
            self.client.subscribe(self._set + b"+", 1)
        if self.client.engine.state == _ACTIVE or self.client.duration_s != silence_s:
            self.client.sleep(silence_s)

    def ask(self, question: bytes) -> None:
        """The answers come while we wait."""
        if self.client.engine.state != _ACTIVE:
            self.client.connect()
        self.client.publish(self._ask, question, 0)

    def wait(self, is_over: "Callable[[], bool]", limit_ms: int) -> bool:
        start = ticks_ms()
        while not is_over():
            if ticks_diff(ticks_ms(), start) >= limit_ms:
                return False
            self.client.wait(_PART_MS)
        return True

    def _heard(self, topic: "bytes | int", payload: memoryview, is_retained: bool) -> None:
        if not isinstance(topic, bytes) or not topic.startswith(self._set):
            return
        name = topic[len(self._set) :]
        if name == b"answer":
            if self.on_answer:
                self.on_answer(payload)
        elif name == b"update":
            self.update = bytes(payload)
        elif name == b"restart":
            if is_retained:
                self._name("restart: retained")
            elif len(payload):
                self.restart = self._publication()
        else:
            self._keep(name, bytes(payload), is_retained)

    def _keep(self, encoded: bytes, payload: bytes, is_retained: bool) -> None:
        try:
            name = encoded.decode()
        except ValueError:
            name = ""
        if name not in RULES and name != WHOLE:
            self._name("unknown: " + name)
            return
        self.settings = [each for each in self.settings if each[0] != name]
        # Retained messages come in any order: single settings are on top of the whole.
        at = 0 if is_retained and name == WHOLE else len(self.settings)
        self.settings.insert(at, (name, payload, is_retained))

    def _name(self, problem: str) -> None:
        self.problems.append(problem)
        del self.problems[:-PROBLEMS_MAX]
