"""Reads the readings that wait on disk for the page, by `tidegate buffer` in a process of its own.

To read a journal of half a gigabyte takes seconds of one core, which the event loop of the gateway
does not have: sensors come first. The process is of low priority, and there is one at a time.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from gateway.admin.operating import CannotError
from gateway.config.settings import GatewaySettings

PEEKED = 50
PIECE_BYTES = 64 * 1024
PEEK_S_MAX = 60.0
PEEK_BYTES_MAX = 16 << 20  # 50 payloads of the largest size, in JSON
PRIORITY = 10  # of 19, which is the least
# The folder that holds the package `gateway`.
PACKAGE_PLACE = Path(__file__).parents[1]


@dataclass(frozen=True, slots=True)
class BufferReader:
    gateway: GatewaySettings
    _busy: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def peek(self) -> bytes:
        """The next few as JSON. Raises CannotError."""
        async with self._process("peek", "--json", "-n", str(PEEKED)) as process:
            assert process.stdout is not None
            try:
                async with asyncio.timeout(PEEK_S_MAX):
                    octets = await process.stdout.read()
                    code = await process.wait()
            except TimeoutError:
                raise CannotError(f"not read within {PEEK_S_MAX:.0f} s") from None
        if code or len(octets) > PEEK_BYTES_MAX:
            raise CannotError("the journal cannot be read; `tidegate buffer peek` says why")
        return octets

    async def export(self) -> AsyncGenerator[bytes, None]:
        """All of them as JSON lines."""
        async with self._process("export") as process:
            assert process.stdout is not None
            while octets := await process.stdout.read(PIECE_BYTES):
                yield octets

    @asynccontextmanager
    async def _process(self, *arguments: str) -> AsyncGenerator[Process, None]:
        if self._busy.locked():
            raise CannotError("somebody else reads the journal just now: try again in a moment")
        async with self._busy:
            environment = os.environ | {"PYTHONPATH": self._python_path()}
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-P", "-m", "gateway", "buffer", "--config", os.devnull),
                *("--set", f"gateway.state_dir={self.gateway.state_dir.absolute()}"),
                *("--set", f"gateway.name={self.gateway.name}"),
                *arguments,
                stdin=DEVNULL,
                stdout=PIPE,
                stderr=DEVNULL,
                env=environment,
            )
            with contextlib.suppress(OSError):  # it has ended already
                os.setpriority(os.PRIO_PROCESS, process.pid, PRIORITY)
            try:
                yield process
            finally:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                await process.wait()

    @staticmethod
    def _python_path() -> str:
        """With this very package, wherever it was started from."""
        places = [str(PACKAGE_PLACE), os.environ.get("PYTHONPATH", "")]
        return os.pathsep.join(filter(None, places))
