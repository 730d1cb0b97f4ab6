"""A node that has a key: all that it says is protected, asleep, restarted, with a flash that fails,
and it is silent where its key is wrong.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from firmware.app import given as told
from firmware.app.given import COUNTERS_PATH
from firmware.app.protection import protected
from firmware.mqttsn.protect import AES_CCM_64
from gateway.core.access.device_keys import sender_id_of
from gateway.storage.keys.file import change_keys
from gateway.storage.keys.records import NewKey
from hil.boards.wasi.board import WasiBoard
from hil.rig.gateway import GatewayProcess
from hil.rig.mosquitto import Mosquitto
from tests.firmware.app.conftest import NodeMaker, woken
from tests.firmware.app.listener import Listener
from tests.firmware.app.simulated_flash import SimulatedFlash
from tests.firmware.app.tap import Tap
from tests.firmware.app.test_keeping import files_with
from tests.firmware.cryptolib import cryptolib
from tests.firmware.serial_line import SerialLine
from tests.firmware.test_protect import Air, fresh_channel

__all__ = ["cryptolib"]

CANARY = "00112233445566778899aabbccddeeff"
ENVELOPE = 0xFF
HEAP = "80k"  # a key takes some


def device(name: str) -> dict[str, Any]:
    return {
        "device_key": CANARY,
        "device_key_epoch": 1,
        "device_sender": sender_id_of(name).hex(),
    }


@pytest.fixture
def keyed(
    tmp_path: Path, broker: Mosquitto, name: str, line: SerialLine
) -> Iterator[GatewayProcess]:
    """With a socket and a line that take protected packets alone."""
    folder = tmp_path / "keyed"
    (folder / "state").mkdir(parents=True, mode=0o700)
    new = NewKey(name=name, secret=bytes.fromhex(CANARY))
    change_keys(folder / "state" / "device.keys", lambda before: before.added([new], 0.0))
    config = '[[udp]]\nlisten = "127.0.0.1:0"\nsecurity = "protected"\n'
    config += f'[[serial]]\nport = "{line.gateway_port}"\nsecurity = "protected"\n'
    with GatewayProcess(folder, broker.url, config) as process:
        process.wait_until_connected()
        yield process


@pytest.fixture
def line() -> Iterator[SerialLine]:
    with SerialLine() as wire:
        yield wire


def arrive(listener: Listener, count: int) -> None:
    listener.wait_for(lambda: len(listener.readings()) == count)


def counters_of(node: WasiBoard) -> bytes:
    return (node.flash / COUNTERS_PATH[1:]).read_bytes()


def lose_power(node: WasiBoard) -> None:
    """Between two wakes."""
    with node.start("while True: pass"):
        pass


def test_a_wake_is_one_envelope_each_way_and_no_write(
    new_node: NodeMaker, keyed: GatewayProcess, listener: Listener, name: str
) -> None:
    with Tap(keyed.port) as tap:
        node = new_node(tap.port, heap=HEAP, retry_ms=5_000)
        node.put("secrets.json", json.dumps(device(name)))
        shown = woken(node)
        arrive(listener, 1)
        counters = counters_of(node)
        for number in (2, 3, 4):
            tap.clear()
            shown += woken(node)
            arrive(listener, number)
            assert (len(tap.up), len(tap.down)) == (1, 1)
            assert len(tap.down[0]) == 7 + 32
            assert counters_of(node) == counters
        tap.clear()
        lose_power(node)
        shown += woken(node)
        arrive(listener, 5)
        (node.flash / COUNTERS_PATH[1:]).unlink()
        lose_power(node)
        shown += woken(node)
        arrive(listener, 6)
        assert counters_of(node) != counters
        assert all(ENVELOPE in (each[1], each[3]) for each in tap.up + tap.down)
    assert CANARY not in shown
    assert CANARY not in keyed.log


def test_a_serial_line_is_protected_as_well(
    new_node: NodeMaker, keyed: GatewayProcess, listener: Listener, name: str, line: SerialLine
) -> None:
    node = new_node(0, heap=HEAP, uarts=(line.device,), uart={"number": 0}, gateways=[])
    node.put("secrets.json", json.dumps(device(name)))
    for number in (1, 2):
        woken(node)
        arrive(listener, number)


def secrets_of(flash: SimulatedFlash, *, has_aes: bool = True) -> tuple[dict[str, Any], list[str]]:
    settings = told.settings_of({"id": "x", "gateways": [["h", 1]]}, {})
    found = told.load_secrets(flash, settings, lambda: has_aes)
    assert settings.is_usable is not bool(settings.problems)
    return found, settings.problems


RIGHT = {"device_key": CANARY, "device_sender": "0102030405060708"}


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"device_key": "00"}, "device_key: 32 to 128 hexadecimal digits"),
        ({"device_key": "x" * 32}, "device_key: 32 to 128 hexadecimal digits"),
        ({"device_key": None}, "device_key: 32 to 128 hexadecimal digits"),
        ({"device_sender": "0102"}, "device_sender: 16 hexadecimal digits"),
        ({"device_key_epoch": 65_536}, "device_key_epoch: 0 to 65535"),
        ({"device_key_epoch": True}, "device_key_epoch: 0 to 65535"),
        ({"device_scheme": "rot13"}, "device_scheme: aes-ccm-128, aes-ccm-64, hmac-sha256"),
        ({"device_scheme": "aes-ccm-64"}, "device_scheme: this board has no AES"),
    ],
)
def test_a_node_whose_key_is_wrong_says_nothing(changed: dict[str, Any], problem: str) -> None:
    flash = files_with(told.SECRETS_PATH, json.dumps({**RIGHT, **changed}).encode())
    assert secrets_of(flash, has_aes=False) == ({}, [problem])


def test_a_node_whose_key_is_lost_says_nothing() -> None:
    flash = files_with(told.SECRETS_PATH, b'{"device_key": "0011')
    assert secrets_of(flash) == ({}, ["/secrets.json is no JSON"])
    assert secrets_of(SimulatedFlash()) == ({}, [])
    flash = SimulatedFlash()
    flash.save(COUNTERS_PATH, bytes(6))
    assert secrets_of(flash) == ({}, ["/secrets.json is not there"])


def test_a_right_key_is_taken() -> None:
    given = {**RIGHT, "device_scheme": "aes-ccm-64", "device_key_epoch": 3}
    found, problems = secrets_of(files_with(told.SECRETS_PATH, json.dumps(given).encode()))
    assert problems == []
    assert found == {
        "device_key": bytes.fromhex(CANARY),
        "device_key_epoch": 3,
        "device_sender": bytes(range(1, 9)),
        "device_scheme": AES_CCM_64,
    }


def test_on_cpython_the_board_is_asked() -> None:
    settings = told.settings_of({"id": "x", "gateways": [["h", 1]]}, {})
    given = {**RIGHT, "device_scheme": "aes-ccm-64"}
    told.load_secrets(files_with(told.SECRETS_PATH, json.dumps(given).encode()), settings)
    assert settings.problems == ["device_scheme: this board has no AES"]


class FullFlash(SimulatedFlash):
    def save(self, path: str, value: bytes) -> None:
        raise OSError(28)


@pytest.mark.usefixtures("cryptolib")
@pytest.mark.parametrize("scheme", [0, AES_CCM_64])
def test_a_flash_that_takes_nothing_costs_a_question(scheme: int) -> None:
    air = Air(fresh_channel())
    secrets = {
        "device_key": b"canary key 16 by",
        "device_key_epoch": 1,
        "device_sender": b"12345678",
        "device_scheme": scheme,
    }
    lines: list[str] = []
    for number in range(3):
        node = protected(air, secrets, FullFlash(), lambda _, text: lines.append(text))  # type: ignore[arg-type]
        for _ in range(3):
            node.send(bytearray(b"\x02\x16"), 2)
            assert node.receive(bytearray(100), 0) == 0
        assert len(air.taken) == 3 * (number + 1)
    assert "28" in lines[0]
