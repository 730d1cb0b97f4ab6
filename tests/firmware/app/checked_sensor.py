"""A driver of tests: a number, and another that can be told from it, so that damage is seen."""

from __future__ import annotations

from random import getrandbits


class Sensor:
    def __init__(self, spec: object, board: object) -> None:
        pass

    def start(self) -> int:
        return 0

    def read(self) -> list[tuple[str, str, int, int]]:
        x = getrandbits(20)
        return [("x", "", x, 0), ("check", "", x * 7919 % 10007, 0)]
