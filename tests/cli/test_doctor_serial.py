"""`tidegate doctor` about serial ports: those that are there, and what speaks on one."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import tty
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

from gateway.cli.doctor.findings import Level
from gateway.cli.doctor.listening import options_for
from gateway.cli.doctor.serial_ports import (
    LineFacts,
    PortFacts,
    SerialFacts,
    examine_ports,
    ports_described,
    serial_findings,
)
from gateway.config.settings import SerialSettings, Settings
from gateway.frames import Connect, Pingreq, encode
from hil.rig.line_framings import Kind, line_framing
from tests.cli.tidegate import TIMEOUT_S, environment_with, tidegate

USB = PortFacts(
    device="/dev/ttyUSB0",
    by_id=("/dev/serial/by-id/usb-Silicon_Labs_CP2102_0001-if00-port0",),
    description="CP2102 USB to UART Bridge Controller",
    chip="USB 10c4:ea60 serial number 0001",
)


@contextmanager
def board(folder: Path, says: bytes) -> Iterator[Path]:
    """A port whose other end says this again and again."""
    master, slave = os.openpty()
    tty.setraw(slave)
    port = folder / "board"
    port.symlink_to(os.ttyname(slave))
    os.close(slave)
    os.set_blocking(master, False)
    is_over = Event()

    def speak() -> None:
        while not is_over.wait(0.05):
            try:
                os.write(master, says)
            except BlockingIOError:  # nobody reads
                continue

    speaker = Thread(target=speak)
    speaker.start()
    try:
        yield port
    finally:
        is_over.set()
        speaker.join()
        os.close(master)


def spoken(kind: Kind) -> bytes:
    framing = line_framing(kind)
    return framing.wrap(encode(Connect(b"dev1", 60))) + framing.wrap(encode(Pingreq()))


def listen(folder: Path, port: Path, *more: str) -> tuple[int, Any]:
    done = tidegate(
        "doctor", "--listen", str(port), "--seconds", "1", "--json", *more, folder=folder
    )
    return done.returncode, json.loads(done.stdout)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("hdlc", "RFC 1662 frames, 1 node, 0 % bad FCS"),
        ("slip", "SLIP frames, 1 node, 0 % no message"),
        ("raw", "MQTT-SN without framing (raw), 1 node, 0 % no message"),
    ],
)
def test_it_says_which_framing_is_spoken(tmp_path: Path, kind: Kind, text: str) -> None:
    with board(tmp_path, spoken(kind)) as port:
        code, answer = listen(tmp_path, port)
    assert (code, answer["ok"], answer["schema"]) == (0, True, "tidegate.doctor/1")
    heard = answer["heard"]
    assert (heard["what"], heard["text"], heard["baud"]) == (kind, text, 115_200)
    assert heard["port"] == str(port)
    assert heard["messages"] >= 2


def test_a_console_is_told_from_a_sensor_with_what_it_printed(tmp_path: Path) -> None:
    with board(tmp_path, b"MicroPython v1.27.0 on 2025-12-09; ESP32S3\r\n>>> ") as port:
        done = tidegate("doctor", "--listen", port, "--seconds", "1", folder=tmp_path)
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    assert lines[0] == f"port        {port} at 115200 baud"
    assert lines[1] == "heard       text: looks like a MicroPython REPL"
    assert any("MicroPython v1.27.0 on" in line for line in lines[2:])
    assert lines[-1].startswith("advice      no MQTT-SN program runs on it")


def test_it_listens_as_the_configuration_has_the_port_unless_told_otherwise(
    tmp_path: Path,
) -> None:
    (tmp_path / "c.toml").write_text(f'[[serial]]\nport = "{tmp_path}/board"\nbaud = 9600\n')
    with board(tmp_path, b"") as port:
        code, answer = listen(tmp_path, port, "--config", "c.toml")
        assert (code, answer["heard"]["baud"], answer["heard"]["what"]) == (1, 9600, "nothing")
    settings = Settings(serial=(SerialSettings(port="/dev/ttyUSB0", baud=9600, parity="even"),))
    assert options_for("/dev/ttyUSB0", 300, settings).baud == 300
    assert options_for("/dev/ttyUSB0", 300, settings).parity == "even"
    assert options_for("/dev/ttyUSB1", None, settings).baud == 115_200


def test_ctrl_c_ends_it_early_with_what_was_heard(tmp_path: Path) -> None:
    with board(tmp_path, spoken("hdlc")) as port:
        command = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "gateway",
                "doctor",
                "--listen",
                str(port),
                "--seconds",
                "3000",
            ],
            cwd=tmp_path,
            env=environment_with({}),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        deadline = time.monotonic() + TIMEOUT_S
        assert command.stderr is not None
        while "bytes so far" not in command.stderr.readline():
            assert time.monotonic() < deadline
        command.send_signal(signal.SIGINT)
        answer, complaints = command.communicate(timeout=TIMEOUT_S)
    assert (command.returncode, complaints) == (0, "")
    assert "RFC 1662 frames, 1 node" in answer


def test_a_port_that_cannot_be_heard_is_told_in_one_line(tmp_path: Path) -> None:
    done = tidegate("doctor", "--listen", tmp_path / "none", folder=tmp_path)
    assert (done.returncode, done.stdout) == (69, "")
    assert done.stderr.startswith(f"tidegate doctor: {tmp_path}/none is not there")
    done = tidegate("doctor", "--listen", "ttyUSB0", folder=tmp_path)
    assert done.returncode == 2
    assert 'argument --listen: expected the path of a serial port, such as "/dev/' in done.stderr


def test_it_lists_the_ports_of_the_configuration_with_who_has_them(tmp_path: Path) -> None:
    with board(tmp_path, b"") as port:
        (tmp_path / "c.toml").write_text(
            f'[[serial]]\nport = "{port}"\n[[serial]]\nport = "{tmp_path}/later"\n'
            '[[serial]]\nport = "socket://10.0.0.5:4001"\n'
        )
        holder = os.open(port, os.O_RDWR | os.O_NOCTTY)
        arguments = ("doctor", "--serial", "--config", "c.toml")
        done = tidegate(*arguments, "--json", folder=tmp_path)
        text = tidegate(*arguments, folder=tmp_path).stdout
        os.close(holder)
    answer = json.loads(done.stdout)
    assert (done.returncode, answer["ok"]) == (0, True)
    assert "disk" not in answer
    (found,) = [each for each in answer["serial"]["ports"] if each["link"] == "serial0"]
    assert f"(process {os.getpid()})" in found["owner"]
    lines = [(each["link"], each["is_there"]) for each in answer["serial"]["lines"]]
    assert lines == [("serial0", True), ("serial1", False)]
    levels = [each["level"] for each in answer["serial"]["findings"]]
    assert levels == ["warning", "warning"]
    assert f"serial1: {tmp_path}/later is not there" in text
    assert "serial0 of the configuration; held by" in text


def test_a_good_port_has_no_findings_and_all_its_names(tmp_path: Path) -> None:
    facts = SerialFacts((USB,), ())
    assert serial_findings(facts) == []
    (_, first), (_, second) = ports_described(facts)
    assert first == (
        "/dev/ttyUSB0; CP2102 USB to UART Bridge Controller, USB 10c4:ea60 serial number 0001; free"
    )
    assert second.strip() == USB.by_id[0]
    assert list(ports_described(SerialFacts((), ()))) == [("serial", "no ports")]
    assert examine_ports(Settings(), tmp_path).lines == ()


def test_a_configured_port_that_this_user_may_not_open_is_a_failure() -> None:
    advice = "user pi may not open /dev/ttyUSB0: sudo usermod -aG dialout pi"
    for link, level in ((None, Level.NOTE), ("serial0", Level.FAILURE)):
        port = PortFacts(device="/dev/ttyUSB0", link=link, advice=advice)
        (finding,) = serial_findings(SerialFacts((port,), ()))
        assert (finding.level, finding.what) == (level, advice)


def test_a_name_that_may_be_another_port_tomorrow_is_noted_with_one_that_stays() -> None:
    port = PortFacts(device="/dev/ttyUSB0", by_id=USB.by_id, link="serial0")
    line = LineFacts("serial0", "/dev/ttyUSB0", is_there=True)
    (finding,) = serial_findings(SerialFacts((port,), (line,)))
    assert (finding.level, finding.advice) == (
        Level.NOTE,
        f'set port = "{USB.by_id[0]}", which stays',
    )
    by_id = LineFacts("serial0", USB.by_id[0], is_there=True)
    assert serial_findings(SerialFacts((port,), (by_id,))) == []


def test_a_gateway_that_has_its_port_is_no_finding() -> None:
    for is_it, count in ((True, 0), (False, 1)):
        port = PortFacts(
            device="/dev/ttyUSB0",
            link="serial0",
            owner="python3 (process 7)",
            is_the_gateways=is_it,
        )
        assert len(serial_findings(SerialFacts((port,), ()))) == count
