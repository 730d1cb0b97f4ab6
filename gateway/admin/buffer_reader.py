"""Reads the readings that wait on disk for the page, by `tidegate buffer` in a process of its own.

To read a journal of half a gigabyte takes seconds of one core, which the event loop of the gateway
does not have: sensors come first. The process is of low priority, and there is one at a time. It is
started and waited for in threads: a disk that hangs holds both, and neither the event loop nor the
end of the gateway waits for them.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
from asyncio import StreamReader
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from gateway.admin.http.operating import CannotError
from gateway.config.settings import GatewaySettings
from gateway.transports.in_thread import in_thread

PEEKED = 50
PIECE_BYTES = 64 * 1024
PEEK_S_MAX = 60.0
PEEK_BYTES_MAX = 16 << 20  # 50 payloads of the largest size, in JSON
END_S_MAX = 1.0
PRIORITY = 10  # of 19, which is the least
# The folder that holds the package `gateway`.
PACKAGE_PLACE = Path(__file__).parents[2]

Process = subprocess.Popen[bytes]


class BufferReader:
    def __init__(self, gateway: GatewaySettings) -> None:
        self._gateway = gateway
        self._busy = asyncio.Lock()
        self._last: Process | None = None  # killed, which a disk that hangs may delay

    async def peek(self) -> bytes:
        """The next few as JSON. Raises CannotError."""
        async with self._process("peek", "--json", "-n", str(PEEKED)) as (process, stdout):
            try:
                async with asyncio.timeout(PEEK_S_MAX):
                    octets = await stdout.read()
                    code = await in_thread(process.wait, "wait for the reader", _nothing)
            except TimeoutError:
                raise CannotError(f"not read within {PEEK_S_MAX:.0f} s") from None
        if code or len(octets) > PEEK_BYTES_MAX:
            raise CannotError("the journal cannot be read; `tidegate buffer peek` says why")
        return octets

    async def export(self) -> AsyncGenerator[bytes, None]:
        """All of them as JSON lines."""
        async with self._process("export") as (_, stdout):
            while octets := await stdout.read(PIECE_BYTES):
                yield octets

    @asynccontextmanager
    async def _process(self, *arguments: str) -> AsyncGenerator[tuple[Process, StreamReader], None]:
        is_there = self._last is not None and self._last.poll() is None
        if self._busy.locked() or is_there:
            raise CannotError("somebody else reads the journal just now: try again in a moment")
        async with self._busy:
            process = await in_thread(lambda: self._start(*arguments), "start the reader", _end)
            self._last = process
            loop, stdout = asyncio.get_running_loop(), StreamReader()
            transport = None
            try:
                transport, _ = await loop.connect_read_pipe(
                    lambda: asyncio.StreamReaderProtocol(stdout), process.stdout
                )
                yield process, stdout
            finally:
                if transport is not None:
                    transport.close()
                process.kill()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(END_S_MAX):
                        await in_thread(process.wait, "end of the reader", _nothing)

    def _start(self, *arguments: str) -> Process:
        """In a thread."""
        process = subprocess.Popen(
            [
                sys.executable,
                "-P",
                "-m",
                "gateway",
                "buffer",
                "--config",
                os.devnull,
                "--set",
                f"gateway.state_dir={self._gateway.state_dir.absolute()}",
                "--set",
                f"gateway.name={self._gateway.name}",
                *arguments,
            ],
            bufsize=0,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=os.environ | {"PYTHONPATH": self._python_path()},
        )
        with contextlib.suppress(OSError):  # it has ended already
            os.setpriority(os.PRIO_PROCESS, process.pid, PRIORITY)
        return process

    @staticmethod
    def _python_path() -> str:
        """With this very package, wherever it was started from."""
        places = [str(PACKAGE_PLACE), os.environ.get("PYTHONPATH", "")]
        return os.pathsep.join(filter(None, places))


def _end(process: Process) -> None:
    """In a thread."""
    process.kill()
    process.wait()


def _nothing(_code: int) -> None:
    """The caller has gone."""
