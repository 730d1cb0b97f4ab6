"""What goes wrong in a world, and when: of its sensors, its broker, its disk; and how runs of the
gateway end, and the next one begins.
"""

from __future__ import annotations

from math import inf
from random import Random
from typing import Protocol

from gateway.storage.journal.options import UNREADABLE_S, JournalError
from tests.simulation.agenda import Agenda
from tests.simulation.disk import FOLDER_EMPTIED, FOLDER_MOVED, Disk
from tests.simulation.downlink_watch import DownlinkWatch
from tests.simulation.ending_watch import EndingWatch
from tests.simulation.gateway_host import GatewayHost
from tests.simulation.liveness import LIVENESS, Cause, LivenessWatch
from tests.simulation.model_broker import ModelBroker, Restart
from tests.simulation.plan import (
    CALM_AT_S,
    GATEWAY_OFF_S_MAX,
    OUTAGE_S_MAX,
    Event,
    Trouble,
)
from tests.simulation.sensor import Sensor
from tests.simulation.simulated_files import PowerCutError
from tests.simulation.sleeper import Sleeper
from tests.simulation.watch import ReadingsWatch, broken
from tests.simulation.will_watch import WillWatch

SOON_S = 1.0
REPORTED_S = 5.0  # a look at the files each second, by a job that waits for another one
RESTARTED_AFTER_S = 5.0  # by whoever supervises the daemon, when it could not start
KILLED_AFTER_S = 5.0  # by the same, when it was told to stop and a file call does not return


class Surroundings(Protocol):
    """The world, as far as troubles concern it."""

    agenda: Agenda
    disk: Disk
    broker: ModelBroker
    gateway: GatewayHost  # that serves
    readings: ReadingsWatch
    downlink: DownlinkWatch
    wills: WillWatch
    endings: EndingWatch
    liveness: LivenessWatch
    sensors: dict[str, Sleeper]

    def note(self, line: str) -> None: ...

    def give_address(self, sensor: Sensor) -> None: ...

    def next_gateway(self) -> GatewayHost: ...


class Troubles:
    def __init__(self, world: Surroundings, dice: Random) -> None:
        self._world = world
        self._dice = dice
        self._awaited: dict[str, Event] = {}  # what ends the gateway's run, by what it waits for

    def begin(self, event: Event) -> None:
        world = self._world
        sensor = list(world.sensors.values())[event.sensor]
        world.note(f"trouble: {event.trouble.value}, {sensor.plan.client_id}, {event}")
        match event.trouble:
            case Trouble.BREAK:
                self._break()
            case Trouble.OUTAGE if world.broker.up:
                world.readings.breaks += 1
                world.broker.stop()
                world.agenda.after(event.lasts_s, self._start_broker, event.restart)
            case Trouble.STOP | Trouble.KILL | Trouble.POWER if event.upon:
                self._awaited[event.upon] = event
            case Trouble.STOP | Trouble.KILL | Trouble.POWER:
                self._end_run(event)
            case Trouble.SLOW_DISK | Trouble.FAILING_DISK | Trouble.FULL_DISK | Trouble.HUNG_DISK:
                self._disk_trouble(event)
            case Trouble.TAKEN_FILES:
                self._take_files(event)
            case _:
                self._sensor_trouble(event.trouble, sensor)

    def end(self) -> None:
        """All that lasts is over."""
        world = self._world
        world.disk.heal()
        world.disk.slow_until = 0.0
        world.disk.release()
        world.liveness.relieve(Cause.DISK, world.agenda.now)
        world.liveness.relieve(Cause.FILES, world.agenda.now)

    def moment(self, what: str) -> None:
        """The gateway does something; its end may have waited for that."""
        event = self._awaited.pop(what, None)
        if event is not None and self._world.agenda.now < CALM_AT_S:
            self._world.note(f"{what}: {event.trouble.value}")
            exponent = 1 if what == "unsure" else 4  # time to go on, as it must not
            delay_s = self._dice.choice((0.0, self._dice.random() ** exponent * SOON_S))
            self._world.agenda.after(delay_s, self._end_run, event)

    # Sensors, broker, disk

    def _sensor_trouble(self, trouble: Trouble, sensor: Sleeper) -> None:
        match trouble:
            case Trouble.REBOOT:
                self._world.downlink.rebooted(sensor)
                sensor.reboot()
            case Trouble.MOVE:
                self._world.give_address(sensor)
            case Trouble.DEATH:
                sensor.die()
            case Trouble.GOODBYE:
                sensor.leave()

    def _break(self) -> None:
        self._world.readings.breaks += 1
        connection = self._world.gateway.connection
        if connection is not None:
            connection.sever()

    def _start_broker(self, restart: Restart) -> None:
        self._world.note(f"the broker is back, {restart.value}")
        self._world.broker.start(restart)
        if restart is not Restart.KEPT:
            self._world.downlink.broker_forgot()

    def _disk_trouble(self, event: Event) -> None:
        disk, agenda = self._world.disk, self._world.agenda
        until = agenda.now + event.lasts_s
        if event.trouble is Trouble.HUNG_DISK:
            self._world.liveness.hinder(Cause.FILES, until)
            disk.hang(event.part, until)
            return
        self._world.liveness.hinder(Cause.DISK, until)
        if event.trouble is Trouble.SLOW_DISK:
            disk.slow_until = until
            return
        strike = disk.fill_up if event.trouble is Trouble.FULL_DISK else disk.fail
        strike()
        agenda.after(event.lasts_s, disk.heal)

    def _take_files(self, event: Event) -> None:
        """If readings are gone by that the gateway must report it soon, unless its run ends."""
        world, now = self._world, self._world.agenda.now
        before, wills = world.readings.on_disk(), world.wills.on_disk()
        world.note(world.disk.take_files(event.part))
        gone = world.readings.taken_away(before)
        world.wills.taken_away(wills)
        # What cannot be opened stops what is behind it for so long.
        world.liveness.hinder(Cause.DISK, now + max(event.lasts_s, UNREADABLE_S + REPORTED_S))
        if event.part == FOLDER_EMPTIED:  # that goes on until somebody starts the gateway again
            world.liveness.hinder(Cause.FILES, inf)
        if event.part == FOLDER_MOVED:
            world.agenda.after(event.lasts_s, self._put_back)
        if world.gateway.is_listening:
            world.agenda.after(REPORTED_S, self._check_report, world.gateway, now, gone)

    def _check_report(self, gateway: GatewayHost, since: float, gone: set[bytes]) -> None:
        world = self._world
        if gateway is not world.gateway or not gateway.is_listening:
            return
        if world.readings.has_lost(gone) and not gateway.has_reported(since):
            broken(LIVENESS, f"files were taken away at {since:.3f} s, and nothing says so")

    def _put_back(self) -> None:
        self._world.note(self._world.disk.put_back())
        self._world.readings.brought_back()

    # Runs of the gateway

    def _end_run(self, event: Event) -> None:
        world, gateway = self._world, self._world.gateway
        if not gateway.is_listening:
            return
        world.readings.breaks += 1
        files = world.disk.files
        off_s = 0.1 + event.lasts_s / OUTAGE_S_MAX * GATEWAY_OFF_S_MAX

        def ended() -> None:
            world.note("the gateway's run has ended")
            world.readings.ended()
            world.downlink.gateway_ended()
            world.liveness.ended()
            world.disk.release()  # a call that never returns ends with its process
            world.liveness.relieve(Cause.FILES, world.agenda.now)
            world.agenda.after(off_s, self._next_run, world.agenda.now, event.cut)

        def kill() -> None:
            if gateway.is_on:
                gateway.kill()
                ended()

        if event.trouble is Trouble.STOP:
            gateway.stop(ended)
            if world.disk.is_hung(world.agenda.now):
                world.agenda.after(KILLED_AFTER_S, kill)
            return
        files.trace, trace = None, files.trace
        if event.trouble is Trouble.KILL:
            gateway.kill()
        else:
            gateway.cut_power()
        files.trace = trace
        ended()

    def _next_run(self, ended_at: float, cut: bool) -> None:
        world = self._world
        before = world.gateway.engine.sessions
        world.note(f"meanwhile: {world.disk.meddle()}")
        gateway = world.next_gateway()
        try:
            gateway.start(cut=cut)
        except PowerCutError:
            world.note("the power goes again")
            world.disk.cut_power(None)
            world.agenda.after(1.0, self._next_run, ended_at, False)
        except JournalError as error:
            world.note(f"the gateway does not start: {error}")
            world.agenda.after(RESTARTED_AFTER_S, self._next_run, ended_at, False)
        else:
            world.gateway = gateway
            epoch = gateway.options.upstream.epoch
            world.readings.restored(before, gateway.engine.sessions, epoch)
            world.endings.restored(gateway.engine, world.agenda.now)
            world.wills.restored(gateway.engine.sessions, ended_at)
