"""What is asked of the kernel, on a pipe that is read instead of by it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.bench.__main__ import main
from tests.bench.awake import NO_LATENCY, AwakeError, kept_awake
from tests.bench.part import EXIT_UNAVAILABLE


def test_it_is_asked_for_no_latency_and_only_meanwhile(tmp_path: Path) -> None:
    """The kernel forgets what was asked when the device is closed, as this pipe ends."""
    device = tmp_path / "pipe"
    os.mkfifo(device)
    kernel = os.open(device, os.O_RDONLY | os.O_NONBLOCK)
    try:
        with kept_awake(device):
            assert os.read(kernel, 64) == NO_LATENCY == bytes(4)
            with pytest.raises(BlockingIOError):  # it is open
                os.read(kernel, 64)
        assert os.read(kernel, 64) == b""
    finally:
        os.close(kernel)


def test_without_the_device_it_is_said_what_it_takes(tmp_path: Path) -> None:
    with (
        pytest.raises(AwakeError, match=r"none: No such file or directory; it takes root"),
        kept_awake(tmp_path / "none"),
    ):
        pass


@pytest.mark.skipif(shutil.which("gcc") is None, reason="not run: gcc is missing")
def test_the_matrix_ends_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tests.bench.__main__.kept_awake", lambda: kept_awake(tmp_path / "none"))
    assert main(["--keep-awake", "--only", "udp-echo"]) == EXIT_UNAVAILABLE
    assert "it takes root" in capsys.readouterr().err
