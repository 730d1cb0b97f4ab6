"""All simulated sensors, from the first CONNECT to the last DISCONNECT.

Order: sockets and CONNECTs, `START_PER_S` a second; readings for as long as the plan says; no more
readings, but what was measured is sent; DISCONNECT. A signal at any moment means "no more
readings".

Limits: after the last reading `SETTLE_S` for acknowledgements, `DISCONNECT_S` for DISCONNECT. If no
CONNECT was answered within `CONNECT_S_MAX` the simulation ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import resource
import signal
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random

from gateway.app.exit_codes import ExitCode
from gateway.cli.progress import Progress
from gateway.cli.sensors.air import Air
from gateway.cli.sensors.client import State
from gateway.cli.sensors.pace import Pace
from gateway.cli.sensors.protected import ProtectedPackets
from gateway.cli.sensors.sensor import SimulatedSensor
from gateway.cli.sensors.sensor_link import SensorLink
from gateway.cli.simulate.plan import Plan
from gateway.cli.simulate.tally import Tally
from gateway.core.access.device_keys import DeviceKey

START_PER_S = 2000
START_BATCH = 20
SETTLE_S = 20.0  # a lost datagram costs Pace.retry_after_s, a few of them four times that
DISCONNECT_S = 5.0
CONNECT_S_MAX = 8.0
POLL_S = 0.1
FILES_BESIDE = 64  # of Python, the loop and the terminal
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class SimulateError(Exception):
    """Why there is no result, with what to do about it."""

    code = ExitCode.UNAVAILABLE


@dataclass(slots=True)
class Fleet:
    plan: Plan
    keys: Mapping[str, DeviceKey] = field(default_factory=dict)  # of all sensors, or of none
    air: Air = field(init=False)
    tally: Tally = field(init=False)
    links: list[SensorLink] = field(default_factory=list, init=False)
    stop: asyncio.Event = field(default_factory=asyncio.Event, init=False)

    def __post_init__(self) -> None:
        dice = Random(self.plan.seed)
        self.air = Air(Random(dice.random()), self.plan.loss / 100, self.plan.copies / 100)
        self.tally = Tally(Random(dice.random()))

    async def run(self) -> float:
        """How many seconds it took. Raises SimulateError."""
        began = time.monotonic()
        allow_files(self.plan.sensors + FILES_BESIDE)
        host = await self._resolved()
        loop = asyncio.get_running_loop()
        for number in SIGNALS:
            loop.add_signal_handler(number, self.stop.set)
        progress = Progress(lambda _: self.line(time.monotonic() - began))
        try:
            await self._measure(host, began, progress)
            await self._finish(progress)
        finally:
            for number in SIGNALS:
                loop.remove_signal_handler(number)
            progress.end()
            for link in self.links:
                link.close()
        return time.monotonic() - began

    # What is left

    def unacknowledged(self) -> int:
        """Readings that are neither acknowledged nor given up; of QoS 0, that were not sent."""
        return sum(
            len(link.sensor.client.waiting) + (link.sensor.client.in_flight is not None)
            for link in self.links
        )

    def problem(self) -> str | None:
        """What went wrong, as a sentence."""
        unconnected = self.plan.sensors - len(self.tally.connected)
        left = self.unacknowledged()
        problems = [
            f"{unconnected} of {self.plan.sensors} sensors never connected." if unconnected else "",
            f"{left} readings were not acknowledged." if left else "",
            f"{self.tally.dropped} readings were dropped." if self.tally.dropped else "",
        ]
        return " ".join(filter(None, problems)) or None

    def line(self, seconds: float) -> str:
        """`12 s: 1000 sensors (300 up, 700 asleep), 4500 readings, 3000 acknowledged, 2 open`"""
        states = Counter(link.sensor.client.state for link in self.links)
        asleep = states[State.ASLEEP]
        out = states[State.AWAY] + states[State.CONNECTING] + states[State.GONE]
        up = len(self.links) - asleep - out
        return (
            f"{seconds:.0f} s: {len(self.links)} sensors ({up} up, {asleep} asleep), "
            f"{self.tally.measured} readings, {self.tally.acknowledged} acknowledged, "
            f"{self.unacknowledged()} open"
        )

    # From start to end

    async def _resolved(self) -> str:
        host, port = self.plan.gateway
        try:
            loop = asyncio.get_running_loop()
            found = await loop.getaddrinfo(host, port, type=2)  # SOCK_DGRAM
        except OSError as error:
            raise SimulateError(f"{host!r} is not known: {error.strerror}") from error
        return str(found[0][4][0])

    async def _measure(self, host: str, began: float, progress: Progress) -> None:
        dice = Random(self.plan.seed)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.plan.seconds):
                for number in range(self.plan.sensors):
                    if self.stop.is_set():
                        return
                    await self._open(number, host, Random(dice.random()))
                    if number % START_BATCH == START_BATCH - 1:
                        progress.at(number)
                        await asyncio.sleep(START_BATCH / START_PER_S)
                while not self.stop.is_set():
                    self._check_connected(time.monotonic() - began)
                    progress.at(0)
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(POLL_S):
                            await self.stop.wait()

    async def _open(self, number: int, host: str, dice: Random) -> None:
        plan = self.plan
        pace = Pace(sleep_s=plan.sleep)
        sensor = SimulatedSensor(
            name=f"{plan.name}-{number + 1}",
            qos=plan.qos[number % len(plan.qos)],
            interval_s=plan.interval,
            unix_offset_s=time.time() - time.monotonic(),
            dice=dice,
            pace=pace,
            prefix=plan.name,
            payload_bytes=plan.payload,
            clean=not plan.keep_sessions,
        )
        protected = None
        if self.keys:
            protected = ProtectedPackets(self.keys[sensor.name], plan.scheme)
        link = SensorLink(sensor, self.tally.on_event, self.air, protected)
        try:
            await link.open(host, plan.gateway[1])
        except OSError as error:
            raise SimulateError(_advice(error, len(self.links))) from error
        self.links.append(link)

    def _check_connected(self, seconds: float) -> None:
        if not self.tally.connected and seconds > CONNECT_S_MAX:
            host, port = self.plan.gateway
            raise SimulateError(
                f"no sensor could connect to {host}:{port} within {seconds:.0f} s: is a gateway "
                "listening there (udp.listen), and does a firewall let UDP through?"
            )

    async def _finish(self, progress: Progress) -> None:
        """What was measured is sent, then every sensor sends DISCONNECT."""
        for link in self.links:
            link.finish()
        await _until(lambda: not self.unacknowledged(), SETTLE_S, progress)
        for link in self.links:
            if not _stays(link):
                link.stop()
        await _until(lambda: all(map(_has_ended, self.links)), DISCONNECT_S, progress)


def _stays(link: SensorLink) -> bool:
    """Its session holds how far its readings came, and it may connect again."""
    client = link.sensor.client
    return client.has_readings and not client.clean


def _has_ended(link: SensorLink) -> bool:
    return link.sensor.client.state is State.GONE or _stays(link)


async def _until(condition: Callable[[], bool], seconds: float, progress: Progress) -> None:
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        progress.at(0)
        await asyncio.sleep(POLL_S)


def allow_files(needed: int) -> None:
    """Raise our limit of open files; raises SimulateError where it may not go so far."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return
    if hard != resource.RLIM_INFINITY and hard < needed:
        raise SimulateError(
            f"each sensor needs a socket, and only {hard} files may be open: use "
            f"--sensors {max(1, hard - FILES_BESIDE)}, start it from a shell of root after "
            f"`ulimit -n {needed}`, or raise nofile in /etc/security/limits.conf and log in again"
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))


def _advice(error: OSError, opened: int) -> str:
    if error.errno in (errno.EADDRNOTAVAIL, errno.EAGAIN):
        return (
            f"no port is free for sensor {opened + 1}: use --sensors {max(1, opened)}, or widen "
            "net.ipv4.ip_local_port_range"
        )
    if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
        return f"{error.strerror} after {opened} sensors: use --sensors {max(1, opened)}"
    return f"no datagram can be sent to the gateway: {error.strerror or error}"
