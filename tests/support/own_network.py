"""A network that only one program sees: its loopback can be switched off, and spoken to in raw
frames, without a trace on this machine.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from tests.support.waiting import until

_SET_FLAGS, _SET_ADDRESS = 0x8914, 0x8916  # Linux: SIOCSIFFLAGS, SIOCSIFADDR
_UP = 1
_ETHERNET = struct.Struct("!6s6sH")
_IPV4 = struct.Struct("!BBHHHBBH4s4s")
_UDP = struct.Struct("!HHHH")
_IS_IPV4 = 0x0800


class NoNetworkError(Exception):
    """This system lets us have none."""


def run_in_own_network(module: str, story: str) -> None:
    """Run `story()` of that module in a process of its own; what fails there fails here."""
    privileges = [] if os.geteuid() == 0 else ["--map-root-user"]
    code = f"from {module} import {story}; {story}()"
    command = ["unshare", *privileges, "--net", sys.executable, "-c", code]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=200)
    if ran.returncode and "unshare:" in ran.stderr:
        raise NoNetworkError(
            "tests of a network that comes and goes have one of their own: run them as root or "
            f"allow user namespaces ({ran.stderr.strip()})"
        )
    if "No such file or directory: 'ip'" in ran.stderr:
        raise NoNetworkError("ip is missing: sudo apt-get install iproute2")
    if "NoNetworkError: " in ran.stderr:
        raise NoNetworkError(ran.stderr.strip().rpartition("NoNetworkError: ")[2])
    assert ran.returncode == 0, ran.stderr


def switch(interface: str, *, on: bool) -> None:
    request = struct.pack("=16sH14x", interface.encode(), _UP if on else 0)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, _SET_FLAGS, request)


def give_address(interface: str, address: str) -> None:
    """In place of the one that it has."""
    request = struct.pack(
        "=16sH2x4s8x", interface.encode(), socket.AF_INET, socket.inet_aton(address)
    )
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, _SET_ADDRESS, request)


def send_frame(hardware_address: bytes, port: int, datagram: bytes) -> None:
    """A UDP datagram for 127.0.0.1 in an Ethernet frame for this address, over loopback."""
    local = socket.inet_aton("127.0.0.1")
    udp = _UDP.pack(5000, port, _UDP.size + len(datagram), 0) + datagram
    head = (0x45, 0, _IPV4.size + len(udp), 1, 0, 1, socket.IPPROTO_UDP)
    ip = _IPV4.pack(*head, _checksum(_IPV4.pack(*head, 0, local, local)), local, local)
    frame = _ETHERNET.pack(hardware_address, bytes(6), _IS_IPV4) + ip + udp
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as raw:
        raw.bind(("lo", _IS_IPV4))
        raw.send(frame)


def _checksum(header: bytes) -> int:
    total = sum(struct.unpack(f"!{len(header) // 2}H", header))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return int(total ^ 0xFFFF)


class FarNetwork:
    """Another machine at the other end of a cable, which is `near` here and `far` there. It needs
    a network of one's own on this end.
    """

    def __init__(self, near: Iterable[str], far: Iterable[str]) -> None:
        """Addresses with the lengths of their networks."""
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._here = os.open("/proc/self/ns/net", os.O_RDONLY)
        self._keeper = subprocess.Popen(
            ["unshare", "--net", "sh", "-c", "echo; exec sleep 100"],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert self._keeper.stdout is not None
        self._keeper.stdout.read(1)  # so it is in its network
        there = str(self._keeper.pid)
        self._there = os.open(f"/proc/{there}/ns/net", os.O_RDONLY)
        ip("link", "add", "near", "type", "veth", "peer", "name", "far", "netns", there)
        for address in near:
            give("near", address)
        ip("link", "set", "near", "up")
        with self._being_there():
            for address in far:
                give("far", address)
            ip("link", "set", "far", "up")

    def socket(self, family: int, kind: int) -> socket.socket:
        """Of a program there."""
        with self._being_there():
            return socket.socket(family, kind)

    def ip(self, *arguments: str) -> None:
        with self._being_there():
            ip(*arguments)

    def scope(self) -> int:
        """The number of `far` there, for addresses of this link alone."""
        with self._being_there():
            return socket.if_nametoindex("far")

    def close(self) -> None:
        ip("link", "del", "near")
        self._keeper.kill()
        self._keeper.communicate()
        os.close(self._here)
        os.close(self._there)

    @contextmanager
    def _being_there(self) -> Iterator[None]:
        self._enter(self._there)
        try:
            yield
        finally:
            self._enter(self._here)

    def _enter(self, network: int) -> None:
        if self._libc.setns(network, 0):
            raise OSError(ctypes.get_errno(), "setns")


def give(interface: str, address: str) -> None:
    """Beside those that it has; at once, without looking whether another machine has it."""
    ip("address", "add", address, "dev", interface, *(["nodad"] if ":" in address else []))
    own = f"local {address.partition('/')[0]} dev {interface} "
    version = "-6" if ":" in address else "-4"
    # The kernel adds the route from a work queue.
    until(lambda: own in ip(version, "route", "show", "table", "local"))


def take(interface: str, address: str) -> None:
    ip("address", "del", address, "dev", interface)


def ip(*arguments: str) -> str:
    return subprocess.run(["ip", *arguments], check=True, stdout=subprocess.PIPE, text=True).stdout
