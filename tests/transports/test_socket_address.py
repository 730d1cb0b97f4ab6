from __future__ import annotations

import socket

import pytest

from gateway.transports.errors import LinkError
from gateway.transports.socket_address import address_of, address_text, raw_address, socket_address

# As a little-endian machine has them.
ROWS = [
    ("192.0.2.7", 1883, "02 00 | 07 5b | c0 00 02 07", "192.0.2.7:1883"),
    (
        "2001:db8::1",
        1883,
        "0a 00 | 07 5b | 00000000 | 20010db8 00000000 00000000 00000001 | 00000000",
        "[2001:db8::1]:1883",
    ),
    (
        "fe80::1%1",
        1,
        "0a 00 | 00 01 | 00000000 | fe800000 00000000 00000000 00000001 | 01000000",
        "[fe80::1%1]:1",
    ),
]


@pytest.mark.parametrize(("host", "port", "row", "text"), ROWS)
def test_an_address_is_what_the_kernel_writes(host: str, port: int, row: str, text: str) -> None:
    raw = bytes.fromhex(row.replace("|", ""))
    assert address_of(host, port) == raw
    assert address_text(raw) == text
    assert raw_address(socket_address(raw)) == raw


def test_an_interface_may_be_named() -> None:
    number = socket.if_nametoindex("lo")
    assert address_of("fe80::1%lo", 5) == address_of(f"fe80::1%{number}", 5)


@pytest.mark.parametrize(
    ("host", "port", "said"),
    [
        ("greenhouse", 1883, "'greenhouse' is not an IP address"),
        ("256.0.0.1", 1883, "0.0.0.0"),
        ("::g", 1883, "192.0.2.7"),
        ("fe80::1%nowhere", 1883, "'fe80::1%nowhere' is not an IP address"),
        ("", 1883, "'' is not an IP address"),
        ("127.0.0.1", 65536, "65536 is not a port: use 1 to 65535"),
        ("127.0.0.1", -1, "-1 is not a port"),
    ],
)
def test_what_is_no_address_is_refused_with_an_example(host: str, port: int, said: str) -> None:
    with pytest.raises(LinkError) as refused:
        address_of(host, port)
    assert said in str(refused.value)
