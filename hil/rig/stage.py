"""All parts of one run of a scenario: board, network, gateway, broker, its proxy, witness.

    async with on_stage(setting) as stage: ...

Either all of it is ours, or gateway and broker run elsewhere, given by address; then there is no
proxy to the broker, and scenarios that would touch either are not run (`Scenario.is_for_own_rig`).
"""

from __future__ import annotations

import asyncio
import shutil
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from hil.boards.board import Board, BoardSpec, Kind, Node, Place
from hil.faults.broker_proxy import BrokerProxy
from hil.faults.lossy_proxy import LOOPBACK, LossyProxy
from hil.faults.network import LineNetwork, Network, Terminal, UdpNetwork, line_config, opened_port
from hil.faults.serial_proxy import SerialProxy
from hil.oracle.conversation import Conversation
from hil.rig.gateway import GatewayProcess
from hil.rig.logged_process import ProcessError
from hil.rig.mosquitto import Mosquitto
from hil.rig.operator import Operator, operating
from hil.rig.shifted_clock import ShiftedClock
from hil.rig.small_disk import SmallDisk, small_disk
from hil.rig.witness import Witness, witnessing
from hil.scenarios.actions import (
    BROKER_KILLED,
    BROKER_STOPPED,
    CLOCK_SEEN,
    GATEWAY_FORGOT,
    GATEWAY_KILLED,
    GATEWAY_STOPPED,
)
from hil.scenarios.scenario import Scenario

READINGS = "hil/+"
QUESTIONS = "hil/+/ask"
# What the documentation recommends to operators.
PERSISTENCE = (
    "persistence true",
    "autosave_interval 1",
    "autosave_on_changes true",
    "max_queued_messages 0",
    "max_inflight_messages 1000",
)
GATEWAY_CONFIG = (
    "reconnect_delay_s_min = 0.05\n"
    '[journal]\nacknowledge = "{acknowledge}"\nlinger_ms = {linger_ms}\n'
    "[mqtt_sn]\nretry_after_s = 0.3\n"
    "[limits]\ndisconnects_per_s_max = 1000\n"
)
DISK_CONFIG = 'size_max = "{mib}MiB"\n'
OPEN_LINE = "listening for sensors on serial"
GATEWAY = (sys.executable, "-m", "gateway")
MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """A gateway and its broker that are not ours."""

    gateway: tuple[str, int]
    broker: tuple[str, int]


@dataclass(frozen=True, slots=True)
class Setting:
    scenario: Scenario
    spec: BoardSpec
    kind: Kind
    seed: int
    folder: Path  # new, and left as it is
    shelf: Path
    gateway_command: tuple[str, ...] = GATEWAY
    elsewhere: Elsewhere | None = None


class Stage:
    """What is None is not on it in this run."""

    board: Board
    network: Network
    witness: Witness
    operator: Operator
    broker_proxy: BrokerProxy
    broker: Mosquitto
    gateway: GatewayProcess
    disk_of_gateway: SmallDisk
    _connect_line: Callable[[], None]

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.scenario = setting.scenario
        # The spec allows 23 letters in a client id.
        self.device = f"hil-{setting.spec.id}"[:23]
        self.conversation = Conversation(self.device)
        self.clock = ShiftedClock(setting.folder / "clock")
        self.commands: list[bytes] = []
        self.done: Counter[str] = Counter()
        self.gateway_config = ""
        self._gateway_prefix: tuple[str, ...] = ()
        self._changed = asyncio.Event()
        self.conversation.on_change = self._changed.set

    @property
    def effects(self) -> Counter[str]:
        """How often each fault took effect so far."""
        found = self.done + self.network.fault_counts
        if self.setting.elsewhere is None:
            found += self.broker_proxy.fault_counts
            found[CLOCK_SEEN] = self.clock.times_seen
        return found

    @property
    def topic(self) -> str:
        return f"hil/{self.device}"

    async def until(self, is_so: Callable[[], bool], deadline: float) -> bool:
        """Whether it became so in time; checked whenever a frame was sent or something arrived."""
        try:
            async with asyncio.timeout_at(deadline):
                await self.once(is_so)
        except TimeoutError:
            return is_so()
        return True

    async def once(self, is_so: Callable[[], bool]) -> None:
        while not is_so():
            self._changed.clear()
            await self._changed.wait()

    async def send_command(self, *, is_retained: bool) -> None:
        """One that is not retained waits until the board has subscribed."""
        if not is_retained:
            await self.once(lambda: self.conversation.has_subscribed)
        where, payload = self.board.command(len(self.commands) + 1)
        self.commands.append(payload)
        await self.operator.publish(self.topic + where, payload, retain=is_retained)

    # Broker and gateway, where they are ours

    async def end_broker(self, *, is_killed: bool) -> None:
        self.done[BROKER_KILLED if is_killed else BROKER_STOPPED] += self.broker.running
        await asyncio.to_thread(self.broker.kill if is_killed else self.broker.stop)
        await self.broker_proxy.shut()
        self.witness.ready.clear()

    async def restart_broker(self) -> None:
        """The proxy opens when the witness has subscribed again: else it could miss readings."""
        await asyncio.to_thread(self.broker.start)
        await self.witness.ready.wait()
        await self.broker_proxy.open()

    def start_gateway(self) -> None:
        self.gateway.start()
        assert self.gateway.port

    def kill_gateway(self) -> None:
        self.done[GATEWAY_KILLED] += self.gateway.returncode is None
        self.gateway.kill()

    def stop_gateway(self) -> None:
        """Raises ProcessError when it does not end in order."""
        returncode = self.gateway.stop()
        if returncode != 0:
            raise ProcessError(f"asked to end it ended with {returncode}:\n{self.gateway.log}")
        self.done[GATEWAY_STOPPED] += 1

    def erase_gateway_state(self) -> None:
        """The folder stays: it may be a disk of its own."""
        files = list((self.setting.folder / "gateway" / "state").iterdir())
        for each in files:
            if each.is_dir():
                shutil.rmtree(each)
            else:
                each.unlink()
        self.done[GATEWAY_FORGOT] += bool(files)

    async def boot(self) -> None:
        await asyncio.to_thread(self.board.boot)
        if self.board.is_line_console:
            self._connect_line()

    # Setting up

    async def set_up(self, stack: AsyncExitStack) -> None:
        await self._start_broker(stack)
        self.witness.on_seen = self._changed.set
        await self._build_network(stack)
        spec = self.setting.spec
        node = Node(
            id=self.device,
            topic=self.topic,
            host=spec.host,
            port=self._port,
            retry_ms=self.scenario.retry_ms,
            pause_s=self.scenario.pause_s,
        )
        await asyncio.to_thread(self.board.prepare, node)
        if self.setting.elsewhere is None:
            await asyncio.to_thread(self.gateway.wait_until_connected)

    async def _start_broker(self, stack: AsyncExitStack) -> None:
        elsewhere = self.setting.elsewhere
        if elsewhere is None:
            folder = self.setting.folder / "broker"
            folder.mkdir()
            config = (*PERSISTENCE, *self.scenario.broker_config)
            self.broker = Mosquitto(config, folder=folder)
            await asyncio.to_thread(self.broker.start)
            stack.callback(self.broker.close)
            self.broker_proxy = BrokerProxy(self.broker.port, self.setting.seed)
            await self.broker_proxy.open()
            stack.push_async_callback(self.broker_proxy.close)
        host, port = elsewhere.broker if elsewhere else (LOOPBACK, self.broker.port)
        self.witness = await stack.enter_async_context(witnessing(port, READINGS, host))
        self.operator = await stack.enter_async_context(operating(port, QUESTIONS, host))

    async def _build_network(self, stack: AsyncExitStack) -> None:
        """Gateway, network and board, in the order in which each needs another's address."""
        spec, folder = self.setting.spec, self.setting.folder
        terminal = Terminal()
        stack.callback(terminal.close)
        place = Place(folder / "board", terminal.device, self.setting.shelf)
        self.board = self.setting.kind.make(spec, place)
        stack.callback(self.board.kill)
        if spec.transport == "serial":
            line = folder / "line"
            proxy = SerialProxy(
                line,
                self.setting.seed,
                self.scenario.line,
                baud=self.scenario.baud,
                tap=self.conversation,
            )
            self._connect_line = partial(self._connect, proxy, terminal.near)
            if not self.board.is_line_console:
                self._connect_line()
            self.network = LineNetwork(proxy)
            stack.callback(self.network.close)
            self._start_gateway(stack, line_config(line, self.scenario.baud))
            await asyncio.to_thread(self.gateway.wait_for_log, OPEN_LINE)
            self._port = 0
        else:
            gateway = self.setting.elsewhere
            self._start_gateway(stack, "")
            host, port = gateway.gateway if gateway else (LOOPBACK, 0)
            port = port or await asyncio.to_thread(lambda: self.gateway.port)
            udp = LossyProxy(
                port,
                self.setting.seed,
                self.scenario.udp,
                gateway_host=host,
                listen_host=LOOPBACK if spec.host == LOOPBACK else "0.0.0.0",
                tap=self.conversation,
            )
            await udp.open()
            self.network = UdpNetwork(udp)
            stack.callback(self.network.close)
            self._port = udp.port

    def _connect(self, proxy: SerialProxy, near: int) -> None:
        device = self.board.device
        proxy.connect(opened_port(device, self.scenario.baud) if device else near)

    def _start_gateway(self, stack: AsyncExitStack, ports: str) -> None:
        if self.setting.elsewhere is not None:
            return
        folder = self.setting.folder / "gateway"
        folder.mkdir()
        config = GATEWAY_CONFIG.format(
            acknowledge=self.scenario.acknowledge, linger_ms=self.scenario.linger_ms
        )
        if self.scenario.disk_mib:
            (folder / "state").mkdir()
            disk = stack.enter_context(self._small_disk(folder / "state"))
            self.disk_of_gateway = disk
            self._gateway_prefix = disk.prefix
            (disk.path / "epoch").write_text("0\n", encoding="ascii")
            size = DISK_CONFIG.format(mib=self.scenario.disk_mib)
            config = config.replace("[mqtt_sn]", size + "[mqtt_sn]")
        command = self.setting.gateway_command
        if self.scenario.sets_clock:
            command = _with_clock(command, self.clock.path)
        self.gateway = GatewayProcess(
            folder,
            f"mqtt://{LOOPBACK}:{self.broker_proxy.port}",
            config + self.scenario.gateway_config + ports,
            prefix=self._gateway_prefix,
            command=command,
        )
        self.gateway.start()
        stack.callback(self.gateway.kill)

    @contextmanager
    def _small_disk(self, place: Path) -> Iterator[SmallDisk]:
        with small_disk(place, self.scenario.disk_mib * MIB) as disk:
            yield disk


def has_clock(command: tuple[str, ...]) -> bool:
    """Whether its clock can be set: it is `python -m module ...`."""
    return command[1:2] == ("-m",)


def _with_clock(command: tuple[str, ...], clock: Path) -> tuple[str, ...]:
    python, _, *module = command
    return (python, "-m", "hil.rig.shifted_clock", str(clock), *module)


@asynccontextmanager
async def on_stage(setting: Setting) -> AsyncIterator[Stage]:
    async with AsyncExitStack() as stack:
        stage = Stage(setting)
        await stage.set_up(stack)
        yield stage
