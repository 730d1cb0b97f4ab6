"""A bench whose engine saves in a real database, and whose clocks are those of a small board.

`true_s` is the time that passes, whatever a clock says. The machine's clock begins at zero with
each boot, the core's leaves out pauses, and the wall clock is right or not set. What is to be saved
is committed at once, and survives a restart.
"""

from __future__ import annotations

import sqlite3

import mqtt5

from gateway.core.effects import Effect, Save, WhenSaved
from gateway.core.engine import Engine, EngineOptions
from gateway.core.process_pauses import BEAT_S, ProcessPauses
from gateway.core.state_records import StateRecords
from gateway.frames import (
    Connack,
    Connect,
    Disconnect,
    Pingreq,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Regack,
    Register,
)
from gateway.storage.state.pending import Pending
from gateway.storage.state.store import StateStore
from tests.support.engine_bench import Bench
from tests.support.state_bench import SAVING

UNIX_S = 1_800_000_000.0


class ExpiryBench(Bench):
    def __init__(self, options: EngineOptions = SAVING, *, is_clock_set: bool = True) -> None:
        self.true_s = 0.0
        self.is_clock_set = is_clock_set
        self.database = sqlite3.connect(":memory:")
        self.holds_disk = False
        self._given = options
        self._pending = Pending()
        super().__init__(options, connected=False)
        self._begin()

    def restart(
        self, down_s: float = 0.0, *, is_boot: bool = False, is_clock_set: bool | None = None
    ) -> None:
        """The process ends, and begins again after so many seconds, perhaps with the machine."""
        self.lose_broker()
        self.true_s += down_s
        self.at = 0.0 if is_boot else self.machine_s + down_s
        if is_clock_set is not None:
            self.is_clock_set = is_clock_set
        self.heard.clear()
        self.packets.clear()
        self._begin()

    def _begin(self) -> None:
        self.pauses = ProcessPauses()
        self._store = StateStore(self.database, ["udp"])
        saved = self.state()
        self._pending = Pending(saved)
        self.engine = Engine(self._given, self.pauses)
        # Only then is the wall clock looked at, as in the daemon.
        self.take(self.engine.restore(saved, self.at))
        self.look_at_clock()
        self.connect_broker(session_present=True)

    # Time

    @property
    def machine_s(self) -> float:
        return self.at + self.pauses.left_out_s

    def look_at_clock(self) -> None:
        since_s = UNIX_S + self.true_s - self.machine_s if self.is_clock_set else 0.0
        self.engine.set_wall_clock(since_s * 1000)

    def passes(self, seconds: float) -> None:
        self.true_s += seconds
        self.wake(self.at + seconds)

    def stands_still(self, seconds: float) -> None:
        """The process does, for more than a beat."""
        self.pauses.beat(self.machine_s)
        self.true_s += seconds
        self.at = self.pauses.now(self.machine_s + seconds)
        self.take(self.engine.paused(seconds - BEAT_S, self.at))
        self.wake(self.at)
        self.pauses.rest()

    # The disk

    def state(self) -> StateRecords:
        return self._store.load()

    def take(self, effects: list[Effect]) -> None:
        others: list[Effect] = []
        for effect in effects:
            if isinstance(effect, Save):
                self._pending.add(effect.change, self.at)
            elif isinstance(effect, WhenSaved):
                self._pending.wait(effect.then, self.at)
            else:
                others.append(effect)
        super().take(others)
        if not self.holds_disk:
            self._flush()

    def let_disk_go(self) -> None:
        self.holds_disk = False
        self._flush()

    def _flush(self) -> None:
        while (batch := self._pending.take()) is not None:
            self._store.commit(batch.changes)
            self.take(self.engine.durable(self._pending.committed(batch), self.at))

    # Broker and clients

    def answer(self, packet: object) -> None:
        if isinstance(packet, mqtt5.PingReqPacket):
            self.from_broker(mqtt5.PingRespPacket().write())
        else:
            super().answer(packet)

    def publish(
        self, payload: bytes, expiry_s: int | None = None, *, topic: str = "cmd", qos: int = 1,
        retain: bool = False, is_replay: bool = False, by: str = "cmd",
    ) -> None:  # fmt: skip
        packet = mqtt5.PublishPacket(
            topic,
            payload,
            qos=mqtt5.QoS(qos),
            packet_id=7 if qos else None,
            retain=retain,
            subscription_ids=[self.identifiers[by] + is_replay],
            message_expiry_interval=expiry_s,
        )
        self.from_broker(packet.write())
        if qos == 2:
            self.from_broker(mqtt5.PubRelPacket(7).write())

    def sleeper(self, name: bytes = b"s1", topic: bytes = b"cmd", qos: int = 2) -> None:
        """Subscribes and sleeps."""
        self.join(name, clean=False)
        self.subscribe(name, topic, qos)
        self.accepts(name)
        self.falls_asleep(name)

    def newcomer(self, name: bytes, topic: bytes = b"cmd") -> list[bytes]:
        """What it gets that subscribes only now."""
        self.join(name)
        self.heard += [(name, frame) for frame in self.subscribe(name, topic, 1)]
        return self.accepts(name)

    def falls_asleep(self, name: bytes = b"s1") -> None:
        self.say(name, Disconnect(0xFFFF))

    def comes_back(self, name: bytes = b"s1") -> None:
        """It connects, and listens from now on."""
        frames = self.say(name, Connect(name, 0xFFFF, clean_session=False))
        assert Connack(0) in frames
        self.heard += [(name, frame) for frame in frames]

    def fetches(self, name: bytes = b"s1") -> list[bytes]:
        """What it gets that wakes up for a moment."""
        self.heard += [(name, frame) for frame in self.say(name, Pingreq(name))]
        return self.accepts(name)

    def accepts(self, name: bytes = b"s1") -> list[bytes]:
        """Payloads of the messages that a client has heard since; it acknowledges each."""
        payloads: list[bytes] = []
        frames = self.hear(name)
        while frames:
            match frames.pop(0):
                case Register() as frame:
                    frames += self.say(name, Regack(frame.topic_id, frame.message_id, 0))
                case Publish() as frame:
                    payloads.append(frame.payload)
                    if frame.qos == 1:
                        frames += self.say(name, Puback(frame.topic_id, frame.message_id, 0))
                    elif frame.qos == 2:
                        frames += self.say(name, Pubrec(frame.message_id))
                case Pubrel() as frame:
                    frames += self.say(name, Pubcomp(frame.message_id))
        return payloads
