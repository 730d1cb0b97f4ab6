"""Whether the new node is heard: by the gateway that runs, or, on a line that nobody serves, here.

Who listens here says no more than CONNACK: a PUBACK would promise that a reading is safe. The node
then finds a gateway that does not know it, and connects again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from gateway.flashing.console import Console
from gateway.flashing.errors import Failure, FlashError
from gateway.flashing.report import Report
from gateway.frames import (
    Connack,
    Connect,
    Frame,
    MalformedFrame,
    Publish,
    Register,
    decode,
    encode,
)
from gateway.transports.serial.framing_choice import framing

ASK_AGAIN_S = 0.25
MESSAGE_OCTETS_MAX = 1024
SAID_OCTETS_MAX = 4096
SAID_LINES_MAX = 5
PROOF_S = 3.0  # for the frame after CONNACK, from which the round trip is known

# What /api/clients says of one client; raises NotAskedError.
Ask = Callable[[str], Mapping[str, Any]]


class NotAskedError(Exception):
    """No gateway can be asked; the text says why."""


@dataclass(frozen=True, slots=True)
class Contact:
    """`way`: udp or serial. `round_trip_s` where it could be measured."""

    name: str
    way: str
    address: str
    after_s: float
    round_trip_s: float | None = None

    def __str__(self) -> str:
        way = "UDP" if self.way == "udp" else "serial"
        told = f"{self.name} joined over {way} ({self.address})"
        if self.round_trip_s is not None:
            return f"{told}, round trip {max(1, round(1000 * self.round_trip_s))} ms"
        return f"{told}, {self.after_s:.1f} s after its start"


def at_gateway(
    ask: Ask,
    name: str,
    patience_s: float,
    report: Report,
    *,
    round_trip: Callable[[str], float | None] = lambda host: None,
    meanwhile: Callable[[], None] = lambda: time.sleep(ASK_AGAIN_S),
) -> Contact:
    """When it has been heard since now; `meanwhile` is called between two questions, and takes its
    time. Raises FlashError.
    """
    began = time.monotonic()
    last = "no gateway was asked"
    while (waited_s := time.monotonic() - began) < patience_s:
        report.at(f"waiting for {name}", int(waited_s), int(patience_s))
        try:
            client = _client(ask(name), name)
            last = f"the gateway does not hear {name}"
        except NotAskedError as error:
            client, last = None, str(error)
        # Asked after its start: what was heard before does not count.
        is_new = client is not None and client["last_heard_s"] < time.monotonic() - began
        if client is not None and is_new and client["away_s"] is None:
            report.at(f"waiting for {name}", 1, 1)
            link = str(client["link"] or "")
            way = "serial" if link.startswith("serial") else "udp"
            address = str(client["address"])
            measured = round_trip(host_of(address)) if way == "udp" else None
            return Contact(
                name=name,
                way=way,
                address=address,
                after_s=time.monotonic() - began,
                round_trip_s=measured,
            )
        meanwhile()
    text = f"{name} was not heard within {patience_s:.0f} s ({last}): {_ADVICE}"
    raise FlashError(Failure.ABSENT, text)


_ADVICE = "tidegate flash monitor  shows what the board says"


class Overheard:
    """What a board prints while others are asked for it, for those who ask why it is not heard."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._held = b""
        self._is_gone = False

    def __call__(self) -> None:
        deadline = time.monotonic() + ASK_AGAIN_S
        while not self._is_gone and time.monotonic() < deadline:
            try:
                self._held = (self._held + self._console.read())[-SAID_OCTETS_MAX:]
            except FlashError:  # boards with USB of their own sleep with it
                self._is_gone = True
        time.sleep(max(0.0, deadline - time.monotonic()))

    @property
    def lines(self) -> list[str]:
        text = self._held.decode(errors="replace")
        return [line.strip() for line in text.splitlines() if line.strip()][-SAID_LINES_MAX:]


def _client(answer: Mapping[str, Any], name: str) -> Mapping[str, Any] | None:
    return next((client for client in answer["clients"] if client["id"] == name), None)


def host_of(address: str) -> str:
    """`10.0.0.7:1884`, `[fe80::1]:1884`"""
    return address.rpartition(":")[0].strip("[]")


def on_line(console: Console, name: str, patience_s: float, report: Report) -> Contact:
    """Its CONNECT, and what it says after our CONNACK. Raises FlashError."""
    line = framing("hdlc", message_bytes_max=MESSAGE_OCTETS_MAX)
    began = time.monotonic()
    others: set[str] = set()
    answered_at: float | None = None
    while (waited_s := time.monotonic() - began) < patience_s:
        report.at(f"listening for {name}", int(waited_s), int(patience_s))
        if answered_at is not None and time.monotonic() - answered_at > PROOF_S:
            return Contact(
                name=name, way="serial", address=console.port, after_s=answered_at - began
            )
        for frame in _frames(line.feed(console.read(), time.monotonic())):
            if isinstance(frame, Connect) and frame.client_id == name.encode():
                console.write(line.wrap(encode(Connack(0))))
                answered_at = time.monotonic()
            elif isinstance(frame, Connect):
                others.add(frame.client_id.decode(errors="replace"))
            elif answered_at is not None and isinstance(frame, Register | Publish):
                measured = time.monotonic() - answered_at
                return Contact(
                    name=name,
                    way="serial",
                    address=console.port,
                    after_s=answered_at - began,
                    round_trip_s=measured,
                )
    heard = f"only {', '.join(sorted(others))} was heard" if others else "no CONNECT was heard"
    text = f"{name} did not speak on {console.port} within {patience_s:.0f} s ({heard}): {_ADVICE}"
    raise FlashError(Failure.ABSENT, text)


def _frames(messages: list[bytes]) -> list[Frame]:
    found = []
    for message in messages:
        try:
            found.append(decode(message))
        except MalformedFrame:
            continue
    return found
