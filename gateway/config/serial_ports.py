"""What names a serial port: the path of a device, or the URL of a server that has the port.

A path is not looked at here: a port may be plugged in later, and come and go.
"""

import re
from dataclasses import dataclass
from typing import Literal, NamedTuple

from gateway.config.addresses import PORT_EXPECTED, PORT_MAX, network_host
from gateway.config.kinds import Kind, MismatchError, is_control
from gateway.config.settings import HostPort

PATH_BYTES_MAX = 4095  # PATH_MAX of Linux, less its final zero

_URL = re.compile(
    r"(?P<scheme>socket|rfc2217)://(?P<host>\[[^\[\]]*\]|[^:/\[\]]*):(?P<port>[0-9]{1,20})/?"
)


class PortServer(NamedTuple):
    """A serial port on the network: its bytes alone, or with its settings by RFC 2217."""

    scheme: Literal["socket", "rfc2217"]
    address: HostPort

    def __str__(self) -> str:
        return f"{self.scheme}://{self.address}"


def port_server(port: str) -> PortServer | None:
    """Nothing for what is a path, or no such URL."""
    parts = _URL.fullmatch(port)
    host = None if parts is None else network_host(parts["host"])
    if parts is None or host is None or not 1 <= int(parts["port"]) <= PORT_MAX:
        return None
    scheme: Literal["socket", "rfc2217"] = "socket" if parts["scheme"] == "socket" else "rfc2217"
    return PortServer(scheme, HostPort(host, int(parts["port"])))


@dataclass(frozen=True, slots=True)
class SerialPort(Kind):
    @property
    def name(self) -> str:
        return "path or URL"

    @property
    def range(self) -> str:
        return '"/dev/...", "socket://host:port" or "rfc2217://host:port"'

    @property
    def expected(self) -> str:
        return (
            'the path of a serial port, such as "/dev/serial/by-id/usb-..." or "/dev/ttyUSB0", or '
            'the URL of a port server, "socket://host:port" or "rfc2217://host:port"'
        )

    def read(self, raw: object) -> str:
        if not isinstance(raw, str):
            raise MismatchError(self.expected, raw)
        server = port_server(raw)
        if server is not None:
            return str(server)
        named = _URL.fullmatch(raw)
        if named is not None and not 1 <= int(named["port"]) <= PORT_MAX:
            raise MismatchError(PORT_EXPECTED, raw)
        if not raw.startswith("/") or any(map(is_control, raw)):
            raise MismatchError(self.expected, raw)
        try:
            octets = len(raw.encode())
        except UnicodeEncodeError:
            raise MismatchError(self.expected, raw) from None
        if octets > PATH_BYTES_MAX or raw.endswith("/"):
            raise MismatchError(self.expected, raw)
        return raw
