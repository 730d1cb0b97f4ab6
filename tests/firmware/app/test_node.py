"""The node on CPython, on a flash that tears what the power cuts, at the real gateway.

On real MicroPython the power goes at any instruction (test_power_cuts_on_board.py), but there the
file system is this machine's. Here it is LittleFS or FAT, and the power goes at any operation.
"""

from __future__ import annotations

import asyncio
import errno
import random
import re
from pathlib import Path
from typing import Any

import pytest

from firmware.app.given import settings_of
from firmware.app.kept import Kept
from firmware.app.log import Log
from firmware.app.node import SAFE_SLEEP_MS, SKIP_MAX, Node
from firmware.loader.slots import Slots
from gateway.cli.sensors import senml
from gateway.frames import Publish, decode
from hil.faults.lossy_proxy import CALM, Impairment, lossy_proxy
from hil.rig.gateway import GatewayProcess
from hil.rig.mosquitto import Mosquitto
from tests.firmware.app.conftest import FlashMaker, settings
from tests.firmware.app.fragile_flash import FragileFlash, PowerCutError
from tests.firmware.app.listener import Listener
from tests.firmware.app.simulated_board import SimulatedBoard
from tests.firmware.app.simulated_flash import SimulatedFlash
from tests.firmware.app.tap import Tap
from tests.firmware.app.timekeeper import Timekeeper

CHECKED = {"kind": "tests.firmware.app.checked_sensor"}


class Bench:
    """A node whose power may go, and what its console said."""

    def __init__(
        self, name: str, port: int, flash: FragileFlash | None = None, **others: Any
    ) -> None:
        self.flash = flash or SimulatedFlash()
        self.given = settings(name, port, **{"sensors": [CHECKED], "log_level": 7, **others})
        self.board = SimulatedBoard(port, self.given["local_port"])
        self.lines: list[str] = []
        self.is_safe = False
        self.restarts = False

    def wake(self) -> int:
        slots = Slots(self.flash)
        self.is_safe = slots.booted(is_wake=bool(self.board.rtc_memory))
        told = settings_of(self.given, {})
        assert told.problems == []
        log = Log(told.log_level, self.lines.append)
        node = Node(self.board, self.flash, slots, told, log, {}, self.is_safe)
        pause_ms = node.wake()
        self.restarts = node.restarts
        return pause_ms

    def stored(self) -> set[int]:
        return {int(each) for each in re.findall(r"stored (\d+)", "\n".join(self.lines))}

    def kept(self) -> Kept:
        kept = Kept()
        assert kept.put_back(self.board.rtc_memory)
        return kept


def test_no_reading_is_lost_or_corrupt_whatever_the_power_tears(
    new_flash: FlashMaker,
    gateway: GatewayProcess,
    timekeeper: Timekeeper,
    listener: Listener,
    name: str,
) -> None:
    dice = random.Random(3)
    bench = Bench(name, gateway.port, new_flash(3), listen_every=100)
    cuts = usual = 0
    for _ in range(60):
        bench.flash.cut_in(dice.randrange(usual + 1))
        before = bench.flash.operations
        try:
            bench.wake()
            usual = bench.flash.operations - before
        except PowerCutError:
            cuts += 1
            bench.board.power_cut()
            bench.flash.restart()
            bench.wake()
    bench.flash.restart()
    while "sent" not in bench.lines[-1]:
        bench.wake()
    listener.wait_for(lambda: bench.stored() <= listener.readings().keys())
    assert cuts > 15
    assert len(bench.stored()) >= 60
    for pack in listener.readings().values():
        x = pack.value("x")
        assert x is not None
        assert pack.value("check") == x * 7919 % 10007


def test_without_a_network_it_tries_less_and_less_and_stores_everything(
    gateway: GatewayProcess, timekeeper: Timekeeper, listener: Listener, name: str
) -> None:
    bench = Bench(name, gateway.port)
    bench.board.has_network = False
    tried = []
    for wake in range(1, 40):
        before = bench.board.joined
        bench.wake()
        if bench.board.joined > before:
            tried.append(wake)
    assert tried == [1, 3, 7, 15, 31]
    assert bench.board.left == len(tried)
    assert bench.stored() == set(range(1, 40))
    bench.board.has_network = True
    while bench.kept().silent:
        bench.wake()
    listener.wait_for(lambda: bench.stored() <= listener.readings().keys())
    assert bench.kept().skip == 0


def test_the_pauses_of_one_that_nobody_hears_have_an_end(name: str) -> None:
    bench = Bench(name, 9)
    bench.board.has_network = False
    for _ in range(300):
        bench.wake()
    assert bench.kept().skip <= SKIP_MAX
    assert bench.board.joined >= 6


def test_the_pause_is_the_interval_without_the_time_awake(
    gateway: GatewayProcess, name: str, timekeeper: Timekeeper
) -> None:
    bench = Bench(name, gateway.port)
    assert 50_000 < bench.wake() <= 60_000


def test_a_flash_that_takes_nothing_sends_from_memory_and_says_so(
    gateway: GatewayProcess, timekeeper: Timekeeper, listener: Listener, name: str
) -> None:
    flash = SimulatedFlash()
    Slots(flash).booted(is_wake=False)
    bench = Bench(name, gateway.port, flash)
    bench.wake()

    def full(path: str, content: bytes, *, grown: int) -> None:
        raise OSError(errno.EIO, path)

    flash.land = full  # type: ignore[method-assign]
    bench.wake()
    listener.wait_for(lambda: 0 in listener.readings())
    assert any(line.startswith("E flash: ") for line in bench.lines)


def test_three_died_boots_lead_to_safe_mode_which_tells_why_and_one_cycle_later_it_is_back(
    gateway: GatewayProcess, timekeeper: Timekeeper, listener: Listener, name: str
) -> None:
    bench = Bench(name, gateway.port)
    for _ in range(3):
        Slots(bench.flash).booted(is_wake=False)
    with bench.flash.open("/crash.txt", "wb") as file:
        file.write(b"Traceback:\nValueError: pin 99\n")
    assert bench.wake() == SAFE_SLEEP_MS
    assert bench.is_safe
    assert bench.stored() == set()
    listener.wait_for(lambda: bool(listener.states()))
    state = listener.states()[-1]
    assert (state["mode"], state["trouble"]) == ("safe", ["ValueError: pin 99"])
    bench.wake()
    assert not bench.is_safe
    listener.wait_for(lambda: listener.states()[-1]["mode"] == "normal")
    assert bench.stored() == {1}


def test_many_values_are_sent_as_several_readings(
    gateway: GatewayProcess, timekeeper: Timekeeper, listener: Listener, name: str
) -> None:
    names = [f"a long name of a sensor {number:02}" for number in range(20)]
    sensors = [{"kind": "adc", "pin": 1, "name": name} for name in names]
    bench = Bench(name, gateway.port, sensors=sensors)
    bench.wake()
    listener.wait_for(lambda: bench.stored() <= listener.readings().keys())
    assert len(bench.stored()) > 2
    found = [each.name for pack in listener.readings().values() for each in pack.measurements]
    assert sorted(name for name in found if name != "seq") == names


def test_a_change_of_at_least_the_threshold_is_sent_and_any_after_report_s(
    gateway: GatewayProcess, name: str, timekeeper: Timekeeper
) -> None:
    bench = Bench(
        name,
        gateway.port,
        thresholds={"battery": 0.1},
        sensors=[{"kind": "adc", "pin": 1, "name": "battery"}],
    )
    volts = [(1.5, 1), (1.55, 1), (1.59, 1), (1.6, 2), (1.65, 2), (1.5, 3)]
    for value, wanted in volts:
        bench.board.adc = lambda pin, value=value: lambda: int(value * 1e6)  # type: ignore[assignment,misc,method-assign]
        bench.wake()
        assert len(bench.stored()) == wanted, value
    bench.given["report_s"] = 0
    bench.wake()
    assert len(bench.stored()) == 4


def test_a_broken_driver_costs_its_own_values_only(
    gateway: GatewayProcess, timekeeper: Timekeeper, listener: Listener, name: str
) -> None:
    broken: list[Any] = [{"kind": "adc"}, 5, {"kind": "no.such.module", "name": "rain"}, CHECKED]
    bench = Bench(name, gateway.port, sensors=broken)
    bench.wake()
    listener.wait_for(lambda: 1 in listener.readings())
    assert [line for line in bench.lines if line.startswith("E")] == [
        "E sensor adc: KeyError('pin')",
        "E sensor 5: TypeError(\"'int' object is not subscriptable\")",
        "E sensor rain: ModuleNotFoundError(\"No module named 'no'\")",
    ]


def test_a_reading_that_the_gateway_refuses_stays_and_the_state_says_so(
    tmp_path: Path, broker: Mosquitto, listener: Listener, name: str, timekeeper: Timekeeper
) -> None:
    sensors = [{"kind": "adc", "pin": 1, "name": "x" * 340}]  # its state is shorter
    with GatewayProcess(tmp_path, broker.url, "[limits]\npayload_bytes_max = 360\n") as refusing:
        refusing.wait_until_connected()
        bench = Bench(name, refusing.port, sensors=sensors)
        bench.wake()
    listener.wait_for(lambda: bool(listener.states()))
    assert listener.states()[-1]["trouble"] == [f"the gateway refuses {listener.topic}: -3"]
    assert listener.states()[-1]["waiting"] == 1
    assert bench.kept().trying == 0


def test_a_state_that_the_gateway_refuses_keeps_nothing_else_from_it(
    tmp_path: Path, broker: Mosquitto, listener: Listener, name: str, timekeeper: Timekeeper
) -> None:
    with GatewayProcess(tmp_path, broker.url, "[limits]\npayload_bytes_max = 200\n") as refusing:
        refusing.wait_until_connected()
        bench = Bench(name, refusing.port)
        for _ in range(2):
            bench.wake()
    assert bench.lines.count("E the gateway refuses the state: -3") == 1
    listener.wait_for(lambda: bench.stored() <= listener.readings().keys())


def test_what_the_board_kept_is_taken_from_it_while_the_node_talks(
    gateway: GatewayProcess, name: str, timekeeper: Timekeeper
) -> None:
    bench = Bench(name, gateway.port)
    bench.wake()
    seen = []
    bench.board.join = lambda watch: seen.append(bench.board.rtc_memory)  # type: ignore[method-assign]
    bench.wake()
    assert seen == [b""]
    assert bench.board.rtc_memory != b""


def test_a_port_that_is_taken_is_an_error_that_the_next_wake_has_forgotten(
    gateway: GatewayProcess, timekeeper: Timekeeper, listener: Listener, name: str
) -> None:
    bench = Bench(name, gateway.port)
    taken = SimulatedBoard(gateway.port, bench.given["local_port"]).transport()
    taken.receive(bytearray(8), 0)
    bench.wake()
    assert bench.lines[-1].startswith("W send: ")
    taken.close()
    bench.wake()
    bench.wake()
    listener.wait_for(lambda: bench.stored() <= listener.readings().keys())


class Unheard:
    """A node whose second reading the gateway took, and whose wake ended without an answer."""

    def __init__(self, tap: Tap, name: str) -> None:
        self.tap = tap
        self.at = 1000
        self.bench = Bench(name, tap.port, retry_ms=60, listen_every=100)
        self.bench.board.seconds = lambda: self.at  # type: ignore[method-assign]
        self.bench.wake()
        tap.is_mute = True
        self.bench.wake()
        tap.is_mute = False

    def wake(self) -> None:
        self.bench.wake()  # which says nothing, after one in which nobody answered
        self.tap.clear()
        self.bench.wake()

    def said(self) -> list[Publish]:
        """All in the last wake that was heard, or in those before it."""
        return [frame for frame in map(decode, self.tap.up) if isinstance(frame, Publish)]


def test_a_reading_with_a_date_is_said_again_as_the_same_and_arrives_once(
    tap: Tap, timekeeper: Timekeeper, listener: Listener, name: str
) -> None:
    unheard = Unheard(tap, name)
    unheard.at += 90
    unheard.wake()
    assert unheard.said()[0].dup
    listener.wait_for(lambda: 4 in listener.readings())
    assert len(listener.on(listener.topic)) == 4


def test_a_reading_with_another_age_is_said_as_another_of_the_same_number_and_moment(
    tap: Tap, listener: Listener, name: str
) -> None:
    unheard = Unheard(tap, name)
    before = unheard.said()[-1]
    unheard.at += 90
    unheard.wake()
    after = unheard.said()[0]
    assert (before.dup, after.dup) == (True, False)
    assert after.message_id != before.message_id
    listener.wait_for(lambda: 4 in listener.readings())
    packs = [senml.decode(payload) for payload in listener.on(listener.topic)]
    assert [pack.value("seq") for pack in packs] == [1, 2, 2, 3, 4]
    assert [pack.time_s for pack in packs[1:3]] == [0, -90]


@pytest.mark.parametrize("seed", [1, 2])
def test_over_a_network_that_loses_copies_and_reorders_every_reading_arrives_as_it_was(
    gateway: GatewayProcess, timekeeper: Timekeeper, listener: Listener, name: str, seed: int
) -> None:
    async def inner() -> Bench:
        impairment = Impairment(loss=0.2, copies=0.1, delayed=0.2, delay_s_max=0.05)
        async with lossy_proxy(gateway.port, seed, impairment) as proxy:
            bench = Bench(name, proxy.port, retry_ms=60, listen_every=3, budget_s=5)
            for _ in range(40):
                await asyncio.to_thread(bench.wake)
            proxy.impairment = CALM
            while "sent" not in bench.lines[-1]:
                await asyncio.to_thread(bench.wake)
            assert min(proxy.fault_counts[fault] for fault in ("lost", "copied", "delayed")) > 0
        return bench

    bench = asyncio.run(inner())
    listener.wait_for(lambda: bench.stored() <= listener.readings().keys())
    assert len(bench.stored()) >= 40
    for pack in listener.readings().values():
        x = pack.value("x")
        assert x is not None
        assert pack.value("check") == x * 7919 % 10007
