"""What a seed decides before its world begins: who there is, what they want, what goes wrong.

Trouble ends at CALM_AT_S; from then on nothing is lost and everything must drain.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum
from random import Random

from gateway.core.topic_options import Acknowledge, ReadingOptions
from gateway.storage.journal.options import RECENT_SHARE
from tests.simulation.broker_limits import TAKES_ALL, BrokerLimits
from tests.simulation.disk import SEGMENT_BYTES
from tests.simulation.lossy_link import Weather
from tests.simulation.model_broker import Restart

TROUBLE_FROM_S = 2.0
CALM_AT_S = 120.0
SENSORS_MAX = 5
READINGS_MAX = 9
COMMANDS_MAX = 10  # three times as many in a rush
TROUBLES_MAX = 12
START_S_MAX = 30.0  # of a sensor's readings
OUTAGE_S_MAX = 60.0
SHORTLY_S = 2.0
REBOOT_WITHIN_S = 10.0
RUSH_AT_S = 40.0
GATEWAY_OFF_S_MAX = 30.0
PACKET_HEAD_BYTES = 150  # of a PUBLISH, at most; where that counts, payloads are not near it
RECORD_BYTES = 150  # of a reading beside its payload, and what is written of it later
# Segments: the least that works, and what these few readings do not fill.
JOURNAL_SEGMENTS = (4, 4, 16, 64)
# Sensors on one side and commands on the other meet under these names.
BROADCAST = ("all/x", "all/y")
RETAINED = ("r/1", "r/2")
SHARED_FILTERS = ("all/+", "all/#", "all/x", "r/1", "r/#", "r/+")


@dataclass(frozen=True, slots=True)
class PlannedReading:
    client_id: str
    number: int
    topic: str
    payload: bytes = field(repr=False)
    qos: int
    retain: bool
    at: float


@dataclass(frozen=True, slots=True)
class SensorPlan:
    client_id: str
    clean: bool
    keeps: bool  # has a flash
    resubscribes: bool
    message_id_first: int
    message_ids: int  # how many it has before it begins again; some have only one
    topics: tuple[str, ...]
    filters: dict[str, int]  # to QoS
    has_will: bool
    sleeps_s: int  # 0: never; by turns twice as long
    is_hasty: bool  # sleeps on when PINGREQ brought no PINGRESP within T_retry
    talks_asleep: bool  # publishes without CONNECT
    redeclares: bool  # says DISCONNECT with a duration after PINGRESP, too
    # Messages that it drops without an answer, each until then; inf: for good.
    ignores: tuple[tuple[bytes, float], ...] = ()
    window: int = 1  # readings under way at once; more than the specification allows are common


@dataclass(frozen=True, slots=True)
class Command:
    """What an application publishes."""

    at: float
    topic: str
    payload: bytes
    qos: int
    retain: bool


class Trouble(Enum):
    BREAK = "the connection to the broker breaks"
    OUTAGE = "the broker goes away and comes back"
    REBOOT = "a sensor reboots"
    MOVE = "a sensor gets a new address"
    DEATH = "a sensor dies"
    GOODBYE = "a sensor leaves"
    STOP = "the gateway is stopped"
    KILL = "the gateway is killed"
    POWER = "the gateway loses its power"
    SLOW_DISK = "the disk is slow"
    FAILING_DISK = "the disk fails"
    FULL_DISK = "the disk is full"
    HUNG_DISK = "calls to files do not return"
    TAKEN_FILES = "files of the journal are taken away"


# What the gateway says and does at the points where a crash matters.
MOMENTS = (
    "Publish",
    "Puback",
    "Pubrec",
    "Pubrel",
    "Pubcomp",
    "Connack",
    "Regack",
    "Suback",
    "Disconnect",
    "Pingresp",
    "stored",
    "packet",
    "Save",
    "release",
    "release",
    "release",
    "will",
    "will",
)
ENDS_A_LIFE = frozenset({Trouble.STOP, Trouble.KILL, Trouble.POWER})


@dataclass(frozen=True, slots=True)
class Event:
    at: float
    trouble: Trouble
    sensor: int = 0
    lasts_s: float = 0.0
    restart: Restart = Restart.KEPT
    cut: bool = False  # while it starts again, the power goes
    upon: str = ""  # not at `at`, but when the gateway does this next
    part: str = ""  # of the disk: the journal's, the state's, or both; or what is done to files


@dataclass(slots=True)
class Plan:
    trust_session: bool
    weather: Weather
    receive_max: int
    retained_first: bool
    says_not_found: bool
    replaces_contents: bool
    keeps_first_options: bool
    has_applications: bool
    stream_delay_s_max: float
    waiting_messages_max: int
    queues_qos_0: bool  # for sleepers
    retry_after_s: float  # of the gateway
    acknowledge: Acknowledge
    overrides: dict[str, Acknowledge]  # by topic filter, of which no two match one topic
    coalesce: bool
    spill_after_s: float
    flush_s_max: float
    journal_bytes: int
    sensors: list[SensorPlan] = field(default_factory=list)
    readings: list[PlannedReading] = field(default_factory=list)
    commands: list[Command] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    keeps: bool = False  # readings, until they are ingested
    ingest_away: list[tuple[float, float]] = field(default_factory=list)  # from when, how long
    awake_s_max: float = 10.0  # of a sleeper that fetches, by what comes meanwhile
    expiry_s: float = 0.0  # of readings; 0: never
    # Of the journal: its budget, start by start, if it changes; whether its files are meddled with.
    budgets: tuple[int, ...] = ()
    is_meddled: bool = False
    ingest_drops: float = 0.0  # how many of the messages for it the broker loses by itself
    limits: BrokerLimits = TAKES_ALL  # of the broker
    quota: tuple[float, float] | None = None  # of the broker: from when it is used up, till when
    block_s: float | None = None  # of the gateway, if not as in production
    packet_bytes_max: int = 1 << 20  # of the gateway
    oversized: list[Command] = field(default_factory=list)  # more than it takes in a packet

    def has(self, trouble: Trouble) -> bool:
        return any(event.trouble is trouble for event in self.events)

    @property
    def has_restarts(self) -> bool:
        """Whether the gateway does not live through all of it."""
        return any(event.trouble in ENDS_A_LIFE for event in self.events)

    @property
    def remembers_all(self) -> bool:
        """Whether the journal has room for readings long after they were settled, so that copies
        are known after a restart (a quarter of it, storage/journal/options.py).
        """
        if self.has(Trouble.FAILING_DISK) or self.is_meddled:
            return False  # what may be damaged is not kept longer than needed
        written = sum(len(one.payload) + RECORD_BYTES for one in self.readings)
        return written < self.journal_bytes // RECENT_SHARE - SEGMENT_BYTES

    def options(self, acknowledge: Acknowledge) -> ReadingOptions:
        return ReadingOptions(
            acknowledge, self.expiry_s, coalesce_retained=self.coalesce, keeps=self.keeps
        )

    def is_taken(self, reading: PlannedReading) -> bool:
        """Whether the broker takes a reading at all."""
        limits = self.limits
        if reading.topic in (*limits.ends_on_topics, *limits.denied_topics):
            return False
        size = len(reading.payload) + PACKET_HEAD_BYTES
        return limits.packet_bytes_max is None or size <= limits.packet_bytes_max

    def restarts(self) -> set[Restart]:
        return {event.restart for event in self.events if event.trouble is Trouble.OUTAGE}


def will_of(client_id: str) -> tuple[str, bytes]:
    """Topic and payload."""
    return f"w/{client_id}", f"will:{client_id}".encode()


AWAKE_S_MAX = (0.0, 0.5, 10.0)


def plan_for(dice: Random) -> Plan:
    # In a rush all sensors have everything to say at once, to a broker that takes little.
    rush = dice.random() < 0.35
    plan = Plan(
        trust_session=dice.random() < 0.5,
        weather=Weather(
            loss=dice.choice((0.0, 0.05, 0.15, 0.3, 0.5)),
            copies=dice.choice((0.0, 0.1, 0.3)),
            lifetime_s=dice.choice((0.1, 1.0, 4.0, 8.0)),
        ),
        receive_max=1 if rush else dice.choice((1, 3, 20, 20)),
        retained_first=dice.random() < 0.3,
        says_not_found=dice.random() < 0.3,
        replaces_contents=dice.random() < 0.7,
        keeps_first_options=dice.random() < 0.7,
        has_applications=dice.random() < 0.7,
        stream_delay_s_max=1.0 if rush else dice.choice((0.01, 0.1, 1.0)),
        waiting_messages_max=dice.choice((2, 1000, 1000, 1000)),
        queues_qos_0=dice.random() < 0.5,
        retry_after_s=dice.choice((10.0, 10.0, 10.0, 3.0)),
        acknowledge=_acknowledge(dice),
        overrides={"r/+/b": _acknowledge(dice)} if dice.random() < 0.3 else {},
        coalesce=dice.random() < 0.15,
        spill_after_s=dice.choice((0.05, 0.05, 0.5, 5.0)),
        flush_s_max=dice.choice((0.002, 0.01, 0.1, 0.5, 3.0)),
        journal_bytes=dice.choice(JOURNAL_SEGMENTS) * SEGMENT_BYTES,
    )
    padding = dice.choice((0, 0, 200, 900, 900))
    for number in range(SENSORS_MAX if rush else dice.randint(1, SENSORS_MAX)):
        sensor = _sensor(number, plan.weather, dice)
        plan.sensors.append(sensor)
        plan.readings += _readings(sensor, dice, padding, rush=rush)
    plan.commands += _commands(plan.sensors, dice, rush=rush)
    plan.events += _events(plan, dice)
    # A former life's unreleased QoS 2 messages: docs/guarantees.md has what that can cost.
    modes = {plan.acknowledge, *plan.overrides.values()}
    is_disk_well = not plan.has(Trouble.FAILING_DISK) and not plan.has(Trouble.FULL_DISK)
    knows_all = is_disk_well and plan.remembers_all and Acknowledge.UPSTREAM not in modes
    plan.replaces_contents |= plan.has_restarts and not knows_all
    # By the state of the dice, not by a throw of them, which would make other worlds of them all.
    plan.awake_s_max = AWAKE_S_MAX[dice.getstate()[1][0] % len(AWAKE_S_MAX)]
    return plan


def _acknowledge(dice: Random) -> Acknowledge:
    return dice.choice(
        (
            Acknowledge.AUTO,
            Acknowledge.AUTO,
            Acknowledge.JOURNAL,
            Acknowledge.JOURNAL,
            Acknowledge.UPSTREAM,
        )
    )


def _sensor(number: int, weather: Weather, dice: Random) -> SensorPlan:
    # With one message id for everything, a copy that the network makes of a QoS 1 PUBLISH cannot
    # be told from the next reading with the same contents; docs/guarantees.md has the condition.
    message_ids = 1 if weather.copies == 0.0 else 6
    client_id = f"s{number}"
    keeps = dice.random() < 0.5
    clean = dice.random() < 0.2
    filters = {f"c/{client_id}": dice.randint(0, 2)} if dice.random() < 0.7 else {}
    for topic_filter in dice.sample(SHARED_FILTERS, dice.randint(0, 2)):
        filters[topic_filter] = dice.randint(0, 2)
    return SensorPlan(
        client_id,
        clean=clean,
        keeps=keeps,
        resubscribes=dice.random() < 0.5,
        message_id_first=dice.choice((1, 1, 65_533)),
        message_ids=dice.choice(
            (message_ids, 65_535) if keeps else (message_ids, message_ids, 65_535)
        ),
        topics=tuple(f"r/{client_id}/{name}" for name in "ab"[: dice.randint(1, 2)]),
        filters=filters,
        has_will=dice.random() < 0.5,
        sleeps_s=0 if clean or dice.random() < 0.5 else dice.choice((5, 10, 25, 70)),
        is_hasty=dice.random() < 0.5,
        talks_asleep=dice.random() < 0.5,
        redeclares=dice.random() < 0.3,
    )


def _readings(
    sensor: SensorPlan, dice: Random, padding: int, *, rush: bool
) -> list[PlannedReading]:
    readings = []
    at = RUSH_AT_S if rush else dice.random() * START_S_MAX
    pause_s_max = 0.5 if rush else dice.choice((0.3, 2.0, 15.0, 30.0))
    for number in range(dice.randint(1, READINGS_MAX)):
        at += 0.1 + dice.random() * pause_s_max
        payload = f"{sensor.client_id}:{number};".encode() + b"." * padding
        topic = dice.choice(sensor.topics)
        retain = dice.random() < 0.2
        qos = dice.choice((0, 1, 1, 2, 2))
        readings.append(PlannedReading(sensor.client_id, number, topic, payload, qos, retain, at))
    return readings


def _commands(sensors: list[SensorPlan], dice: Random, *, rush: bool) -> list[Command]:
    commands = []
    for number in range(dice.randint(0, COMMANDS_MAX * (3 if rush else 1))):
        topic = dice.choice((f"c/{dice.choice(sensors).client_id}", *BROADCAST, *RETAINED))
        at = dice.random() * (CALM_AT_S + 20.0)
        qos = dice.choice((0, 1, 2, 2))
        commands.append(Command(at, topic, f"c:{number}".encode(), qos, topic in RETAINED))
    return commands


def _moment(busy: list[float], dice: Random) -> float:
    """Any time, or one in which something is under way."""
    if busy and dice.random() < 0.5:
        return dice.choice(busy) + dice.random() * SHORTLY_S
    return TROUBLE_FROM_S + dice.random() * (CALM_AT_S - TROUBLE_FROM_S)


def _events(plan: Plan, dice: Random) -> list[Event]:
    restarts = [Restart.KEPT]
    if dice.random() < (0.4 if plan.trust_session else 0.7):
        restarts += [Restart.LOST]
        # What a broker forgets that says otherwise, only trust = connection repairs.
        restarts += [] if plan.trust_session else [Restart.FORGETFUL, Restart.FORGETFUL]
    troubles = [Trouble.BREAK, Trouble.OUTAGE, Trouble.OUTAGE, Trouble.REBOOT, Trouble.MOVE]
    if dice.random() < 0.4:
        troubles += [Trouble.DEATH, Trouble.DEATH, Trouble.GOODBYE]
    troubles += [Trouble.REBOOT] * 2 if plan.receive_max == 1 else []
    if dice.random() < 0.7:
        troubles += [dice.choice((Trouble.STOP, Trouble.KILL, Trouble.POWER)) for _ in range(6)]
    if dice.random() < 0.4:
        troubles += [Trouble.SLOW_DISK, Trouble.FAILING_DISK, Trouble.FAILING_DISK]
        troubles += [Trouble.FULL_DISK]
    busy = [reading.at for reading in plan.readings] + [command.at for command in plan.commands]
    busy = [at for at in busy if at < CALM_AT_S - SHORTLY_S]
    events = []
    for _ in range(dice.randint(0, TROUBLES_MAX)):
        event = Event(
            at=_moment(busy, dice),
            trouble=dice.choice(troubles),
            sensor=dice.randrange(len(plan.sensors)),
            lasts_s=dice.random() ** 2 * OUTAGE_S_MAX,
            restart=dice.choice(restarts),
            cut=dice.random() < 0.2,
            upon=dice.choice(MOMENTS) if dice.random() < 0.5 else "",
        )
        if event.trouble is Trouble.OUTAGE and dice.random() < 0.5:
            # A sensor that forgets while its reading waits for the broker.
            event = replace(event, lasts_s=OUTAGE_S_MAX * (1 + dice.random()) / 2)
            during = event.at + dice.random() * REBOOT_WITHIN_S
            events.append(Event(min(during, CALM_AT_S), Trouble.REBOOT, event.sensor))
        events.append(event)
    return events
