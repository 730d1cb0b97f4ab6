"""An engine on the bench: requests out as the gateway reads them, answers in as it writes them."""

from __future__ import annotations

from firmware.mqttsn.engine import Engine
from gateway.frames import Connack, Frame, decode, encode

RETRY_MS = 10_000
EARLY = 0  # of the dice: no jitter, and message ids begin with 1


class Bench:
    def __init__(self, size: int = 256, *, connected: bool = True) -> None:
        self.dice = EARLY
        self.engine = Engine(b"node", bytearray(size), lambda bits: self.dice & (1 << bits) - 1)
        if connected:
            self.engine.connect()
            assert self.said(0) is not None
            self.hears(Connack(0))

    def said(self, elapsed_ms: int) -> Frame | None:
        """What the engine sends after so much time."""
        size = self.engine.due(elapsed_ms)
        return decode(bytes(self.engine.frame[:size])) if size else None

    def hears(self, frame: Frame) -> Frame | None:
        """Its answer."""
        answer, _ = self.hears_octets(encode(frame))
        return answer

    def hears_octets(self, octets: bytes) -> tuple[Frame | None, bytes | None]:
        """Its answer, and the payload of a message for the program."""
        heard = bytearray(max(len(octets), 16))
        heard[: len(octets)] = octets
        engine = self.engine
        at = engine.receive(heard, len(octets))
        payload = bytes(heard[at : engine.end]) if at else None
        size, engine.answer_size = engine.answer_size, 0
        return (decode(bytes(engine.answer[:size])) if size > 0 else None), payload
