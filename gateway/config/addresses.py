"""Kinds of value that name a place in the network: where to listen, which group to join on which
interface, and which broker to reach.
"""

import re
from dataclasses import dataclass
from ipaddress import (
    AddressValueError,
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)
from typing import NamedTuple
from urllib.parse import unquote

from gateway.config.kinds import Kind, MismatchError, Several
from gateway.config.settings import HostPort
from gateway.config.spelling import quoted

PORT_MAX = 65_535
PORT_EXPECTED = f"a port from 1 to {PORT_MAX}"
HOST_LENGTH_MAX = 253  # RFC 1035, 2.3.4, as text

_ADDRESS = re.compile(r"(?:\[(?P<six>[^\[\]]*)\]|(?P<four>[^:\[\]]*)):(?P<port>[0-9]{1,20})")
_URL = re.compile(
    r"(?P<scheme>mqtts?)://(?P<host>\[[^\[\]]*\]|[^:/\[\]]*)(?::(?P<port>[0-9]{1,20}))?/?"
)
_LABEL = re.compile(r"(?!-)[A-Za-z0-9_-]{1,63}(?<!-)")
# As Linux allows them: IFNAMSIZ, and neither slash nor colon. Digits and dots are a bad address.
_INTERFACE = re.compile(r"(?![0-9.]+$)[!-.0-9;-~]{1,15}")
# What Linux allows in a name of an interface, or its number, but for the signs of a URL.
_ZONE = re.compile(r"(?!\.{1,2}$)[!-$&-.0-9;-Z^-~]{1,15}")
_URL_PORTS = {"mqtt": 1883, "mqtts": 8883}


@dataclass(frozen=True, slots=True)
class Listen(Kind):
    """An address of this machine. No names: one name can be several addresses, or none at boot."""

    optional: bool = False
    off: HostPort | None = None  # what stands for "" where it is optional

    @property
    def name(self) -> str:
        return "address and port"

    @property
    def range(self) -> str:
        return '"" switches it off' if self.optional else ""

    @property
    def expected(self) -> str:
        off = ', or "" to switch it off' if self.optional else ""
        return f'an IP address and a port, such as "127.0.0.1:8080" or "[::]:1883"{off}'

    def read(self, raw: object) -> HostPort | None:
        if raw == "" and self.optional:
            return self.off
        parts = _ADDRESS.fullmatch(raw) if isinstance(raw, str) else None
        if parts is None:
            raise MismatchError(self.expected, raw)
        four, six = parts["four"], parts["six"]
        try:
            host = IPv4Address(four) if six is None else IPv6Address(six)
        except AddressValueError:
            raise MismatchError(self.expected, raw) from None
        port = int(parts["port"])  # 0 is any that is free, as the system has it
        if port > PORT_MAX:
            raise MismatchError(PORT_EXPECTED, raw)
        return HostPort(str(host), port)

    def written(self, value: object) -> str:
        return quoted("" if value is None else str(value))


@dataclass(frozen=True, slots=True)
class Networks(Several):
    """Single addresses and networks."""

    @property
    def range(self) -> str:
        return f"up to {self.count_max} IP addresses and networks"

    @property
    def expected(self) -> str:
        return 'a list of IP addresses and networks, such as ["10.0.0.7", "192.168.4.0/24"]'

    def read_one(self, raw: object) -> IPv4Network | IPv6Network:
        try:
            return ip_network(raw if isinstance(raw, str) else "")
        except ValueError:
            raise MismatchError(self.expected, raw) from None


@dataclass(frozen=True, slots=True)
class Group(Kind):
    """A multicast group and the port on which it is spoken to."""

    @property
    def name(self) -> str:
        return "multicast address and port"

    @property
    def range(self) -> str:
        return '"" for none'

    @property
    def expected(self) -> str:
        return (
            'a multicast address and a port, such as "225.1.1.1:1883" or "[ff05::4d51]:1883", '
            'or "" for none'
        )

    def read(self, raw: object) -> HostPort | None:
        if raw == "":
            return None
        try:
            group = Listen().read(raw)
        except MismatchError as error:
            is_port = error.expected == PORT_EXPECTED
            raise MismatchError(PORT_EXPECTED if is_port else self.expected, raw) from None
        if group is None or not ip_address(group.host).is_multicast:
            raise MismatchError(self.expected, raw)
        if group.port == 0:
            raise MismatchError(PORT_EXPECTED, raw)
        return group

    def written(self, value: object) -> str:
        return quoted("" if value is None else str(value))


@dataclass(frozen=True, slots=True)
class NetworkInterface(Kind):
    """By its name, or by one of its addresses."""

    @property
    def name(self) -> str:
        return "interface name or address"

    @property
    def expected(self) -> str:
        return 'the name of a network interface or one of its addresses, such as "eth0"'

    def read(self, raw: object) -> str:
        if not isinstance(raw, str):
            raise MismatchError(self.expected, raw)
        if not is_address(raw) and _INTERFACE.fullmatch(raw) is None:
            raise MismatchError(self.expected, raw)
        return raw


def is_address(text: str) -> bool:
    """Whether it is an IPv4 or IPv6 address; else it may be a name."""
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


ZONE_EXPECTED = (
    'a host without "%", or the name or number of an interface as its zone, such as '
    '"mqtt://[fe80::1%25eth0]:1883"'
)


class Broker(NamedTuple):
    """The three settings that `upstream.url` decides."""

    host: str
    port: int
    tls: bool

    def __str__(self) -> str:
        where = str(HostPort(self.host, self.port)).replace("%", "%25")
        return f"{'mqtts' if self.tls else 'mqtt'}://{where}"


@dataclass(frozen=True, slots=True)
class BrokerUrl(Kind):
    @property
    def name(self) -> str:
        return "URL"

    @property
    def range(self) -> str:
        return self.expected

    @property
    def expected(self) -> str:
        return '"mqtt://host:port" or "mqtts://host:port"'

    def read(self, raw: object) -> Broker:
        if isinstance(raw, str) and "@" in raw:
            raise MismatchError(
                "a URL without user name and password (they belong in upstream.username and "
                "upstream.password_file)",
                _without_credentials(raw),
            )
        parts = _URL.fullmatch(raw) if isinstance(raw, str) else None
        host = None if parts is None else network_host(parts["host"])
        if parts is None or host is None:
            is_zone = isinstance(raw, str) and "%" in raw
            raise MismatchError(ZONE_EXPECTED if is_zone else self.expected, raw)
        port = int(parts["port"] or _URL_PORTS[parts["scheme"]])
        if not 1 <= port <= PORT_MAX:
            raise MismatchError(f"{self.expected} with {PORT_EXPECTED}", raw)
        return Broker(host, port, parts["scheme"] == "mqtts")


def _without_credentials(url: str) -> str:
    before, _, after = url.rpartition("@")
    scheme, separator, _ = before.partition("://")
    return f"{scheme}://***@{after}" if separator else f"***@{after}"


def network_host(text: str) -> str | None:
    """A host name, or an address without its brackets; None if it is neither.

    An IPv6 address may have a zone, as in a URL (`%25eth0`, RFC 6874) or as elsewhere (`%eth0`).
    """
    try:
        if text.startswith("["):
            return _ipv6_host(text[1:-1])
        if text.rpartition(".")[2].isdigit():  # no top-level domain is a number
            return str(IPv4Address(text))
    except AddressValueError:
        return None
    labels = text.removesuffix(".").split(".")
    return text if len(text) <= HOST_LENGTH_MAX and all(map(_LABEL.fullmatch, labels)) else None


def _ipv6_host(text: str) -> str | None:
    number, sign, zone = text.partition("%")
    address = IPv6Address(number)
    if not sign:
        return str(address)
    name = unquote(zone.removeprefix("25"))
    return f"{address}%{name}" if _ZONE.fullmatch(name) else None
