"""Which serial lines, and which absence of UDP, can be meant: a part of `rules.py`."""

from gateway.config.gathering import Gathering
from gateway.config.settings import NOWHERE, SerialSettings, Settings
from gateway.config.spelling import KeyPath, quoted, shown


def check_lines(settings: Settings, gathering: Gathering) -> None:
    first_with: dict[str, int] = {}
    for index, line in enumerate(settings.serial):
        entry: KeyPath = ("serial", index)
        if any(path is not None and path[:2] == entry for path in gathering.unclear):
            continue
        origin = gathering.entries[("serial",)][index]
        given = gathering.given.get((*entry, "port"))
        if given is None:
            message = 'expected a port, such as port = "/dev/serial/by-id/usb-..."'
            gathering.complain(origin, entry, message)
            continue
        earlier = first_with.setdefault(line.port, index)
        if earlier != index:
            message = f"expected a port of its own, got {shown(line.port)}, as serial.{earlier} has"
            gathering.complain(given.origin, (*entry, "port"), message)
        _check_pace(line, entry, gathering)


def _check_pace(line: SerialSettings, entry: KeyPath, gathering: Gathering) -> None:
    path = (*entry, "burst_bytes_max")
    if line.burst_bytes_max and not line.frame_gap_ms:
        message = f"expected serial.{entry[1]}.frame_gap_ms beside it, the pause after each burst"
        gathering.complain(gathering.given[path].origin, path, message)
    elif line.burst_bytes_max and line.framing == "raw" and line.frame_gap_ms >= line.gap_ms:
        message = (
            f"expected a frame_gap_ms below gap_ms ({line.gap_ms:g}) beside it, as a pause of that "
            f"length ends a message with framing {quoted(line.framing)}"
        )
        gathering.complain(gathering.given[path].origin, path, message)


def is_udp_clear(settings: Settings, gathering: Gathering) -> bool:
    """Whether UDP is served, or switched off as a whole; complains of what is neither.

    Its other keys stay allowed: who switches it off by a variable need not edit the file.
    """
    for index, udp in enumerate(settings.udp):
        path: KeyPath = ("udp", index, "listen")
        if udp.listen != NOWHERE or path in gathering.unclear:
            continue
        given = gathering.given[path]
        if len(settings.udp) > 1:
            message = (
                "expected an address and a port, as there are several [[udp]]; or leave it out"
            )
            gathering.complain(given.origin, path, message)
            return False
        if not settings.serial and ("serial",) not in gathering.unclear:
            message = "expected an address and a port, or a [[serial]] beside it, as no sensor "
            gathering.complain(given.origin, path, message + "could reach the gateway")
    return True
