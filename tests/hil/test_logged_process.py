"""What fails beside a program says how its log ended."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from hil.rig.logged_process import LoggedProcess


class Talker(LoggedProcess):
    def start(self) -> None:
        self.launch([sys.executable, "-c", "print('the last words')"])


def fail_beside(talker: Talker) -> None:
    with talker:
        talker.wait_for_log("the last words")
        raise TimeoutError


def test_a_failure_beside_it_has_the_end_of_its_log(tmp_path: Path) -> None:
    with pytest.raises(TimeoutError) as failed:
        fail_beside(Talker(tmp_path / "talker.log"))
    assert failed.value.__notes__ == ["talker.log ended with:\nthe last words"]
