"""Worlds that are hard in one respect: a hundred of them find what ten thousand others find once.

Each kind is an ordinary plan with other troubles, and with `trust = "session"`, because then it
matters most what the journal says.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import inf
from random import Random

from gateway.core.topic_options import Acknowledge
from gateway.storage.journal.options import SEGMENTS_MIN
from tests.simulation.broker_limits import BrokerLimits
from tests.simulation.disk import (
    FOLDER_EMPTIED,
    FOLDER_MOVED,
    JOURNAL,
    SEGMENT_BYTES,
    SEGMENT_COPIED,
    SEGMENT_GONE,
    STATE,
)
from tests.simulation.model_broker import Restart
from tests.simulation.plan import (
    BROADCAST,
    CALM_AT_S,
    RUSH_AT_S,
    SHARED_FILTERS,
    START_S_MAX,
    Command,
    Event,
    Plan,
    Trouble,
    plan_for,
)
from tests.simulation.world_rules import PRESENCE_TOPIC

BUSY_S = 40.0  # from the first reading on
SHORT_S = 10.0
WINDOW_MAX = 4  # readings of a sensor under way at once
BURST, BURST_PAUSE_S = 3, 8.0  # of one that sleeps: enough to fall asleep in
EXPIRY_S = 3600.0
HANG_S_MAX = 50.0
TAKEN = (SEGMENT_GONE, SEGMENT_GONE, SEGMENT_COPIED, FOLDER_EMPTIED, FOLDER_MOVED)
# So that segments have 4, 8 and 16 KiB.
BUDGETS = (4 * SEGMENT_BYTES, 8 * SEGMENT_BYTES, 16 * SEGMENT_BYTES, 32 * SEGMENT_BYTES)
RETRY_S, ROUND_S = 10.0, 50.0  # of the gateway; with all repeats
DEAF_ROUNDS = 1.5
READINGS_MIN = 25  # where a queue is wanted
ENDS = (Trouble.POWER, Trouble.KILL, Trouble.KILL)


def forgetful(dice: Random) -> Plan:
    """The broker loses its sessions with QoS 2 readings under way, and the gateway ends too."""
    plan = _trusting(dice, qos_2=0.7)
    restarts = (Restart.LOST, Restart.LOST, Restart.KEPT)
    upon = ("packet", "release", "release", "stored", "", "")
    return _with(plan, dice, [*_outages(plan, dice, restarts), *_ends(plan, dice, upon)])


def faithful(dice: Random) -> Plan:
    """The broker keeps its sessions, whatever ends: QoS 2 must arrive once."""
    plan = _trusting(dice, qos_2=0.7)
    upon = ("packet", "release", "release", "stored", "", "")
    breaks = [Event(_busy(plan, dice), Trouble.BREAK, sensor=0) for _ in range(dice.randint(0, 3))]
    events = [*_outages(plan, dice, (Restart.KEPT,)), *_ends(plan, dice, upon), *breaks]
    return _with(plan, dice, events)


def full(dice: Random) -> Plan:
    """As faithful, but readings are long and the journal is full: many go without it."""
    plan = _trusting(dice, qos_2=0.8)
    plan.journal_bytes = SEGMENTS_MIN * SEGMENT_BYTES
    plan.stream_delay_s_max = max(plan.stream_delay_s_max, 0.1)
    plan.readings = [
        replace(reading, payload=reading.payload.ljust(900, b".")) for reading in plan.readings
    ]
    upon = ("release", "release", "release", "release", "Pubrec", "not stored", "")
    ends = [*_ends(plan, dice, upon), *_ends(plan, dice, upon)]
    events = [replace(end, trouble=Trouble.STOP) if dice.random() < 0.3 else end for end in ends]
    for _ in range(3):
        lasts_s = dice.random() * 2 * SHORT_S
        events.append(Event(_busy(plan, dice), Trouble.FULL_DISK, lasts_s=lasts_s))
        events.append(Event(_busy(plan, dice), Trouble.BREAK))
    return _with(plan, dice, [*events, *_outages(plan, dice, (Restart.KEPT,))[:2]])


def dying(dice: Random) -> Plan:
    """As full, and half of the sensors die: their wills may find no room either."""
    plan = full(dice)
    for number in range(len(plan.sensors) // 2):
        plan.sensors[number] = replace(plan.sensors[number], has_will=True)
        plan.events.append(Event(_busy(plan, dice), Trouble.DEATH, sensor=number))
    return plan


def failing(dice: Random) -> Plan:
    """The disk fails for seconds, the broker is away or not, and the gateway ends."""
    plan = _trusting(dice, qos_2=0.6)
    plan.flush_s_max = min(plan.flush_s_max, 0.1)
    upon = ("packet", "unsure", "unsure", "not stored", "journal", "", "")
    events = _ends(plan, dice, upon)
    for _ in range(dice.randint(2, 6)):
        at = _busy(plan, dice)
        lasts_s = dice.random() * 2 * SHORT_S
        events.append(Event(at, Trouble.FAILING_DISK, lasts_s=lasts_s))
        if dice.random() < 0.3:
            away_at = max(0.0, at - 1.0 + dice.random() * 4)
            events.append(Event(away_at, Trouble.OUTAGE, lasts_s=1.0 + dice.random() * SHORT_S))
    return _with(plan, dice, events)


def losing(dice: Random) -> Plan:
    """The broker loses what it has acknowledged before it is ingested, and the gateway ends."""
    plan = _trusting(dice, qos_2=0.3)
    plan.trust_session = dice.random() < 0.5
    plan.keeps, plan.coalesce, plan.overrides = True, False, {}
    plan.acknowledge = dice.choice((Acknowledge.AUTO, Acknowledge.JOURNAL))
    plan.journal_bytes = 64 * SEGMENT_BYTES
    plan.ingest_drops = dice.choice((0.0, 0.1, 0.4))
    for _ in range(dice.randint(0, 3)):
        plan.ingest_away.append((_busy(plan, dice), dice.random() * BUSY_S))
    # What a broker forgets that says otherwise, only trust = connection repairs.
    other = Restart.KEPT if plan.trust_session else Restart.FORGETFUL
    restarts = (Restart.LOST, Restart.KEPT, other)
    upon = ("packet", "stored", "release", "", "")
    breaks = [Event(_busy(plan, dice), Trouble.BREAK, sensor=0) for _ in range(dice.randint(0, 2))]
    events = [*_outages(plan, dice, restarts), *breaks]
    return _with(plan, dice, events + _ends(plan, dice, upon)[: dice.randint(0, 4)])


def slow(dice: Random) -> Plan:
    """The broker settles one reading after another, and each takes it seconds. Sensors start anew
    and leave behind what waits for it, then it goes away, and the gateway's power too.
    """
    plan = _trusting(dice, qos_2=0.6)
    while len(plan.readings) < READINGS_MIN:
        plan = _trusting(dice, qos_2=0.6)
    plan.acknowledge, plan.overrides, plan.coalesce = Acknowledge.AUTO, {}, False
    plan.receive_max, plan.stream_delay_s_max = 1, 1.0
    plan.spill_after_s = dice.choice((0.5, 5.0, 5.0, 5.0))
    plan.flush_s_max = min(plan.flush_s_max, 0.1)
    plan.weather = replace(plan.weather, loss=dice.choice((0.0, 0.05)))
    plan.sensors = [replace(sensor, sleeps_s=0, clean=True, keeps=False) for sensor in plan.sensors]
    plan.readings = [
        replace(reading, at=RUSH_AT_S + 0.5 * reading.number + dice.random() * 0.4)
        for reading in plan.readings
    ]
    plan.events = [
        Event(
            RUSH_AT_S + dice.random() * SHORT_S,
            Trouble.REBOOT,
            sensor=dice.randrange(len(plan.sensors)),
        )
        for _ in range(8)
    ]
    away_at = RUSH_AT_S + SHORT_S + dice.random() * BUSY_S / 2
    restart = dice.choice((Restart.KEPT, Restart.LOST))
    plan.events += [
        Event(away_at, Trouble.OUTAGE, lasts_s=1.0 + dice.random() * SHORT_S, restart=restart),
        Event(away_at + dice.random() * SHORT_S, dice.choice(ENDS), lasts_s=1.0),
    ]
    return plan


def eager(dice: Random) -> Plan:
    """Sensors with several readings under way at once, where much is written to the disk late:
    a slow broker or none, a gateway that ends, a network that overtakes.
    """
    plan = _trusting(dice, qos_2=0.4)
    plan.coalesce = False
    plan.spill_after_s = dice.choice((0.05, 0.5, 5.0))
    plan.flush_s_max = dice.choice((0.01, 0.1, 1.0))
    plan.receive_max = dice.choice((1, 1, 3, 20))
    plan.stream_delay_s_max = dice.choice((0.1, 1.0))
    plan.sensors = [
        replace(sensor, window=dice.randint(2, WINDOW_MAX), message_ids=0xFFFF, sleeps_s=0)
        for sensor in plan.sensors
    ]
    first = {sensor.client_id: RUSH_AT_S + dice.random() * SHORT_S for sensor in plan.sensors}
    pause_s = dice.choice((0.01, 0.5, 2.0))
    plan.readings = [
        replace(reading, at=first[reading.client_id] + (reading.number + dice.random()) * pause_s)
        for reading in plan.readings
    ]
    upon = ("packet", "stored", "release", "Puback", "Pubrec", "", "")
    restarts = (Restart.KEPT, Restart.KEPT, Restart.LOST)
    breaks = [Event(_busy(plan, dice), Trouble.BREAK) for _ in range(dice.randint(0, 2))]
    events = [*_outages(plan, dice, restarts)[:3], *breaks]
    return _with(plan, dice, events + _ends(plan, dice, upon)[: dice.randint(1, 4)])


def napping(dice: Random) -> Plan:
    """As eager, but they sleep between bursts of readings, and wake with some of them to send."""
    plan = eager(dice)
    plan.sensors = [
        replace(sensor, clean=False, sleeps_s=dice.choice((2, 3, 5))) for sensor in plan.sensors
    ]
    plan.readings = [
        replace(reading, at=reading.at + BURST_PAUSE_S * (reading.number // BURST))
        for reading in plan.readings
    ]
    return plan


def late(dice: Random) -> Plan:
    """The gateway's loop is late for minutes and its clocks jump (lateness.py). All sensors have a
    will, half of them sleep, and readings that expire live longer than the world. The machine is
    not booted: after that a wall clock that jumped is all there is to tell an age by. No sensor
    uses a message id again soon: a datagram lives on in the socket of a process that is stopped.
    """
    plan = plan_for(dice)
    plan.expiry_s, plan.replaces_contents = EXPIRY_S, True
    plan.weather = replace(plan.weather, loss=dice.choice((0.0, 0.0, 0.05)))
    for number, sensor in enumerate(plan.sensors):
        sleeps_s = 0 if sensor.clean or number % 2 else dice.choice((5, 10, 25, 70))
        plan.sensors[number] = replace(
            sensor, has_will=True, sleeps_s=sleeps_s, keeps=True, message_ids=0xFFFF
        )
    plan.events = [
        replace(
            event,
            trouble=Trouble.KILL if event.trouble is Trouble.POWER else event.trouble,
            cut=False,
        )
        for event in plan.events[: dice.choice((0, 0, 2, 4))]
    ]
    if dice.random() < 0.3:  # readings wait on the disk for another run
        away_at = _busy(plan, dice)
        plan.events.append(Event(away_at, Trouble.OUTAGE, lasts_s=SHORT_S + dice.random() * BUSY_S))
        plan.events.append(Event(away_at + dice.random() * SHORT_S, Trouble.KILL, lasts_s=1.0))
    return plan


def hung(dice: Random) -> Plan:
    """Calls to files do not return for a while, or until the gateway is killed."""
    plan = _trusting(dice, qos_2=0.3)
    plan.flush_s_max = min(plan.flush_s_max, 0.1)
    events: list[Event] = []
    for _ in range(dice.randint(1, 4)):
        at = _busy(plan, dice)
        part = dice.choice(("", "", JOURNAL, STATE))
        lasts_s = SHORT_S / 2 + dice.random() ** 2 * HANG_S_MAX
        if dice.random() < 0.25:
            kill = dice.choice((Trouble.KILL, Trouble.KILL, Trouble.STOP, Trouble.POWER))
            events.append(Event(at + lasts_s, kill))
            lasts_s = inf
        events.append(Event(at, Trouble.HUNG_DISK, lasts_s=lasts_s, part=part))
    if dice.random() < 0.5:
        events += _outages(plan, dice, (Restart.KEPT,))[:2]
    if dice.random() < 0.5:
        events += _ends(plan, dice, ("packet", "stored", "release", "", ""))[:2]
    return _with(plan, dice, events)


def resized(dice: Random) -> Plan:
    """The journal's budget is another one at each start, its spares are cut, replaced and removed
    between runs, and the disk was nearly full once or cannot preallocate.
    """
    plan = _trusting(dice, qos_2=0.5)
    plan.is_meddled = True
    plan.journal_bytes = min(BUDGETS)
    plan.budgets = tuple(dice.choice(BUDGETS) for _ in range(5))
    plan.acknowledge = dice.choice((Acknowledge.AUTO, Acknowledge.JOURNAL, Acknowledge.JOURNAL))
    plan.flush_s_max = min(plan.flush_s_max, 0.1)
    size = dice.choice((200, 900))
    plan.readings = [
        replace(reading, payload=reading.payload.ljust(size, b".")) for reading in plan.readings
    ]
    ends = (Trouble.STOP, Trouble.KILL, Trouble.POWER)
    events = [
        Event(_busy(plan, dice), dice.choice(ends), 0, dice.random() * 3, cut=dice.random() < 0.2)
        for _ in range(dice.randint(2, 6))
    ]
    for _ in range(dice.randint(0, 3)):
        lasts_s = dice.random() * 2 * SHORT_S
        events.append(Event(_busy(plan, dice), Trouble.FULL_DISK, lasts_s=lasts_s))
    return _with(plan, dice, [*events, *_outages(plan, dice, (Restart.KEPT,))[:2]])


def taken(dice: Random) -> Plan:
    """Somebody removes, replaces or moves the journal's files while the gateway runs."""
    plan = _trusting(dice, qos_2=0.5)
    plan.is_meddled = True
    plan.coalesce = False
    plan.flush_s_max = min(plan.flush_s_max, 0.1)
    plan.acknowledge = dice.choice((Acknowledge.AUTO, Acknowledge.JOURNAL, Acknowledge.JOURNAL))
    events = _outages(plan, dice, (Restart.KEPT,))[:3]
    events = [replace(event, lasts_s=event.lasts_s + SHORT_S) for event in events]
    for _ in range(dice.randint(1, 3)):
        at, lasts_s = _busy(plan, dice), dice.random() * 2 * SHORT_S
        part = dice.choice(TAKEN)
        events.append(Event(at, Trouble.TAKEN_FILES, lasts_s=lasts_s, part=part))
        if dice.random() < 0.5:
            events.append(Event(at + lasts_s, Trouble.STOP))
    # Somebody starts it again, as its log says.
    return _with(plan, dice, [*events, Event(CALM_AT_S - SHORT_S, Trouble.STOP)])


def ending(dice: Random) -> Plan:
    """The broker ends the connection for what it does not take, or denies it: readings on a topic
    of one or two of the sensors, their wills, their filters, too many filters at once.
    """
    plan = plan_for(dice)
    plan.events = [
        *plan.events[: dice.choice((0, 2, 4))],
        *_outages(plan, dice, tuple(plan.restarts() or {Restart.KEPT}))[: dice.randint(0, 2)],
        *_ends(plan, dice, ("aside", "aside", "packet", "stored", "", ""))[: dice.randint(0, 3)],
    ]
    culprits = dice.sample(range(len(plan.sensors)), min(len(plan.sensors), dice.choice((1, 2))))
    topics, filters = [], []
    for number in culprits:
        faults = {dice.choice(("topic", "topic", "filter", "will")) for _ in range(3)}
        if "topic" in faults:
            topics.append(_moved_to_a_topic_of_its_own(plan, dice, number))
        if "filter" in faults:
            filters.append(_with_another_filter(plan, dice, number))
        if "will" in faults:
            plan.sensors[number] = replace(plan.sensors[number], has_will=True)
            plan.events.append(Event(_busy(plan, dice), Trouble.DEATH, sensor=number))
            topics.append(f"w/{plan.sensors[number].client_id}")
    plan.replaces_contents |= plan.has_restarts
    how = dice.choice(("ends", "ends", "ends", "denies", "both"))
    own = (PRESENCE_TOPIC,) if dice.random() < 0.2 else ()
    plan.limits = BrokerLimits(
        ends_on_topics=(*topics, *own) if how == "ends" else own,
        ends_on_filters=tuple(filters) if how == "ends" else (),
        filters_max=dice.choice((0, 0, 1, 2)),
        denied_topics=tuple(topics) if how != "ends" else (),
        denied_filters=tuple(filters) if how != "ends" else (),
        ends_after_denial=how == "both",
        acknowledged_with=dice.choice((0, 0, 1, 2)),
        joins_identifiers=dice.random() < 0.4,
        packet_bytes_max=512 if dice.random() < 0.25 else None,
    )
    plan.block_s = dice.choice((None, None, 20.0))
    if dice.random() < 0.3:
        plan.stream_delay_s_max = min(plan.stream_delay_s_max, 0.1)
        used_up_at = _busy(plan, dice)
        plan.quota = used_up_at, used_up_at + dice.random() * SHORT_S
    if dice.random() < 0.3:
        plan.packet_bytes_max = 2000
        large = [
            Command(
                _busy(plan, dice), dice.choice(BROADCAST), b"large".ljust(size, b"."), qos, False
            )
            for size, qos in ((1990, 0), (5000, 1), (20_000, 2))
        ]
        plan.oversized = [each for each in large if dice.random() < 0.7]
    return plan


def deaf(dice: Random) -> Plan:
    """A sensor drops a message without an answer for longer than its repeats last, and the next one
    for good. Others wait behind them, and it is heard all the time.
    """
    plan = plan_for(dice)
    plan.retry_after_s = RETRY_S
    plan.weather = replace(plan.weather, loss=dice.choice((0.0, 0.0, 0.05)))
    plan.events = [event for event in plan.events if event.sensor][: dice.choice((0, 0, 2))]
    at = START_S_MAX + dice.random() * SHORT_S
    topic = dice.choice(BROADCAST)
    first, second, *others = (
        Command(at + number, topic, b"deaf:%d" % number, dice.choice((1, 2)), retain=False)
        for number in range(5)
    )
    plan.commands += [first, second, *others]
    plan.sensors[0] = replace(
        plan.sensors[0],
        clean=False,
        keeps=True,
        sleeps_s=0,
        filters={"all/#": dice.choice((1, 2))},
        ignores=((first.payload, at + DEAF_ROUNDS * ROUND_S), (second.payload, inf)),
    )
    return plan


KINDS: dict[str, Callable[[Random], Plan]] = {
    "any": plan_for,
    "forgetful": forgetful,
    "faithful": faithful,
    "full": full,
    "dying": dying,
    "failing": failing,
    "losing": losing,
    "slow": slow,
    "eager": eager,
    "napping": napping,
    "late": late,
    "hung": hung,
    "resized": resized,
    "taken": taken,
    "ending": ending,
    "attacked": plan_for,
    "deaf": deaf,
}


def _moved_to_a_topic_of_its_own(plan: Plan, dice: Random, number: int) -> str:
    """Some of a sensor's readings."""
    sensor = plan.sensors[number]
    topic = f"x/{sensor.client_id}"
    plan.sensors[number] = replace(sensor, topics=(*sensor.topics, topic))
    share = dice.choice((0.2, 0.5, 1.0))
    plan.readings = [
        replace(reading, topic=topic)
        if reading.client_id == sensor.client_id and dice.random() < share
        else reading
        for reading in plan.readings
    ]
    return topic


def _with_another_filter(plan: Plan, dice: Random, number: int) -> str:
    """Of its own, or one that others may have too, or need in place of narrower ones."""
    sensor = plan.sensors[number]
    topic_filter = dice.choice((f"no/{sensor.client_id}", f"no/{number}/+", *SHARED_FILTERS))
    filters = sensor.filters | {topic_filter: dice.randint(0, 2)}
    plan.sensors[number] = replace(sensor, filters=filters)
    return topic_filter


def _trusting(dice: Random, qos_2: float) -> Plan:
    plan = plan_for(dice)
    plan.trust_session = plan.replaces_contents = True
    plan.readings = [
        replace(reading, qos=2) if dice.random() < qos_2 else reading for reading in plan.readings
    ]
    return plan


def _busy(plan: Plan, dice: Random) -> float:
    return min(reading.at for reading in plan.readings) + dice.random() * BUSY_S


def _outages(plan: Plan, dice: Random, restarts: tuple[Restart, ...]) -> list[Event]:
    return [
        Event(
            _busy(plan, dice),
            Trouble.OUTAGE,
            lasts_s=dice.random() ** 2 * SHORT_S,
            restart=dice.choice(restarts),
        )
        for _ in range(dice.randint(1, 6))
    ]


def _ends(plan: Plan, dice: Random, upon: tuple[str, ...]) -> list[Event]:
    return [
        Event(
            _busy(plan, dice),
            dice.choice(ENDS),
            lasts_s=dice.random() ** 2 * SHORT_S,
            cut=dice.random() < 0.2,
            upon=dice.choice(upon),
        )
        for _ in range(dice.randint(1, 5))
    ]


def _with(plan: Plan, dice: Random, events: list[Event]) -> Plan:
    reboots = [event for event in plan.events if event.trouble is Trouble.REBOOT]
    plan.events = events + reboots[: dice.randint(0, 3)]
    return plan
