"""Links on which only protected packets count: what is plain there is dropped before it is read.

Rule 1: a protected packet and a forwarder's encapsulation, whose content is looked at again, pass.
Rule 2: CONNECT is answered with 0x03, so that who set the device up sees why, as often as the
        budget of unknown peers allows. Nothing else is answered.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gateway.core.drop_reasons import Reason
from gateway.core.effects import Dropped, Effect, Send
from gateway.core.values import Peer
from gateway.frames import Connack, Connect, Forwarded, ReturnCode

PROTECTION = 0x1E  # MQTT-SN 2.0, the kind of its protection encapsulation
_PASSING = frozenset({PROTECTION, Forwarded.KIND})
_LONG = 0x01  # first byte of a frame whose length takes two more

Datagrams = Sequence[tuple[bytes, bytes]]


class PlainFrames:
    def __init__(self, links: frozenset[int], may_answer: Callable[[float], bool]) -> None:
        """`links`: those that are protected. `may_answer`: whether one more answer may go now."""
        self.links = links
        self._may_answer = may_answer

    def refused(
        self, link: int, datagrams: Datagrams, now: float
    ) -> tuple[Datagrams, list[Effect]]:
        """Those that pass on a protected link, and what becomes of the others."""
        passed: list[tuple[bytes, bytes]] = []
        effects: list[Effect] = []
        count, last = 0, b""
        for each in datagrams:
            address, datagram = each
            kind = _kind(datagram)
            if kind in _PASSING:
                passed.append(each)
                continue
            count, last = count + 1, address
            if kind == Connect.KIND and self._may_answer(now):
                effects.append(Send(Peer(link, address), Connack(ReturnCode.NOT_SUPPORTED)))
        if count:
            detail = "this listener takes protected packets alone"
            effects.append(Dropped(Reason.UNPROTECTED, None, detail, Peer(link, last), count))
        return passed, effects


def _kind(datagram: bytes) -> int | None:
    place = 3 if datagram[:1] == bytes((_LONG,)) else 1
    return datagram[place] if len(datagram) > place else None
