"""`[[serial]]`, and a gateway without UDP."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.config.keys import LINES_MAX
from gateway.config.listing import as_toml, entries
from gateway.config.serial_ports import PortServer, port_server
from gateway.config.settings import HostPort, SerialSettings, Settings
from tests.config.reading import complaints, read

NO_UDP = '[[udp]]\nlisten = ""\n'


def test_there_is_no_line_unless_the_file_has_one() -> None:
    settings = read("").settings
    assert settings.serial == ()
    assert len(settings.listeners) == 1


def test_a_line_needs_nothing_but_its_port() -> None:
    (line,) = read('[[serial]]\nport = "/dev/ttyUSB0"\n').settings.serial
    assert line == SerialSettings(
        port="/dev/ttyUSB0",
        baud=115_200,
        framing="hdlc",
        parity="none",
        stop_bits=1,
        rtscts=False,
        gap_ms=50,
        burst_bytes_max=0,
        frame_gap_ms=0,
        advertise=True,
    )
    assert line.bits_per_octet == 10


@pytest.mark.parametrize(
    ("parity", "stop_bits", "bits"), [("none", 2, 11), ("even", 1, 11), ("odd", 2, 12)]
)
def test_an_octet_takes_as_many_bits_as_the_line_has_for_it(
    parity: str, stop_bits: int, bits: int
) -> None:
    text = f'[[serial]]\nport = "/dev/x"\nparity = "{parity}"\nstop_bits = {stop_bits}\n'
    assert read(text).settings.serial[0].bits_per_octet == bits


def test_lines_come_from_variables_and_the_command_line_too() -> None:
    environment = {"TIDEGATE_SERIAL__0__PORT": "/dev/ttyACM0", "TIDEGATE_SERIAL__0__BAUD": "9600"}
    overrides = ["serial.1.port=socket://[::1]:4001", "serial.0.rtscts=true", "udp.0.listen="]
    settings = read("", environment, overrides).settings
    assert settings.serial == (
        SerialSettings(port="/dev/ttyACM0", baud=9600, rtscts=True),
        SerialSettings(port="socket://[::1]:4001"),
    )
    assert settings.listeners == ()


def test_udp_is_switched_off_by_its_one_listener() -> None:
    settings = read(NO_UDP + '[[serial]]\nport = "/dev/ttyUSB0"\n').settings
    assert (settings.listeners, len(settings.udp)) == ((), 1)


def test_a_listing_of_lines_reads_back_as_the_same_settings() -> None:
    text = NO_UDP + '[[serial]]\nport = "/dev/a\\"b"\n[[serial]]\nport = "rfc2217://host:1"\n'
    before = read(text)
    assert read("\n".join(as_toml(entries(before)))).settings == before.settings


def test_there_are_at_most_so_many_lines() -> None:
    text = "".join(f'[[serial]]\nport = "/dev/tty{n}"\n' for n in range(LINES_MAX + 1))
    assert complaints(text) == [
        f"c.toml:{2 * LINES_MAX + 1}:3: serial: expected at most 32 of them"
    ]


@pytest.mark.parametrize(
    ("port", "server"),
    [
        ("socket://10.0.0.5:4001", PortServer("socket", HostPort("10.0.0.5", 4001))),
        ("rfc2217://moxa.lan:950/", PortServer("rfc2217", HostPort("moxa.lan", 950))),
        ("socket://[fe80::1]:4001", PortServer("socket", HostPort("fe80::1", 4001))),
        ("socket://[fe80::1%25eth0]:1", PortServer("socket", HostPort("fe80::1%eth0", 1))),
        ("socket://[fe80::1%eth0]:1", PortServer("socket", HostPort("fe80::1%eth0", 1))),
        ("socket://[fe80::1%25]:1", None),
        ("socket://10.0.0.5:0", None),
        ("socket://10.0.0.5:65536", None),
        ("socket://10.0.0.500:1", None),
        ("socket://:1", None),
        ("tcp://10.0.0.5:4001", None),
        ("/dev/ttyUSB0", None),
    ],
)
def test_a_url_names_a_port_server(port: str, server: PortServer | None) -> None:
    assert port_server(port) == server
    if server is not None:
        assert port_server(str(server)) == server


@pytest.mark.parametrize(
    "port", ["", "ttyUSB0", "dev/ttyUSB0", "/", "/dev/", "/dev/a\tb", "/" + "x" * 4095, "COM3"]
)
def test_what_is_neither_path_nor_url_is_no_port(port: str) -> None:
    escaped = port.replace("\t", "\\t")
    (complaint,) = complaints(f'[[serial]]\nport = "{escaped}"\n')
    assert complaint.startswith("c.toml:2:8: serial.0.port: expected the path of a serial port")


def test_a_port_is_not_relative_to_the_folder_of_the_file() -> None:
    (line,) = read('[[serial]]\nport = "/dev/ttyUSB0"\n').settings.serial
    assert Path(line.port) == Path("/dev/ttyUSB0")
    assert isinstance(Settings().serial, tuple)
