"""Worlds of protected packets: the gateway's end and the nodes' own library, which lose what one
likes, on air that loses, copies and reorders, with an adversary who has recorded everything.

    python -m tests.simulation 0 --count 300 --kind protected

What is held, at every datagram:

- No counter of a series is used twice with one key; and where an old flash was put back, no head.
- Each packet that an end takes was sent by the other end in that very envelope, which is taken
  once. (Who is on the path may carry one to the other gateway that has the key.)
- No device is locked out for more than one question: in a moment without trouble one packet of the
  device arrives, and one of the gateway.

Two gateways have the keys; a device goes from one to the other. What a gateway saves is durable
within ROW_S_MAX, what a device saves when that call returns, unless the power goes in it.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from firmware.mqttsn import protect
from firmware.mqttsn.cpython import Clock
from gateway.core.access.device_keys import DeviceKey, DeviceKeys, sender_id_of
from gateway.core.drop_reasons import Reason
from gateway.core.protection.channel import QUESTIONS_PER_S_MAX
from gateway.core.protection.envelope import is_envelope, parse
from gateway.core.protection.protection import Protection, ProtectionOptions, Received
from gateway.core.state_records import Change, ProtectionDeleted, ProtectionRecord
from tests.simulation.agenda import Agenda
from tests.simulation.stream import nothing
from tests.simulation.watch import BrokenPromiseError

NO_NONCE_TWICE = "P1 no nonce twice"
NOTHING_REPLAYED = "P2 nothing forged or replayed is taken"
NOT_LOCKED_OUT = "P3 locked out for no more than one question"
DEVICES = 3
GATEWAYS = 2
STEPS = 400
STEP_S_MAX = 1.2
ROW_S_MAX = 0.25
ATTEMPTS_PER_S = 8
PACKETS_PER_BURST_MAX = 1300  # more than a block of a device
# A question and its answer on each side, and what they are about.
DATAGRAMS_MAX = 8
HEAD_BYTES = 20  # without what the length and the scheme make different
WEATHERS = ((0.0, 0.0, 0.0), (0.1, 0.1, 0.3), (0.4, 0.3, 2.0))  # lost, copied, delayed by s


class PowerCutError(Exception):
    """In the middle of a write to the flash."""


class Device:
    """A node with the library; its flash and what it has in RTC memory over a sleep."""

    gateways = GATEWAYS

    def __init__(self, world: ProtectedWorld, number: int) -> None:
        self.world = world
        self.name = f"device-{number}"
        self.sender_id = sender_id_of(self.name)
        self.address = b"address%d" % number
        self.secret = world.dice.randbytes(16)
        self.flash: list[bytes] = []
        self.index = 0
        self.count = 0
        self.was_put_back = False
        self._heard = b""
        self.boot()

    def boot(self) -> None:
        kept = self.flash[-1] if self.flash else b""
        link: Any = self
        tag_bytes = (8, 16, 32)[len(self.name) % 3]
        self.node = protect.Protected(
            link, self.sender_id, self.secret, kept, self._save, tag_bytes=tag_bytes
        )

    def _save(self, kept: bytes) -> None:
        if self.world.dice.random() < 0.1 and not self.world.is_calm:
            if self.world.dice.random() < 0.5:
                self.flash.append(kept)
            raise PowerCutError
        self.flash.append(kept)

    def say(self) -> bytes:
        self.count += 1
        packet = b"\x09\x16" + self.sender_id[:2] + self.count.to_bytes(4, "big")
        try:
            self.node.send(bytearray(packet), len(packet))
        except PowerCutError:
            self.boot()
        return packet

    def hear(self, datagram: bytes) -> bytes:
        self._heard = datagram
        buffer = bytearray(300)
        try:
            size = self.node.receive(buffer, 0)
        except PowerCutError:
            self.boot()
            size = 0
        return bytes(buffer[:size])

    def sleep(self) -> None:
        kept = self.node.take()
        self.boot()
        assert self.node.put_back(kept)

    # The transport below

    def send(self, datagram: bytearray, size: int) -> None:
        self.world.sent_up(self, bytes(datagram[:size]))

    def receive(self, buffer: bytearray, _wait_ms: int) -> int:
        datagram, self._heard = self._heard, b""
        size = min(len(datagram), len(buffer))
        buffer[:size] = datagram[:size]
        return size

    def next(self) -> None:
        self.index = (self.index + 1) % GATEWAYS

    def close(self) -> None:
        """Nothing is open."""


class Gateway:
    def __init__(self, world: ProtectedWorld, number: int) -> None:
        self.world = world
        self.number = number
        self.disk: dict[tuple[bytes, int], ProtectionRecord] = {}
        self.backup: dict[tuple[bytes, int], ProtectionRecord] = {}
        self.peers: set[bytes] = set()
        self.lives = 0
        self.count = 0
        self._durable_at = 0.0
        self.start()

    def start(self, *, is_state_whole: bool = True) -> None:
        self.lives += 1
        options = ProtectionOptions(
            keys=lambda: self.world.keys,
            random=self.world.dice.randbytes,
            is_state_whole=is_state_whole,
        )
        self.protection = Protection(options, 1000, 1000)
        self.protection.hold()
        self._save(self.protection.restore(list(self.disk.values())), self.protection.release)

    def _save(self, changes: list[Change], then: Callable[[], None] = nothing) -> None:
        """In order, as the committer does. `then`: once they are durable."""
        life, agenda = self.lives, self.world.agenda
        at = agenda.now + self.world.dice.random() * ROW_S_MAX
        self._durable_at = max(self._durable_at, at)

        def durable() -> None:
            if life == self.lives:
                self._write(changes)
                then()

        if not changes:
            then()
        else:
            agenda.at(self._durable_at, durable)

    def _write(self, changes: list[Change]) -> None:
        for change in changes:
            if isinstance(change, ProtectionRecord):
                self.disk[change.sender_id, change.epoch] = change
            elif isinstance(change, ProtectionDeleted):
                self.disk.pop((change.sender_id, change.epoch), None)

    def stop(self) -> None:
        self._write(self.protection.at_end())
        self.start()

    def receive(self, address: bytes, datagram: bytes) -> None:
        now = self.world.agenda.now
        if self.protection.is_held or not is_envelope(datagram):
            return
        self.protection.look_at_keys()
        opened = self.protection.open_next(address, datagram, self.peers)
        if opened is not None:
            received = Received(*opened)
        else:
            received = self.protection.open(address, datagram, self.peers, now)
        self._save(self.protection.take_changes())
        if received.reply:
            self.world.sent_down(self, address, received.reply)
        if received.dropped is Reason.TOO_MANY_PACKETS:
            self.world.broken(NOT_LOCKED_OUT, "too many are wrong")
        if received.packet:
            self.world.taken_up(datagram, received.packet)
            self.peers.add(received.address)
            self.say(received.address)

    def say(self, peer: bytes) -> None:
        self.count += 1
        sealed = self.protection.seal(peer, b"\x07\x17" + self.count.to_bytes(4, "big"))
        self._save(self.protection.take_changes())
        if sealed is not None:  # it is held
            self.world.sent_down(self, *sealed)


class ProtectedWorld:
    def __init__(self, seed: int, tell: Callable[[str], None] = nothing) -> None:
        self.seed = seed
        self.agenda = Agenda()
        self.dice = Random(f"protected {seed}")
        self.steps = 0
        self.digest = 0
        self.is_calm = False
        self.counts: dict[str, int] = {}
        self._tell = tell
        self._weather = WEATHERS[0]
        self._at_once: list[Callable[[], None]] | None = None  # in a moment without trouble
        self._recorded: list[tuple[Device, bytes]] = []
        self._heads: set[bytes] = set()
        self._counters: set[bytes] = set()
        self._genuine: dict[bytes, bool] = {}  # whether it is for a gateway
        self._taken: set[bytes] = set()
        self._arrived: list[bytes] = []
        self._attempts = (0, 0)
        self.keys = DeviceKeys()
        self.devices: list[Device] = []
        self.gateways: list[Gateway] = []

    def broken(self, promise: str, what: str) -> None:
        raise BrokenPromiseError(f"protected seed {self.seed}: {promise}: {what}")

    def run(self) -> ProtectedWorld:
        library: Any = protect
        now_ms, urandom, agenda = Clock.now_ms, library.urandom, self.agenda
        Clock.now_ms = staticmethod(lambda: int(agenda.now * 1000))
        library.urandom = self.dice.randbytes
        try:
            self.devices = [Device(self, number) for number in range(DEVICES)]
            self.keys = DeviceKeys(
                DeviceKey(each.name, 1, each.sender_id, each.secret) for each in self.devices
            )
            self.gateways = [Gateway(self, number) for number in range(GATEWAYS)]
            for self.steps in range(1, STEPS + 1):
                self._happen_until(agenda.now + self.dice.random() * STEP_S_MAX)
                self._step()
            self.is_calm = True
            self._happen_until(agenda.now + 60)
            for device in self.devices:
                for _ in range(GATEWAYS):
                    self._probe(device)
                    device.node.next()
        finally:
            Clock.now_ms, library.urandom = now_ms, urandom
        return self

    def _happen_until(self, until: float) -> None:
        while (at := self.agenda.next_at()) is not None and at <= until:
            self.agenda.happen()
        self.agenda.now = until

    def _step(self) -> None:
        device, gateway = self.dice.choice(self.devices), self.dice.choice(self.gateways)
        dice = self.dice.random()
        for share, name, do in (
            (0.30, "says", device.say),
            (0.12, "told", lambda: self._tells(gateway)),
            (0.02, "burst", lambda: self._burst(device)),
            (0.18, "attacked", self._attack),
            (0.04, "boots", device.boot),
            (0.05, "sleeps", device.sleep),
            (0.02, "flash lost", lambda: self._lose_flash(device)),
            (0.01, "flash put back", lambda: self._put_flash_back(device)),
            (0.03, "moves", device.node.next),
            (0.03, "gateway stops", gateway.stop),
            (0.03, "gateway loses power", gateway.start),
            (0.02, "state lost", lambda: self._lose_state(gateway)),
            (0.01, "state put back", lambda: self._put_state_back(gateway)),
            (0.03, "weather", self._change_weather),
            (0.11, "probe", lambda: self._probe(device)),
        ):
            dice -= share
            if dice < 0:
                self.counts[name] = self.counts.get(name, 0) + 1
                self._tell(f"{self.agenda.now:9.3f} {name}: {device.name}, {gateway.number}")
                do()
                return

    # Trouble

    def _burst(self, device: Device) -> None:
        for _ in range(self.dice.randrange(PACKETS_PER_BURST_MAX)):
            device.say()

    def _tells(self, gateway: Gateway) -> None:
        if gateway.peers:
            gateway.say(self.dice.choice(sorted(gateway.peers)))

    def _lose_flash(self, device: Device) -> None:
        device.flash.clear()
        device.boot()

    def _put_flash_back(self, device: Device) -> None:
        if device.flash:
            device.flash.append(self.dice.choice(device.flash))
            device.was_put_back = True
            device.boot()

    def _lose_state(self, gateway: Gateway) -> None:
        gateway.disk.clear()
        gateway.start()

    def _put_state_back(self, gateway: Gateway) -> None:
        """By `tidegate restore`, which says so."""
        gateway.disk, gateway.backup = dict(gateway.backup), dict(gateway.disk)
        gateway.start(is_state_whole=False)

    def _change_weather(self) -> None:
        self._weather = self.dice.choice(WEATHERS)

    def _attack(self) -> None:
        second, count = self._attempts
        if int(self.agenda.now) != second:
            second, count = int(self.agenda.now), 0
        assert ATTEMPTS_PER_S < QUESTIONS_PER_S_MAX
        if not self._recorded or count >= ATTEMPTS_PER_S:
            return
        recent = self._recorded[-200:] if self.dice.random() < 0.7 else self._recorded
        for _ in range(self.dice.randrange(ATTEMPTS_PER_S - count) + 1):
            count += 1
            device, datagram = self.dice.choice(recent)
            self._attempt(device, self._altered(datagram))
        self._attempts = (second, count)

    def _altered(self, datagram: bytes) -> bytes:
        match self.dice.randrange(6):
            case 0:
                return datagram[: self.dice.randrange(len(datagram))] or b"\x00"
            case 1:
                place = self.dice.randrange(len(datagram))
                changed = bytes((datagram[place] ^ 1 << self.dice.randrange(8),))
                return datagram[:place] + changed + datagram[place + 1 :]
            case 2:
                other = self.dice.choice(self.devices).sender_id
                at = 6 if datagram[0] == 1 else 4
                return datagram[:at] + other + datagram[at + 8 :]
        return datagram

    def _attempt(self, device: Device, datagram: bytes) -> None:
        """To either end, also back to who has sent it."""
        if self.dice.random() < 0.5:
            self.dice.choice(self.gateways).receive(device.address, datagram)
        else:
            self._arrive_down(device, datagram)

    # On the air

    def sent_up(self, device: Device, datagram: bytes) -> None:
        self._is_sent(device, datagram, True, device.index)
        gateway = self.gateways[device.index]
        self._carry(lambda: gateway.receive(device.address, datagram))

    def sent_down(self, gateway: Gateway, address: bytes, datagram: bytes) -> None:
        device = next(each for each in self.devices if each.address == address)
        if parse(datagram).sender_id != device.sender_id:
            return  # an answer to the adversary, who was at this address
        self._is_sent(device, datagram, False, gateway.number)
        self._carry(lambda: self._arrive_down(device, datagram))

    def _is_sent(self, device: Device, datagram: bytes, is_up: bool, number: int) -> None:
        envelope = parse(datagram)
        key = bytes((is_up, number if not is_up else 0)) + envelope.sender_id
        assert envelope.counter is not None
        counter = key + envelope.material + envelope.counter.to_bytes(4, "big")
        # Each gateway draws random bytes of its own, and has a series that the device has chosen.
        head = bytes((is_up,)) + envelope.head[-HEAD_BYTES:]
        if head in self._heads:
            self.broken(NO_NONCE_TWICE, f"the head {head.hex()} of {device.name}")
        if counter in self._counters and not (is_up and device.was_put_back):
            self.broken(NO_NONCE_TWICE, f"the counter {counter.hex()} of {device.name}")
        self._heads.add(head)
        self._counters.add(counter)
        self._genuine[datagram] = is_up
        self._recorded.append((device, datagram))

    def _carry(self, arrive: Callable[[], None]) -> None:
        if self._at_once is not None:
            self._at_once.append(arrive)
            return
        lost, copied, delay_s = (0.0, 0.0, 0.0) if self.is_calm else self._weather
        if self.dice.random() >= lost:
            self.agenda.after(self.dice.random() * delay_s, arrive)
        if self.dice.random() < copied:
            self.agenda.after(self.dice.random() * 2 * delay_s, arrive)

    def _arrive_down(self, device: Device, datagram: bytes) -> None:
        packet = device.hear(datagram)
        if packet:
            self._is_taken(datagram, False)
            self._arrived.append(packet)

    def taken_up(self, datagram: bytes, packet: bytes) -> None:
        self._is_taken(datagram, True)
        self._arrived.append(packet)

    def _is_taken(self, datagram: bytes, is_up: bool) -> None:
        if self._genuine.get(datagram) != is_up:
            self.broken(NOTHING_REPLAYED, f"{datagram.hex()} was not sent there")
        if datagram in self._taken:
            self.broken(NOTHING_REPLAYED, f"{datagram.hex()} is taken again")
        self._taken.add(datagram)

    # A moment without trouble

    def _probe(self, device: Device) -> None:
        """A second in which no end asks too much, when a gateway that has begun just now has its
        counters on its disk; one packet each way, and what it takes.
        """
        was_calm, self.is_calm = self.is_calm, True
        self._happen_until(int(self.agenda.now + ROW_S_MAX) + 1.0)
        self._arrived = []
        packet = self.at_once(device.say)
        is_heard = packet in self._arrived
        if not self._has_told():
            self.at_once(device.say)  # what a gateway said is repeated by its timers
        self.is_calm = was_calm
        if not is_heard:
            self.broken(NOT_LOCKED_OUT, f"{device.name} is not heard")
        if not self._has_told():
            self.broken(NOT_LOCKED_OUT, f"{device.name} hears nothing")

    def _has_told(self) -> bool:
        return any(each[1] == 0x17 for each in self._arrived)

    def at_once(self, say: Callable[[], bytes]) -> bytes:
        """Without time between, until nothing comes any more."""
        self._at_once = []
        packet = say()
        count = 0
        while self._at_once:
            count += 1
            if count > DATAGRAMS_MAX:
                self.broken(NOT_LOCKED_OUT, f"more than {DATAGRAMS_MAX} datagrams")
            self._at_once.pop(0)()
        self._at_once = None
        return packet
