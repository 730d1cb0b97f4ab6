"""The load generator against gateways that do wrong: what it does not find, no benchmark will.

Under `make soak` only: it needs gcc, which `make test` does not ask for.
"""

from pathlib import Path

import pytest

from hil.rig.mosquitto import Mosquitto
from tests.bench import generator
from tests.bench.faulty_gateway import Fault, FaultyGateway
from tests.bench.measurement import Faults, Measurement, MeasurementError

pytestmark = pytest.mark.soak
TIMEOUT_S = 60.0


@pytest.fixture(scope="module")
def load(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return generator.build(tmp_path_factory.mktemp("build"))


UP = ("pub", "--qos", "1")


def measured_through(
    load: Path, fault: Fault, every: int, clients: int = 10, mode: tuple[str, ...] = UP
) -> tuple[Measurement, int]:
    """What the generator found, and how often the gateway did wrong."""
    with Mosquitto() as broker, FaultyGateway(broker.port, fault, every) as gateway:
        output = generator.run(
            load,
            [
                *mode,
                "--clients",
                str(clients),
                "--seconds",
                "0.5",
                "--port",
                str(gateway.port),
                "--broker-port",
                str(broker.port),
                "--broker-pid",
                str(broker.pid),
            ],
            TIMEOUT_S,
        )
        return Measurement.from_output(output), gateway.done_wrong


@pytest.mark.parametrize(
    "mode",
    [
        *(("pub", "--qos", qos, "--window", "20") for qos in ("0", "1", "2")),
        ("pub", "--qos", "-1", "--window", "20", "--topic", "short:ab"),
        ("pub", "--qos", "0", "--rate", "500"),
        ("pub", "--qos", "1", "--rate", "500"),
        ("pub", "--qos", "1", "--rate", "1000000"),
        ("pub", "--qos", "1", "--rate", "500", "--burst", "10"),
        *(("sub", "--qos", qos, "--window", "10") for qos in ("0", "1", "2")),
        *(("sub", "--qos", qos, "--window", "10", "--topic", "shared") for qos in ("0", "1", "2")),
    ],
    ids=" ".join,
)
def test_an_honest_gateway_is_found_honest(load: Path, mode: tuple[str, ...]) -> None:
    found, _ = measured_through(load, Fault.NONE, every=1, mode=mode)
    assert found.figures.rate_per_s is not None
    assert found.figures.rate_per_s > 100
    assert found.figures.broker_cpu_us is not None
    assert found.figures.broker_cpu_us > 0
    # Of the whole machine: another program may have dropped datagrams.
    errors = found.faults.udp_receive_buffer_errors
    assert found.faults == Faults(udp_receive_buffer_errors=errors)


def test_a_message_that_is_acknowledged_and_dropped_is_lost(load: Path) -> None:
    found, done_wrong = measured_through(load, Fault.DROP, every=7)
    assert done_wrong > 0
    assert found.faults.lost == done_wrong
    assert found.faults.lost_acknowledged == done_wrong


def test_a_message_that_is_sent_twice_is_a_duplicate(load: Path) -> None:
    found, done_wrong = measured_through(load, Fault.REPEAT, every=7)
    assert done_wrong > 0
    assert found.faults.duplicates == done_wrong
    assert found.faults.lost == 0
    assert found.faults.out_of_order == 0


def test_a_message_that_its_successor_overtakes_is_out_of_order(load: Path) -> None:
    found, done_wrong = measured_through(load, Fault.SWAP, every=7)
    assert done_wrong > 0
    assert found.faults.out_of_order == done_wrong
    assert found.faults.lost == 0
    assert found.faults.duplicates == 0


def test_a_delivery_that_is_dropped_is_lost(load: Path) -> None:
    mode = ("sub", "--qos", "1", "--window", "10")
    found, done_wrong = measured_through(load, Fault.DROP, every=7, mode=mode)
    assert found.faults.lost > 0
    # One of what it dropped may have been of the warm-up.
    assert done_wrong - 2 <= found.faults.lost <= done_wrong


WAKE = ("wake", "--qos", "1", "--sleep", "60", "--rounds", "3", "--hold", "0.2")


def test_sleepers_of_an_honest_gateway_have_their_messages_when_they_wake(load: Path) -> None:
    found, _ = measured_through(load, Fault.NONE, every=1, mode=WAKE)
    assert found.figures.wake_s is not None
    assert 0 < found.figures.wake_s < TIMEOUT_S
    errors = found.faults.udp_receive_buffer_errors
    assert found.faults == Faults(udp_receive_buffer_errors=errors)


def test_a_message_that_a_sleeper_does_not_find_is_lost(load: Path) -> None:
    found, done_wrong = measured_through(load, Fault.DROP, every=7, mode=WAKE)
    # Some of what it dropped were of the warm-up, which is said again.
    assert 0 < found.faults.lost <= done_wrong
    assert found.faults.early == 0


def test_a_message_that_comes_to_a_sleeper_is_early(load: Path) -> None:
    found, done_wrong = measured_through(load, Fault.HASTE, every=7, mode=WAKE)
    # Some came in the warm-up, to somebody who was awake.
    assert 0 < found.faults.early <= done_wrong
    assert found.faults.lost == 0


def test_a_repeated_delivery_is_a_duplicate_at_qos_1_and_none_at_qos_2(load: Path) -> None:
    """At QoS 2 a client tells a repetition by its message id; the generator is such a client."""
    for qos, expected in (("1", True), ("2", False)):
        mode = ("sub", "--qos", qos, "--window", "10")
        found, done_wrong = measured_through(load, Fault.REPEAT, every=7, mode=mode)
        assert done_wrong > 0
        assert (found.faults.duplicates > 0) is expected
        assert found.faults.lost == 0


def test_a_delay_of_42_ms_is_a_step_near_40_ms(load: Path) -> None:
    found, done_wrong = measured_through(load, Fault.DELAY, every=4, clients=1)
    assert done_wrong > 0
    assert found.figures.share_near_40ms == pytest.approx(0.25, abs=0.1)


def test_every_mode_without_a_gateway_gives_figures(load: Path) -> None:
    with Mosquitto() as broker:
        where = ["--broker-port", str(broker.port), "--broker-pid", str(broker.pid)]
        for version in ("3", "5"):
            direct = ["direct", "--qos", "1", "--seconds", "0.3", "--mqtt-version", version]
            found = Measurement.from_output(generator.run(load, [*direct, *where], TIMEOUT_S))
            assert found.figures.broker_cpu_us is not None
            assert found.faults.lost == 0
    echo = Measurement.from_output(generator.run(load, ["echo", "--seconds", "0.3"], TIMEOUT_S))
    assert echo.figures.rate_per_s is not None
    assert echo.figures.rate_per_s > 0


def test_a_gateway_that_passes_nothing_on_ends_the_run_with_the_reason(load: Path) -> None:
    with Mosquitto() as broker:
        arguments = ["pub", "--broker-port", str(broker.port), "--connect-timeout", "0.2"]
        with pytest.raises(MeasurementError, match="no client could connect"):
            generator.run(load, arguments, TIMEOUT_S)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "expected one mode"),
        (["fly"], "unknown mode: fly"),
        (["pub", "--qos", "3"], "expected a number from -1 to 2, got: 3"),
        (["pub", "--clients", "1.5"], "expected a whole number, got: 1.5"),
        (["pub", "--topic", "mine"], "expected own, shared, predefined:ID or short:ab"),
        (["pub", "--qos", "-1"], "QoS -1 needs --topic"),
        (["pub", "--no-such-option"], "unrecognized option"),
    ],
)
def test_a_wrong_command_line_is_told(load: Path, arguments: list[str], said: str) -> None:
    with pytest.raises(MeasurementError, match=said):
        generator.run(load, arguments, TIMEOUT_S)
