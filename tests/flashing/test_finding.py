"""What is plugged in, from what pyserial lists; no port is opened."""

from __future__ import annotations

from pathlib import Path

import pytest
from serial.tools.list_ports_common import ListPortInfo  # type: ignore[import-untyped]

from gateway.flashing.errors import Failure, FlashError
from gateway.flashing.finding import found_ports, the_port
from gateway.flashing.kinds import read_kinds
from gateway.flashing.sources import firmware_folder

KINDS = read_kinds(firmware_folder() / "boards")


def listed(device: str, vid: int | None = None, pid: int = 0, **more: str) -> ListPortInfo:
    port = ListPortInfo(device)
    port.vid, port.pid = vid, pid
    for name, value in more.items():
        setattr(port, name, value)
    return port


CP2102 = listed("/dev/ttyUSB0", 0x10C4, 0xEA60, serial_number="0001", description="CP2102")
PICO = listed("/dev/ttyACM0", 0x2E8A, 0x0005, serial_number="e66", description="Board in FS mode")
MODEM = listed("/dev/ttyUSB5", 0x12D1, 0x1001, description="a modem")
ONBOARD = listed("/dev/ttyS0")
S2_LOADER = listed("/dev/ttyACM1", 0x303A, 0x0002)


def test_each_says_what_it_may_be(tmp_path: Path) -> None:
    found = found_ports(KINDS, [CP2102, PICO, MODEM, ONBOARD, S2_LOADER], tmp_path)
    kinds = {port.device: (set(port.kinds), port.is_sure) for port in found}
    assert kinds["/dev/ttyACM0"] == ({"pico", "pico-w", "pico2", "pico2-w"}, False)
    assert "esp32" in kinds["/dev/ttyUSB0"][0]
    assert kinds["/dev/ttyUSB5"] == (set(), False)
    assert kinds["/dev/ttyACM1"] == ({"esp32-s2"}, True)
    assert "/dev/ttyS0" not in kinds  # nobody knows what is at its other end


def test_the_name_that_stays_goes_before_the_one_of_now(tmp_path: Path) -> None:
    (tmp_path / "usb-Silicon_Labs_0001").symlink_to("/dev/ttyUSB0")
    (port,) = found_ports(KINDS, [CP2102], tmp_path)
    assert port.name == f"{tmp_path}/usb-Silicon_Labs_0001"


def test_the_only_board_is_meant(tmp_path: Path) -> None:
    found = found_ports(KINDS, [MODEM, PICO], tmp_path)
    assert the_port(found, None).device == "/dev/ttyACM0"


def test_of_two_boards_the_kind_decides_or_nobody(tmp_path: Path) -> None:
    found = found_ports(KINDS, [CP2102, PICO], tmp_path)
    assert the_port(found, None, KINDS["pico-w"]).device == "/dev/ttyACM0"
    with pytest.raises(FlashError, match=r"2 boards are plugged in: .*CP2102.*--port") as raised:
        the_port(found, None)
    assert raised.value.failure is Failure.AMBIGUOUS


def test_a_port_may_be_named_by_its_serial_number(tmp_path: Path) -> None:
    found = found_ports(KINDS, [CP2102, PICO], tmp_path)
    assert the_port(found, "e66").device == "/dev/ttyACM0"
    assert the_port(found, "/dev/null").device == "/dev/null"
    with pytest.raises(FlashError, match="/dev/absent is not there"):
        the_port(found, "/dev/absent")


def test_without_a_board_what_is_there_instead_is_told(tmp_path: Path) -> None:
    with pytest.raises(FlashError, match="no board is plugged in; some cables only charge"):
        the_port([], None)
    with pytest.raises(FlashError, match=r"/dev/ttyUSB5 is a modem; --port takes it all the same"):
        the_port(found_ports(KINDS, [MODEM], tmp_path), None)
