"""The demo from start to end: what is started, in which order, and ended.

Order: folder, broker, gateway, watcher, sensors; and back. Whatever goes wrong in between, all that
was started is ended, and a signal at any moment counts as "end now".

Limits: at the end the demo waits at most `SETTLE_S` for readings that were acknowledged to a sensor
and are still on their way to the broker.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import signal
import socket
import tempfile
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import TypeVar

from gateway.app.exit_codes import ExitCode
from gateway.cli.demo.broker_process import start_broker
from gateway.cli.demo.children import Child
from gateway.cli.demo.failure import DemoError, leaves
from gateway.cli.demo.gateway_process import Ports, start_gateway
from gateway.cli.demo.presence import PresenceWatcher
from gateway.cli.demo.screen import Screen, Silence
from gateway.cli.demo.seen import Clock, Event, Seen, SensorSeen
from gateway.cli.demo.watcher import Watcher
from gateway.cli.sensors.pace import Pace
from gateway.cli.sensors.sensor import SensorEvent, SimulatedSensor
from gateway.cli.sensors.sensor_link import SensorLink

INTERVAL_S = 1.0
SLEEPERS_INTERVAL_S = 6.0
# Of five sensors in a row the second sleeps and wakes in time, the third wakes late, as cheap
# clocks do: within the tolerance of 1.5 times, so it is overdue for a moment and never lost.
SLEEPERS = {1: Pace(sleep_s=3), 2: Pace(sleep_s=3, wake_after=1.25)}
START_SPREAD_S = 0.002  # between two sensors: 200 CONNECTs at once would be a flood, not a demo
SETTLE_S = 2.0
REAP_S = 1.0  # from the end of a connection until the process behind it is known to have ended
# Linux gives the ones above to any socket that asks for one, before our programs have theirs.
PORTS = range(20_000, 32_000)
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

T = TypeVar("T")


class InterruptedStartError(Exception):
    """A signal came before the sensors were started."""


@dataclass(slots=True)
class Demo:
    sensors: int
    seconds: float | None
    seed: int
    keep: bool
    screen: Screen
    gateway_command: Sequence[str] | None = None
    clock: Clock = field(default_factory=Clock.started, init=False)
    seen: Seen = field(init=False)
    stop: asyncio.Event = field(default_factory=asyncio.Event, init=False)
    progress: asyncio.Event = field(default_factory=asyncio.Event, init=False)
    folder: Path | None = field(default=None, init=False)
    links: list[SensorLink] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        names = [f"sensor-{number}" for number in range(1, self.sensors + 1)]
        self.seen = Seen(
            {
                name: SensorSeen(name, n % 3, sleeps=n % 5 in SLEEPERS)
                for n, name in enumerate(names)
            }
        )

    async def run(self) -> None:
        """Until --seconds are over or a signal comes; raises `DemoError` if a part fails."""
        loop = asyncio.get_running_loop()
        for number in SIGNALS:
            loop.add_signal_handler(number, self.stop.set)
        try:
            await self._run()
        except InterruptedStartError:
            return
        except BaseExceptionGroup as group:
            if (failures := group.subgroup(DemoError)) is not None:
                raise _first(failures) from None
            if group.split(InterruptedStartError)[1] is not None:
                raise

    async def _run(self) -> None:
        async with AsyncExitStack() as stack:
            self.folder = stack.enter_context(_folder(self.keep))
            ports = Ports(free_port("tcp"), free_port("udp"), free_port("tcp"))
            self.screen.starting(ports)
            broker = await self._unless_stopped(start_broker(self.folder, ports.broker))
            stack.push_async_callback(broker.end)
            command = self.gateway_command
            gateway = await self._unless_stopped(start_gateway(self.folder, ports, command))
            stack.push_async_callback(gateway.end)
            await self._run_demo(ports, broker, gateway)

    async def _run_demo(self, ports: Ports, broker: Child, gateway: Child) -> None:
        dice = Random(self.seed)
        watcher = Watcher(
            port=ports.broker,
            seen=self.seen,
            clock=self.clock,
            dice=dice,
            on_event=self._show_event,
        )
        try:
            async with asyncio.TaskGroup() as tasks:
                running = [
                    tasks.create_task(_guard(broker), name="guard broker"),
                    tasks.create_task(_guard(gateway), name="guard gateway"),
                    tasks.create_task(_watch(watcher, broker), name="watcher"),
                ]
                await self._unless_stopped(watcher.subscribed.wait())
                presence = PresenceWatcher(ports.admin, self.seen, self._show_event)
                running.append(tasks.create_task(self._run_screen(ports), name="screen"))
                running.append(tasks.create_task(presence.run(), name="presence"))
                await self._open_sensors(ports.udp, dice)
                await self._await_arrivals()
                for task in running:
                    task.cancel()
        finally:
            for link in self.links:
                link.close()
            with contextlib.suppress(OSError):
                self.screen.close()

    async def _open_sensors(self, port: int, dice: Random) -> None:
        """Start the sensors and let them run until the end has come."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.seconds):
                for number, seen in enumerate(self.seen.sensors.values()):
                    if self.stop.is_set():
                        return
                    self.links.append(self._link(number, seen, Random(dice.random())))
                    await self.links[-1].open("127.0.0.1", port)
                    await asyncio.sleep(START_SPREAD_S)
                await self.stop.wait()

    def _link(self, number: int, seen: SensorSeen, dice: Random) -> SensorLink:
        sensor = SimulatedSensor(
            name=seen.name,
            qos=seen.qos,
            interval_s=SLEEPERS_INTERVAL_S if seen.sleeps else INTERVAL_S,
            unix_offset_s=self.clock.unix_offset_s,
            dice=dice,
            pace=SLEEPERS.get(number % 5, Pace()),
        )
        return SensorLink(sensor, self._on_sensor_event)

    def _on_sensor_event(self, name: str, event: SensorEvent) -> None:
        for seen in self.seen.sensor_event(name, event):
            self._show_event(seen)

    def _show_event(self, event: Event) -> None:
        self.progress.set()
        try:
            self.screen.show(event)
        except OSError:
            self._on_output_closed()

    async def _run_screen(self, ports: Ports) -> None:
        try:
            self.screen.opened(ports, self.seen)
            await self.screen.draw()
        except OSError:
            self._on_output_closed()

    def _on_output_closed(self) -> None:
        """The output is closed (`| head`, a closed terminal): that ends the demo as well."""
        self.screen = Silence()
        self.stop.set()

    async def _await_arrivals(self) -> None:
        for link in self.links:
            link.stop()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(SETTLE_S):
                while not self.seen.all_arrived():
                    self.progress.clear()
                    await self.progress.wait()

    async def _unless_stopped(self, work: Coroutine[None, None, T]) -> T:
        task = asyncio.create_task(work)
        stopped = asyncio.create_task(self.stop.wait())
        try:
            await asyncio.wait((task, stopped), return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                return task.result()
            raise InterruptedStartError
        finally:
            for each in (task, stopped):
                each.cancel()
            await asyncio.wait((task, stopped))


def free_port(kind: str) -> int:
    """A port of 127.0.0.1 that was free a moment ago; "tcp" or "udp". Raises DemoError."""
    family = socket.SOCK_STREAM if kind == "tcp" else socket.SOCK_DGRAM
    for port in Random().sample(PORTS, 100):
        with socket.socket(socket.AF_INET, family) as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise DemoError(f"No {kind} port of 127.0.0.1 is free between {PORTS[0]} and {PORTS[-1]}.")


@contextlib.contextmanager
def _folder(keep: bool) -> Iterator[Path]:
    try:
        folder = Path(tempfile.mkdtemp(prefix="tidegate-demo-"))
    except OSError as error:
        message = f"Cannot create a temporary folder: {error}. Set TMPDIR to one with room."
        raise DemoError(message, code=ExitCode.CANNOT_CREATE) from error
    try:
        yield folder
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)


async def _guard(child: Child) -> None:
    raise await child.ended()


async def _watch(watcher: Watcher, broker: Child) -> None:
    """A connection that breaks because the broker died: the broker's log shows why."""
    try:
        await watcher.run()
    except DemoError:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(REAP_S):
                raise await broker.ended() from None
        raise


def _first(failures: BaseExceptionGroup[DemoError]) -> DemoError:
    """The failure to show: a child's log shows more than a connection that broke with it."""
    found = leaves(failures)
    return next((failure for failure in found if failure.evidence), found[0])
