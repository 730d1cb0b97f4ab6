"""A list of addresses and networks, as [forwarders] has it."""

from __future__ import annotations

from ipaddress import ip_network

import pytest

from gateway.config.addresses import Networks
from gateway.config.kinds import MismatchError

KIND = Networks(3)


@pytest.mark.parametrize(
    "raw", [[], ["10.0.0.7"], ["10.0.0.7", "192.168.4.0/24"], ["fe80::/10", "::1"]]
)
def test_addresses_and_networks_are_taken(raw: list[str]) -> None:
    assert KIND.read(raw) == tuple(ip_network(each) for each in raw)


@pytest.mark.parametrize(
    "raw", ["10.0.0.7", 7, ["10.0.0.1/24"], [7], ["greenhouse"], [""], ["10.0.0.7"] * 4]
)
def test_what_is_none_is_refused_with_an_example(raw: object) -> None:
    with pytest.raises(MismatchError, match=r"expected a list of IP addresses and networks"):
        KIND.read(raw)


@pytest.mark.parametrize("text", ["10.0.0.7,192.168.4.0/24", "[10.0.0.7, 192.168.4.0/24]"])
def test_a_variable_has_commas_between_them(text: str) -> None:
    assert KIND.read(KIND.from_text(text)) == KIND.read(["10.0.0.7", "192.168.4.0/24"])


def test_it_is_written_as_it_is_read() -> None:
    value = KIND.read(["10.0.0.7", "192.168.4.0/24"])
    assert KIND.written(value) == '["10.0.0.7/32", "192.168.4.0/24"]'
    assert KIND.written(()) == "[]"
