"""How a gateway ends, and how it is back."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.end_to_end.on_air import assert_untroubled
from tests.support.gateway import GatewayProcess

End = Callable[[GatewayProcess], object]
both_ends = pytest.mark.parametrize(
    "end", [GatewayProcess.kill, GatewayProcess.stop], ids=["killed", "stopped"]
)
both_sessions = pytest.mark.parametrize("clean", [True, False], ids=["clean", "persistent"])


def begin_again(gateway: GatewayProcess) -> None:
    gateway.start()
    assert gateway.port
    gateway.wait_until_connected()


def restart(gateway: GatewayProcess, end: End) -> None:
    end(gateway)
    assert_untroubled(gateway)
    begin_again(gateway)
