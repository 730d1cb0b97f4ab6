"""A bad network, a gateway that is killed again and again, a broker that ends and returns.

Everything is a process of its own but the sensors, the network and the witness. The broker is
behind a proxy, which opens only when the witness is there again: what the broker took without a
witness could not be told from what was lost.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from hil.faults.cutting_proxy import CuttingProxy, cutting_proxy
from hil.faults.lossy_proxy import Impairment, LossyProxy, lossy_proxy
from hil.rig.gateway import GatewayProcess
from hil.rig.mosquitto import Mosquitto
from hil.rig.witness import Witness, witnessing
from tests.end_to_end.on_air import assert_untroubled
from tests.end_to_end.verdict import Verdict, verdict
from tests.support.patient_sensor import PatientSensor, Reading, patient_sensor

# What the documentation recommends to operators.
PERSISTENCE = (
    "persistence true",
    "autosave_interval 1",
    "autosave_on_changes true",
    "max_queued_messages 0",
    "max_inflight_messages 1000",
)
SETTLE_TIMEOUT_S = 200.0
TOPICS_PER_SENSOR = 2
LISTENS_SHARE = 0.8


def seed_of_this_run() -> int:
    return int.from_bytes(os.urandom(4), "big")


@dataclass(frozen=True, slots=True)
class Plan:
    """One run. Half of the sensors send at QoS 1, half at QoS 2, each one reading at a time."""

    seed: int
    readings: int
    acknowledge: str = "auto"
    broker_config: tuple[str, ...] = PERSISTENCE
    sensors: int = 20
    impairment: Impairment = field(default_factory=Impairment)
    kill_gateway_after_s: tuple[float, float] = (0.5, 2.0)
    end_broker_after_s: tuple[float, float] = (3.0, 6.0)
    broker_away_s: tuple[float, float] = (0.1, 1.5)
    move_sensor_after_s: tuple[float, float] = (0.5, 1.5)


@dataclass(slots=True)
class Outcome:
    plan: Plan
    verdict: Verdict
    ends: Counter[str]
    fault_counts: Counter[str]
    sensors: Counter[str]
    seconds: float

    def __str__(self) -> str:
        told = {**self.ends, **self.fault_counts, **self.sensors}
        counts = ", ".join(f"{count} {name}" for name, count in sorted(told.items()))
        return f"seed {self.plan.seed}: {self.verdict}; {counts}; {self.seconds:.1f} s"


async def start_again(gateway: GatewayProcess, dice: random.Random) -> None:
    """Mostly until it listens: on a busy machine a start takes longer than the time between kills,
    and one that is killed in each start serves no sensor. A few times it is killed there too.
    """
    gateway.start()
    if dice.random() < LISTENS_SHARE:
        await asyncio.to_thread(lambda: gateway.port)


class Chaos:
    """Everything that runs during one plan, and what happened to it."""

    def __init__(
        self,
        plan: Plan,
        gateway: GatewayProcess,
        broker: Mosquitto,
        proxy: CuttingProxy,
        witness: Witness,
    ) -> None:
        self.ends: Counter[str] = Counter()
        self.kills: list[float] = []
        self._plan = plan
        self._dice = random.Random(plan.seed)
        self._gateway = gateway
        self._broker = broker
        self._proxy = proxy
        self._witness = witness
        self._outage: asyncio.Task[None] | None = None

    async def kill_gateway(self) -> None:
        while True:
            await asyncio.sleep(self._dice.uniform(*self._plan.kill_gateway_after_s))
            self.kills.append(time.monotonic())
            self._gateway.kill()
            assert_untroubled(self._gateway)
            await start_again(self._gateway, self._dice)
            self.ends["gateway killed"] += 1

    async def end_broker(self) -> None:
        """In turn asked to end and killed."""
        for name, end in itertools.cycle((("stopped", Mosquitto.stop), ("killed", Mosquitto.kill))):
            await asyncio.sleep(self._dice.uniform(*self._plan.end_broker_after_s))
            self._outage = asyncio.create_task(self._send_away(end), name="outage")
            # Begun it must end, or the broker would stay away for good.
            await asyncio.shield(self._outage)
            self.ends[f"broker {name}"] += 1

    async def _send_away(self, end: Callable[[Mosquitto], None]) -> None:
        await asyncio.to_thread(end, self._broker)
        await self._proxy.shut()
        self._witness.ready.clear()
        await asyncio.sleep(self._dice.uniform(*self._plan.broker_away_s))
        await asyncio.to_thread(self._broker.start)
        await self._witness.ready.wait()
        await self._proxy.open()

    async def calm_down(self) -> None:
        """The last outage is over."""
        if self._outage is not None:
            await self._outage

    async def move_sensors(self, proxy: LossyProxy, sensors: list[PatientSensor]) -> None:
        """A sensor whose address is new to the gateway is told so, and connects again."""
        while True:
            await asyncio.sleep(self._dice.uniform(*self._plan.move_sensor_after_s))
            await proxy.move(self._dice.choice(sensors).address)
            self.ends["sensor moved"] += 1

    async def send(self, number: int, sensor: PatientSensor) -> None:
        qos = 1 + number % 2
        for count in range(self._plan.readings // self._plan.sensors):
            topic = f"chaos/{number}/{count % TOPICS_PER_SENSOR}"
            await sensor.publish(topic, b"%d/%d" % (number, count), qos)

    def excused(self, reading: Reading, proxy: LossyProxy) -> bool:
        """Whether it may come twice, each time under a tag of its own."""
        killed = any(reading.sent_at < kill < reading.acknowledged_at for kill in self.kills)
        match self._plan.acknowledge:
            case "journal":
                may_be_forgotten = False
            case "auto":
                may_be_forgotten = killed and reading.qos == 1
            case _:
                may_be_forgotten = killed
        first = reading.first_frame
        is_copied = reading.qos == 1 and proxy.copied_up[first] > 0
        is_late = reading.qos == 1 and proxy.arrived_after(first, reading.repeated_frame)
        return is_copied or is_late or may_be_forgotten


@asynccontextmanager
async def doing(*disturbances: Coroutine[None, None, None]) -> AsyncIterator[None]:
    """Runs all of them meanwhile; one that fails fails the whole."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(each) for each in disturbances]
        yield
        for task in tasks:
            task.cancel()


async def run(plan: Plan, folder: Path) -> Outcome:
    began = time.monotonic()
    broker_folder = folder / "broker"
    broker_folder.mkdir()
    with Mosquitto(plan.broker_config, folder=broker_folder) as broker:
        async with (
            cutting_proxy(broker.port, plan.seed) as proxy,
            witnessing(broker.port, "chaos/#") as witness,
        ):
            config = (
                "reconnect_delay_s_min = 0.05\n"
                f'[journal]\nacknowledge = "{plan.acknowledge}"\n'
                "[limits]\ndisconnects_per_s_max = 1000\n"
            )
            with GatewayProcess(folder, f"mqtt://127.0.0.1:{proxy.port}", config) as gateway:
                chaos = Chaos(plan, gateway, broker, proxy, witness)
                outcome = await _run_sensors(chaos, plan, gateway, witness)
                gateway.kill()
                assert_untroubled(gateway)
    outcome.seconds = time.monotonic() - began
    return outcome


async def _run_sensors(
    chaos: Chaos, plan: Plan, gateway: GatewayProcess, witness: Witness
) -> Outcome:
    port = await asyncio.to_thread(lambda: gateway.port)
    async with (
        lossy_proxy(port, plan.seed, plan.impairment) as proxy,
        sensors_at(proxy.port, plan.sensors) as sensors,
    ):
        trouble = (chaos.kill_gateway(), chaos.end_broker(), chaos.move_sensors(proxy, sensors))
        async with doing(*trouble), asyncio.TaskGroup() as sending:
            for number, sensor in enumerate(sensors):
                sending.create_task(chaos.send(number, sensor))
        await chaos.calm_down()
        readings = [reading for sensor in sensors for reading in sensor.acknowledged]
        acknowledged = {reading.payload for reading in readings}
        await witness.until(lambda: acknowledged <= witness.payloads, SETTLE_TIMEOUT_S)
        excused = {each.payload for each in readings if chaos.excused(each, proxy)}
        return Outcome(
            plan,
            verdict(readings, witness.seen, excused),
            chaos.ends,
            proxy.fault_counts,
            sum((sensor.counts for sensor in sensors), Counter()),
            seconds=0.0,
        )


@asynccontextmanager
async def sensors_at(port: int, count: int) -> AsyncIterator[list[PatientSensor]]:
    async with AsyncExitStack() as stack:
        yield [
            await stack.enter_async_context(patient_sensor(port, f"s{number}"))
            for number in range(count)
        ]
