"""Checks between keys: values that fit alone and contradict each other. What only looks unintended
is in `warnings.py`.

A check reads only keys that were read without a problem. A misspelled or bad value would otherwise
be reported twice, the second time as something that the operator never wrote.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from ipaddress import IPv6Address, ip_address
from typing import NamedTuple

from gateway.config.addresses import is_address
from gateway.config.gathering import Gathering
from gateway.config.keys import HOME_ASSISTANT_DEVICE, PER_TOPIC, UPSTREAM
from gateway.config.patterns import ANY, IDENTITY
from gateway.config.problems import Origin
from gateway.config.settings import (
    NAME_OF_RECEIPTS,
    NOWHERE,
    HomeAssistantCommandSettings,
    HomeAssistantValueSettings,
    HostPort,
    SerialSettings,
    Settings,
    UdpSettings,
)
from gateway.config.spelling import KeyPath, dotted, quoted, shown

# Brokers close the connection over more: mosquitto at 200, and the prefix has levels as well.
TOPIC_LEVELS_MAX = 128
PREFIX_LEVELS_MAX = 64

# The first must be at least the second: a limit that no single message could keep, and the like.
AT_LEAST: tuple[tuple[KeyPath, KeyPath], ...] = (
    (("upstream", "reconnect_delay_s_max"), ("upstream", "reconnect_delay_s_min")),
    (("upstream", "waiting_bytes_max"), ("limits", "payload_bytes_max")),
    (("limits", "outbox_bytes_max"), ("limits", "payload_bytes_max")),
    (("limits", "retained_bytes_max"), ("limits", "payload_bytes_max")),
)

# A segment is a sixteenth of the journal or more, and some of it is kept free for marks.
JOURNAL_PER_READING_MIN = 18

# Scopes that have a group of their own on each interface (RFC 4291, 2.7).
SCOPES_OF_ONE_LINK = (1, 2)


def check(settings: Settings, gathering: Gathering) -> None:
    if None in gathering.unclear:
        return
    _check_name(settings, gathering)
    _check_needs(settings, gathering)
    _check_at_least(settings, gathering)
    _check_will_delay(settings, gathering)
    _check_segments(settings, gathering)
    _check_keeping(settings, gathering)
    if _is_udp_clear(settings, gathering):
        _check_listeners(settings, gathering)
        _check_networks(settings, gathering)
        _check_groups(settings, gathering)
        _check_dtls(settings, gathering)
    _check_serial_ports(settings, gathering)
    _check_predefined_topics(settings, gathering)
    _check_client_ids(settings, gathering)
    _check_prefix(settings, gathering)
    _check_topic_filters(settings, gathering)
    _check_presence_clients(settings, gathering)
    _check_bindings(settings, gathering)
    _check_access(settings, gathering)
    _check_home_assistant(settings, gathering)
    _check_devices(settings, gathering)
    _check_admin(settings, gathering)


def _check_name(settings: Settings, gathering: Gathering) -> None:
    path: KeyPath = ("gateway", "name")
    given = gathering.given.get(path)
    if given is None or path in gathering.unclear or settings.gateway.name != NAME_OF_RECEIPTS:
        return
    message = (
        f"expected another name than {quoted(NAME_OF_RECEIPTS)}: what is ingested is told to all "
        f"gateways below tidegate/{NAME_OF_RECEIPTS}/"
    )
    gathering.add_problem(given.origin, path, message)


def _check_needs(settings: Settings, gathering: Gathering) -> None:
    table: KeyPath = (UPSTREAM.name,)
    for key in UPSTREAM.keys:
        given = gathering.given.get((*table, key.name))
        if given is None:
            continue
        path, needed = (*table, key.name), (*table, key.needs)
        if key.needs and needed not in gathering.given and needed not in gathering.unclear:
            gathering.add_problem(given.origin, path, f"expected {dotted(needed)} beside it")
        url = (*table, "url")
        if key.needs_tls and not settings.upstream.tls and url not in gathering.unclear:
            message = "expected an upstream.url with mqtts:// beside it, as mqtt:// has no TLS"
            gathering.add_problem(given.origin, path, message)


def _check_at_least(settings: Settings, gathering: Gathering) -> None:
    for large, small in AT_LEAST:
        if large in gathering.unclear or small in gathering.unclear:
            continue
        most, least = _number(settings, large), _number(settings, small)
        if most >= least:
            continue
        if large in gathering.given:
            message = f"expected at least {dotted(small)} ({least:g}), got {most:g}"
            gathering.add_problem(gathering.given[large].origin, large, message)
        else:
            message = f"expected at most {dotted(large)} ({most:g}), got {least:g}"
            gathering.add_problem(gathering.given[small].origin, small, message)


def _number(settings: Settings, path: KeyPath) -> float:
    table, name = map(str, path)
    value = getattr(getattr(settings, table), name)
    assert isinstance(value, int | float)
    return value


def _check_will_delay(settings: Settings, gathering: Gathering) -> None:
    """Where it is the default, a shorter session simply ends before it (MQTT 5, 3.1.3.2.2)."""
    path: KeyPath = ("upstream", "will_delay_s")
    upstream, given = settings.upstream, gathering.given.get(path)
    if given is None or not gathering.unclear.isdisjoint({path, ("upstream", "session_expiry_s")}):
        return
    if upstream.will_delay_s > upstream.session_expiry_s:
        message = (
            f"expected at most upstream.session_expiry_s ({upstream.session_expiry_s}), got "
            f"{upstream.will_delay_s}: when the session ends the broker no longer waits"
        )
        gathering.add_problem(given.origin, path, message)


def _check_segments(settings: Settings, gathering: Gathering) -> None:
    """The largest reading must fit one segment of the journal."""
    path: KeyPath = ("journal", "size_max")
    sizes: tuple[KeyPath, ...] = (("limits", "payload_bytes_max"), ("limits", "topic_bytes_max"))
    given = gathering.given.get(path)
    if given is None or not gathering.unclear.isdisjoint(sizes):
        return
    least = JOURNAL_PER_READING_MIN * int(sum(_number(settings, each) for each in sizes))
    if settings.journal.size_max_bytes < least:
        message = (
            f"expected at least {least} bytes, {JOURNAL_PER_READING_MIN} times the largest reading "
            f"(limits.payload_bytes_max and topic_bytes_max), got {settings.journal.size_max_bytes}"
        )
        gathering.add_problem(given.origin, path, message)


def _check_keeping(settings: Settings, gathering: Gathering) -> None:
    """What the broker alone acknowledges is not in the journal, so it cannot be kept there."""
    scopes: list[tuple[KeyPath, str, bool | None]] = [
        (("journal",), settings.journal.acknowledge, settings.journal.keep_until_ingested)
    ]
    for index, topic in enumerate(settings.topic):
        decided = topic.acknowledge or settings.journal.acknowledge
        scopes.append((("topic", index), decided, topic.keep_until_ingested))
    for table, acknowledge, keeps in scopes:
        path: KeyPath = (*table, "keep_until_ingested")
        unclear = {path, (*table, "acknowledge"), ("journal", "acknowledge")}
        if keeps and acknowledge == "upstream" and not unclear & gathering.unclear:
            message = 'expected acknowledge = "auto" or "journal" beside it, got "upstream"'
            gathering.add_problem(gathering.given[path].origin, path, message)


def _is_udp_clear(settings: Settings, gathering: Gathering) -> bool:
    """Whether UDP is served, or switched off as a whole; reports what is neither.

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
            gathering.add_problem(given.origin, path, message)
            return False
        if not settings.serial and ("serial",) not in gathering.unclear:
            message = "expected an address and a port, or a [[serial]] beside it, as no sensor "
            gathering.add_problem(given.origin, path, message + "could reach the gateway")
    return True


def _check_listeners(settings: Settings, gathering: Gathering) -> None:
    seen: list[tuple[int, HostPort]] = []
    for index, listener in enumerate(settings.listeners):
        path: KeyPath = ("udp", index, "listen")
        if path in gathering.unclear:
            continue
        for earlier, address in seen:
            if _overlap(address, listener.listen):
                given = gathering.given.get(path)
                origin = given.origin if given else gathering.entries[("udp",)][index]
                message = (
                    f"expected an address that no other listener has, got "
                    f"{quoted(str(listener.listen))} beside udp.{earlier}.listen "
                    f"{quoted(str(address))}"
                )
                gathering.add_problem(origin, path, message)
                break
        seen.append((index, listener.listen))


def _check_networks(settings: Settings, gathering: Gathering) -> None:
    """A socket hears hosts of its own IP version alone."""
    for index, listener in enumerate(settings.listeners):
        path: KeyPath = ("udp", index, "networks")
        given = gathering.given.get(path)
        if given is None or path in gathering.unclear:
            continue
        version = ip_address(listener.listen.host).version
        wrong = next((each for each in listener.networks if each.version != version), None)
        if wrong is not None:
            message = (
                f"expected IPv{version} alone, as udp.{index}.listen is, got {quoted(str(wrong))}"
            )
            gathering.add_problem(given.origin, path, message)


def _overlap(one: HostPort, other: HostPort) -> bool:
    """Whether the second of two sockets would find its port in use."""
    first, second = ip_address(one.host), ip_address(other.host)
    if one.port != other.port or one.port == 0 or first.version != second.version:
        return False
    return first == second or first.is_unspecified or second.is_unspecified


def _check_dtls(settings: Settings, gathering: Gathering) -> None:
    for index, udp in enumerate(settings.udp):
        path: KeyPath = ("udp", index, "security")
        given = gathering.given.get(path)
        if given is None or path in gathering.unclear or not udp.has_dtls:
            continue
        multicast: KeyPath = ("udp", index, "multicast")
        if multicast in gathering.given and multicast not in gathering.unclear:
            message = "expected none beside security, as what is sent to a group has no DTLS"
            gathering.add_problem(gathering.given[multicast].origin, multicast, message)
        for name in ("certificate", "key", "ca"):
            needed: KeyPath = ("dtls", name)
            is_there = needed in gathering.given or needed in gathering.unclear
            if udp.security == "dtls-cert" and not is_there:
                message = f"expected {dotted(needed)} beside it"
                gathering.add_problem(given.origin, path, message)


def _check_groups(settings: Settings, gathering: Gathering) -> None:
    for index, udp in enumerate(settings.listeners):
        entry: KeyPath = ("udp", index)
        if gathering.unclear.isdisjoint(
            (*entry, name) for name in ("listen", "multicast", "multicast_interface")
        ):
            _check_group(udp, entry, gathering)
    _check_group_uses(settings, gathering)


def _check_group(udp: UdpSettings, entry: KeyPath, gathering: Gathering) -> None:
    def add_problem(name: str, message: str) -> None:
        path = (*entry, name)
        gathering.add_problem(gathering.given[path].origin, path, message)

    group, interface = udp.multicast, udp.multicast_interface
    if group is None:
        if interface is not None:
            add_problem("multicast_interface", f"expected udp.{entry[1]}.multicast beside it")
        return
    version = _ip_version(group.host)
    if _ip_version(udp.listen.host) != version:
        message = f"expected a group of the IP version of listen {quoted(str(udp.listen))}"
        add_problem("multicast", f"{message}, got {quoted(str(group))}")
    elif interface is None and _is_of_one_link(group.host):
        add_problem(
            "multicast",
            f"expected udp.{entry[1]}.multicast_interface beside it, as "
            f"{quoted(str(group))} is another group on each interface",
        )
    elif interface is not None and is_address(interface) and _ip_version(interface) != version:
        add_problem(
            "multicast_interface",
            f"expected a name or an IPv{version} address, got {quoted(interface)}",
        )


def _is_of_one_link(group: str) -> bool:
    address = ip_address(group)
    return isinstance(address, IPv6Address) and address.packed[1] & 0x0F in SCOPES_OF_ONE_LINK


def _ip_version(address: str) -> int:
    return ip_address(address).version


def _check_group_uses(settings: Settings, gathering: Gathering) -> None:
    """What would never happen, because no group is heard."""
    if any(udp.multicast is not None for udp in settings.udp):
        return
    if any(path[:1] == ("udp",) for path in gathering.unclear if path is not None):
        return
    discovery = settings.discovery
    uses = {"standby": discovery.standby, "answer": discovery.answer == "multicast"}
    for name, is_used in uses.items():
        path: KeyPath = ("discovery", name)
        if is_used and path in gathering.given:
            message = "expected udp.0.multicast beside it, as no group is heard without"
            gathering.add_problem(gathering.given[path].origin, path, message)


def _check_serial_ports(settings: Settings, gathering: Gathering) -> None:
    first_with: dict[str, int] = {}
    for index, line in enumerate(settings.serial):
        entry: KeyPath = ("serial", index)
        if any(path is not None and path[:2] == entry for path in gathering.unclear):
            continue
        origin = gathering.entries[("serial",)][index]
        given = gathering.given.get((*entry, "port"))
        if given is None:
            message = 'expected a port, such as port = "/dev/serial/by-id/usb-..."'
            gathering.add_problem(origin, entry, message)
            continue
        earlier = first_with.setdefault(line.port, index)
        if earlier != index:
            message = f"expected a port of its own, got {shown(line.port)}, as serial.{earlier} has"
            gathering.add_problem(given.origin, (*entry, "port"), message)
        _check_serial_pace(line, entry, gathering)


def _check_serial_pace(line: SerialSettings, entry: KeyPath, gathering: Gathering) -> None:
    path = (*entry, "burst_bytes_max")
    if line.burst_bytes_max and not line.frame_gap_ms:
        message = f"expected serial.{entry[1]}.frame_gap_ms beside it, the pause after each burst"
        gathering.add_problem(gathering.given[path].origin, path, message)
    elif line.burst_bytes_max and line.framing == "raw" and line.frame_gap_ms >= line.gap_ms:
        message = (
            f"expected a frame_gap_ms below gap_ms ({line.gap_ms:g}) beside it, as a pause of that "
            f"length ends a message with framing {quoted(line.framing)}"
        )
        gathering.add_problem(gathering.given[path].origin, path, message)


def _check_predefined_topics(settings: Settings, gathering: Gathering) -> None:
    """Ids are also unique between all sensors and one: an id must never mean two topics to it."""
    table: KeyPath = ("predefined_topics",)
    for_all = _check_ids(table, settings.predefined_topics, {}, gathering)
    for client_id, client in settings.clients.items():
        _check_ids(("clients", client_id, *table), client.predefined_topics, for_all, gathering)


def _check_ids(
    table: KeyPath, topics: Mapping[str, int], for_all: Mapping[int, str], gathering: Gathering
) -> dict[int, str]:
    topic_of = dict(for_all)
    for topic, topic_id in topics.items():
        if topic.count("/") >= TOPIC_LEVELS_MAX:
            path = (*table, topic)
            message = f"expected at most {TOPIC_LEVELS_MAX} levels, got {topic.count('/') + 1}"
            gathering.add_problem(gathering.given[path].origin, path, message)
        other = topic_of.setdefault(topic_id, topic)
        if other != topic:
            path = (*table, topic)
            message = f"expected an id of its own, got {topic_id}, which is {shown(other)}"
            gathering.add_problem(gathering.given[path].origin, path, message)
    return topic_of


def _check_client_ids(settings: Settings, gathering: Gathering) -> None:
    length_max = settings.mqtt_sn.client_id_bytes_max
    for client_id, client in settings.clients.items():
        if len(client_id.encode()) > length_max:
            path: KeyPath = ("clients", client_id)
            topic = next(iter(client.predefined_topics))
            message = f"expected a client id of at most mqtt_sn.client_id_bytes_max ({length_max})"
            origin = gathering.given[(*path, "predefined_topics", topic)].origin
            gathering.add_problem(origin, path, message)


def _check_prefix(settings: Settings, gathering: Gathering) -> None:
    levels = settings.upstream.topic_prefix.count("/")
    if levels > PREFIX_LEVELS_MAX:
        path: KeyPath = ("upstream", "topic_prefix")
        message = f"expected at most {PREFIX_LEVELS_MAX} levels, got {levels}"
        gathering.add_problem(gathering.given[path].origin, path, message)


class _Entry(NamedTuple):
    """One of an array of tables; `given`: where each key that it has stands."""

    number: int
    path: KeyPath
    origin: Origin
    given: dict[str, Origin]


def _understood(name: str, gathering: Gathering) -> Iterator[_Entry]:
    """Entries of `[[name]]` of which nothing is reported as wrong yet."""
    given: defaultdict[object, dict[str, Origin]] = defaultdict(dict)
    for path, each in gathering.given.items():
        if path[0] == name:
            given[path[1]][str(path[-1])] = each.origin
    unclear = {path[:2] for path in gathering.unclear if path is not None}
    for index, origin in enumerate(gathering.entries.get((name,), [])):
        if (name, index) not in unclear:
            yield _Entry(index, (name, index), origin, given[index])


def _check_topic_filters(_settings: Settings, gathering: Gathering) -> None:
    for entry in _understood("topic", gathering):
        if "filter" not in entry.given:
            message = 'expected a filter, such as filter = "alarm/#"'
            gathering.add_problem(entry.origin, entry.path, message)
        elif entry.given.keys().isdisjoint(PER_TOPIC):
            message = f"expected one or more of {', '.join(PER_TOPIC)} beside its filter"
            gathering.add_problem(entry.origin, entry.path, message)


def _check_presence_clients(settings: Settings, gathering: Gathering) -> None:
    for entry in _understood("presence_client", gathering):
        client = settings.presence_client[entry.number]
        if "client" not in entry.given:
            message = 'expected a client id, such as client = "meter-*"'
            gathering.add_problem(entry.origin, entry.path, message)
        elif client.visitor is None and client.available_s is None:
            message = "expected visitor or available_s beside its client"
            gathering.add_problem(entry.origin, entry.path, message)
        elif client.visitor is False and client.available_s is not None:
            message = "expected none beside visitor = false, which is unavailable at once"
            path = (*entry.path, "available_s")
            gathering.add_problem(entry.given["available_s"], path, message)


def _check_bindings(settings: Settings, gathering: Gathering) -> None:
    for entry in _understood("binding", gathering):
        binding = settings.binding[entry.number]
        if not binding.identities:
            message = 'expected identities, such as identities = ["psk:*"]'
            gathering.add_problem(entry.origin, entry.path, message)
        if not binding.clients:
            message = 'expected client ids, such as clients = ["{identity}"]'
            gathering.add_problem(entry.origin, entry.path, message)
        for client in binding.clients:
            if client.count(IDENTITY) > 1:
                message = f"expected {IDENTITY} at most once in each, got {shown(client)}"
                path = (*entry.path, "clients")
                gathering.add_problem(entry.given["clients"], path, message)


def _check_access(settings: Settings, gathering: Gathering) -> None:
    for entry in _understood("access", gathering):
        if not settings.access[entry.number].topics:
            message = 'expected topics, such as topics = ["sensors/{client}/#"]'
            gathering.add_problem(entry.origin, entry.path, message)


def _check_home_assistant(settings: Settings, gathering: Gathering) -> None:
    enable: KeyPath = ("home_assistant", "enable")
    clients: KeyPath = ("presence", "clients")
    if settings.home_assistant.enable and not settings.presence.clients:
        message = "expected presence.clients = true beside it, by which Home Assistant knows who "
        message += "is there"
        if clients not in gathering.unclear:
            gathering.add_problem(gathering.given[enable].origin, enable, message)
    for entry in _understood("home_assistant_value", gathering):
        if "name" not in entry.given:
            message = 'expected the name of a value, such as name = "co2"'
            gathering.add_problem(entry.origin, entry.path, message)
        _check_value(settings.home_assistant_value[entry.number], entry.path, gathering)
    for entry in _understood("home_assistant_command", gathering):
        _check_command(settings.home_assistant_command[entry.number], entry, gathering)


def _check_command(
    command: HomeAssistantCommandSettings, entry: _Entry, gathering: Gathering
) -> None:
    from gateway.config.home_assistant_command_checks import problems_of

    for key, message in problems_of(command, entry.given.keys()):
        path = (*entry.path, key) if key in entry.given else entry.path
        gathering.add_problem(entry.given.get(key, entry.origin), path, message)


def _check_devices(settings: Settings, gathering: Gathering) -> None:
    for entry in _understood("home_assistant_device", gathering):
        device = settings.home_assistant_device[entry.number]
        if "client" not in entry.given:
            message = 'expected a client id, such as client = "meter-7"'
            gathering.add_problem(entry.origin, entry.path, message)
        elif entry.given.keys() == {"client"}:
            others = ", ".join(key.name for key in HOME_ASSISTANT_DEVICE.keys[1:])
            message = f"expected one or more of {others} beside its client"
            gathering.add_problem(entry.origin, entry.path, message)
        elif device.name is not None and ANY in device.client:
            message = f"expected none beside a client with {ANY}, as all of them would have it"
            gathering.add_problem(entry.given["name"], (*entry.path, "name"), message)


def _check_value(value: HomeAssistantValueSettings, entry: KeyPath, gathering: Gathering) -> None:
    # A start without such a value does without the table of classes.
    from gateway.config.home_assistant_checks import problems_of

    for key, message in problems_of(value):
        path = (*entry, key)
        gathering.add_problem(gathering.given[path].origin, path, message)


def _check_admin(settings: Settings, gathering: Gathering) -> None:
    """Who may reach the page, and who may sign in there."""
    for name, secret in (("admin_user", "password"), ("admin_token", "token")):
        first_with: dict[str, int] = {}
        for entry in _understood(name, gathering):
            missing = [key for key in ("name", secret) if key not in entry.given]
            if missing:
                message = f"expected {' and '.join(missing)}: `tidegate password` makes an entry"
                gathering.add_problem(entry.origin, entry.path, message)
                continue
            called = entry.given["name"]
            account = getattr(settings, name)[entry.number].name
            other = first_with.setdefault(account, entry.number)
            if other != entry.number:
                message = f"expected a name of its own, got that of {name}.{other}"
                gathering.add_problem(called, (*entry.path, "name"), message)
    key: KeyPath = ("admin", "key")
    given = gathering.given.get(key)
    certificate: KeyPath = ("admin", "certificate")
    if given is not None and certificate not in {*gathering.given, *gathering.unclear}:
        gathering.add_problem(given.origin, key, "expected admin.certificate beside it")
