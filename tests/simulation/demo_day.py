"""The demo's fleet for hours, in virtual time: what stays in memory, what is written to the log.

The sensors are those of `tidegate demo`, three that are always awake and two that sleep, at the
demo's intervals; engine, journal, state, herald and log are the gateway's own. The broker is away
for a minute each six hours, and Home Assistant starts again each hour.

    python -m tests.simulation.demo_day      the figures of a day, hour by hour
"""

from __future__ import annotations

import argparse
import gc
import logging
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from gateway.admin.event_log import EventLog
from gateway.admin.log.logs import TextLines
from gateway.app.core_options import first_topic_id
from gateway.cli.demo.play import INTERVAL_S, SLEEPERS, SLEEPERS_INTERVAL_S
from gateway.cli.sensors.client_effects import Acknowledged, Send
from gateway.cli.sensors.pace import Pace
from gateway.cli.sensors.sensor import News as SensorNews
from gateway.cli.sensors.sensor import SimulatedSensor
from gateway.core.effects import Effect
from gateway.core.engine import EngineOptions
from gateway.core.mqtt.options import MqttOptions
from gateway.presence.availability import Availability
from gateway.presence.homeassistant.announcements import Announcements
from gateway.presence.homeassistant.discovery_documents import DiscoveryDocuments
from gateway.presence.last_values import LastValues
from gateway.presence.latest import Latest
from gateway.presence.publisher import BEAT_S, PresencePublisher
from gateway.presence.queue import PresenceQueue
from gateway.presence.retained_ledger import RetainedLedgerFile
from gateway.presence.sampler import Sampler
from gateway.presence.topics import Topics
from tests.simulation.agenda import Agenda
from tests.simulation.disk import Disk
from tests.simulation.gateway_host import GatewayHost
from tests.simulation.model_broker import ModelBroker, Publication, Restart

HOUR_S = 3600.0
AIR_S = 0.002
BIRTH_TOPIC = "homeassistant/status"
AWAY_EACH_S, AWAY_S = 6 * HOUR_S, 60.0


@dataclass(frozen=True, slots=True)
class Passed:
    """At the end of a part of it: blocks that Python has allocated, and since the beginning octets
    of the log, readings acknowledged, messages said.
    """

    blocks: int
    log_bytes: int
    acknowledged: int
    said: int  # messages of the gateway's own at the broker


class _Counted(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.setFormatter(TextLines())
        self.octets = 0

    def emit(self, record: logging.LogRecord) -> None:
        self.octets += len(self.format(record).encode()) + 1


class DemoDay:
    def __init__(self, folder: Path, sensors: int = 5, seed: int = 1) -> None:
        self.acknowledged = 0
        self._said = 0
        self._agenda = Agenda()
        dice = Random(seed)
        self._broker = ModelBroker(1000, has_applications=True)
        self._broker.on_routed = self._routed
        disk = Disk(dice, 0.01, 1 << 20)
        self._host = GatewayHost(_options, self._agenda, dice, self._broker, disk, 0.002)
        self._news = EventLog(peer_text=lambda peer: peer.address.decode(), now=self._time)
        self._host.on_news = self._tell
        self._host.send = self._to_sensor
        self._host.start()
        self._herald, self._lookout = self._heralded(folder)
        self._sensors = [self._sensor(number, dice) for number in range(sensors)]
        self._log = _Counted()

    def run(self, parts: int, part_s: float = HOUR_S) -> Iterator[Passed]:
        """What is after each part, as it passes."""
        ours = logging.getLogger("tidegate")
        level = ours.level
        ours.addHandler(self._log)
        ours.setLevel(logging.INFO)
        try:
            self._begin()
            yield from (self._until(number * part_s) for number in range(1, parts + 1))
        finally:
            ours.removeHandler(self._log)
            ours.setLevel(level)

    def _begin(self) -> None:
        for number, sensor in enumerate(self._sensors):
            self._perform(number, sensor.start(self._time()))
        self._each(BEAT_S, lambda: self._herald.beat(self._time()))
        self._each(1.0, self._keep_house)
        self._each(
            HOUR_S, lambda: self._broker.route(Publication(BIRTH_TOPIC, b"online", 0, False))
        )
        self._each(AWAY_EACH_S, self._lose_broker)

    def _until(self, end: float) -> Passed:
        while (at := self._agenda.next_at()) is not None and at < end:
            self._agenda.happen()
        gc.collect()
        return Passed(sys.getallocatedblocks(), self._log.octets, self.acknowledged, self._said)

    # The gateway

    def _heralded(self, folder: Path) -> tuple[PresencePublisher, Sampler]:
        engine = self._host.engine
        sampler = Sampler(engine, Latest(), hears_all=True)

        values = LastValues(values_max=64, characters_max=255)
        topics = Topics("", "demo")
        announcer = DiscoveryDocuments(topics, "homeassistant", "demo", "1")
        saying = PresenceQueue(
            topics,
            RetainedLedgerFile(folder),
            board=Availability(engine.sessions, topics, lambda _peer: "udp0"),
            announcements=Announcements(announcer, values.document),
            values=values,
            stats=lambda: {"at": self._time()},
            stats_s=60,
            will_delay_s=10,
        )
        publisher = PresencePublisher(
            engine=engine,
            saying=saying,
            perform=self._host.ask,
            messages_per_s_max=50,
            clock=self._time,
        )
        publisher.listen_to(sampler.latest)
        saying.restore(lambda client_id: client_id in engine.sessions)
        return publisher, sampler

    def _tell(self, effect: Effect) -> None:
        self._news.record(effect)
        self._herald.record(effect)

    def _keep_house(self) -> None:
        self._news.flush()
        self._lookout.beat()

    def _lose_broker(self) -> None:
        self._broker.stop()
        self._agenda.after(AWAY_S, self._broker.start, Restart.LOST)

    def _routed(self, publication: Publication) -> None:
        self._said += publication.topic.startswith(("tidegate/", "homeassistant/"))

    # The sensors

    def _sensor(self, number: int, dice: Random) -> SimulatedSensor:
        pace = SLEEPERS.get(number % 5, Pace())
        interval_s = SLEEPERS_INTERVAL_S if pace.sleep_s else INTERVAL_S
        return SimulatedSensor(f"sensor-{number}", 1, interval_s, 1.8e9, dice, pace)

    def _perform(self, number: int, news: list[SensorNews]) -> None:
        sensor = self._sensors[number]
        for each in news:
            if isinstance(each, Send):
                address = b"%d" % number
                self._agenda.after(AIR_S, self._host.receive, address, each.datagram)
            elif isinstance(each, Acknowledged):
                self.acknowledged += 1
        wake_at = sensor.wake_at()
        if wake_at is not None:
            self._agenda.at(wake_at, self._wake, number, wake_at)

    def _wake(self, number: int, wake_at: float) -> None:
        sensor = self._sensors[number]
        if sensor.wake_at() == wake_at:
            self._perform(number, sensor.handle_time(self._time()))

    def _to_sensor(self, address: bytes, datagram: bytes) -> None:
        self._agenda.after(AIR_S, self._heard, int(address), datagram)

    def _heard(self, number: int, datagram: bytes) -> None:
        self._perform(number, self._sensors[number].receive(datagram, self._time()))

    # Time

    def _time(self) -> float:
        return self._agenda.now

    def _each(self, seconds: float, action: object) -> None:
        def again() -> None:
            assert callable(action)
            action()
            self._agenda.after(seconds, again)

        self._agenda.after(seconds, again)


def _options(epoch: int) -> EngineOptions:
    upstream = MqttOptions("demo", epoch, "tidegate-demo", own_filters=((BIRTH_TOPIC, 0),))
    return EngineOptions(upstream, first_topic_id=first_topic_id(epoch, epoch), saves=True)


def main() -> None:
    argparse.ArgumentParser(description=__doc__.partition("\n")[0]).parse_args()
    say = sys.stdout.write
    say("hour  readings acknowledged  said on MQTT  blocks of memory  log, bytes\n")
    with TemporaryDirectory() as folder:
        for hour, passed in enumerate(DemoDay(Path(folder)).run(24), 1):
            say(
                f"{hour:4}  {passed.acknowledged:21,}  {passed.said:12,}  {passed.blocks:16,}"
                f"  {passed.log_bytes:11,}\n"
            )
            sys.stdout.flush()


if __name__ == "__main__":
    main()
