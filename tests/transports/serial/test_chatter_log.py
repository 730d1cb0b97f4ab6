"""What a board prints is in the log, and does not fill it."""

from __future__ import annotations

import logging

import pytest

from gateway.transports.serial.chatter_log import LINES_MAX, WINDOW_S, ChatterLog


def test_lines_are_written_at_debug_level_without_what_moves_a_cursor(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG, "tidegate.serial")
    chatter = ChatterLog("ttyUSB0")
    for line in (b"\x1b[0;32mI (31) boot: ESP-IDF\x1b[0m", b"\x1b[0m", b"", b"caf\xc3\xa9\x00"):
        chatter.log_line(line, 0.0)
    told = ["ttyUSB0 prints: I (31) boot: ESP-IDF", "ttyUSB0 prints: caf\u00e9"]
    assert caplog.messages == told
    assert {record.levelno for record in caplog.records} == {logging.DEBUG}


def test_a_board_that_prints_without_end_is_cut_short_and_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG, "tidegate.serial")
    chatter = ChatterLog("ttyUSB0")
    for _ in range(LINES_MAX + 7):
        chatter.log_line(b"again", 1.0)
    assert len(caplog.messages) == LINES_MAX
    chatter.log_line(b"later", 1.0 + WINDOW_S)
    assert caplog.messages[LINES_MAX:] == ["ttyUSB0 printed 7 more lines", "ttyUSB0 prints: later"]


def test_nothing_is_made_of_it_while_nobody_wants_it(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "tidegate.serial")
    ChatterLog("ttyUSB0").log_line(b"line", 0.0)
    assert caplog.messages == []
