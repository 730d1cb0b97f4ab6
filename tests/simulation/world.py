"""One world from one seed: sensors, air, gateway, broker and applications, until all is quiet."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from random import Random
from struct import pack
from zlib import crc32

import pytest

from gateway.core.effects import Effect, Save, Send
from gateway.core.mqtt import caution
from gateway.core.mqtt.publisher import PAUSE_S_MAX
from gateway.core.session.session import ABSENT, Session
from gateway.core.state_records import AsideRecord, ClientId, DueWillRecord, SubscriptionRecord
from gateway.core.values import Peer, Reading
from gateway.frames import decode
from tests.simulation.adversary import Adversary
from tests.simulation.agenda import Agenda
from tests.simulation.bounds import check_bounds
from tests.simulation.disk import LEAST_SEGMENT_BYTES, Disk
from tests.simulation.downlink_watch import NOTHING_MISSED, DownlinkWatch
from tests.simulation.eager import Eager
from tests.simulation.ending_watch import EndingWatch
from tests.simulation.gateway_host import GatewayHost
from tests.simulation.hard_plans import KINDS
from tests.simulation.journal_schedules import small_segments
from tests.simulation.lateness import WorldsClocks, is_late_world
from tests.simulation.liveness import Cause, LivenessWatch
from tests.simulation.lossy_link import CALM, LossyLink
from tests.simulation.model_broker import ModelBroker, Publication
from tests.simulation.model_ingest import INGESTED, ModelIngest
from tests.simulation.pauses import fill_with_pauses
from tests.simulation.plan import (
    CALM_AT_S,
    Command,
    Plan,
    PlannedReading,
    SensorPlan,
)
from tests.simulation.sensor import Sensor
from tests.simulation.sleeper import Sleeper
from tests.simulation.stream import nothing
from tests.simulation.troubles import Troubles
from tests.simulation.watch import SAFE, BrokenPromiseError, ReadingsWatch, broken
from tests.simulation.will_watch import WILLS, WillWatch
from tests.simulation.world_rules import MQTT_CLIENT_ID, rules_for

STEPS_MAX = 60_000
# After the calm began: the longest keep-alive, a full set of retries of both sides, and a connect.
DRAINED_WITHIN_S = 400.0
LOOK_EVERY_S = 5.0
QUIET_S = 0.5
DOWN = ("not repeated", "not begun")  # of a message to a sensor, as liveness.py names it
MOMENTS_SAVED: dict[type, str] = {DueWillRecord: "will", AsideRecord: "aside"}
PUBREL = 0x62  # first octet of the packet


class World:
    def __init__(self, seed: int, tell: Callable[[str], None] = nothing, kind: str = "any") -> None:
        """`tell` hears every event as a line, if given. `kind`: of `hard_plans.KINDS`."""
        self.seed, self.kind = seed, kind
        self.steps = 0
        self.digest = 0  # of everything that was on the air or the wire, and when
        self.agenda = Agenda()
        self.on_life: Callable[[GatewayHost], None] = nothing
        dice = self._dice = Random(seed)
        self.plan: Plan = KINDS[kind](dice)
        self._tell = tell
        self._addresses = 0
        self.troubles = Troubles(self, dice)
        self.sensors: dict[str, Sleeper] = {}
        self._owners: dict[bytes, Sensor] = {}
        meddler = Random(f"meddler {seed}") if self.plan.is_meddled else None
        self.disk = Disk(
            dice, self.plan.flush_s_max, self.plan.journal_bytes, self.plan.budgets, meddler
        )
        if tell is not nothing:
            self.disk.files.trace = lambda call: self.note(f"    disk: {call}")
        self.readings = ReadingsWatch(self.plan, self._has_durably)
        self.broker = ModelBroker(
            self.plan.receive_max,
            retained_first=self.plan.retained_first,
            says_not_found=self.plan.says_not_found,
            replaces_contents=self.plan.replaces_contents,
            keeps_first_options=self.plan.keeps_first_options,
            has_applications=self.plan.has_applications,
            limits=self.plan.limits,
        )
        self.endings = EndingWatch(self.plan, self.broker, self.disk.aside)
        self.downlink = DownlinkWatch(self.plan, self.broker, MQTT_CLIENT_ID)
        is_late = is_late_world(seed, kind)
        self.wills = WillWatch(self.plan, self.disk.has_durably, is_late=is_late)
        set_ahead = self.readings.clock_set_ahead
        self.clocks = WorldsClocks(self.plan, seed, kind, self.agenda, self.note, set_ahead)
        self.liveness = LivenessWatch(self.broker)
        self.ingest = ModelIngest(self.plan, self.broker, self.agenda, self.note)
        self.adversary = Adversary(seed, self.plan.sensors, self.agenda)
        self.broker.on_routed = self._routed
        self.broker.on_ended = self._ended_by_broker
        self._air = LossyLink(self.agenda, dice, self.plan.weather)
        # The gateway that serves, and the one that starts, which is not heard of if it fails.
        self.gateway = self.next_gateway()

    def run(self) -> World:
        """Let the world happen; raises BrokenPromiseError with the seed and how to see it again."""
        try:
            with ExitStack() as changed:
                self._change_limits(changed)
                self._run()
        except Exception as error:
            replay = f"python -m tests.simulation {self.seed} --kind {self.kind} --trace"
            raise BrokenPromiseError(
                f"seed {self.seed}, {self.agenda.now:.3f} s: {type(error).__name__}: {error}\n"
                f"replay: {replay}"
            ) from error
        return self

    def _change_limits(self, changed: ExitStack) -> None:
        """Where segments of any size are found, the least is less; what is blocked may be tried
        again within the world.
        """
        if self.plan.budgets:
            changed.enter_context(small_segments(LEAST_SEGMENT_BYTES))
        if self.plan.block_s is not None:
            monkeypatch = changed.enter_context(pytest.MonkeyPatch.context())
            monkeypatch.setattr(caution, "BLOCK_S", self.plan.block_s)

    def _has_durably(self, payload: bytes) -> bool:
        """Whether a power cut now would leave a reading with this payload."""
        return self.disk.has_durably(payload) or self.endings.has_durably(payload)

    def _run(self) -> None:
        agenda = self.agenda
        self.on_life(self.gateway)
        self._fill_agenda()
        while not self._is_over():
            until = agenda.now + LOOK_EVERY_S
            while (at := agenda.next_at()) is not None and at <= until:
                agenda.happen()
                self.steps += 1
                assert self.steps < STEPS_MAX, f"still busy after {STEPS_MAX} steps"
            agenda.now = until
            if self.kind != "attacked":  # an attack may cost an answer, which is asked for again
                self.liveness.look(self.gateway, until)
        forgetful = {one.plan.client_id for one in self.sensors.values() if one.is_forgetful}
        for record in self.disk.aside():
            if record.payload in self.readings.fates:
                self.readings.fates[record.payload].is_aside = True
        self.endings.check_end(self.gateway.engine, self.agenda.now)
        self.readings.check_end(self.gateway.options.upstream.epoch, forgetful)
        self.downlink.check_end()
        fates = self.readings.fates
        self.ingest.check_end(
            {
                payload: set(fate.tags)
                for payload, fate in fates.items()
                if fate.is_promised and not fate.is_aside
            }
        )

    # The plan

    def _fill_agenda(self) -> None:
        agenda = self.agenda
        self.gateway.start()
        for number, sensor_plan in enumerate(self.plan.sensors):
            agenda.at(0.1 * number, self._add_sensor(sensor_plan).boot)
        for reading in self.plan.readings:
            agenda.at(reading.at, self._measure, reading)
        for command in (*self.plan.commands, *self.plan.oversized):
            agenda.at(command.at, self._command, command)
        for event in self.plan.events:
            agenda.at(event.at, self.troubles.begin, event)
        if self.plan.quota is not None:
            agenda.at(self.plan.quota[0], self._use_up_quota, self.plan.quota[1])
        agenda.at(CALM_AT_S, self._calm_down)
        fill_with_pauses(agenda, self.seed, self.kind, self._pause, self._clog)
        self.clocks.fill(lambda: self.gateway)
        if self.kind == "attacked":
            self.adversary.fill(self._filters_of, self._from_adversary)

    def _use_up_quota(self, until: float) -> None:
        self.note("the broker's quota is used up")
        self.broker.is_over_quota = True
        self.agenda.at(until, self._restore_quota, -1)

    def _restore_quota(self, over_quota: int) -> None:
        """When nothing came for a moment: a reading that is taken must not have one before it on
        its way back.
        """
        self.liveness.hinder(Cause.UPSTREAM, self.agenda.now + PAUSE_S_MAX)
        if over_quota != self.broker.over_quota:
            self.agenda.after(QUIET_S, self._restore_quota, self.broker.over_quota)
            return
        self.note("the broker has a quota again")
        self.broker.is_over_quota = False

    def _pause(self, is_paused: bool) -> None:
        self.liveness.hinder(Cause.DRAIN, self.agenda.now)
        self.gateway.pause_drain(is_paused=is_paused)

    def _clog(self, is_congested: bool) -> None:
        self.note("clogged" if is_congested else "not clogged")
        self.liveness.hinder(Cause.DRAIN, self.agenda.now)
        self.gateway.clog(is_congested=is_congested)

    def _add_sensor(self, plan: SensorPlan) -> Sleeper:
        kind = Eager if plan.window > 1 else Sleeper
        sensor = kind(plan, self.agenda, self._from_sensor, self.plan.weather.lifetime_s)
        sensor.on_acknowledged = self._acknowledged
        sensor.on_refused = self._refused
        sensor.on_message = self.downlink.received
        sensor.on_subscribed = self.downlink.subscribed
        sensor.on_gone = self._sensor_gone
        self.sensors[plan.client_id] = sensor
        self.give_address(sensor)
        return sensor

    def _sensor_gone(self, sensor: Sleeper) -> None:
        self.note(f"{sensor.plan.client_id} goes")
        self.downlink.gone(sensor)
        if sensor.is_gone:
            self.wills.died(sensor.plan.client_id)

    def give_address(self, sensor: Sensor) -> None:
        self._addresses += 1
        sensor.address = b"address %d" % self._addresses
        self._owners[sensor.address] = sensor

    def _measure(self, reading: PlannedReading) -> None:
        self.sensors[reading.client_id].measure(reading)

    def _command(self, command: Command) -> None:
        if not self.broker.up:
            self.agenda.after(LOOK_EVERY_S, self._command, command)
            return
        self.broker.route(Publication(command.topic, command.payload, command.qos, command.retain))

    def _calm_down(self) -> None:
        self.note("calm")
        self._air.weather = CALM
        self.troubles.end()

    def next_gateway(self) -> GatewayHost:
        """One that starts; it serves once it has started."""
        self._living = self._new_gateway()
        return self._living

    def _new_gateway(self) -> GatewayHost:
        host = GatewayHost(
            partial(rules_for, self.plan), self.agenda, self._dice, self.broker, self.disk,
            self.plan.stream_delay_s_max,
        )  # fmt: skip
        self.clocks.give_to(host)
        host.send = self._from_gateway
        host.on_said = self._gateway_said
        host.on_octets = self._on_the_wire
        host.on_step = self._check_step
        host.on_unanswered = self.readings.connect_unanswered
        host.on_unstored = self.readings.unstored
        host.on_stored = self.readings.stored
        host.on_indeterminate = self._unsure
        host.on_news = self._hear_news
        host.on_disk = self._on_disk
        host.on_saved = self._saves
        self.on_life(host)
        return host

    def _unsure(self, reading: Reading, is_on_its_way: bool) -> None:
        self.readings.indeterminate(reading, is_on_its_way, self.agenda.now)

    # On the air

    def _from_sensor(self, sensor: Sensor, datagram: bytes) -> None:
        address = sensor.address
        self._count(datagram)
        self._note_frame(f"{sensor.plan.client_id} >", datagram)

        def arrive(octets: bytes) -> None:
            self._note_frame(f"  gateway < {sensor.plan.client_id}", octets)
            frame = decode(octets)
            session = self._session_at(sensor, address)
            self.clocks.heard(sensor, frame, session)
            self.readings.heard(sensor.plan.client_id, frame, session, self.agenda.now)
            self.downlink.heard(sensor, frame, session)
            self.wills.heard(sensor.plan.client_id, frame, session, self.agenda.now)
            if self.gateway.is_listening:
                self.liveness.owed.heard(sensor.plan.client_id, frame, session, self.agenda.now)
            self.gateway.receive(address, octets)
            self.liveness.owed.received()

        self._air.send(datagram, lambda octets: self.gateway.late.datagram(arrive, octets))

    def _filters_of(self, client_id: str) -> Mapping[str, int] | None:
        """What this sensor has subscribed to, if it has a session to lose, where it is."""
        sensor = self.sensors.get(client_id)
        session = None if sensor is None else self._session_at(sensor, sensor.address)
        if session is None or session.is_newcomer:  # docs/security.md: what is not held
            return None
        return session.filters

    def _from_adversary(self, address: bytes, data: bytes) -> None:
        if self.gateway.is_listening:
            self._note_frame("  gateway < adversary", data)
            self.gateway.receive(address, data)

    def _from_gateway(self, address: bytes, datagram: bytes) -> None:
        sensor = self._owners.get(address)
        if sensor is None:
            return  # the adversary's, who sees nothing
        self._count(datagram)
        self._note_frame(f"gateway > {sensor.plan.client_id}", datagram)

        def arrive(octets: bytes) -> None:
            if sensor.address == address:
                self._note_frame(f"  {sensor.plan.client_id} <", octets)
                sensor.receive(decode(octets))

        self._air.send(datagram, arrive)

    def _session_at(self, sensor: Sensor, address: bytes) -> Session | None:
        """The session in which the gateway will hear this address; None if it will not listen."""
        client_id = ClientId(sensor.plan.client_id)
        engine = self.gateway.engine
        session = engine.sessions.get(client_id)
        if not self.gateway.is_listening:
            return None
        former = engine.client_table.formers.get(client_id)
        if former is not None and former.peer.address == address and former.state not in ABSENT:
            return former
        if session is None or session.peer.address != address or session.state in ABSENT:
            return None
        return session

    def _gateway_said(self, send: Send) -> None:
        sensor = self._owners.get(send.peer.address)
        if sensor is None:
            return
        self.troubles.moment(type(send.frame).__name__)
        self.readings.said(sensor.plan.client_id, send.frame)
        if not self._is_where_it_was(sensor, send.peer):
            self.downlink.said(sensor, send.frame, send.peer)
        self.clocks.said(sensor, send.frame)
        self.liveness.said(sensor.plan.client_id, send.frame)
        client_id = ClientId(sensor.plan.client_id)
        self.wills.said(client_id, send.frame, self._living.engine.sessions.get(client_id))

    def _is_where_it_was(self, sensor: Sensor, peer: Peer) -> bool:
        """Whether the sensor has begun again elsewhere, and this goes to its former session."""
        former = self._living.engine.client_table.formers.get(ClientId(sensor.plan.client_id))
        return former is not None and former.peer == peer and peer.address != sensor.address

    def _saves(self, effect: Save) -> None:
        self.readings.saved(effect.change)
        self.wills.saved(effect.change)
        self.endings.saved(effect.change, self.readings.breaks)
        formers = self._living.engine.client_table.formers
        if (
            isinstance(effect.change, SubscriptionRecord)
            and not self._living.is_on_its_own
            and effect.change.client_id not in formers  # saved again, in place of a wish
        ):
            self.downlink.accepted(effect.change)
        self.troubles.moment(MOMENTS_SAVED.get(type(effect.change), "Save"))

    def _hear_news(self, news: Effect) -> None:
        self.note(f"gateway: {news}")
        self.readings.told(news)
        self.wills.told(news)
        self.downlink.told(news)
        self.endings.told(news, self.agenda.now)
        if self.clocks.is_late:
            self.clocks.watch.told(news, self.agenda.now)
        self.liveness.owed.told(news)

    def _on_disk(self, line: str) -> None:
        self.note(line)
        self.troubles.moment(line.partition(" ")[0])

    def _on_the_wire(self, octets: bytes) -> None:
        self.troubles.moment("release" if octets[0] == PUBREL else "packet")
        self._count(octets)
        self.note(f"gateway > broker {len(octets)} bytes")

    def _count(self, octets: bytes) -> None:
        self.digest = crc32(octets, crc32(pack(">d", self.agenda.now), self.digest))

    # What the watches hear

    def _routed(self, publication: Publication) -> None:
        self.note(f"broker routes {publication}")
        self.readings.routed(publication, self.agenda.now)
        self.downlink.routed(publication)
        self.wills.routed(publication)
        self.clocks.watch.routed(publication.payload, publication.unix_ms)

    def _ended_by_broker(self, cause: str) -> None:
        self.note(f"the broker ends the connection for {cause}")
        self.readings.ended_by_broker += 1
        self.endings.ended(cause, self.agenda.now)

    def _acknowledged(self, sensor: Sensor, reading: PlannedReading) -> None:
        self.note(f"{sensor.plan.client_id} has {reading.payload!r} acknowledged")
        self.readings.acknowledged(reading)

    def _refused(self, sensor: Sensor, reading: PlannedReading) -> None:
        self.note(f"{sensor.plan.client_id} has {reading.payload!r} refused")
        self.readings.refused(reading)
        self.endings.was_refused(reading, self.readings.breaks)

    def _check_step(self) -> None:
        check_bounds(self._living, self._living.options)

    # The end

    def _is_over(self) -> bool:
        if self.agenda.now < CALM_AT_S + 2 * LOOK_EVERY_S:
            return False
        if self._is_quiet():
            return True
        if self.agenda.now > CALM_AT_S + DRAINED_WITHIN_S:
            missing = self._unfinished()
            promise = WILLS if missing == self.wills.unfinished() else SAFE
            if all(each.endswith(" kept") for each in missing):
                promise = INGESTED
            elif all(" messages for " in each or each.startswith(DOWN) for each in missing):
                promise = NOTHING_MISSED
            broken(promise, "it does not drain: " + ", ".join(missing))
        return False

    def _is_quiet(self) -> bool:
        return not self._unfinished()

    def _unfinished(self) -> list[str]:
        """What still waits for something, for the one who must find out why."""
        if not self.gateway.is_listening:
            return ["the gateway is off"]
        engine = self.gateway.engine
        upstream = engine.upstream.publisher.in_flight
        session = self.broker.sessions.get(MQTT_CLIENT_ID)
        waits = [name for name, sensor in self.sensors.items() if not sensor.is_done]
        if len(upstream) or upstream.waiting:
            waits.append(f"{len(upstream)} + {len(upstream.waiting)} readings in the gateway")
        waits += self.gateway.unfinished() + self.wills.unfinished()
        if self.kind != "attacked":
            waits += self.liveness.unfinished(self.gateway)
        waits += [
            f"{known.outbound.waiting} messages for {client_id}"
            for client_id, known in (
                *engine.sessions.items(),
                *engine.client_table.formers.items(),
            )
            # A former session that is not there hears nothing, and ends with its contest.
            if not (known.state in ABSENT and known is not engine.sessions.get(client_id))
            and any(not each.is_offered for each in known.outbound.queue)
            and not self.sensors[client_id].is_done_for
        ]
        if session is None or session.connection is None:
            waits.append("no connection to the broker")
        elif session.outgoing or session.queue:
            waits.append("messages at the broker")
        if self.agenda.now < max(one.at for one in self.plan.readings):
            waits.append("readings to come")
        return waits

    # Telling

    def note(self, line: str) -> None:
        if self._tell is not nothing:
            self._tell(f"{self.agenda.now:9.3f} {line}")

    def _note_frame(self, who: str, datagram: bytes) -> None:
        if self._tell is not nothing:
            self.note(f"{who} {decode(datagram)}")
