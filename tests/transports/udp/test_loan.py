"""A port that is lent to another program, and opened again by itself."""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path

import pytest

from gateway.transports.serial import device as serial_device
from gateway.transports.serial import port as serial_port
from gateway.transports.serial.line import PortOptions
from gateway.transports.socket_address import LINE_ADDRESS
from gateway.transports.udp import loan
from tests.transports.conftest import Run
from tests.transports.eventually import eventually
from tests.transports.serial.test_port import MESSAGE, another_program, linked, on, terminal

LONG_S = 600.0
FRAMED = b"\xc0" + MESSAGE + b"\xc0"


def test_a_released_port_is_anothers_and_then_ours_again(run: Run) -> None:
    async def story() -> None:
        with terminal() as (_, port):
            async with linked(on(port)) as heard:
                link = heard.link
                await eventually(lambda: link.is_open, "open")
                assert await link.release(2.0)
                with another_program(port, "locked"):
                    assert not link.is_open
                    assert link.released_s is not None
                    said = f"{port} is released to other programs for 1 min more"
                    assert link.check() == said
                    assert link.mark() is None, "the watchdog sees nothing stuck"
                await eventually(lambda: link.is_open, "open again")
                assert link.check() is None
                assert (link.counters.opened, link.counters.lost) == (2, 0)
                assert heard.happened == ["opened", "lost", "opened"]

    run(story())


def test_it_is_taken_back_at_once_and_goes_on(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serial_port, "REOPEN_S_MIN", LONG_S)

    async def story() -> None:
        with terminal() as (master, port):
            async with linked(on(port)) as heard:
                link = heard.link
                await eventually(lambda: link.is_open, "open")
                for times in (2, 3):
                    assert await link.release(LONG_S)
                    assert await link.release(2 * LONG_S), "for longer"
                    assert (link.released_s or 0.0) > LONG_S
                    link.send(LINE_ADDRESS, MESSAGE)
                    await link.release(0.0)
                    await eventually(lambda: link.counters.opened == times, "open")  # noqa: B023
                os.write(master, FRAMED)
                await eventually(lambda: heard.datagrams, "heard")

    run(story())


def test_a_port_that_is_released_while_it_is_opened_is_closed_first(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = serial_device._open

    async def story() -> None:
        loop = asyncio.get_running_loop()
        is_opening, may_open = asyncio.Event(), threading.Event()

        def slow(options: PortOptions) -> serial_device._Opened:
            loop.call_soon_threadsafe(is_opening.set)
            assert may_open.wait(20)
            return opened(options)

        monkeypatch.setattr(serial_device, "_open", slow)
        with terminal() as (_, port):
            async with linked(on(port)) as heard:
                await is_opening.wait()
                asked = asyncio.create_task(heard.link.release(LONG_S))
                may_open.set()
                assert await asked
                with another_program(port, "locked"):
                    assert heard.happened == []

    run(story())


def test_a_port_that_cannot_be_closed_yet_is_not_called_free(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = serial_device._close
    may_close = threading.Event()
    monkeypatch.setattr(loan, "GIVEN_WITHIN_S", 0.01)
    monkeypatch.setattr(serial_device, "_close", lambda fd: (may_close.wait(20), closed(fd)))

    async def story() -> None:
        with terminal() as (_, port):
            async with linked(on(port)) as heard:
                await eventually(lambda: heard.link.is_open, "open")
                assert not await heard.link.release(LONG_S)
                may_close.set()
                monkeypatch.setattr(loan, "GIVEN_WITHIN_S", 20.0)
                assert await heard.link.release(LONG_S)

    run(story())


def test_a_port_that_is_not_there_is_free_at_once_and_looked_for_afterwards(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serial_port, "REOPEN_S_MIN", LONG_S)

    async def story() -> None:
        port = tmp_path / "port"
        async with linked(on(str(port))) as heard:
            await eventually(lambda: "is not there" in (heard.link.check() or ""), "told")
            assert await heard.link.release(LONG_S)
            with terminal() as (_, name):
                port.symlink_to(name)
                await heard.link.release(0.0)
                await eventually(lambda: heard.link.is_open, "open")

    run(story())
