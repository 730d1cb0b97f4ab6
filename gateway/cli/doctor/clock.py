"""The clock: readings carry its time, certificates and delivery tags depend on it."""

from __future__ import annotations

import subprocess
import time
from datetime import UTC, datetime
from pathlib import Path

from gateway.cli.doctor.findings import Finding, Level
from gateway.cli.doctor.section import Section

# Before this there was no Tidegate: a board without a battery for its clock thinks so.
LEAST_UNIX_S = 1_767_225_600  # 2026-01-01
LARGEST_UNIX_S = 4_102_444_800  # 2100-01-01
RTC = Path("/dev/rtc0")
ASKED_S_MAX = 10.0
# Whichever of these is there follows time servers.
_FOLLOWERS = ("systemd-timesyncd", "chrony", "chronyd", "ntpsec", "ntp")
_UNITS = (Path("/usr/lib/systemd/system"), Path("/lib/systemd/system"))
_BOOT = (Path("/boot/firmware/config.txt"), Path("/boot/config.txt"))


def examine(unix_s: float | None = None, rtc: Path = RTC) -> Section:
    now = time.time() if unix_s is None else unix_s
    synchronized = _is_synchronized()
    shown = datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    how = {True: "synchronised", False: "not synchronised", None: "nobody says how right"}
    section = Section("clock", [("clock", f"{shown}, {how[synchronized]}")])
    section.facts |= {"now": shown, "synchronized": synchronized, "has_rtc": rtc.exists()}
    if not LEAST_UNIX_S <= now <= LARGEST_UNIX_S:
        section.findings.append(
            Finding(
                Level.FAILURE,
                f"the clock is wrong: it says {shown}",
                "readings would carry that time, and certificates be refused; let it follow the "
                "network, or set it by hand: sudo timedatectl set-time 'YYYY-MM-DD HH:MM'",
                _set_command(),
            )
        )
    elif synchronized is False:
        section.findings.append(
            Finding(
                Level.WARNING,
                "the clock follows no time server: readings carry whatever time it has",
                "let it follow the network",
                _set_command(),
            )
        )
    if not rtc.exists() and synchronized is not True:
        section.findings.append(
            Finding(
                Level.NOTE,
                "this machine has no clock that runs without power: after a power cut it begins "
                "with a wrong time until the network answers",
                "a real-time clock (DS3231) on the I2C pins of a Raspberry Pi mends that",
                _rtc_command(),
            )
        )
    return section


def _set_command() -> str:
    has_follower = any(
        (units / f"{name}.service").exists() for units in _UNITS for name in _FOLLOWERS
    )
    first = "" if has_follower else "sudo apt-get install -y systemd-timesyncd && "
    return f"{first}sudo timedatectl set-ntp true"


def _rtc_command() -> str:
    """None on what is no Raspberry Pi."""
    found = next((path for path in _BOOT if path.exists()), None)
    return "" if found is None else f"echo dtoverlay=i2c-rtc,ds3231 | sudo tee -a {found}"


def _is_synchronized() -> bool | None:
    command = ["timedatectl", "show", "--property=NTPSynchronized", "--value"]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=ASKED_S_MAX, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return {"yes": True, "no": False}.get(done.stdout.strip())
