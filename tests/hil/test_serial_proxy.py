"""A bad line is as bad as asked, and what it lets through is what was said."""

from __future__ import annotations

import asyncio
import os
import tty
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import serial  # type: ignore[import-untyped]

from hil.faults.network import Terminal
from hil.faults.serial_proxy import LineImpairment, SerialProxy
from hil.rig.line_framings import line_framing
from tests.end_to_end.on_air import story

FRAMES = 200
PATIENCE_S = 200.0


class Notes:
    def __init__(self) -> None:
        self.said: list[bytes] = []
        self.heard: list[bytes] = []
        self.octets_up = self.octets_down = 0

    def up(self, frame: bytes) -> None:
        self.said.append(frame)

    def down(self, frame: bytes) -> None:
        self.heard.append(frame)

    def on_air(self, octets_up: int, octets_down: int) -> None:
        self.octets_up += octets_up
        self.octets_down += octets_down


class Ends:
    def __init__(self, proxy: SerialProxy, board: int, notes: Notes) -> None:
        self.proxy = proxy
        self.board = board
        self.notes = notes
        self.port = serial.Serial(str(proxy.name), timeout=0)

    async def at_gateway(self, is_enough: int) -> bytes:
        """What it hears, until there is so much or nothing comes for a while."""
        return await collected(lambda: self.port.read(65_536), is_enough)


async def collected(read: object, is_enough: int) -> bytes:
    assert callable(read)
    found = b""
    async with asyncio.timeout(PATIENCE_S):
        while len(found) < is_enough:
            found += read()
            await asyncio.sleep(0.005)
    return found


@asynccontextmanager
async def line(
    folder: Path, impairment: LineImpairment, baud: int = 921_600
) -> AsyncIterator[Ends]:
    terminal, notes = Terminal(), Notes()
    board = os.open(terminal.device, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)
    tty.setraw(board)
    proxy = SerialProxy(folder / "port", 1, impairment, baud=baud, tap=notes)
    proxy.connect(terminal.near)
    ends = Ends(proxy, board, notes)
    try:
        yield ends
    finally:
        ends.port.close()
        proxy.close()
        terminal.close()
        os.close(board)


def frames(count: int) -> list[bytes]:
    return [bytes((6, 0x16)) + b"%04d" % number for number in range(count)]


def on_line(messages: list[bytes]) -> bytes:
    framing = line_framing("hdlc")
    return b"".join(map(framing.wrap, messages))


@story
async def test_on_a_good_line_all_octets_arrive_both_ways(tmp_path: Path) -> None:
    async with line(tmp_path, LineImpairment()) as ends:
        sent = on_line(frames(20))
        os.write(ends.board, sent)
        assert await ends.at_gateway(len(sent)) == sent
        ends.port.write(sent)
        assert await collected(lambda: _read(ends.board), len(sent)) == sent
        assert ends.notes.said == ends.notes.heard == frames(20)
        assert ends.notes.octets_up == ends.notes.octets_down == len(sent)


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 65_536)
    except BlockingIOError:
        return b""


@story
async def test_flips_and_drops_are_as_many_as_asked_and_none_gets_past_the_check(
    tmp_path: Path,
) -> None:
    async with line(tmp_path, LineImpairment(flips=0.01, drops=0.005)) as ends:
        for message in frames(FRAMES):
            os.write(ends.board, on_line([message]))
            await asyncio.sleep(0)
        byte_count = len(on_line(frames(FRAMES)))
        async with asyncio.timeout(PATIENCE_S):
            heard = b""
            while len(heard) + ends.proxy.fault_counts["dropped"] < byte_count:
                heard += ends.port.read(65_536)
                await asyncio.sleep(0.005)
        assert ends.proxy.fault_counts["flipped"] == round(byte_count * 0.01) or (
            0.003 < ends.proxy.fault_counts["flipped"] / byte_count < 0.02
        )
        assert 0.001 < ends.proxy.fault_counts["dropped"] / byte_count < 0.012
        whole = line_framing("hdlc").feed(heard)
        assert set(whole) < set(frames(FRAMES))
        assert ends.notes.said == frames(FRAMES)


@story
async def test_a_burst_damages_so_many_octets_and_no_more(tmp_path: Path) -> None:
    async with line(tmp_path, LineImpairment()) as ends:
        ends.proxy.burst(7)
        sent = on_line(frames(3))
        os.write(ends.board, sent)
        heard = await ends.at_gateway(len(sent))
        assert heard[:7] != sent[:7]
        assert heard[7:] == sent[7:]


@story
async def test_a_stuck_line_says_zeros_and_lets_nothing_through(tmp_path: Path) -> None:
    async with line(tmp_path, LineImpairment()) as ends:
        ends.proxy.is_stuck = True
        os.write(ends.board, on_line(frames(3)))
        ends.port.write(on_line(frames(3)))
        assert set(await ends.at_gateway(20)) == {0}
        assert ends.notes.heard == []
        assert _read(ends.board) == b""


@story
async def test_an_unplugged_port_is_gone_and_comes_back_under_its_name(tmp_path: Path) -> None:
    async with line(tmp_path, LineImpairment()) as ends:
        ends.proxy.unplug()
        assert not ends.proxy.name.exists()
        os.write(ends.board, on_line(frames(2)))  # into the void
        ends.proxy.plug_in()
        ends.port.close()
        ends.port = serial.Serial(str(ends.proxy.name), timeout=0)
        async with asyncio.timeout(PATIENCE_S):
            heard = b""
            while not heard.endswith(on_line(frames(1))):
                os.write(ends.board, on_line(frames(1)))
                await asyncio.sleep(0.05)
                heard += ends.port.read(65_536)


@story
async def test_octets_come_no_faster_than_the_baud_rate(tmp_path: Path) -> None:
    async with line(tmp_path, LineImpairment(), baud=9600) as ends:
        loop = asyncio.get_running_loop()
        sent = on_line(frames(20))
        began = loop.time()
        os.write(ends.board, sent)
        await ends.at_gateway(len(sent))
        assert loop.time() - began > 0.8 * len(sent) * 10 / 9600
