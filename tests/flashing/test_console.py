"""The REPL's other end when it is not there, goes away, or says nothing."""

from __future__ import annotations

import os
import threading
import tty
from collections.abc import Iterator
from contextlib import suppress

import pytest

from gateway.flashing.console import Console, Identity
from gateway.flashing.errors import Failure, FlashError


class Line:
    def __init__(self) -> None:
        self.port, end = os.openpty()
        tty.setraw(end)
        self.device = os.ttyname(end)
        os.close(end)
        self._is_plugged = True

    def unplug(self) -> None:
        if self._is_plugged:
            os.close(self.port)
            self._is_plugged = False


@pytest.fixture
def line() -> Iterator[Line]:
    made = Line()
    yield made
    made.unplug()


def test_a_port_that_is_pulled_is_said_so_whatever_is_done_with_it(line: Line) -> None:
    with Console(line.device) as console:
        line.unplug()
        for use in (console.read, console.stop, lambda: console.write(b"x"), console.leave):
            with pytest.raises(FlashError, match="the board does not answer any more") as raised:
                use()
            assert raised.value.failure is Failure.CUT


def test_who_says_nothing_has_no_micropython_that_answers(line: Line) -> None:
    with Console(line.device) as console:
        with pytest.raises(FlashError, match=f"no MicroPython answers on {line.device}") as raised:
            console.stop(0.5)
        assert raised.value.failure is Failure.ABSENT


def test_who_prints_without_a_pause_and_never_stops_is_given_up_in_time(line: Line) -> None:
    ended = threading.Event()

    def print_on() -> None:
        while not ended.is_set():
            with suppress(BlockingIOError):
                os.write(line.port, b"reading " * 32)
            ended.wait(0.001)

    os.set_blocking(line.port, False)
    printing = threading.Thread(target=print_on)
    with Console(line.device) as console:
        printing.start()
        try:
            with pytest.raises(FlashError) as raised:
                console.stop(0.5)
        finally:
            ended.set()
            printing.join()
        assert raised.value.failure is Failure.ABSENT


def test_who_stops_answering_within_a_snippet_is_said_so(line: Line) -> None:
    def answer_half() -> None:
        os.read(line.port, 100)
        os.write(line.port, b"OK12")

    with Console(line.device) as console:
        half = threading.Thread(target=answer_half)
        half.start()
        with pytest.raises(FlashError, match="does not answer any more"):
            console.run("print(12345)", 0.3)
        half.join()


def test_a_port_has_one_user_at_a_time(line: Line) -> None:
    with Console(line.device), pytest.raises(FlashError) as raised:
        Console(line.device)
    assert raised.value.failure is Failure.BUSY


@pytest.mark.parametrize(
    ("answer", "shown", "version"),
    [
        ("esp32|Generic ESP32 module with ESP32|1.27.0|aabb\n", "1.27.0", (1, 27, 0)),
        ("microbit|micro:bit with nRF51822|1.9.2|\n", "1.9.2", (1, 9, 2)),
        ("garbage", "", ()),
    ],
)
def test_what_a_board_says_of_itself_is_read(
    answer: str, shown: str, version: tuple[int, ...]
) -> None:
    identity = Identity(answer)
    assert identity.version == version
    assert str(identity).startswith(f"MicroPython {shown} on ")
