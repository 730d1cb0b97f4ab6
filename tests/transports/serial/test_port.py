"""Ports of this machine: pseudo-terminals, and what is said of those that cannot be had."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import logging
import os
import pwd
import stat
import struct
import subprocess
import sys
import termios
import threading
import tty
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from gateway.config.settings import SerialSettings
from gateway.frames import Pingreq, encode
from gateway.transports.framing.outflow import WAITING_S
from gateway.transports.serial import device as serial_device
from gateway.transports.serial import port as serial_port
from gateway.transports.serial.faults import (
    PORTS_NAMED_MAX,
    absent_text,
    permission_advice,
    permission_text,
)
from gateway.transports.serial.line import short_name
from gateway.transports.serial.port import LineGroup, LineSendFailure, SerialCallbacks, SerialLink
from gateway.transports.socket_address import LINE_ADDRESS
from tests.transports.conftest import Run
from tests.transports.eventually import eventually

MESSAGE = encode(Pingreq())
TIOCGEXCL = 0x80045440  # Linux; not in Python's termios


@dataclass
class Heard:
    link: SerialLink
    happened: list[str] = field(default_factory=list)
    datagrams: list[tuple[bytes, bytes]] = field(default_factory=list)


@contextmanager
def terminal() -> Iterator[tuple[int, str]]:
    """The end that is not the gateway's, and the name of the other."""
    master, slave = os.openpty()
    tty.setraw(slave)
    attributes = termios.tcgetattr(slave)
    attributes[2] |= termios.HUPCL  # as real ports have it
    termios.tcsetattr(slave, termios.TCSANOW, attributes)
    os.set_blocking(master, False)
    name = os.ttyname(slave)
    os.close(slave)
    try:
        yield master, name
    finally:
        os.close(master)


@asynccontextmanager
async def linked(settings: SerialSettings) -> AsyncIterator[Heard]:
    callbacks = SerialCallbacks(
        lambda batch: heard.datagrams.extend(batch),
        lambda: heard.happened.append("opened"),
        lambda: heard.happened.append("lost"),
    )
    heard = Heard(SerialLink(settings, "serial0", callbacks, message_bytes_max=2048))
    heard.link.open(asyncio.get_running_loop())
    try:
        yield heard
    finally:
        heard.link.close()


def on(port: str, **more: object) -> SerialSettings:
    return SerialSettings(port=port, framing="slip", **more)  # type: ignore[arg-type]


def read(master: int) -> bytes:
    try:
        return os.read(master, 65_536)
    except BlockingIOError:
        return b""


def test_messages_go_both_ways(run: Run) -> None:
    async def story() -> None:
        with terminal() as (master, port):
            async with linked(on(port)) as heard:
                await eventually(lambda: heard.link.is_open, "open")
                os.write(master, b"\xc0" + MESSAGE + b"\xc0" + MESSAGE + b"\xc0")
                await eventually(lambda: len(heard.datagrams) == 2, "both")
                assert heard.datagrams == [(LINE_ADDRESS, MESSAGE)] * 2
                heard.link.send(LINE_ADDRESS, MESSAGE)
                heard.link.flush()
                LineGroup(heard.link).send(MESSAGE, 1)
                wanted, found = b"\xc0" + MESSAGE + b"\xc0\xc0" + MESSAGE + b"\xc0", b""
                while len(found) < len(wanted):
                    found += read(master)
                assert found == wanted
                counters = heard.link.counters
                assert (counters.received, counters.sent) == (2, 2)
                assert (counters.bytes_in, counters.bytes_out) == (7, 8)
            assert heard.happened == ["opened", "lost"]

    run(story())


def test_a_read_that_is_full_is_not_taken_for_the_end_of_the_port(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serial_device, "READ_BYTES_MAX", len(MESSAGE) + 2)

    async def story() -> None:
        with terminal() as (master, port):
            async with linked(on(port)) as heard:
                await eventually(lambda: heard.link.is_open, "open")
                for count in range(1, 4):
                    os.write(master, b"\xc0" + MESSAGE + b"\xc0")
                    await eventually(lambda: len(heard.datagrams) == count, "read")  # noqa: B023
                assert heard.link.counters.lost == 0

    run(story())


def test_a_frame_that_was_cut_by_a_loss_is_not_continued(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(serial_port, "REOPEN_S_MIN", 0.001)
    monkeypatch.setattr(serial_port, "REOPEN_S_MAX", 0.002)
    port = tmp_path / "port"

    async def story() -> None:
        async with linked(on(str(port))) as heard:
            link = heard.link
            for times, octets in enumerate((b"\xc0\x02", b"\x16\xc0\x02\x17\xc0"), 1):
                with terminal() as (master, name):
                    port.symlink_to(name)
                    await eventually(lambda: link.counters.opened == times, "open")  # noqa: B023
                    os.write(master, octets)
                    total = 2 if times == 1 else 7
                    await eventually(lambda: link.counters.bytes_in == total, "read")  # noqa: B023
                    port.unlink()
                await eventually(lambda: not link.is_open, "lost")
            assert heard.datagrams == [(LINE_ADDRESS, b"\x02\x17")]

    run(story())


def test_a_port_is_set_as_the_configuration_says(run: Run) -> None:
    async def story() -> None:
        with terminal() as (master, port):
            async with linked(on(port, baud=38_400, rtscts=True, stop_bits=2)) as heard:
                await eventually(lambda: heard.link.is_open, "open")
                iflag, oflag, cflag, lflag, ispeed, ospeed, _ = termios.tcgetattr(master)
                assert (ispeed, ospeed) == (termios.B38400, termios.B38400)
                assert cflag & termios.CRTSCTS
                assert cflag & termios.CSTOPB
                # Boards must not be reset when the gateway ends.
                assert not cflag & termios.HUPCL
                assert not iflag & (termios.IXON | termios.IXOFF | termios.ICRNL)
                assert not oflag & termios.OPOST
                assert not lflag & (termios.ICANON | termios.ECHO)

    run(story())


def test_nobody_else_can_open_a_port_that_is_ours(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serial_device, "is_pseudo_terminal", lambda fd: False)

    async def story() -> None:
        with terminal() as (_, port):
            os.chmod(port, 0o666)  # noqa: PTH101
            command = ["/bin/sh", "-c", 'exec 3<>"$0"', port]
            user = pwd.getpwnam("nobody").pw_uid if os.geteuid() == 0 else None

            def attempt() -> subprocess.CompletedProcess[str]:
                """Root may; so it is tried by somebody else."""
                return subprocess.run(
                    command, user=user, cwd="/", capture_output=True, text=True, check=False
                )

            assert (await asyncio.to_thread(attempt)).returncode == 0
            async with linked(on(port)) as heard:
                await eventually(lambda: heard.link.is_open, "open")
                refused = await asyncio.to_thread(attempt)
                assert refused.returncode != 0
                assert os.strerror(errno.EBUSY) in refused.stderr
            await eventually(lambda: attempt().returncode == 0, "closed")

    run(story())


def test_a_pseudo_terminal_whose_gateway_was_killed_can_be_opened_by_the_next(run: Run) -> None:
    """Its other end is open all the time, so the kernel would keep the mark of the one before."""

    async def story() -> None:
        with terminal() as (_, port):
            async with linked(on(port)) as heard:
                await eventually(lambda: heard.link.is_open, "open")
                fd = os.open(port, os.O_RDWR | os.O_NOCTTY)
                is_marked = struct.unpack("i", fcntl.ioctl(fd, TIOCGEXCL, bytes(4)))[0]
                os.close(fd)
                assert not is_marked

    run(story())


HOLD_IT = """
import fcntl, os, sys
fd = os.open(sys.argv[1], os.O_RDWR | os.O_NOCTTY)
if sys.argv[2] == "locked":
    fcntl.flock(fd, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


@contextmanager
def another_program(port: str, how: str) -> Iterator[str]:
    """Has the port, locked or not; how it is named."""
    command = [sys.executable, "-c", HOLD_IT, port, how]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as program:
        assert program.stdout is not None
        assert program.stdin is not None
        assert program.stdout.readline() == "held\n"
        name = Path(f"/proc/{program.pid}/comm").read_text().strip()
        yield f"{name} (process {program.pid})"
        program.stdin.close()


def test_who_has_the_port_is_named_and_it_is_taken_when_that_one_is_gone(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serial_port, "REOPEN_S_MIN", 0.01)
    monkeypatch.setattr(serial_port, "REOPEN_S_MAX", 0.02)

    async def story() -> None:
        with terminal() as (_, port):
            with another_program(port, "locked") as name:
                async with linked(on(port)) as heard:
                    told = f"{name} has {port}: stop it, or give one of the two another port"
                    await eventually(lambda: heard.link.check() == told, "told")
            async with linked(on(port)) as heard:
                await eventually(lambda: heard.link.check() is None, "open")
                async with linked(on(port)) as second:
                    ours = "this program itself, under another name of the port, has"
                    await eventually(lambda: ours in (second.link.check() or ""), "told")
                heard.link.close()
                async with linked(on(port)) as third:
                    await eventually(lambda: third.link.is_open, "open")

    run(story())


def test_a_port_that_someone_else_reads_too_is_served_with_a_warning(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        with terminal() as (_, port), another_program(port, "not locked") as name:
            async with linked(on(port)) as heard:
                await eventually(lambda: heard.link.is_open, "open")
                assert name in (heard.link.check() or "")
                assert "misses what the other reads" in caplog.text

    run(story())


def test_what_is_no_serial_port_is_named_so(run: Run, tmp_path: Path) -> None:
    (file := tmp_path / "file").touch()

    async def story() -> None:
        for port in (str(file), "/dev/null", str(tmp_path)):
            async with linked(on(port)) as heard:
                told = f"{port} is no serial port"
                await eventually(lambda: heard.link.check() == told, told)  # noqa: B023

    run(story())


def test_what_the_line_does_not_take_is_bounded_and_counted(run: Run) -> None:
    async def story() -> None:
        with terminal() as (master, port):
            async with linked(on(port, baud=9600)) as heard:
                link, message = heard.link, bytes((200,)) * 200
                link.send(LINE_ADDRESS, message)
                assert link.counters.send_failed[LineSendFailure.ABSENT] == 1
                await eventually(lambda: link.is_open, "open")
                for _ in range(2000):
                    link.send(LINE_ADDRESS, message)
                    link.flush()
                assert link.waiting_bytes <= 960 * WAITING_S
                failed = link.counters.send_failed[LineSendFailure.BUSY]
                assert failed + link.counters.sent == 2000
                assert failed > 1000
                # All that was taken arrives, when somebody reads again.
                wanted, found = link.counters.sent * len(message), 0
                while found < wanted:
                    found += read(master).count(200)
                    await asyncio.sleep(0)
                assert (found, link.waiting_bytes) == (wanted, 0)

    run(story())


def test_an_unplugged_port_is_told_once_and_opened_again(
    run: Run,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    tmp_path: Path,
) -> None:
    monkeypatch.setattr(serial_port, "REOPEN_S_MIN", 0.001)
    monkeypatch.setattr(serial_port, "REOPEN_S_MAX", 0.002)
    caplog.set_level(logging.INFO, "tidegate.serial")
    port = tmp_path / "port"

    async def story() -> None:
        async with linked(on(str(port))) as heard:
            await eventually(lambda: "not there" in (heard.link.check() or ""), "absent")
            for times in range(1, 4):
                with terminal() as (_, name):
                    port.symlink_to(name)
                    await eventually(lambda: heard.link.counters.opened == times, "open")  # noqa: B023
                    port.unlink()
                await eventually(lambda: not heard.link.is_open, "lost")
                await eventually(lambda: "not there" in (heard.link.check() or ""), "absent")
        assert heard.link.counters.lost == 3
        assert heard.happened == ["opened", "lost"] * 3
        lines = [record.message.partition(str(port))[2] for record in caplog.records]
        assert lines[0].startswith(" is not there")
        assert [line.partition(";")[0] for line in lines[1:]] == [
            ", 115200 baud, slip",
            ": it was unplugged",
        ] * 3

    run(story())


def entries(folder: str) -> int:
    return len(list(Path(folder).iterdir()))


def ours() -> set[threading.Thread]:
    return {each for each in threading.enumerate() if each.name.startswith(("open ", "close "))}


def test_no_descriptor_and_no_thread_is_left_behind(run: Run) -> None:
    async def story() -> None:
        with terminal() as (_, port):
            before, others = entries("/proc/self/fd"), ours()
            for is_early in (True, False):
                async with linked(on(port)) as heard:
                    if not is_early:
                        await eventually(lambda: heard.link.is_open, "open")
                heard.link.close()
            await eventually(lambda: entries("/proc/self/fd") == before, "closed")
            await eventually(lambda: not ours() - others, "no thread")

    run(story())


# What is said


def test_an_absent_port_is_told_with_those_that_are_there(tmp_path: Path) -> None:
    missing = "/dev/ttyUSB7 is not there"
    assert absent_text("/dev/ttyUSB7", tmp_path / "by-id").startswith(f"{missing}, and neither is")
    for number in range(PORTS_NAMED_MAX + 2):
        (tmp_path / f"usb-board_{number}-if00").symlink_to(f"/dev/ttyACM{number}")
    told = absent_text("/dev/ttyUSB7", tmp_path)
    assert told.startswith(f"{missing}; in {tmp_path} there is usb-board_0-if00 (ttyACM0), ")
    assert told.endswith("usb-board_7-if00 (ttyACM7) and 2 more")


ALLOWED = stat.S_IFCHR | 0o660


@pytest.mark.parametrize(
    ("mode", "group", "listed", "member", "told"),
    [
        (
            ALLOWED,
            "dialout",
            False,
            False,
            "user tidegate may not open /dev/ttyUSB0, which belongs to the group dialout: "
            "sudo usermod -aG dialout tidegate, then restart the service, or log in again",
        ),
        (
            ALLOWED,
            "dialout",
            True,
            False,
            "user tidegate may not open /dev/ttyUSB0 yet: it is in the group dialout, but was not "
            "when this program began; restart the service, or log in again",
        ),
        (ALLOWED, "root", False, False, "no group that it could join may: give it one by a rule"),
        (stat.S_IFCHR | 0o600, "dialout", False, False, "no group that it could join may"),
        (ALLOWED, "dialout", True, True, "no group that it could join may"),
    ],
)
def test_a_port_without_permission_is_told_with_the_command(
    mode: int, group: str, listed: bool, member: bool, told: str
) -> None:
    text = permission_advice(
        "/dev/ttyUSB0", mode, group, "tidegate", is_listed=listed, is_member=member
    )
    assert told in text


def test_permission_is_told_of_the_port_as_it_is(tmp_path: Path) -> None:
    user = pwd.getpwuid(os.geteuid()).pw_name
    (port := tmp_path / "port").touch(mode=0o600)
    assert permission_text(str(port)).startswith(f"user {user} may not open {port}")
    assert "see the rights of the folders" in permission_text(str(tmp_path / "no" / "port"))


@pytest.mark.parametrize(
    ("port", "name"),
    [
        ("/dev/serial/by-id/usb-Espressif_123-if00", "usb-Espressif_123-if00"),
        ("/dev/ttyUSB0", "ttyUSB0"),
        ("/var/run/port", "/var/run/port"),
        ("socket://10.0.0.5:4001", "socket://10.0.0.5:4001"),
    ],
)
def test_a_port_is_shown_by_its_own_part_of_the_name(port: str, name: str) -> None:
    assert short_name(port) == name
