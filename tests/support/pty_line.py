"""A serial line without hardware: a pseudo-terminal, whose end with a name is the gateway's port.

The name is a symbolic link, as in /dev/serial/by-id, so that a port can vanish and come back as
another device under the same name.
"""

from __future__ import annotations

import asyncio
import errno
import os
import tty
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from hil.rig.line_framings import Kind, LineFraming, line_framing

NOBODY_THERE_S = 0.02  # between two looks at a line that nobody has open
READ_OCTETS_MAX = 65_536


class PtyLine:
    """The sensor's end; a `Wire` of messages. Made and used inside a running loop."""

    def __init__(self, name: Path, kind: Kind = "hdlc", framing: LineFraming | None = None) -> None:
        self.name = name
        self.heard: asyncio.Queue[bytes] = asyncio.Queue()
        self.on_message: Callable[[bytes], None] = self.heard.put_nowait
        # What happens to octets on their way, each way.
        self.spoil_up: Callable[[bytes], bytes] = bytes
        self.spoil_down: Callable[[bytes], bytes] = bytes
        self.reads: list[bytes] = []  # as they came
        self._kind: Kind = kind
        self._own_framing = framing
        self._loop = asyncio.get_running_loop()
        self._master = -1
        self._unsent = bytearray()
        self._look: asyncio.TimerHandle | None = None
        self.plug_in()

    def plug_in(self) -> None:
        self._master, slave = os.openpty()
        tty.setraw(slave)
        os.set_blocking(self._master, False)
        device = os.ttyname(slave)
        os.close(slave)
        self.name.unlink(missing_ok=True)
        self.name.symlink_to(device)
        self._framing = self._own_framing or line_framing(self._kind)
        self._loop.add_reader(self._master, self._readable)

    def unplug(self) -> None:
        self.name.unlink(missing_ok=True)
        if self._look is not None:
            self._look.cancel()
            self._look = None
        self._loop.remove_reader(self._master)
        self._loop.remove_writer(self._master)
        self._unsent.clear()
        os.close(self._master)
        self._master = -1

    def close(self) -> None:
        if self._master >= 0:
            self.unplug()

    # Messages

    async def send(self, data: bytes) -> None:
        self.send_message(data)

    def send_message(self, message: bytes) -> None:
        self.send_octets(self.framed(message))

    def framed(self, message: bytes) -> bytes:
        return self._framing.wrap(message)

    async def recv(self) -> bytes:
        return await self.heard.get()

    def send_octets(self, octets: bytes) -> None:
        """As they are, with text or damage; into the void while it is unplugged."""
        if self._master < 0:
            return
        self._unsent += self.spoil_up(octets)
        self._writable()

    # From the loop

    def _writable(self) -> None:
        with suppress(BlockingIOError):
            del self._unsent[: os.write(self._master, self._unsent)]
        if self._unsent:
            self._loop.add_writer(self._master, self._writable)
        else:
            self._loop.remove_writer(self._master)

    def _readable(self) -> None:
        try:
            octets = os.read(self._master, READ_OCTETS_MAX)
        except OSError as error:
            if error.errno == errno.EIO:  # the gateway does not have it open
                self._loop.remove_reader(self._master)
                self._look = self._loop.call_later(NOBODY_THERE_S, self._look_again)
                return
            raise
        self.reads.append(octets)
        for message in self._framing.feed(self.spoil_down(octets)):
            self.on_message(message)

    def _look_again(self) -> None:
        self._loop.add_reader(self._master, self._readable)
