"""Files with MicroPython: found, and refused before a board is touched if they are not for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.flashing.errors import FlashError
from gateway.flashing.images import cache_folder, image_path, read_image, version_of
from gateway.flashing.intel_hex import SCRIPT_AT, with_script
from gateway.flashing.kinds import Kind, read_kinds
from gateway.flashing.sources import firmware_folder
from gateway.flashing.uf2 import check_uf2
from tests.flashing.images import ABSOLUTE, RP2040, RP2350, esp, uf2, uf2_block

KINDS = read_kinds(firmware_folder() / "boards")
HEX = """\
:020000040000FA
:10000000000102030405060708090A0B0C0D0E0F78
:0400000500000000F7
:00000001FF
"""


def kind(name: str) -> Kind:
    return KINDS[name]


def test_the_newest_release_in_the_cache_is_taken(tmp_path: Path) -> None:
    for name in (
        "ESP32_GENERIC-20250415-v1.25.0.bin",
        "ESP32_GENERIC-20251209-v1.27.0.bin",
        "ESP32_GENERIC-20260101-v1.28.0-preview.12.bin",
        "ESP32_GENERIC_S3-20260101-v1.29.0.bin",
    ):
        (tmp_path / name).touch()
    assert image_path(kind("esp32"), None, tmp_path).name == "ESP32_GENERIC-20251209-v1.27.0.bin"
    assert image_path(kind("esp32-s3"), None, tmp_path).name.endswith("v1.29.0.bin")
    assert image_path(kind("esp32"), Path("mine.bin"), tmp_path) == Path("mine.bin")


def test_without_one_it_is_said_where_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(FlashError) as raised:
        image_path(kind("pico-w"), None, tmp_path)
    assert "get one at micropython.org/download/RPI_PICO_W" in str(raised.value)
    assert f"in {tmp_path}" in str(raised.value)


def test_the_cache_is_where_the_desktop_has_its_own() -> None:
    assert cache_folder({"HOME": "/h"}) == Path("/h/.cache/tidegate/firmware")
    assert cache_folder({"HOME": "/h", "XDG_CACHE_HOME": "/c"}) == Path("/c/tidegate/firmware")


def test_versions_are_compared_as_numbers() -> None:
    assert version_of("X-20250101-v1.9.uf2") < version_of("X-20250101-v1.10.1.uf2")
    assert version_of("no version") == ()


def test_a_whole_uf2_for_this_chip_is_taken() -> None:
    check_uf2(uf2(bytes(2000)), RP2040, "x.uf2")
    in_front = uf2_block(bytes(256), 0, 2, ABSOLUTE)  # as files for RP2350 have it
    check_uf2(in_front + uf2(bytes(2000), RP2350), RP2350, "x.uf2")


@pytest.mark.parametrize(
    ("octets", "message"),
    [
        (b"", "x.uf2 has 0 bytes, no whole number of blocks"),
        (uf2(bytes(1000))[:-1], "x.uf2 has 2047 bytes, no whole number of blocks"),
        (uf2(bytes(1000))[:-512], "x.uf2 has 3 blocks of 4: load it down again"),
        (uf2(bytes(1000))[512:], "x.uf2 has 3 blocks of 4"),
        (uf2(bytes(1000), RP2350), "x.uf2 is for RP2350, not for RP2040"),
        (uf2(bytes(1000), 0x1234), "x.uf2 is for family 00001234, not for RP2040"),
        (bytes(1024), "x.uf2 is no UF2, or damaged: block 0"),
        (uf2(bytes(600))[:1020] + b"????" + uf2(bytes(600))[1024:], "damaged: block 1"),
    ],
)
def test_what_is_no_uf2_for_this_chip_is_refused(octets: bytes, message: str) -> None:
    with pytest.raises(FlashError, match=message):
        check_uf2(octets, RP2040, "x.uf2")


def test_an_image_for_another_esp32_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.bin"
    path.write_bytes(esp(b"x", "esp32s3"))
    assert read_image(kind("esp32-s3"), path)
    with pytest.raises(FlashError, match=r"x\.bin is for esp32s3, and the board is esp32$"):
        read_image(kind("esp32"), path)
    path.write_bytes(b"<html>")
    with pytest.raises(FlashError, match=r"x\.bin is no image for an ESP32"):
        read_image(kind("esp32"), path)


def test_a_file_that_cannot_be_read_is_said(tmp_path: Path) -> None:
    with pytest.raises(FlashError, match=r"x\.bin cannot be read: No such file"):
        read_image(kind("esp32"), tmp_path / "x.bin")


def test_a_script_goes_into_a_hex_file_in_front_of_its_end() -> None:
    lines = with_script(HEX, b"MP\x03\x00abc", "x.hex").splitlines()
    assert lines[:2] == HEX.splitlines()[:2]
    assert lines[2] == ":020000040003F7"
    assert lines[3].startswith(f":10{SCRIPT_AT & 0xFFFF:04X}00" + b"MP\x03\x00abc".hex().upper())
    assert lines[4:] == HEX.splitlines()[2:]
    for line in lines:
        assert sum(bytes.fromhex(line[1:])) & 0xFF == 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no whole HEX file"),
        (HEX.rpartition(":")[0], "no whole HEX file"),
        (HEX.replace("78", "79"), r"x\.hex:2: no HEX record, or a damaged one"),
        ("<html>", r"x\.hex:1: no HEX record"),
        (
            ":020000040003F7\n:01E00000001F\n:00000001FF\n",
            r"x\.hex has something where the program belongs",
        ),
    ],
)
def test_what_is_no_hex_file_is_refused(text: str, message: str) -> None:
    with pytest.raises(FlashError, match=message):
        with_script(text, b"", "x.hex")
