"""The sensor for 16 KiB on a real micro:bit's MicroPython, at the real gateway over its line."""

from __future__ import annotations

import asyncio
import shutil
import time
from dataclasses import replace
from pathlib import Path

import aiomqtt
import pytest
import serial  # type: ignore[import-untyped]

from gateway.cli.sensors.senml import Pack
from gateway.flashing.console import Console
from gateway.frames import (
    Connack,
    Connect,
    Frame,
    Publish,
    Regack,
    Register,
    Suback,
    Subscribe,
    decode,
    encode,
)
from gateway.transports.serial.framing_choice import framing
from hil.boards.microbit.board import MicrobitBoard
from hil.rig.gateway import GatewayProcess
from hil.rig.mosquitto import Mosquitto
from tests.firmware.tiny_bench import GIVEN, gateway_for, readings, sensor
from tests.support.application import application

TOPIC = str(GIVEN["TOPIC"])


def are_plausible(packs: list[Pack]) -> bool:
    found = [pack.value("temperature") for pack in packs]
    return all(value is not None and 18 <= value <= 24 for value in found)


def test_readings_arrive_and_the_gateway_knows_that_it_sleeps(
    tmp_path: Path, broker: Mosquitto
) -> None:
    async def inner(board: MicrobitBoard, gateway: GatewayProcess) -> None:
        async with application(broker, TOPIC) as app:
            board.start()
            packs = await readings(app, 3)
        gateway.wait_for_log("= asleep client=tiny-1")
        assert [pack.base_name for pack in packs] == ["tiny-1/"] * 3
        assert are_plausible(packs)

    with sensor(tmp_path / "board") as board, gateway_for(tmp_path, board, broker) as gateway:
        asyncio.run(inner(board, gateway))


def test_at_the_speed_of_a_real_one_no_octet_is_lost(tmp_path: Path, broker: Mosquitto) -> None:
    async def inner(board: MicrobitBoard) -> float:
        async with application(broker, TOPIC) as app:
            board.start()
            await readings(app, 1)
            began = time.monotonic()
            await readings(app, 20)
            return time.monotonic() - began

    with (
        sensor(tmp_path / "board", has_real_speed=True, INTERVAL_S=0, RETRY_MS=10_000) as board,
        gateway_for(tmp_path, board, broker),
    ):
        assert asyncio.run(inner(board)) < 9  # no frame had to be repeated


def test_a_command_that_came_while_it_slept_changes_the_interval(
    tmp_path: Path, broker: Mosquitto
) -> None:
    async def inner(board: MicrobitBoard) -> float:
        async with application(broker, TOPIC) as app:
            board.start()
            await readings(app, 1)
            await app.publish(str(GIVEN["COMMANDS"]), b"1", qos=1)
            await readings(app, 1)  # with the interval of before, and then it hears the command
            began = time.monotonic()
            await readings(app, 2)
            return time.monotonic() - began

    with (
        sensor(tmp_path / "board", INTERVAL_S=2) as board,
        gateway_for(tmp_path, board, broker),
    ):
        assert 1.5 < asyncio.run(inner(board)) < 2.9  # and not four


def test_readings_of_an_outage_come_afterwards_with_their_age(
    tmp_path: Path, broker: Mosquitto
) -> None:
    async def inner(board: MicrobitBoard, gateway: GatewayProcess) -> None:
        async with application(broker, TOPIC) as app:
            board.start()
            await readings(app, 1)
            gateway.kill()
            before = board.output.count("~")
            # It tries for a second and more, and nobody answers.
            await asyncio.to_thread(board.wait_for, rf"(?s)(~[^~]*){{{before + 20}}}")
            gateway.start()
            packs = await readings(app, 1)
            while packs[-1].time_s:
                packs += await readings(app, 1)
        ages = [-pack.time_s for pack in packs]  # times below 2**28 count from now
        assert ages[0] > 0
        assert ages == sorted(ages, reverse=True)

    with (
        sensor(tmp_path / "board", RETRY_MS=100) as board,
        gateway_for(tmp_path, board, broker) as gateway,
    ):
        asyncio.run(inner(board, gateway))


def test_a_gateway_that_has_forgotten_it_is_told_everything_anew(
    tmp_path: Path, broker: Mosquitto
) -> None:
    async def inner(board: MicrobitBoard, gateway: GatewayProcess) -> None:
        async with application(broker, TOPIC) as app:
            board.start()
            await readings(app, 1)
            gateway.kill()
            shutil.rmtree(gateway.folder / "state")
            gateway.start()
            await readings(app, 3)

    with sensor(tmp_path / "board") as board, gateway_for(tmp_path, board, broker) as gateway:
        asyncio.run(inner(board, gateway))


def test_with_one_octet_in_a_hundred_damaged_readings_arrive_and_none_is_corrupt(
    tmp_path: Path, broker: Mosquitto
) -> None:
    async def inner(board: MicrobitBoard) -> None:
        async with application(broker, TOPIC) as app:
            board.wire.errors = 0.01
            board.start()
            packs = await readings(app, 25)
        assert are_plausible(packs)
        assert board.wire.damaged > 10

    with (
        sensor(tmp_path / "board", INTERVAL_S=0, RETRY_MS=60) as board,
        gateway_for(tmp_path, board, broker),
    ):
        asyncio.run(inner(board))


async def every_value(app: aiomqtt.Client, board: MicrobitBoard) -> None:
    """All seven; the highest has a byte more, and took a call more than the stack holds."""
    found: set[float | None] = set()
    while len(found) < 7:
        found |= {pack.value("temperature") for pack in await readings(app, 10)}
        # At a REPL the gateway's frames are bad Python; what the program raises is elsewhere.
        told = board.output
        assert told.count("Traceback") == told.count('File "<stdin>"'), told


async def free_after(
    board: MicrobitBoard, gateway: GatewayProcess, broker: Mosquitto, *, many: bool
) -> int:
    """Octets, when it was stopped somewhere. One that was stopped without room for a line was reset
    to get it, which says nothing: then it lives once more.
    """
    while True:
        async with application(broker, TOPIC) as app:
            board.start()
            await readings(app, 10)
            if many:
                await every_value(app, board)
        gateway.kill()  # which lets go of the port
        with Console(board.device) as console:
            console.stop()
            was_reset = "soft reboot" in board.output
            free = int(console.run("import gc\ngc.collect()\nprint(gc.mem_free())"))
        board.cut_power()
        board.wire.received.clear()
        gateway.start()
        if not was_reset:
            return free


def test_hundreds_of_readings_of_every_value_leave_its_memory_as_it_was(
    tmp_path: Path, broker: Mosquitto
) -> None:
    async def inner(board: MicrobitBoard, gateway: GatewayProcess) -> tuple[int, int]:
        few = await free_after(board, gateway, broker, many=False)
        return few, await free_after(board, gateway, broker, many=True)

    with (
        sensor(tmp_path / "board", INTERVAL_S=0) as board,
        gateway_for(tmp_path, board, broker) as gateway,
    ):
        few, many = asyncio.run(inner(board, gateway))
    assert few > 4_000
    assert few - many < 256


def test_a_reading_without_an_answer_is_repeated_with_dup_and_its_number(tmp_path: Path) -> None:
    line = framing("hdlc", message_bytes_max=300)
    published: list[Publish] = []
    with (
        sensor(tmp_path / "board") as board,
        serial.Serial(board.device, 115_200, timeout=0.05) as port,
    ):
        board.start()
        while len(published) < 3:
            for message in line.feed(port.read(64), 0.0):
                frame = decode(message)
                if isinstance(frame, Publish):
                    published.append(frame)
                elif (answer := answer_to(frame)) is not None:
                    port.write(line.wrap(encode(answer)))
    first, *others = published
    assert not first.dup
    assert others == [replace(first, dup=True)] * 2


def answer_to(frame: Frame) -> Frame | None:
    """A gateway's that takes everything but readings."""
    match frame:
        case Connect():
            return Connack(0)
        case Subscribe():
            return Suback(topic_id=2, message_id=frame.message_id, return_code=0, qos=1)
        case Register():
            return Regack(topic_id=1, message_id=frame.message_id, return_code=0)
    return None


def test_one_interrupt_is_noise_and_two_are_a_wish(tmp_path: Path) -> None:
    with sensor(tmp_path / "board") as board:
        board.start()
        board.wait_for("tiny-1")
        with serial.Serial(board.device, 115_200) as port:
            port.write(b"\x03")
            said = len(board.wire.received)
            while b"tiny-1" not in board.wire.received[said:]:  # it went on
                time.sleep(0.01)
            assert ">>> " not in board.output
            port.write(b"\x03")
            time.sleep(0.1)
            port.write(b"\x03")
            board.wait_for(">>> ")


def test_a_host_that_takes_its_time_stops_it_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two Ctrl-C that it says together are one to the board, and its next round comes too late."""
    monkeypatch.setattr("gateway.flashing.console.STOP_AGAIN_S", 0.6)
    with sensor(tmp_path / "board") as board:
        board.start()
        board.wait_for("tiny-1")
        with Console(board.device) as console:
            console.stop()
            assert console.run("print(1)") == "1\n"


def test_an_octet_of_zero_while_it_starts_does_not_stop_it(tmp_path: Path) -> None:
    """The micro:bit takes one for Ctrl-C until it is told which byte that is."""
    with (
        sensor(tmp_path / "board") as board,
        serial.Serial(board.device, 115_200) as port,
    ):
        port.write(bytes(8))
        board.start()
        board.wait_for("tiny-1")


def test_what_goes_wrong_is_printed_and_the_board_starts_anew(tmp_path: Path) -> None:
    with sensor(tmp_path / "board", SENSOR="gone") as board:
        board.start()
        board.wait_for("(?s)AttributeError.*AttributeError", timeout_s=200)
