"""A node with our own library, the very files that boards run, in the place of a simulated sensor.

Its program is as short as a user's: connect, subscribe, publish what was measured, wait or sleep.
All rules of MQTT-SN are the library's. `keeps` nodes take a snapshot when their power goes, and
know which reading was on its way; others begin anew, but wait as long as their datagrams may live.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from random import Random

from firmware.mqttsn.client import Client
from firmware.mqttsn.snapshot import put_back, take
from firmware.mqttsn.will import Will
from gateway.frames import Frame, Publish, encode
from tests.simulation.agenda import Agenda
from tests.simulation.plan import PlannedReading, SensorPlan, will_of
from tests.simulation.sensor import REBOOT_S, REUSE_LIFETIMES
from tests.simulation.strand import SimulatedThread
from tests.simulation.stream import nothing

FRAME_OCTETS_MAX = 1100
RETRIES = 4
IDLE_MS = 4_000
LOOK_MS = 1_000
PAUSE_S_MAX = 5.0
WAKES_AT = 0.8  # of the sleep it declared
LEAVES_AFTER_S = 60.0
CLEAN_SESSION = 4


class FirmwareNode:
    """The library's transport, and the world's sensor."""

    gateways = 1
    index = 0

    def __init__(
        self,
        plan: SensorPlan,
        agenda: Agenda,
        transmit: Callable[[FirmwareNode, bytes], None],
        lifetime_s: float,
        dice: Random,
    ) -> None:
        self.plan = plan
        self.address = b""
        self.on_acknowledged: Callable[[FirmwareNode, PlannedReading], None] = nothing
        self.on_message: Callable[[FirmwareNode, Publish], None] = nothing
        self.on_subscribed: Callable[[FirmwareNode, str], None] = nothing
        self.on_gone: Callable[[FirmwareNode], None] = nothing
        self.waiting: deque[PlannedReading] = deque()
        self.boots = 0
        self.is_gone = False
        self._agenda = agenda
        self._transmit = transmit
        self._off_s = REBOOT_S if plan.keeps else REBOOT_S + REUSE_LIFETIMES * lifetime_s
        self._dice = dice
        self._inbox: deque[Frame] = deque()
        self._heard: Frame | None = None
        self._strand: SimulatedThread | None = None
        self._client: Client | None = None
        self._waits = 0
        self._is_leaving = False
        self._is_ready = False
        self._listens = True
        self._was_tried = False  # the first of the waiting ones
        self._kept = b""

    @property
    def is_done(self) -> bool:
        return self.is_done_for or (self._is_ready and not self.waiting)

    @property
    def is_done_for(self) -> bool:
        return self.is_gone or self._is_leaving

    @property
    def is_forgetful(self) -> bool:
        """It lost readings itself, with its memory."""
        return self.is_done_for or (self.boots > 1 and not self.plan.keeps)

    # From the world

    def boot(self) -> None:
        if self.is_gone or self._strand is not None:
            return
        self.boots += 1
        self._inbox.clear()
        self._listens = True
        self._strand = SimulatedThread(self._live)
        self._strand.resume()

    def reboot(self) -> None:
        if self.is_done_for or self._strand is None:
            return
        self._power_off()
        if not self.plan.keeps:
            self._kept = b""
            if self._was_tried:
                self.waiting.popleft()
            self._was_tried = False
        self._agenda.after(self._off_s, self.boot)

    def measure(self, reading: PlannedReading) -> None:
        if not self.is_done_for:
            self.waiting.append(reading)

    def die(self) -> None:
        if not self.is_gone:
            self.is_gone = True
            self._power_off()
            self.on_gone(self)

    def leave(self) -> None:
        """Good-bye, as soon as it has nothing else to do."""
        if not self.is_done_for:
            self._is_leaving = True
            self.on_gone(self)
            while len(self.waiting) > self._was_tried:
                self.waiting.pop()
            self._agenda.after(LEAVES_AFTER_S, self.die)

    def end(self) -> None:
        """The world is over."""
        self.is_gone = True
        self._power_off()

    def receive(self, frame: Frame) -> None:
        if self._strand is not None and self._listens:
            self._inbox.append(frame)
            self._go_on(self._waits)

    def _power_off(self) -> None:
        strand, self._strand = self._strand, None
        self._is_ready = False
        self._waits += 1
        if self._client is not None:
            self._kept = take(self._client)
            self._client = None
        if strand is not None:
            strand.end()

    def _go_on(self, wait: int) -> None:
        if wait == self._waits and self._strand is not None:
            self._waits += 1
            self._strand.resume()

    # From the library

    def send(self, frame: bytearray, size: int) -> None:
        self._transmit(self, bytes(frame[:size]))

    def receive_into(self, buffer: bytearray, wait_ms: int) -> int:
        if not self._inbox and wait_ms > 0:
            self._pause(wait_ms / 1000)
        if not self._inbox:
            return 0
        self._heard = self._inbox.popleft()
        octets = encode(self._heard)
        buffer[: len(octets)] = octets
        return len(octets)

    def next(self) -> None:
        """There is no other."""

    def close(self) -> None:
        self._listens = False

    def _message(self, _topic: bytes | int, payload: memoryview, _is_retained: bool) -> None:
        assert isinstance(self._heard, Publish)
        assert bytes(payload) == self._heard.payload
        self.on_message(self, self._heard)

    def _pause(self, wait_s: float) -> None:
        """Until a datagram comes, but no longer."""
        assert self._strand is not None
        self._agenda.after(wait_s, self._go_on, self._waits)
        self._strand.pause()

    # The program

    def _live(self) -> None:
        client = self._client = Client(Radio(self), self.plan.client_id.encode(), FRAME_OCTETS_MAX)
        engine = client.engine
        engine.dice = self._dice.getrandbits
        engine.message_id = self._dice.getrandbits(16)
        engine.retries = RETRIES
        engine.flags = CLEAN_SESSION if self.plan.clean else 0
        client.on_message = self._message
        if self.plan.has_will:
            topic, payload = will_of(self.plan.client_id)
            Will(topic.encode(), payload, qos=1).join(client)
        put_back(client, self._kept)
        while True:
            try:
                self._work(client)
            except OSError:
                self._rest(self._dice.random() * PAUSE_S_MAX)

    def _work(self, client: Client) -> None:
        self._listens = True
        if not client.engine.state:
            client.connect()
        for topic_filter, qos in self.plan.filters.items():
            if topic_filter.encode() not in client.subscriptions:
                client.subscribe(topic_filter.encode(), qos)
                self.on_subscribed(self, topic_filter)
        self._is_ready = True
        while self.waiting:
            self._publish(client)
        if self._is_leaving:
            client.sleep(0)
            self._agenda.after(0.0, self.die)
            self._rest(LEAVES_AFTER_S)
        if not self.plan.sleeps_s:
            client.wait(LOOK_MS)
            return
        client.wait(IDLE_MS)
        if not self.waiting and not self._is_leaving:
            self._sleep(client)

    def _publish(self, client: Client) -> None:
        reading = self.waiting[0]
        tried, self._was_tried = self._was_tried, True
        try:
            client.publish(
                reading.topic.encode(),
                reading.payload,
                reading.qos,
                retain=reading.retain,
                again=tried,
            )
        except OSError:
            if reading.qos > 0:
                raise
        self._was_tried = False
        self.waiting.popleft()
        if reading.qos > 0:
            self.on_acknowledged(self, reading)

    def _sleep(self, client: Client) -> None:
        client.sleep(self.plan.sleeps_s)
        while not self._is_leaving:
            self._rest(WAKES_AT * self.plan.sleeps_s)
            if self.waiting and not self.plan.talks_asleep:
                client.connect()
                return
            while self.waiting:
                self._publish(client)
            client.wake()

    def _rest(self, wait_s: float) -> None:
        """The radio is off."""
        self._listens = False
        self._inbox.clear()
        self._pause(wait_s)
        self._listens = True


class Radio:
    """The node as the library's transport sees it, whose `receive` is another than the world's."""

    gateways = 1

    def __init__(self, node: FirmwareNode) -> None:
        self.index = 0
        self.send = node.send
        self.receive = node.receive_into
        self.next = node.next
        self.close = node.close
