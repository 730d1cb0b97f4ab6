"""The kinds of value a key can have: what is expected, in words, and the value that is read.

`read` takes a value as TOML has it, and raises MismatchError, which says what was expected.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import AddressValueError, IPv6Address, ip_address
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

from spark_ingest.config.problems import shown
from spark_ingest.payload.topic_filters import FILTER_BYTES_MAX, is_filter
from spark_ingest.segments.local_paths import EXPECTED, NotServedError, local_path

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB
TEXT_LENGTH_MAX = 1024
FILTERS_MAX = 64
PAIRS_MAX = 256

_SIZE = re.compile(r"([0-9]{1,15}) ?(B|KiB|MiB|GiB)")
_SIZE_UNITS = {"B": 1, "KiB": KIB, "MiB": MIB, "GiB": GIB}
PORT_MAX = 65_535
_URL = re.compile(
    r"(?P<scheme>mqtts?)://(?P<host>\[[^\[\]/]+\]|[A-Za-z0-9._-]{1,253})"
    r"(?::(?P<port>[0-9]{1,20}))?/?"
)
# What Linux allows in a name of an interface, or its number, but for the signs of a URL.
_ZONE = re.compile(r"(?!\.{1,2}$)[!-$&-.0-9;-Z^-~]{1,15}")
ZONE_EXPECTED = (
    'a host without "%", or the name or number of an interface as its zone, such as '
    '"mqtt://[fe80::1%25eth0]:1883"'
)
_ADDRESS = re.compile(r"(?:\[(?P<six>[^\[\]]*)\]|(?P<four>[^:\[\]]*)):(?P<port>[0-9]{1,20})")
_SERVER = r"(?:\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]{1,253}):[0-9]{1,20}"
_SERVERS = re.compile(rf"{_SERVER}(?:, ?{_SERVER}){{0,63}}")
_KAFKA_TOPIC = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}")
# It names a folder, a part of MQTT client ids and of labels.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class MismatchError(ValueError):
    def __init__(self, expected: str, raw: object, why: str = "") -> None:
        super().__init__(f"expected {expected}, got {shown(raw)}" + (f": {why}" if why else ""))


@dataclass(frozen=True, slots=True)
class Kind:
    expected: str
    convert: Callable[[object], object]  # None for what does not fit

    def read(self, raw: object) -> object:
        value = self.convert(raw)
        if value is None:
            raise MismatchError(self.expected, raw)
        return value


class Broker(NamedTuple):
    host: str
    port: int
    tls: bool

    def __str__(self) -> str:
        host = f"[{self.host.replace('%', '%25')}]" if ":" in self.host else self.host
        return f"{'mqtts' if self.tls else 'mqtt'}://{host}:{self.port}"


class HostPort(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def integer(least: int, most: int) -> Kind:
    def convert(raw: object) -> int | None:
        is_whole = isinstance(raw, int) and not isinstance(raw, bool)
        return raw if is_whole and least <= raw <= most else None  # type: ignore[operator,return-value]

    return Kind(f"a whole number from {least} to {most}", convert)


def number(least: float, most: float) -> Kind:
    def convert(raw: object) -> float | None:
        if isinstance(raw, bool) or not isinstance(raw, int | float):
            return None
        return float(raw) if least <= raw <= most else None

    return Kind(f"a number from {least:g} to {most:g}", convert)


def size(least: int, most: int) -> Kind:
    def convert(raw: object) -> int | None:
        octets = raw
        if isinstance(raw, str) and (found := _SIZE.fullmatch(raw)):
            octets = int(found[1]) * _SIZE_UNITS[found[2]]
        if isinstance(octets, bool) or not isinstance(octets, int):
            return None
        return octets if least <= octets <= most else None

    return Kind(f'a size from {with_unit(least)} to {with_unit(most)}, such as "16MiB"', convert)


def with_unit(octets: int) -> str:
    for unit, many in reversed(_SIZE_UNITS.items()):
        if octets >= many and octets % many == 0:
            return f"{octets // many}{unit}"
    return str(octets)


def choice(*words: str) -> Kind:
    expected = ", ".join(f'"{word}"' for word in words[:-1]) + f' or "{words[-1]}"'
    return Kind(expected, lambda raw: raw if isinstance(raw, str) and raw in words else None)


def boolean() -> Kind:
    return Kind("true or false", lambda raw: raw if isinstance(raw, bool) else None)


def text() -> Kind:
    def convert(raw: object) -> str | None:
        fits = isinstance(raw, str) and raw.isprintable() and 0 < len(raw) <= TEXT_LENGTH_MAX
        return raw if fits else None  # type: ignore[return-value]

    return Kind(f"text of 1 to {TEXT_LENGTH_MAX} characters without control characters", convert)


def name() -> Kind:
    return Kind(
        "a name of letters, digits, dots, dashes and underscores, at most 64",
        lambda raw: raw if isinstance(raw, str) and _NAME.fullmatch(raw) else None,
    )


def file_path() -> Kind:
    def convert(raw: object) -> Path | None:
        if not isinstance(raw, str) or not raw.isprintable() or raw.startswith("~") or not raw:
            return None
        try:
            return local_path(raw)
        except NotServedError as error:
            raise MismatchError(EXPECTED, raw, str(error)) from None

    return Kind('a path, without "~" at its beginning', convert)


def topic_filter() -> Kind:
    return Kind(
        f'a topic filter of at most {FILTER_BYTES_MAX} bytes, such as "sensors/+/door"',
        lambda raw: raw if isinstance(raw, str) and is_filter(raw) else None,
    )


def topic_filters(least: int = 1) -> Kind:
    def convert(raw: object) -> tuple[str, ...] | None:
        if not isinstance(raw, list) or not least <= len(raw) <= FILTERS_MAX:
            return None
        fits = all(isinstance(each, str) and is_filter(each) for each in raw)
        return tuple(raw) if fits else None

    return Kind(f'{least} to {FILTERS_MAX} topic filters, such as ["sensors/#"]', convert)


def pairs() -> Kind:
    """Names and values as other programs have them, so the values are text."""

    def convert(raw: object) -> dict[str, str] | None:
        if not isinstance(raw, dict) or len(raw) > PAIRS_MAX:
            return None
        if not all(isinstance(each, str | int | float) for each in raw.values()):
            return None
        return {
            name: str(each).lower() if isinstance(each, bool) else str(each)
            for name, each in raw.items()
        }

    return Kind(f"a table of at most {PAIRS_MAX} keys with a text or a number each", convert)


def broker_url() -> Kind:
    def convert(raw: object) -> Broker | None:
        parts = _URL.fullmatch(raw) if isinstance(raw, str) else None
        host = None if parts is None else _host(parts["host"])
        if parts is None or host is None:
            if isinstance(raw, str) and "%" in raw:
                raise MismatchError(ZONE_EXPECTED, raw)
            return None
        port = parts["port"] or {"mqtt": "1883", "mqtts": "8883"}[parts["scheme"]]
        return Broker(host, _port(port, raw), parts["scheme"] == "mqtts")

    return Kind('"mqtt://host:port" or "mqtts://host:port"', convert)


def _port(text: str, raw: object) -> int:
    """Raises MismatchError."""
    if not 1 <= int(text) <= PORT_MAX:
        raise MismatchError(f"a port from 1 to {PORT_MAX}", raw)
    return int(text)


def _host(text: str) -> str | None:
    """Without brackets. An IPv6 address may have a zone: `%25eth0` (RFC 6874), or `%eth0`."""
    if not text.startswith("["):
        return text
    number, sign, zone = text[1:-1].partition("%")
    name = unquote(zone.removeprefix("25"))
    try:
        address = str(IPv6Address(number))
    except AddressValueError:
        return None
    if not sign:
        return address
    return f"{address}%{name}" if _ZONE.fullmatch(name) else None


def servers() -> Kind:
    """An empty text is none, as on the command line."""

    def convert(raw: object) -> str | None:
        if not isinstance(raw, str) or (raw and not _SERVERS.fullmatch(raw)):
            return None
        for server in raw.split(",") if raw else ():
            _port(server.rpartition(":")[2], raw)
        return raw

    return Kind(
        'host:port, or several with commas between, such as "kafka1:9092,kafka2:9092"', convert
    )


def kafka_topic() -> Kind:
    return Kind(
        "a topic of letters, digits, dots, dashes and underscores, at most 249",
        lambda raw: raw if isinstance(raw, str) and _KAFKA_TOPIC.fullmatch(raw) else None,
    )


def listen_address() -> Kind:
    """An empty text switches it off, which is what the settings have as None."""

    def convert(raw: object) -> HostPort | str | None:
        if raw == "":
            return ""
        parts = _ADDRESS.fullmatch(raw) if isinstance(raw, str) else None
        if parts is None:
            return None
        try:
            host = ip_address(parts["six"] or parts["four"] or "")
        except ValueError:
            return None
        port = parts["port"]
        return HostPort(str(host), _port(port, raw) if int(port) else 0)

    return Kind('an IP address and a port, such as "127.0.0.1:9109", or "" for none', convert)
