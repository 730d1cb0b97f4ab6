"""Eclipse Paho's MQTT-SN gateway: its gateway.conf, and the lists that it names.

`NAME=VALUE` in each line, the first of a name counts, `#` at the beginning makes a comment. The
lists are of commas, without regard to blanks:

    predefinedTopic.conf    ClientID, TopicName, TopicID        a ClientID of * is every client
    clients.conf            ClientID, Address, words: QoS-1, forwarder, secureConnection, ...
    forwarders.conf, qos-1clients.conf of older releases        ClientID, Address

Paths begin at the folder of gateway.conf, or where this is called, whichever has the file: Paho's
gateway takes them from where it was started.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gateway.cli.importing.draft import Draft, Source
from gateway.cli.importing.files import Imported, NotReadError, found, text_beside, text_of
from gateway.config.security_keys import LISTED_MAX
from gateway.config.spelling import shortened

EVERY_CLIENT = "*"
SHOWN_MAX = 60

_OTHER_NETWORKS = {
    "DtlsCertsKey": "DTLS to sensors is not supported",
    "DtlsPrivKey": "DTLS to sensors is not supported",
    "Baudrate": "of a gateway built for XBee; a radio on a serial line is [[serial]]",
    "SerialDevice": "of a gateway built for XBee; a radio on a serial line is [[serial]]",
    "ApiMode": "of a gateway built for XBee; its frames are not supported",
    "BaudrateLoRaLink": "of a gateway built for LoRaLink; a bridge on a serial line is [[serial]]",
    "DeviceRxLoRaLink": "of a gateway built for LoRaLink; a bridge on a serial line is [[serial]]",
    "DeviceTxLoRaLink": "of a gateway built for LoRaLink; a bridge on a serial line is [[serial]]",
    "RFCOMMAddress": "Bluetooth is not supported",
}
_NO_EQUIVALENT = _OTHER_NETWORKS | {
    "RootCApath": "a folder of certificates has no equivalent; give one file as upstream.ca_file",
    "MQTTVersion": "always MQTT 5: the broker must speak it (mosquitto 1.6 or newer)",
    "MaxInflightMsgs": "the broker's Receive Maximum decides",
    "ShearedMemory": "the log goes to stderr, for systemd's journal",
    "QoS-1ProxyName": "messages of QoS -1 need no proxy",
    "OoS-1ProxyName": "messages of QoS -1 need no proxy",
}
# Older names of the same.
_ALIASES = {
    "CertKey": "CertsKey",
    "CertsFile": "CertsKey",
    "AggregateGateway": "AggregatingGateway",
    "ClientAuthorization": "ClientAuthentication",
    "GatewayUDP6Port": "GatewayIPv6PortNo",
    "GatewayUDP6Broadcast": "MulticastIPv6",
    "GatewayUDP6If": "MulticastIPv6If",
    "GatewayUDP6Hops": "MulticastHops",
}
_UDP = ("GatewayPortNo", "MulticastIP", "MulticastPortNo", "MulticastTTL")
_UDP6 = (
    *("GatewayIPv6PortNo", "MulticastIPv6", "MulticastIPv6PortNo", "MulticastIPv6If"),
    "MulticastHops",
)


@dataclass(frozen=True, slots=True)
class Given:
    name: str  # as it is written
    value: str
    source: Source


@dataclass(frozen=True, slots=True)
class Listed:
    """A line of one of the lists."""

    parts: tuple[str, ...]
    source: Source


def import_paho(path: Path, *, is_udp6: bool) -> Imported:
    """Raises NotReadError for this file; one that it names and that is not there is a note."""
    draft = Draft(path.name)
    conversion = _Conversion(path, draft)
    conversion.read(text_of(path))
    conversion.convert(is_udp6=is_udp6)
    return Imported(draft, conversion.password)


class _Conversion:
    def __init__(self, path: Path, draft: Draft) -> None:
        self.password: str | None = None
        self._path = path
        self._draft = draft
        self._given: dict[str, Given] = {}
        self._used: set[str] = set()
        self._clients: list[Listed] = []

    def read(self, text: str) -> None:
        for number, line in enumerate(text.splitlines(), 1):
            source = Source(self._path.name, number)
            if not line.strip() or line.lstrip().startswith("#"):
                continue
            name, sign, value = line.partition("=")
            name = name.strip()
            if not sign or not name:
                self._draft.fault(source, "expected NAME=VALUE; the line was left out")
                continue
            known = _ALIASES.get(name, name)
            if known in self._given:
                first = self._given[known].source.line
                self._draft.leave(source, f"{name} is given before, in line {first}, which counts")
                continue
            self._given[known] = Given(name, value.strip().rstrip(";").rstrip(), source)

    def convert(self, *, is_udp6: bool) -> None:
        if self._is_on("ClientAuthentication", "QoS-1", "Forwarder", "AggregatingGateway"):
            self._clients = list(self._list("ClientsList", 2))
        self._gateway()
        self._listener(is_udp6=is_udp6)
        self._broker()
        self._admission()
        self._qos_minus_one()
        self._forwarders()
        self._topics()
        self._rest()

    # Settings

    def _gateway(self) -> None:
        self._number("GatewayID", ("gateway", "id"))
        self._text("GatewayName", ("gateway", "name"))
        self._number("MaxNumberOfClients", ("limits", "clients_max"))
        # Which is the time between two ADVERTISE.
        self._number("KeepAlive", ("discovery", "advertise_s"))

    def _listener(self, *, is_udp6: bool) -> None:
        names = _UDP6 if is_udp6 else _UDP
        port, group = self._take(names[0]), self._take(names[1])
        group_port = self._take("MulticastIPv6PortNo" if is_udp6 else "MulticastPortNo")
        if port is not None:
            listen = f"{'[::]' if is_udp6 else '0.0.0.0'}:{port.value}"
            self._draft.put(("udp", 0, "listen"), listen, port.source, port.name)
        if group is not None and group_port is not None:
            host = f"[{group.value}]" if is_udp6 else group.value
            where = f"{host}:{group_port.value}"
            self._draft.put(("udp", 0, "multicast"), where, group.source, group.name)
            if is_udp6:
                self._text("MulticastIPv6If", ("udp", 0, "multicast_interface"))
            self._number(names[-1], ("udp", 0, "multicast_hops"))
        other = "IPv4" if is_udp6 else "IPv6"
        for name in _UDP if is_udp6 else _UDP6:
            self._leave(name, f"of a gateway built for {other}; --network takes the other one")

    def _broker(self) -> None:
        host, port = self._take("BrokerName"), self._take("BrokerPortNo")
        secure_port = self._take("BrokerSecurePortNo")
        is_secure = self._is_secure()
        if is_secure and secure_port is not None:
            port = secure_port
        elif secure_port is not None:
            why = "no client has secureConnection; for TLS write mqtts:// in upstream.url"
            self._draft.leave(secure_port.source, f"{secure_port.name}: {why}")
        if host is not None:
            name = f"[{host.value}]" if ":" in host.value else host.value
            behind = f":{port.value}" if port is not None else ""
            url = f"{'mqtts' if is_secure else 'mqtt'}://{name}{behind}"
            self._draft.put(("upstream", "url"), url, host.source, host.name)
        for name, key in (
            ("RootCAfile", "ca_file"),
            ("CertsKey", "cert_file"),
            ("PrivateKey", "key_file"),
        ):
            given = self._take(name)
            if given is None:
                continue
            if is_secure:
                self._file(given, ("upstream", key))
            else:
                self._draft.leave(given.source, f"{given.name}: of use with TLS only")
        self._login()

    def _login(self) -> None:
        user, password = self._take("LoginID"), self._take("Password")
        if user is None:
            if password is not None:
                self._draft.fault(password.source, "Password: there is no LoginID beside it")
            return
        if self._draft.put(("upstream", "username"), user.value, user.source, user.name):
            self.password = None if password is None else password.value

    def _is_secure(self) -> bool:
        """One connection serves all clients here, so one that wants TLS decides."""
        older = self._take("SecureConnection")
        if older is not None and _is_yes(older.value):
            return True
        secure = [each for each in self._clients if "secureConnection" in each.parts[2:]]
        if secure and len(secure) < len(self._clients):
            text = "secureConnection of some clients: all share one connection, with TLS"
            self._draft.leave(secure[0].source, text)
        return bool(secure)

    def _admission(self) -> None:
        given = self._take("ClientAuthentication")
        aggregating = self._take("AggregatingGateway")
        if aggregating is not None and not _is_yes(aggregating.value):
            self._draft.leave(
                aggregating.source,
                f"{aggregating.name}: clients no longer have a connection of their own at the "
                "broker, whose access rules by client id must allow the gateway's",
            )
        if given is None or not _is_yes(given.value):
            return
        ids = [each.parts[0] for each in self._clients if "forwarder" not in each.parts[2:]]
        if not ids:
            self._draft.fault(given.source, f"{given.name}: no client is listed")
            return
        if self._draft.put(("admission", "permit"), "listed", given.source, given.name):
            listed = list(dict.fromkeys(ids))[:LISTED_MAX]
            self._draft.put(("admission", "listed"), listed, self._clients[0].source)

    def _qos_minus_one(self) -> None:
        given = self._take("QoS-1")
        if given is not None:
            allow = _is_yes(given.value)
            self._draft.put(("qos_minus_one", "allow"), allow, given.source, given.name)
            if allow:
                self._clients += self._list("QoS-1ClientsList", 2, "QoS-1")
                text = "they are taken from anybody who reaches the port, listed or not"
                self._draft.leave(given.source, f"{given.name}: {text}")

    def _forwarders(self) -> None:
        given = self._take("Forwarder")
        if given is None:
            return
        allow = _is_yes(given.value)
        self._draft.put(("forwarders", "allow"), allow, given.source, given.name)
        if not allow:
            return
        listed = [each for each in self._clients if "forwarder" in each.parts[2:]]
        listed += self._list("ForwardersList", 2, "forwarder")
        addresses = [each.parts[1].rpartition(":")[0].strip("[]") for each in listed]
        if addresses:
            unique = list(dict.fromkeys(addresses))
            self._draft.put(("forwarders", "listed"), unique, listed[0].source)

    # Topics

    def _topics(self) -> None:
        given = self._take("PredefinedTopic")
        if given is not None and not _is_yes(given.value):
            self._leave("PredefinedTopicList", f"{given.name}={given.value} turns it off")
            return
        listed = [each for each in self._list("PredefinedTopicList", 3) if self._is_topic(each)]
        anonymous = {each.parts[0] for each in self._clients if "QoS-1" in each.parts[2:]}
        ids = _Ids()
        for each in sorted(listed, key=lambda one: _rank(one.parts[0], anonymous)):
            client, topic, number = each.parts[0], each.parts[1], int(each.parts[2])
            is_for_all = client == EVERY_CLIENT or client in anonymous
            there = ids.of(None if is_for_all else client, number)
            path: tuple[str, ...] = ("predefined_topics", topic)
            path = path if is_for_all else ("clients", client, *path)
            if there == topic:
                continue
            if there is not None:
                text = f"id {number} of {client} is {shortened(there, SHOWN_MAX)} already"
                why = "; one without a client id has those of all" if client in anonymous else ""
                self._draft.fault(each.source, text + why)
            elif self._draft.has(path):
                self._draft.fault(each.source, f"{shortened(topic, SHOWN_MAX)} has an id already")
            elif self._draft.put(path, number, each.source):
                ids.add(None if is_for_all else client, number, topic)

    def _is_topic(self, listed: Listed) -> bool:
        client, topic, number = listed.parts[:3]
        is_number = number.isascii() and number.isdigit() and len(number) < 6
        if client and topic and is_number and not {"+", "#"} & set(topic):
            return True
        self._draft.fault(listed.source, "expected ClientID, TopicName, TopicID; it was left out")
        return False

    def _rest(self) -> None:
        for name, why in _NO_EQUIVALENT.items():
            self._leave(name, why)
        self._leave("ClientsList", "nothing that is on needs it")
        self._leave("QoS-1ClientsList", "QoS-1=NO turns it off")
        self._leave("ForwardersList", "Forwarder=NO turns it off")
        if any(len(each.parts) > 1 for each in self._clients):
            text = "addresses and unstableLine: a sensor is known by its id, wherever it is"
            self._draft.leave(self._clients[0].source, text)
        for name in set(self._given) - self._used:
            given = self._given[name]
            # Its value may be anything, a secret too.
            self._draft.leave(given.source, f"{given.name[:SHOWN_MAX]}: not known")

    # Helpers

    def _take(self, name: str) -> Given | None:
        """None also for one that is given and empty."""
        self._used.add(name)
        given = self._given.get(name)
        return given if given is not None and given.value else None

    def _leave(self, name: str, why: str) -> None:
        if name not in self._used and name in self._given:
            self._used.add(name)
            given = self._given[name]
            self._draft.leave(given.source, f"{given.name}: {why}")

    def _is_on(self, *names: str) -> bool:
        return any(name in self._given and _is_yes(self._given[name].value) for name in names)

    def _number(self, name: str, path: tuple[str | int, ...]) -> None:
        given = self._take(name)
        if given is not None:
            self._draft.put_number(path, given.value, given.source, given.name)

    def _text(self, name: str, path: tuple[str | int, ...]) -> None:
        given = self._take(name)
        if given is not None:
            self._draft.put(path, given.value, given.source, given.name)

    def _file(self, given: Given, path: tuple[str, ...]) -> None:
        there = found(self._path, given.value)
        if there is None:
            self._draft.fault(given.source, f"{given.name}: {given.value} is not there")
        else:
            self._draft.put(path, str(there), given.source, given.name)

    def _list(self, name: str, least: int, word: str = "") -> Iterator[Listed]:
        """The lines of the list that this setting names; `word` is what each of them means."""
        given = self._take(name)
        if given is None:
            return
        try:
            file, text = text_beside(self._path, given.value)
        except NotReadError as error:
            self._draft.fault(given.source, f"{given.name}: {error}")
            return
        for number, line in enumerate(text.splitlines(), 1):
            if not line.strip() or line.lstrip().startswith("#"):
                continue
            parts = tuple("".join(part.split()) for part in line.split(","))
            source = Source(file, number)
            if len(parts) < least or not parts[0]:
                expected = "ClientID, TopicName, TopicID" if least == 3 else "ClientID, Address"
                self._draft.fault(source, f"expected {expected}; the line was left out")
                continue
            yield Listed((*parts, word) if word else parts, source)


class _Ids:
    """Of topics. An id of all clients (None) is one of each."""

    def __init__(self) -> None:
        self._topics: dict[tuple[str | None, int], str] = {}
        self._of_any: dict[int, str] = {}

    def of(self, client: str | None, number: int) -> str | None:
        if client is None:
            return self._of_any.get(number)
        return self._topics.get((None, number)) or self._topics.get((client, number))

    def add(self, client: str | None, number: int, topic: str) -> None:
        self._topics[client, number] = topic
        self._of_any.setdefault(number, topic)


def _rank(client: str, anonymous: set[str]) -> int:
    """Whose ids come first: of two that cannot be together, the later one is left out."""
    return 0 if client == EVERY_CLIENT else 2 if client in anonymous else 1


def _is_yes(value: str) -> bool:
    return value.upper() == "YES"
