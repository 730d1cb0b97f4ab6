"""Which boards are plugged in: serial ports and drives, and what each may be. No port is opened."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from serial.tools import list_ports  # type: ignore[import-untyped]

from gateway.flashing.drives import Drive
from gateway.flashing.errors import Failure, FlashError
from gateway.flashing.kinds import Kind
from gateway.transports.serial.faults import BY_ID, absent_text, ports_by_id


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundPort:
    """`kinds` are names of those that it may be; `is_sure` if the one it is, is known."""

    device: str
    by_id: str | None = None
    usb: str | None = None
    serial_number: str | None = None
    description: str | None = None
    kinds: tuple[str, ...] = ()
    is_sure: bool = False

    @property
    def name(self) -> str:
        """The one that stays, if it has one."""
        return self.by_id or self.device


def found_ports(
    kinds: Mapping[str, Kind], listed: Iterable[Any] | None = None, by_id: Path = BY_ID
) -> list[FoundPort]:
    """Those on USB; a machine's own UARTs may have anything at their other end."""
    names = {f"/dev/{device}": str(by_id / name) for name, device in ports_by_id(by_id)}
    ports = list_ports.comports() if listed is None else listed
    return [
        _found(port, names.get(port.device), kinds)
        for port in sorted(ports, key=lambda port: str(port.device))
        if port.vid is not None
    ]


def _found(port: Any, by_id: str | None, kinds: Mapping[str, Kind]) -> FoundPort:
    usb = f"{port.vid:04x}:{port.pid:04x}"
    sure = [kind.name for kind in kinds.values() if usb in kind.sure]
    maybe = [kind.name for kind in kinds.values() if usb in kind.maybe]
    return FoundPort(
        device=port.device,
        by_id=by_id,
        usb=usb,
        serial_number=port.serial_number,
        description=None if port.description in (None, "n/a") else port.description,
        kinds=tuple(sure or maybe),
        is_sure=len(sure) == 1,
    )


def kinds_of_drive(drive: Drive, kinds: Mapping[str, Kind]) -> tuple[str, ...]:
    return tuple(kind.name for kind in kinds.values() if kind.install.drive == drive.name)


def the_port(found: Sequence[FoundPort], given: str | None, kind: Kind | None = None) -> FoundPort:
    """The one that is meant. Raises FlashError for none, and for more than one."""
    if given is not None:
        same = [port for port in found if given in (port.device, port.by_id, port.serial_number)]
        if not same and not Path(given).exists():
            raise FlashError(Failure.ABSENT, absent_text(given))
        return same[0] if same else FoundPort(device=given)
    fitting = [port for port in found if port.kinds and (kind is None or kind.name in port.kinds)]
    if not fitting:
        raise FlashError(Failure.ABSENT, _none_text(found, kind))
    if len(fitting) > 1:
        named = ", ".join(f"{port.name} ({port.description or port.usb})" for port in fitting)
        text = (
            f"{len(fitting)} boards are plugged in: {named}; say which with --port, or use --batch"
        )
        raise FlashError(Failure.AMBIGUOUS, text)
    return fitting[0]


def _none_text(found: Sequence[FoundPort], kind: Kind | None) -> str:
    what = f"no {kind.title} is" if kind is not None else "no board is"
    others = ", ".join(f"{port.device} is {port.description or port.usb}" for port in found)
    there = f" ({others}; --port takes it all the same)" if others else ""
    return f"{what} plugged in{there}; some cables only charge: try another one"
