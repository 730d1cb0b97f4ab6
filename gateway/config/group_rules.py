"""Which multicast groups can be what the operator means: the part of `rules.py` about discovery."""

from ipaddress import IPv6Address, ip_address

from gateway.config.addresses import is_address
from gateway.config.gathering import Gathering
from gateway.config.settings import Settings, UdpSettings
from gateway.config.spelling import KeyPath, quoted

# Scopes that have a group of their own on each interface (RFC 4291, 2.7).
_SCOPES_OF_ONE_LINK = (1, 2)


def check_groups(settings: Settings, gathering: Gathering) -> None:
    for index, udp in enumerate(settings.listeners):
        entry: KeyPath = ("udp", index)
        if gathering.unclear.isdisjoint(
            (*entry, name) for name in ("listen", "multicast", "multicast_interface")
        ):
            _check_group(udp, entry, gathering)
    _check_uses(settings, gathering)


def _check_group(udp: UdpSettings, entry: KeyPath, gathering: Gathering) -> None:
    def complain(name: str, message: str) -> None:
        path = (*entry, name)
        gathering.complain(gathering.given[path].origin, path, message)

    group, interface = udp.multicast, udp.multicast_interface
    if group is None:
        if interface is not None:
            complain("multicast_interface", f"expected udp.{entry[1]}.multicast beside it")
        return
    version = _version(group.host)
    if _version(udp.listen.host) != version:
        message = f"expected a group of the IP version of listen {quoted(str(udp.listen))}"
        complain("multicast", f"{message}, got {quoted(str(group))}")
    elif interface is None and _is_of_one_link(group.host):
        complain(
            "multicast",
            f"expected udp.{entry[1]}.multicast_interface beside it, as "
            f"{quoted(str(group))} is another group on each interface",
        )
    elif interface is not None and is_address(interface) and _version(interface) != version:
        complain(
            "multicast_interface",
            f"expected a name or an IPv{version} address, got {quoted(interface)}",
        )


def _is_of_one_link(group: str) -> bool:
    address = ip_address(group)
    return isinstance(address, IPv6Address) and address.packed[1] & 0x0F in _SCOPES_OF_ONE_LINK


def _version(address: str) -> int:
    return ip_address(address).version


def _check_uses(settings: Settings, gathering: Gathering) -> None:
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
            gathering.complain(gathering.given[path].origin, path, message)
