"""What the tests of serial lines share: lines by name, and the gateway's tables for them."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, closing
from pathlib import Path

from gateway.transports.serial.port import REOPEN_S_MAX
from hil.rig.gateway import GatewayProcess
from hil.rig.line_framings import Kind
from hil.rig.scripted_client import Wire
from tests.end_to_end.on_air import Node, fresh
from tests.support.pty_line import PtyLine

TIMEOUT_S = 200.0
NO_UDP = '[[udp]]\nlisten = ""\n'


def table(port: Path | str, kind: Kind = "hdlc", more: str = "advertise = false") -> str:
    return f'[[serial]]\nport = "{port}"\nframing = "{kind}"\n{more}\n'


@asynccontextmanager
async def lines(folder: Path, *kinds: Kind) -> AsyncIterator[list[PtyLine]]:
    """Plugged in as `line0`, `line1` and so on."""
    async with AsyncExitStack() as stack:
        made = [PtyLine(folder / f"line{number}", kind) for number, kind in enumerate(kinds)]
        for line in made:
            stack.enter_context(closing(line))
        yield made


def node_on(line: Wire, client_id: str | None = None) -> Node:
    """A node that has not connected yet."""
    client_id = fresh() if client_id is None else client_id
    made = Node(line, client_id)
    made.client_id = client_id
    return made


def wait_until_open(gateway: GatewayProcess, port: Path | str, times: int = 1) -> None:
    """The gateway has opened the port so often in this life."""
    opened = rf"listening for sensors on serial {re.escape(str(port))}, [\s\S]*"
    gateway.wait_for_log(opened * times, REOPEN_S_MAX + TIMEOUT_S)
