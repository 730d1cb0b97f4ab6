"""`tidegate simulate` against a real gateway with a real broker behind it."""

from __future__ import annotations

import asyncio
import json
import resource
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import aiomqtt
import pytest

from gateway.cli.sensors.air import Air
from gateway.cli.sensors.client_effects import Acknowledged
from gateway.cli.simulate import fleet as fleets
from gateway.cli.simulate.fleet import Fleet, SimulateError, allow_files
from gateway.cli.simulate.plan import Plan
from gateway.cli.simulate.tally import LATENCIES_MAX, Tally, quantile
from hil.rig.gateway import GatewayProcess
from hil.rig.mosquitto import Mosquitto
from tests.admin.eventually import eventually
from tests.cli.tidegate import REPOSITORY, environment_with, tidegate

DEADLINE_S = 40.0


@pytest.fixture
def broker() -> Iterator[Mosquitto]:
    with Mosquitto() as running:
        yield running


@pytest.fixture
def gateway(broker: Mosquitto, tmp_path: Path) -> Iterator[GatewayProcess]:
    with GatewayProcess(tmp_path, broker.url, '[log]\nlevel = "debug"\n') as running:
        running.wait_until_connected()
        yield running


def command(gateway: GatewayProcess, *arguments: str) -> list[str]:
    where = f"127.0.0.1:{gateway.port}"
    return [sys.executable, "-m", "gateway", "simulate", "--gateway", where, *arguments]


def simulated(gateway: GatewayProcess, words: str) -> Any:
    done = subprocess.run(
        [*command(gateway, *words.split()), "--json"],
        cwd=REPOSITORY,
        env=environment_with({}),
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


async def watched(broker: Mosquitto, gateway: GatewayProcess, words: str) -> tuple[Any, Any]:
    """The summary, and the payloads by topic of all that came to the broker meanwhile."""
    seen: dict[str, list[bytes]] = {}
    async with aiomqtt.Client("127.0.0.1", broker.port) as client:
        await client.subscribe("sim/+", qos=2)
        await client.subscribe("end", qos=2)
        summary = await asyncio.to_thread(simulated, gateway, words)
        await client.publish("end", qos=2)
        async for message in client.messages:
            if message.topic.value == "end":
                return summary, seen
            assert isinstance(message.payload, bytes)
            seen.setdefault(message.topic.value, []).append(message.payload)
    raise AssertionError("the broker went away")


def test_every_reading_that_was_acknowledged_is_at_the_broker(
    broker: Mosquitto, gateway: GatewayProcess
) -> None:
    words = "--sensors 6 --seconds 3 --interval 0.5 --qos 1,2 --payload 20"
    summary, seen = asyncio.run(watched(broker, gateway, words))
    assert summary["ok"] is True
    assert summary["connected"] == 6
    assert summary["acknowledged"] == summary["measured"] > 12
    assert 0 < summary["latency_p50_ms"] <= summary["latency_p99_ms"] <= summary["latency_max_ms"]
    assert sum(map(len, seen.values())) == summary["measured"]
    for number in range(1, 7):
        payloads = seen[f"sim/sim-{number}"]
        expected = [b"%d" % each for each in range(1, len(payloads) + 1)]
        assert payloads == [each.ljust(20, b".") for each in expected]


def keys_for(state: Path, names: str) -> Path:
    """As a user makes them: the devices' names, imported, and the file that `export` writes."""
    where = ("--set", f"gateway.state_dir={state}")
    done = tidegate("keys", "import", "-", *where, folder=state.parent, stdin=f"name\n{names}\n")
    assert done.returncode == 0, done.stderr
    exported = state.parent / "sims.csv"
    done = tidegate("keys", "export", "--output", str(exported), *where, folder=state.parent)
    assert done.returncode == 0, done.stderr
    return exported


def test_with_keys_each_packet_is_in_an_envelope(broker: Mosquitto, tmp_path: Path) -> None:
    """A gateway that takes no plain packet serves them, sleepers and copies as well."""
    (tmp_path / "state").mkdir(mode=0o700)
    file = keys_for(tmp_path / "state", "\n".join(f"sim-{number}" for number in range(1, 7)))
    with GatewayProcess(tmp_path, broker.url, "[protection]\nrequired = true\n") as gateway:
        gateway.wait_until_connected()
        words = "--sensors 6 --seconds 5 --interval 1 --sleep 1 --qos 1,2 --copies 5"
        summary, seen = asyncio.run(watched(broker, gateway, f"{words} --protect {file}"))
        assert summary["connected"] == 6
        assert summary["acknowledged"] == summary["measured"] > 12
        assert {f"sim/sim-{number}" for number in range(1, 7)} == seen.keys()
        plain = subprocess.run(
            command(gateway, "--sensors", "1", "--seconds", "11"),
            cwd=REPOSITORY,
            env=environment_with({}),
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
        )
        assert plain.returncode == 69, "without a key it is not heard"
        secret = file.read_text().splitlines()[1].split(",")[4]
        assert secret not in gateway.whole_log


def test_sensors_without_a_key_are_told_before_anything_is_sent(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir(mode=0o700)
    file = keys_for(tmp_path / "state", "sim-1\nsim-3")
    done = tidegate("simulate", "--sensors", "9", "--protect", str(file), folder=tmp_path)
    assert done.returncode == 2
    assert "has no key for 7 of 9 sensors" in done.stderr
    assert "`tidegate keys add NAME` (sim-2 sim-4 sim-5 ...)" in done.stderr
    file.write_text("name\nsim-1\n")
    done = tidegate("simulate", "--sensors", "1", "--protect", str(file), folder=tmp_path)
    assert (done.returncode, "has no keys in it" in done.stderr) == (2, True)
    done = tidegate("simulate", "--protect", "nothing.csv", folder=tmp_path)
    assert (done.returncode, "cannot be read" in done.stderr) == (2, True)


def test_sleepers_lose_nothing_on_a_bad_link(broker: Mosquitto, gateway: GatewayProcess) -> None:
    words = "--sensors 12 --seconds 8 --interval 2 --sleep 1 --qos 1 --payload 4"
    bad = " --loss 5 --copies 5 --keep-sessions"
    summary, seen = asyncio.run(watched(broker, gateway, words + bad))
    assert summary["datagrams_lost"] > 0
    assert summary["naps"] > 12, "they slept more than once"
    assert summary["acknowledged"] == summary["measured"]
    arrived = {(topic, payload) for topic, payloads in seen.items() for payload in payloads}
    assert len(arrived) == summary["measured"]


def test_a_command_reaches_a_sleeper_when_it_wakes(
    broker: Mosquitto, gateway: GatewayProcess
) -> None:
    async def story() -> Any:
        async with aiomqtt.Client("127.0.0.1", broker.port) as client:
            words = "--sensors 1 --seconds 4 --interval 60 --sleep 1 --qos 1"
            running = asyncio.create_task(asyncio.to_thread(simulated, gateway, words))
            await asyncio.to_thread(gateway.wait_for_log, "= asleep")
            await client.publish("sim/sim-1/set", b"30", qos=1)
            return await running

    summary = asyncio.run(story())
    assert summary["received"] == 1
    assert summary["measured"] == 2, "a command is answered with a reading"


def test_ctrl_c_ends_it_in_order(gateway: GatewayProcess) -> None:
    arguments = command(gateway, "--sensors", "20", "--seconds", "60", "--qos", "1")
    with subprocess.Popen(
        arguments,
        cwd=REPOSITORY,
        env=environment_with({}),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as running:
        assert running.stderr is not None
        assert "20 sensors" in running.stderr.readline()
        running.send_signal(signal.SIGINT)
        output, errors = running.communicate(timeout=DEADLINE_S)
    assert running.returncode == 0, errors
    assert "20 of 20 connected" in output
    assert "Traceback" not in errors


# What can be wrong


def test_what_is_not_acknowledged_is_a_failure() -> None:
    fleet = Fleet(Plan(sensors=3))
    fleet.tally.connected |= {"sim-1", "sim-2"}
    fleet.tally.dropped = 1
    assert fleet.problem() == "1 of 3 sensors never connected. 1 readings were dropped."


def test_readings_that_a_dead_gateway_left_open_are_told(
    gateway: GatewayProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleets, "SETTLE_S", 0.5)
    monkeypatch.setattr(fleets, "DISCONNECT_S", 0.5)
    fleet = Fleet(Plan(("127.0.0.1", gateway.port), 2, seconds=3.0, interval=0.5, qos=(1,)))

    async def story() -> None:
        running = asyncio.create_task(fleet.run())
        await eventually(lambda: fleet.tally.acknowledged >= 2, "two acknowledgements")
        await asyncio.to_thread(gateway.kill)
        await running

    asyncio.run(story())
    assert fleet.unacknowledged() > 0
    assert fleet.problem() == f"{fleet.unacknowledged()} readings were not acknowledged."


def test_where_nobody_answers_it_says_what_to_look_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleets, "CONNECT_S_MAX", 0.3)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.1", 0))
        fleet = Fleet(Plan(("127.0.0.1", silent.getsockname()[1]), 1))
        with pytest.raises(SimulateError, match=r"no sensor could connect to 127\.0\.0\.1:\d+"):
            asyncio.run(fleet.run())


def test_too_few_files_are_told_with_what_to_do(tmp_path: Path) -> None:
    limited = f"ulimit -n 200; exec {sys.executable} -m gateway simulate --sensors 1000"
    done = subprocess.run(
        ["sh", "-c", limited],
        cwd=tmp_path,
        env=environment_with({}),
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
    )
    assert (done.returncode, done.stdout) == (69, "")
    assert "only 200 files may be open: use --sensors 136" in done.stderr
    assert "`ulimit -n 1064`" in done.stderr


def test_the_limit_of_files_is_raised_as_far_as_it_goes() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
        allow_files(300)
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (300, hard)
        allow_files(100)
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (300, hard), "never lowered"
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--sensors", "0"], "'0' is not a whole number from 1 to 25000"),
        (["--sensors", "many"], "'many' is not a whole number"),
        (["--loss", "91"], "'91' is not a number from 0 to 90"),
        (["--seconds", "nan"], "'nan' is not a number from 0.1"),
        (["--qos", "3"], "'3' is not made of 0, 1 and 2"),
        (["--gateway", "10.0.0.5"], "'10.0.0.5' is no HOST:PORT"),
        (["--gateway", "h:70000"], "expected a port from 1 to 65535, got '70000'"),
        (["--name", "a/b"], "1 to 12 bytes, without / + and #"),
        (["--payload", "65001"], "is not a whole number from 0 to 65000"),
    ],
)
def test_a_wrong_argument_is_a_usage_error(arguments: list[str], said: str, tmp_path: Path) -> None:
    done = tidegate("simulate", *arguments, folder=tmp_path)
    assert done.returncode == 2
    assert said in done.stderr


# Counting


def test_quantiles_are_values_that_were_seen() -> None:
    assert quantile([], 0.5) is None
    assert quantile([1.0], 0.99) == 1.0
    ordered = [float(number) for number in range(100)]
    assert (quantile(ordered, 0.5), quantile(ordered, 0.99)) == (50.0, 99.0)


def test_of_many_latencies_a_bounded_number_is_kept() -> None:
    tally = Tally(Random(1))
    for number in range(LATENCIES_MAX + 1000):
        tally.on_event("sim-1", Acknowledged(b"", float(number)))
    assert len(tally.latencies_s) == LATENCIES_MAX
    assert max(tally.latencies_s) > LATENCIES_MAX - 1, "later ones have their place as well"
    assert tally.latency_s_max == LATENCIES_MAX + 999


def test_the_air_loses_and_copies_the_same_with_the_same_seed() -> None:
    def arrivals() -> list[int]:
        air = Air(Random(3), loss=0.2, copies=0.3)
        return [air.arrivals() for _ in range(1000)]

    assert arrivals() == arrivals()
    assert 150 < arrivals().count(0) < 250
    assert 190 < arrivals().count(2) < 290
    assert Air(Random(3)).arrivals() == 1
