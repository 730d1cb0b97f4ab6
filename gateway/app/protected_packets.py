"""From settings to the options of protected packets; imported only where there are some."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from importlib.util import find_spec
from secrets import token_bytes

from gateway.config.settings import ProtectionSettings, Settings
from gateway.core.access.device_keys import DeviceKeys
from gateway.core.protection.envelope import SCHEMES
from gateway.core.protection.protection import ProtectionOptions
from gateway.core.protection.schemes import NEEDS_PACKAGE, load_package
from gateway.host.installation import Installation
from gateway.transports.places import sender_of

PACKAGE = "cryptography"


@cache
def has_package() -> bool:
    return find_spec(PACKAGE) is not None


def options(
    settings: ProtectionSettings,
    required: Sequence[bool],
    device_keys: Callable[[], DeviceKeys] | None,
    *,
    is_state_whole: bool,
) -> ProtectionOptions:
    """`required`: by link. Schemes whose package is missing are left out: `missing_package`."""
    schemes = load_schemes(settings)
    return ProtectionOptions(
        keys=device_keys or DeviceKeys,  # none
        random=token_bytes,
        schemes=frozenset(schemes),
        tag_bytes_min=settings.tag_bits_min // 8,
        is_required=lambda link: 0 <= link < len(required) and required[link],
        sender_of=sender_of,
        is_state_whole=is_state_whole,
    )


def load_schemes(settings: ProtectionSettings) -> set[int]:
    """Those that may be used; imports what they need, from the disk, if that is not yet done."""
    schemes = {SCHEMES[each] for each in settings.schemes}
    if not has_package():
        schemes -= NEEDS_PACKAGE
    if schemes & NEEDS_PACKAGE:
        load_package()
    return schemes


def missing_package(settings: Settings) -> str | None:
    """A sentence for the operator where the schemes that were asked for need what is not there."""
    if has_package():
        return None
    if not any(SCHEMES[each] in NEEDS_PACKAGE for each in settings.protection.schemes):
        return None
    return (
        "protection.schemes has AES-CCM, which needs the package cryptography: leave it out, or "
        f"install it with:  {Installation.this().adding('security')}"
    )
