"""Whether this gateway is checked for calls that block; if not, none of the check is imported."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gateway.app.service.blocking_check import BlockingCheck


def blocking_check(environment: Mapping[str, str]) -> BlockingCheck | None:
    """As TIDEGATE_CHECK_BLOCKING has it."""
    if "TIDEGATE_CHECK_BLOCKING" not in environment:
        return None
    from gateway.app.service.blocking_check import BlockingCheck

    return BlockingCheck.of(environment)
