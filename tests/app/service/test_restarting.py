"""An end that is to be followed by a start, and a signal meanwhile."""

from __future__ import annotations

from gateway.app.exit_codes import ExitCode
from gateway.app.service.ending import Shutdown


def test_a_signal_ends_for_good_what_was_to_start_again() -> None:
    ending, stopped = Shutdown(), []
    ending.code = ExitCode.RESTART
    ending.begin()
    ending.on_signal(lambda: stopped.append("again"))
    ending.over()
    assert ending.code == ExitCode.OK
    assert stopped == ["again"]
