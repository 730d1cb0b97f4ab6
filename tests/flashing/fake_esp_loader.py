"""A fake of the loader in an ESP32's ROM, on a pseudo-terminal, for the real esptool to speak to.

It has the serial protocol as Espressif documents it, as far as writing a flash needs it: SYNC,
READ_REG and WRITE_REG with the registers by which a chip is known (and the SPI ones by which its
flash is), the upload of the stub, and the stub's erasing, writing of compressed blocks and MD5. No
code runs on it, nothing resets it, and a `silent` one answers nothing.
"""

from __future__ import annotations

import hashlib
import os
import select
import struct
import threading
import tty
import zlib
from collections.abc import Iterator
from types import TracebackType
from typing import Self

FLASH_OCTETS = 4 << 20
LOOK_S = 0.02

MEM_BEGIN, MEM_END, MEM_DATA = 0x05, 0x06, 0x07
SYNC, WRITE_REG, READ_REG = 0x08, 0x09, 0x0A
DEFLATE_BEGIN, DEFLATE_DATA, FLASH_MD5 = 0x10, 0x11, 0x13
SECURITY_INFO, ERASE_FLASH = 0x14, 0xD0
ACKNOWLEDGED = {0x02, 0x03, 0x04, MEM_BEGIN, MEM_DATA, 0x0B, 0x0D, 0x0F, 0x12}
SYNC_ANSWERS = 8
UNKNOWN_COMMAND = b"\x01\x05"
S3 = 9  # its chip id

MAGIC, MAGIC_OF_ESP32 = 0x40001000, 0x00F01D83
MAC_LOW, MAC_HIGH = 0x3FF5A004, 0x3FF5A008
UART_DIVIDER, DIVIDER_OF_40_MHZ = 0x3FF40014, 347
SPI_COMMAND, SPI_USER2, SPI_DATA = 0x3FF42000, 0x3FF42024, 0x3FF42080
READ_FLASH_ID, FLASH_ID = 0x9F, 0x1640C8  # 4 MiB


class FakeEspLoader:
    """`flash` is what was written; one that `forgets` keeps nothing. With `cut_at` the port is gone
    after so many octets.
    """

    def __init__(
        self,
        *,
        chip: str = "esp32",
        silent: bool = False,
        forgets: bool = False,
        cut_at: int | None = None,
    ) -> None:
        self.flash = bytearray(b"\0" * FLASH_OCTETS)
        self.erased = 0
        self._chip = chip
        self._silent = silent
        self._forgets = forgets
        self._cut_at = cut_at
        self._is_stub = False
        self._registers = {
            MAGIC: MAGIC_OF_ESP32,
            MAC_LOW: 0x28122C34,
            MAC_HIGH: 0x0000240A,
            UART_DIVIDER: DIVIDER_OF_40_MHZ,
        }
        self._at = 0
        self._inflate = zlib.decompressobj()
        self._port, end = os.openpty()
        tty.setraw(end)
        self.device = os.ttyname(end)
        os.close(end)
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._serve)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ends.set()
        self._thread.join()
        if self._port >= 0:
            os.close(self._port)

    def _serve(self) -> None:
        held = b""
        while not self._ends.is_set() and self._port >= 0:
            if not select.select([self._port], [], [], LOOK_S)[0]:
                continue
            try:
                held += os.read(self._port, 65_536)
            except OSError:  # nobody has it open
                self._is_stub = False  # as the reset before the next connection does
                self._ends.wait(LOOK_S)
                continue
            *frames, held = held.split(b"\xc0")
            for frame in frames:
                if frame and not self._silent:
                    self._hear(frame.replace(b"\xdb\xdc", b"\xc0").replace(b"\xdb\xdd", b"\xdb"))

    def _hear(self, request: bytes) -> None:
        if len(request) < 8 or request[0] != 0:
            return
        command, asked = request[1], request[8:]
        for value, answer in self._answers(command, asked):
            head = struct.pack("<BBHI", 1, command, len(answer), value)
            self._say(head + answer)
        if command == MEM_END and not self._is_stub:
            self._is_stub = True
            self._say(b"OHAI")

    def _answers(self, command: int, asked: bytes) -> Iterator[tuple[int, bytes]]:
        good = b"\0\0" if self._is_stub else b"\0\0\0\0"
        if command == SYNC:
            yield from [(0 if self._is_stub else 0x20120707, good)] * SYNC_ANSWERS
        elif command == READ_REG:
            yield self._registers.get(struct.unpack_from("<I", asked)[0], 0), good
        elif command == WRITE_REG:
            self._write_register(*struct.unpack_from("<II", asked))
            yield 0, good
        elif command == SECURITY_INFO and self._chip == "esp32s3":
            yield 0, struct.pack("<IB7sII", 0, 0, bytes(7), S3, 0) + good
        elif command == FLASH_MD5:
            at, size = struct.unpack_from("<II", asked)
            digest = hashlib.md5(self.flash[at : at + size]).digest()
            yield 0, digest + good
        elif command in (ERASE_FLASH, DEFLATE_BEGIN, DEFLATE_DATA, MEM_END):
            self._work(command, asked)
            if self._port >= 0:
                yield 0, good
        else:
            yield 0, good if command in ACKNOWLEDGED else UNKNOWN_COMMAND + good[2:]

    def _work(self, command: int, asked: bytes) -> None:
        if command == ERASE_FLASH:
            self.erased += 1
            self.flash = bytearray(b"\xff" * FLASH_OCTETS)
        elif command == DEFLATE_BEGIN:
            _, _, _, self._at = struct.unpack_from("<IIII", asked)
            self._inflate = zlib.decompressobj()
        elif command == DEFLATE_DATA:
            octets = self._inflate.decompress(asked[16:])
            if not self._forgets:
                self.flash[self._at : self._at + len(octets)] = octets
            self._at += len(octets)
            if self._cut_at is not None and self._at > self._cut_at:
                os.close(self._port)
                self._port = -1

    def _write_register(self, address: int, value: int) -> None:
        self._registers[address] = value
        if address == SPI_COMMAND:
            self._registers[SPI_COMMAND] = 0  # done
            if self._registers.get(SPI_USER2, 0) & 0xFF == READ_FLASH_ID:
                self._registers[SPI_DATA] = FLASH_ID

    def _say(self, answer: bytes) -> None:
        line = answer.replace(b"\xdb", b"\xdb\xdd").replace(b"\xc0", b"\xdb\xdc")
        line = b"\xc0" + line + b"\xc0"
        while line:
            line = line[os.write(self._port, line) :]
