"""Scenarios on boards without hardware: all promises hold; what is not there is said to be so."""

from __future__ import annotations

import asyncio
import dataclasses
import re
from pathlib import Path

import pytest

from hil.boards import inventory
from hil.boards.board import BoardSpec
from hil.boards.inventory import Listed
from hil.boards.registry import kinds
from hil.faults.lossy_proxy import Impairment
from hil.rig.campaign import Campaign, perform, seed_of
from hil.rig.gateway import GatewayProcess
from hil.rig.mosquitto import Mosquitto
from hil.rig.run import Outcome, Result
from hil.rig.stage import Elsewhere
from hil.scenarios import scenario
from hil.scenarios.scenario import Scenario
from tests.support.boards import require_board

BOARDS = inventory.read(inventory.DEFAULT)
SCENARIOS = {one.name: one for one in scenario.scenarios_in(scenario.FOLDER)}
QUICK = [one for one in SCENARIOS.values() if one.is_quick]


def campaign(folder: Path, *scenarios: Scenario, **others: object) -> Campaign:
    given: dict[str, object] = {"boards": BOARDS, "scenarios": scenarios, "seed": 20}
    return Campaign(**{**given, "folder": folder / "runs", **others})  # type: ignore[arg-type]


def one_board(board: str) -> list[Listed]:
    return [one for one in BOARDS if one.spec.id == board]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> list[Result]:
    """Of one quick scenario on every board, and of the others on one."""
    require_board()
    folder = tmp_path_factory.mktemp("hil")
    others = [one for one in QUICK if one is not SCENARIOS["calm"]]
    return [
        *asyncio.run(perform(campaign(folder, SCENARIOS["calm"]))),
        *asyncio.run(perform(campaign(folder, *others, boards=one_board("wasi-udp")))),
    ]


def test_quick_scenarios_pass(results: list[Result]) -> None:
    assert_none_failed(results)
    assert {result.scenario for result in results} == {one.name for one in QUICK}
    assert {result.board for result in results} == {one.spec.id for one in BOARDS}


@pytest.mark.soak
def test_quick_scenarios_pass_on_every_board_that_is_there(tmp_path: Path) -> None:
    require_board()
    results = asyncio.run(perform(campaign(tmp_path, *QUICK)))
    assert_none_failed(results)
    assert len(results) == len(QUICK) * len(BOARDS)


def assert_none_failed(results: list[Result]) -> None:
    failed = {
        (result.board, result.scenario): result.failures
        for result in results
        if result.outcome is Outcome.FAILED
    }
    assert failed == {}
    passed = {result.board for result in results if result.outcome is Outcome.PASSED}
    assert {"wasi-udp", "wasi-serial"} <= passed


def test_runs_measure_what_the_report_shows(results: list[Result]) -> None:
    passed = [result for result in results if result.outcome is Outcome.PASSED]
    for result in passed:
        numbers = result.numbers
        assert 0 < numbers["latency_p50_ms"] <= numbers["latency_max_ms"]
        assert 0 < numbers["awake_ms_per_reading"] < 5_000
        assert 10 < numbers["octets_up_per_reading"] < 1_000
        assert re.fullmatch("[0-9a-f]{16}", result.firmware)
    for board in {result.board for result in passed}:
        # A small board may have no room left in which to be asked; the report has the most of all.
        heaps = [result.numbers for result in passed if result.board == board]
        used, size = (max(each[name] for each in heaps) for name in ("heap_used", "heap_size"))
        assert 0 < used < size


def test_a_board_that_is_not_there_is_not_run_and_fails_if_it_is_required(tmp_path: Path) -> None:
    spec = BoardSpec(
        "esp", "esp32", "udp", "node", port=str(tmp_path / "tty"), capabilities=frozenset()
    )
    board = Listed(spec, kinds()["esp32"])
    given = campaign(tmp_path, SCENARIOS["calm"], boards=[board])
    (result,) = asyncio.run(perform(given))
    why = f"there is no {tmp_path / 'tty'}: is it plugged in?"
    assert (result.outcome, result.why) == (Outcome.NOT_RUN, why)
    (result,) = asyncio.run(perform(dataclasses.replace(given, required=frozenset({"esp"}))))
    assert result.outcome is Outcome.FAILED
    assert result.failures == [f"required, and not there: {why}"]


def test_a_scenario_that_asks_for_what_a_board_cannot_do_is_not_for_it(tmp_path: Path) -> None:
    microbit = campaign(tmp_path, SCENARIOS["soft_reset"], boards=one_board("microbit-qemu"))
    if microbit.boards[0].why_not is not None:
        pytest.skip(f"not run, no micro:bit: {microbit.boards[0].why_not}")
    (result,) = asyncio.run(perform(microbit))
    assert (result.outcome, result.why) == (Outcome.NOT_FOR, "it lacks soft_reset")


def test_a_clock_is_set_only_where_it_can_be(tmp_path: Path) -> None:
    require_board()
    command = ("tidegate",)
    boards = one_board("wasi-udp")
    given = campaign(tmp_path, SCENARIOS["clock_jump"], boards=boards, gateway_command=command)
    (result,) = asyncio.run(perform(given))
    assert result.outcome is Outcome.NOT_FOR
    assert result.why.startswith("the gateway's clock cannot be set")


def test_a_run_alone_has_the_same_seed_as_among_others(tmp_path: Path) -> None:
    alone = campaign(tmp_path, SCENARIOS["calm"], boards=one_board("wasi-udp"))
    among = campaign(tmp_path, *SCENARIOS.values())
    (board,) = one_board("wasi-udp")
    calm = SCENARIOS["calm"]
    assert seed_of(alone, board, calm) == seed_of(among, board, calm)
    assert seed_of(alone, board, calm) != seed_of(among, board, SCENARIOS["loss"])


def test_our_firmware_runs_against_a_gateway_given_by_address(tmp_path: Path) -> None:
    require_board()
    with Mosquitto() as broker, GatewayProcess(tmp_path, broker.url) as gateway:
        gateway.wait_until_connected()
        given = campaign(
            tmp_path,
            dataclasses.replace(SCENARIOS["loss"], readings=8),
            SCENARIOS["broker_kill"],
            boards=[*one_board("wasi-udp"), *one_board("wasi-serial")],
            elsewhere=Elsewhere(("127.0.0.1", gateway.port), ("127.0.0.1", broker.port)),
        )
        results = asyncio.run(perform(given))
    told = {(result.board, result.scenario): (result.outcome, result.why) for result in results}
    assert told == {
        ("wasi-udp", "loss"): (Outcome.PASSED, ""),
        ("wasi-udp", "broker_kill"): (Outcome.NOT_FOR, "gateway and broker are not ours"),
        ("wasi-serial", "loss"): (Outcome.NOT_FOR, "the gateway is not at this line"),
        ("wasi-serial", "broker_kill"): (Outcome.NOT_FOR, "gateway and broker are not ours"),
    }


def test_another_client_passes_in_the_place_of_our_firmware(tmp_path: Path) -> None:
    require_board()
    boards = inventory.read(inventory.DEFAULT.with_name("interop.toml"))
    names = ("loss", "retained", "power_cut")
    given = campaign(
        tmp_path,
        *(dataclasses.replace(SCENARIOS[name], readings=8) for name in names),
        boards=[board for board in boards if board.spec.kind == "python"],
    )
    results = asyncio.run(perform(given))
    assert [result.failures for result in results] == [[], [], []]
    assert {result.outcome for result in results} == {Outcome.PASSED}


def test_a_fault_that_does_nothing_fails(tmp_path: Path) -> None:
    """No reading is so long."""
    require_board()
    (event,) = SCENARIOS["narrow"].events
    wide = dataclasses.replace(event, for_s=0.5, udp=Impairment(0.0, 0.0, 0.0, mtu=500))
    nothing = dataclasses.replace(
        SCENARIOS["narrow"], readings=3, udp=Impairment(0.0, 0.0, 0.0, mtu=400), events=(wide,)
    )
    (result,) = asyncio.run(perform(campaign(tmp_path, nothing, boards=one_board("wasi-udp"))))
    assert result.failures == [
        "the air did nothing: nothing was too long",
        "air.weather did nothing: nothing was too long",
    ]


SPEECHLESS_S = 15.0  # time for its last words on a slow machine


def test_a_board_that_never_speaks_fails_with_its_last_words(tmp_path: Path) -> None:
    """It has too little memory for its program."""
    require_board()
    (board,) = one_board("wasi-udp")
    small = dataclasses.replace(board, spec=dataclasses.replace(board.spec, heap="24k"))
    calm = dataclasses.replace(SCENARIOS["calm"], limit_s=SPEECHLESS_S)
    (result,) = asyncio.run(perform(campaign(tmp_path, calm, boards=[small])))
    assert result.outcome is Outcome.FAILED
    assert f"0 of 20 readings arrived within {SPEECHLESS_S:g} s" in result.failures[0]
    assert "MemoryError" in result.failures[1]
    assert Path(result.folder, "board", "console.log").exists()
