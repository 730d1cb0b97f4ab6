"""A finding's command runs on a machine on which nothing was installed by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.cli.doctor import commands
from gateway.cli.doctor.commands import typed


@pytest.mark.parametrize(
    ("command", "first"),
    [
        ("sudo nano +3,1 /etc/tidegate/config.toml", "nano"),
        ("openssl s_client -connect h:1 </dev/null | openssl x509 -noout", "openssl"),
        ("sudo fuser -v /dev/ttyUSB0", "psmisc"),
        ("cat /etc/resolv.conf; resolvectl status", "systemd-resolved"),
        ("sudo systemctl edit tidegate", "nano"),
        ("sudo ss -ulpn sport = :1883", "iproute2"),
        ("sudo dmesg | tail -n 50", None),
        ("ls -l /etc/nano", None),
    ],
)
def test_what_is_missing_comes_first(
    command: str, first: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commands, "_is_there", lambda _: False)
    monkeypatch.setattr(commands, "runnable", lambda text: text)
    added = "" if first is None else f"sudo apt-get install -y {first} && "
    assert typed(command) == f"{added}{command}"
    monkeypatch.setattr(commands, "_is_there", lambda _: True)
    assert typed(command) == command


def test_programs_are_looked_for_where_sudo_looks_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(commands, "SUDO_LOOKS_IN", {Path("/bin"), Path("/usr/bin")})
    assert commands._is_there("cat")
    assert not commands._is_there("there-is-no-such-program")
