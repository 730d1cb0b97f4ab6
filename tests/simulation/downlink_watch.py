"""Holds what docs/guarantees.md promises for messages from the broker to sensors.

A sensor is *entitled* to what matches one of its filters from the moment at which it has heard
SUBACK and the broker has a subscription of the gateway that covers the filter at its QoS. Before
that no filter is accepted, but where the broker has been away for a while. What a sensor is
entitled to at QoS 1 or 2 is *owed* to it, also by the gateway's next lives. A broker that forgets
ends both. A sensor with a clean session is owed nothing, because its session may end without its
knowledge.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf

from gateway.core.effects import Effect, SubscriptionRefused
from gateway.core.session.options import SessionOptions
from gateway.core.session.session import Session
from gateway.core.state_records import State, SubscriptionRecord
from gateway.core.values import Peer
from gateway.frames import (
    Connect,
    Disconnect,
    Frame,
    Pingreq,
    Pingresp,
    Puback,
    Pubcomp,
    Publish,
    Pubrel,
    Regack,
    Register,
    ReturnCode,
    Suback,
    Subscribe,
)
from tests.simulation.model_broker import ModelBroker, Publication, Subscription, matches
from tests.simulation.plan import RETAINED, Command, Plan, SensorPlan
from tests.simulation.sensor import Sensor
from tests.simulation.watch import broken

ONE_AT_A_TIME = "4a one message at a time down"
IN_ORDER = "4b commands in order"
NOTHING_MISSED = "4c no command missed"
PINGRESP_LAST = "4g PINGRESP after the last acknowledgement"
ALL_ASKED_FOR = "4h what waited at the asking, before PINGRESP"
ONCE = "4d QoS 2 commands once"
RETAINED_ONCE = "4e retained once, with the flag"
LATEST_VALUE = "4f the latest retained value"

RETRY_COUNT_MAX = SessionOptions().retry_count_max
ROUNDS_MAX = 3  # not the gateway's, which may be mistaken


@dataclass(slots=True)
class Ear:
    """One sensor, as far as it listens."""

    plan: SensorPlan
    peer: Peer | None = None  # where the gateway took it to be
    outstanding: Publish | Register | None = None  # what it has not acknowledged yet
    times: int = 0  # how often that came since the sensor asked for what waits
    sends: int = 0  # and in all
    said: set[bytes] = field(default_factory=set)
    shown: set[bytes] = field(default_factory=set)  # with the retain flag
    last_places: dict[str, int] = field(default_factory=dict)  # by topic, in the broker's order
    heard: set[bytes] = field(default_factory=set)
    received: dict[bytes, int] = field(default_factory=dict)  # how often at QoS 2
    owed: set[bytes] = field(default_factory=set)
    granted: set[str] = field(default_factory=set)  # for which this gateway said SUBACK
    filters: set[str] = field(default_factory=set)  # and the sensor heard it
    entitled: set[str] = field(default_factory=set)
    subscribes: dict[int, str] = field(default_factory=dict)  # SUBSCRIBE, by message id
    welcomes: dict[str, int] = field(default_factory=dict)  # retained topic -> SUBSCRIBEs for it
    # Value -> how it was sent with the flag: message ids, or numbers of our own at QoS 0.
    flagged: dict[bytes, set[int]] = field(default_factory=dict)
    values: dict[str, bytes] = field(default_factory=dict)  # latest sent, by topic
    # How often a former value came behind this one: so often it has to come again.
    set_back: dict[bytes, int] = field(default_factory=dict)
    may_repeat: bool = False
    unflagged: dict[bytes, int] = field(default_factory=dict)  # how often a retained one came live
    may_miss: set[bytes] = field(default_factory=set)  # retained after its first SUBSCRIBE
    is_fetching: bool = False  # it sleeps, and asked for what waits
    session: Session | None = None  # in which it was heard last
    asked_for: set[int] = field(default_factory=set)  # positions of what waited then

    def is_said_to_be_at(self, peer: Peer) -> None:
        """Each address has its turn: it is not known where the sensor is."""
        if peer != self.peer:
            self.peer, self.outstanding, self.times = peer, None, 0

    def asked(self, frame: Pingreq | Connect | Disconnect, session: Session) -> None:
        """It sleeps and asks for what waits, or does not."""
        asleep = session.state in (State.ASLEEP, State.AWAKE)
        self.is_fetching = asleep and isinstance(frame, Pingreq) and bool(frame.client_id)
        if self.is_fetching and session.state is State.ASLEEP:
            self.asked_for = waiting(session)
            self.times = 0

    def answered(self, frame: Regack | Puback | Pubcomp) -> None:
        outstanding = self.outstanding
        if outstanding is None:
            self.times = 0  # of PUBREL, since the gateway runs again
        if outstanding is None or frame.message_id != outstanding.message_id:
            return
        if isinstance(frame, Puback) and frame.return_code == ReturnCode.INVALID_TOPIC_ID:
            self.times = 0  # it is registered for, and sent again
        elif not isinstance(frame, Regack) or isinstance(outstanding, Register):  # else a copy
            self.outstanding, self.times = None, 0


class DownlinkWatch:
    def __init__(self, plan: Plan, broker: ModelBroker, mqtt_client_id: str) -> None:
        self._broker = broker
        self._mqtt_client_id = mqtt_client_id
        self.pingresps = 0  # to those that fetched their messages
        self._commands = {command.payload: command for command in plan.commands}
        # Published while the covering set changed, so that the broker sent them at two QoS; either
        # may come first.
        self._lowered: set[bytes] = set()
        self._places: dict[bytes, int] = {}  # in which order the broker routed them
        self._runs = 1
        self._ears = {one.client_id: Ear(one, may_repeat=one.clean) for one in plan.sensors}

    def ears(self) -> list[Ear]:
        return list(self._ears.values())

    # At the gateway

    def heard(self, sensor: Sensor, frame: Frame, session: Session | None) -> None:
        """A datagram of this sensor reached the gateway, in this session."""
        ear = self._ears[sensor.plan.client_id]
        if isinstance(frame, Connect) and frame.clean_session:
            ear.outstanding = None
        if session is not ear.session:
            ear.session, ear.asked_for = session, set()
        if session is None:
            return
        if isinstance(frame, Pingreq | Connect | Disconnect):
            ear.asked(frame, session)
        if isinstance(frame, Subscribe):
            topic_filter = ear.subscribes[frame.message_id] = frame.topic.decode()
            for topic in RETAINED:
                if matches(topic_filter, topic):
                    ear.welcomes[topic] = ear.welcomes.get(topic, 0) + 1
        if isinstance(frame, Regack | Puback | Pubcomp):
            ear.answered(frame)

    def said(self, sensor: Sensor, frame: Frame, peer: Peer) -> None:
        ear = self._ears[sensor.plan.client_id]
        ear.is_said_to_be_at(peer)
        if isinstance(frame, Suback):
            ear.granted.add(ear.subscribes.get(frame.message_id, ""))
        elif isinstance(frame, Publish):
            is_new = self._is_new(ear, frame)
            self._check_turn(ear, frame)
            command = self._commands.get(frame.payload)
            if command is not None:
                self._said_command(ear, frame, command, is_new=is_new)
        elif isinstance(frame, Register):
            self._check_turn(ear, frame)
        elif isinstance(frame, Pubrel):
            ear.times += 1
            ear.sends += 1
        elif isinstance(frame, Pingresp) and ear.is_fetching:
            self.pingresps += 1
            if ear.times > RETRY_COUNT_MAX:
                return  # all repeats went unanswered
            if ear.outstanding is not None:
                broken(
                    PINGRESP_LAST, f"{ear.plan.client_id} has not acknowledged {ear.outstanding}"
                )
            left = set() if ear.session is None else waiting(ear.session) & ear.asked_for
            if left:
                broken(ALL_ASKED_FOR, f"{ear.plan.client_id} has not got {left}")

    def _is_new(self, ear: Ear, frame: Publish) -> bool:
        outstanding = ear.outstanding
        if frame.qos == 0 or not isinstance(outstanding, Publish):
            return not frame.dup
        return outstanding.message_id != frame.message_id

    def _check_turn(self, ear: Ear, frame: Publish | Register) -> None:
        if ear.sends >= ROUNDS_MAX * (RETRY_COUNT_MAX + 1):
            is_next = isinstance(frame, Publish) and frame.qos == 0
            if is_next or (ear.outstanding and frame.message_id != ear.outstanding.message_id):
                ear.outstanding = None  # it was given up
        outstanding = ear.outstanding
        if isinstance(frame, Publish) and frame.qos == 0:
            # It was registered for, or the sensor learnt the topic's id in another way.
            if isinstance(outstanding, Publish):
                broken(ONE_AT_A_TIME, f"{ear.plan.client_id}: {frame} overtakes {outstanding}")
            ear.outstanding = None
            return
        if outstanding is None:
            ear.sends = 0
        elif outstanding.message_id != frame.message_id:
            broken(ONE_AT_A_TIME, f"{ear.plan.client_id}: {frame} beside {outstanding}")
        ear.outstanding = frame
        ear.times += 1
        ear.sends += 1

    def _said_command(self, ear: Ear, frame: Publish, command: Command, *, is_new: bool) -> None:
        topic = command.topic
        if is_new:
            self._check_welcomes(ear, frame, topic)
            self._check_live(ear, frame, command)
        # At any QoS: one that joins while the broker is away gets what is known.
        ear.values[topic] = frame.payload
        if frame.qos == 0:
            return
        if frame.retain:
            ear.shown.add(frame.payload)
        elif frame.payload not in ear.said:
            ear.said.add(frame.payload)
            place, last = self._places[frame.payload], ear.last_places.get(topic, 0)
            # What came with the flag is not new when the broker repeats it.
            if place < last and frame.payload not in ear.shown:
                broken(IN_ORDER, f"{ear.plan.client_id}: {frame.payload!r} after a later one")
            ear.last_places[topic] = max(place, last)

    def _check_welcomes(self, ear: Ear, frame: Publish, topic: str) -> None:
        """A retained value comes with the flag once for each SUBSCRIBE. It may come once more for
        each time that a break kept it from being acknowledged, and so may a former one; then the
        value comes once more, too.
        """
        payload, latest = frame.payload, ear.values.get(topic)
        if latest is not None and self._places[payload] < self._places[latest]:
            ear.set_back[latest] = ear.set_back.get(latest, 0) + 1
        current = self._broker.retained.get(topic)
        if not frame.retain or current is None or current.payload != payload:
            return
        times = ear.flagged.setdefault(payload, set())
        times.add(frame.message_id or -len(times) - 1)
        repeated = ear.set_back.get(payload, 0) + self._broker.repeated[payload]
        if len(times) > ear.welcomes.get(topic, 0) + repeated:
            broken(RETAINED_ONCE, f"{ear.plan.client_id}: {frame} {len(times)} times")

    def _check_live(self, ear: Ear, frame: Publish, command: Command) -> None:
        """What was retained before is not taken for a new one: it comes without the flag as often
        as the broker has sent it for a subscription; once if the broker did not while the client
        was subscribed, and the gateway learnt of it later; and after a restart once more.
        """
        if frame.retain or not command.retain:
            return
        payload = frame.payload
        times = ear.unflagged[payload] = ear.unflagged.get(payload, 0) + 1
        is_missed = payload in ear.may_miss and payload not in ear.flagged
        news = self._broker.live[payload]
        may_repeat = self._runs - 1 if news or payload in ear.may_miss else 0
        if times > news + is_missed + may_repeat:
            broken(RETAINED_ONCE, f"{ear.plan.client_id}: {frame} is not new, and has no flag")

    def told(self, news: Effect) -> None:
        """Who was granted a filter while the broker was away loses it when that refuses it."""
        if isinstance(news, SubscriptionRefused):
            for client_id in news.client_ids:
                self._ears[client_id].filters.discard(news.topic_filter)
                self._ears[client_id].entitled.discard(news.topic_filter)

    # What the world does to them

    def gateway_ended(self) -> None:
        """What was acknowledged to it a moment before may come again, and be the first."""
        self._runs += 1
        session = self._broker.sessions.get(self._mqtt_client_id)
        on_their_way = (
            [] if session is None else [one.publication for one in session.outgoing.values()]
        )
        for ear in self._ears.values():  # the next run does not know who is new
            welcomed = [self._broker.retained.get(topic) for topic in ear.welcomes]
            ear.may_miss.update(one.payload for one in welcomed if one is not None)
            ear.may_miss.update(one.payload for one in on_their_way if one.topic in ear.welcomes)
        for ear in self._ears.values():
            ear.outstanding = None

    def broker_forgot(self) -> None:
        for ear in self._ears.values():
            ear.owed.clear()
            ear.entitled.clear()

    def gone(self, sensor: Sensor) -> None:
        """It will not hear what it was owed."""
        ear = self._ears[sensor.plan.client_id]
        ear.owed.clear()
        ear.entitled.clear()
        ear.filters.clear()

    def rebooted(self, sensor: Sensor) -> None:
        if not sensor.plan.keeps:
            self._ears[sensor.plan.client_id].may_repeat = True  # its memory of what it heard

    # At the broker

    def routed(self, publication: Publication) -> None:
        if publication.payload not in self._commands:
            return
        self._places[publication.payload] = len(self._places)
        if len({one.qos for one in self._brought_by(publication.topic)}) > 1:
            self._lowered.add(publication.payload)
        for ear in self._ears.values():
            if ear.welcomes.get(publication.topic):
                ear.may_miss.add(publication.payload)
            self._entitle(ear)
            for topic_filter in ear.entitled:
                qos = min(publication.qos, ear.plan.filters[topic_filter])
                alike = publication.payload not in self._lowered
                is_ignored = (publication.payload, inf) in ear.plan.ignores
                if is_ignored or not alike or not qos:
                    continue
                if matches(topic_filter, publication.topic):
                    ear.owed.add(publication.payload)

    def _brought_by(self, topic: str) -> list[Subscription]:
        session = self._broker.sessions.get(self._mqtt_client_id)
        known = {} if session is None else session.subscriptions
        return [one for topic_filter, one in known.items() if matches(topic_filter, topic)]

    def _entitle(self, ear: Ear) -> None:
        if ear.plan.clean:
            return
        for topic_filter in ear.filters - ear.entitled:
            if self._is_covered(topic_filter, ear.plan.filters[topic_filter]):
                ear.entitled.add(topic_filter)

    def _is_covered(self, topic_filter: str, qos: int) -> bool:
        """By a subscription of the gateway, at least at this QoS."""
        session = self._broker.sessions.get(self._mqtt_client_id)
        known = {} if session is None else session.subscriptions
        topic = topic_filter.replace("#", "a/b")  # which "+" does not cover
        return any(matches(cover, topic) and one.qos >= qos for cover, one in known.items())

    def accepted(self, row: SubscriptionRecord) -> None:
        """The gateway is about to say SUBACK, and says that the broker has granted it."""
        if not self._is_covered(row.topic_filter, row.qos):
            broken(NOTHING_MISSED, f"{row.client_id} may not hear {row.topic_filter!r} yet")

    # At the sensor

    def subscribed(self, sensor: Sensor, topic_filter: str) -> None:
        ear = self._ears[sensor.plan.client_id]
        if topic_filter in ear.granted:
            ear.filters.add(topic_filter)
            self._entitle(ear)

    def received(self, sensor: Sensor, frame: Publish) -> None:
        command = self._commands.get(frame.payload)
        if command is None:
            return
        ear = self._ears[sensor.plan.client_id]
        ear.heard.add(frame.payload)
        if frame.qos < 2:
            return  # it may have subscribed at a higher QoS before the broker's repeat comes
        times = ear.received[frame.payload] = ear.received.get(frame.payload, 0) + 1
        if times > 1 and not ear.may_repeat and not command.retain:
            broken(ONCE, f"{ear.plan.client_id} got {frame.payload!r} {times} times")

    # At the end

    def check_end(self) -> None:
        for client_id, ear in self._ears.items():
            missing = sorted(ear.owed - ear.heard)
            if missing:
                broken(NOTHING_MISSED, f"{client_id} never got {missing}")
            for topic, latest in self._broker.retained.items():
                qos = max(
                    (
                        min(latest.qos, ear.plan.filters[topic_filter])
                        for topic_filter in ear.entitled
                        if matches(topic_filter, topic)
                    ),
                    default=0,
                )
                if topic in RETAINED and qos > 0 and ear.values.get(topic) != latest.payload:
                    had = ear.values.get(topic)
                    broken(LATEST_VALUE, f"{client_id}: {topic} is {latest.payload!r}, not {had!r}")


def waiting(session: Session) -> set[int]:
    """The positions of what waits for the client at QoS 1 and 2."""
    outbound = session.outbound
    queued = [] if outbound._outbox is None else [*outbound._outbox._queue]
    positions = {each.position for each in queued if each.message.qos}
    current = outbound.outstanding
    return positions if current is None else positions | {current.position}
