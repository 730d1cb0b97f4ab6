"""From keys of the configuration to the options of protected packets."""

from __future__ import annotations

import pytest

from gateway.app import protected_packets
from gateway.app.core_options import engine_options
from gateway.app.protected_packets import missing_package
from gateway.config.settings import (
    NOWHERE,
    ProtectionSettings,
    SerialSettings,
    Settings,
    UdpSettings,
)
from gateway.core.access.device_keys import DeviceKeys
from gateway.core.protection.envelope import AES_CCM_64, HMAC_SHA256
from gateway.core.protection.protection import Protection, ProtectionOptions

KEYS = DeviceKeys()


def options_of(settings: Settings, *, has_keys: bool = True) -> ProtectionOptions | None:
    keys = (lambda: KEYS) if has_keys else None
    found: ProtectionOptions | None = engine_options(settings, 1, None, 1, keys).protection
    return found


def test_without_keys_nothing_is_protected() -> None:
    assert options_of(Settings(), has_keys=False) is None
    found = options_of(Settings())
    assert found is not None
    assert found.keys() is KEYS
    assert not found.is_required(0)
    assert found.tag_bytes_min == 8


def test_links_that_must_be_protected_are_even_without_a_key() -> None:
    settings = Settings(
        udp=(UdpSettings(listen=NOWHERE, security="protected"), UdpSettings()),
        serial=(SerialSettings(port="/dev/null", security="protected"),),
    )
    found = options_of(settings, has_keys=False)
    assert found is not None
    assert [found.is_required(link) for link in (-1, 0, 1, 2)] == [False, False, True, False]
    assert len(found.keys()) == 0
    found = options_of(Settings(protection=ProtectionSettings(required=True)), has_keys=False)
    assert found is not None
    assert found.is_required(0)


def test_schemes_and_tags_are_those_of_the_configuration() -> None:
    protection = ProtectionSettings(schemes=("aes-ccm-64",), tag_bits_min=128)
    found = options_of(Settings(protection=protection))
    assert found is not None
    assert (found.schemes, found.tag_bytes_min) == ({AES_CCM_64}, 16)
    assert Protection(found, 1, 1).open(b"", b"\x02\xff", (), 0.0).detail


def test_a_scheme_whose_package_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    assert missing_package(Settings()) is None
    monkeypatch.setattr(protected_packets, "has_package", lambda: False)
    found = options_of(Settings())
    assert found is not None
    assert found.schemes == {HMAC_SHA256}
    assert "pip install 'cryptography>=42" in str(missing_package(Settings()))
    hmac_alone = ProtectionSettings(schemes=("hmac-sha256",))
    assert missing_package(Settings(protection=hmac_alone)) is None
