"""What the shell and the links are to the engine, in virtual time: performs its effects, keeps one
alarm, and connects to the broker again after a delay."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from random import Random

from gateway.effects import DropUpstream, Effect, Send, Transmit
from gateway.engine import Engine, EngineRules
from gateway.frames import encode
from tests.simulation.agenda import Agenda
from tests.simulation.model_broker import ModelBroker
from tests.simulation.stream import Connection, nothing

RECONNECT_S_MAX = 5.0
UNIX_MS_AT_ZERO = 1.8e12


class GatewayHost:
    """One life of a gateway. `stop` ends it as a power cut does."""

    def __init__(
        self,
        rules: EngineRules,
        agenda: Agenda,
        dice: Random,
        broker: ModelBroker,
        stream_delay_s_max: float,
    ) -> None:
        self.engine = Engine(rules)
        self.engine.set_wall_clock(UNIX_MS_AT_ZERO)
        self.on_said: Callable[[Send], None] = nothing
        self.on_octets: Callable[[bytes], None] = nothing
        self.on_step: Callable[[], None] = nothing
        self.on_unanswered: Callable[[], None] = nothing  # a connection ended before CONNACK
        self.connection: Connection | None = None
        self.send: Callable[[bytes, bytes], None] = nothing
        self._agenda = agenda
        self._dice = dice
        self._broker = broker
        self._stream_delay_s_max = stream_delay_s_max
        self._alarm_at = inf
        self._on = True
        self._is_answered = False

    def start(self) -> None:
        self._reconnect()

    def stop(self) -> None:
        self._on = False
        if self.connection is not None:
            self.connection.lost_at_gateway = nothing
            self.connection.sever()

    # From the network

    def receive(self, address: bytes, datagram: bytes) -> None:
        if self._on:
            self._perform(self.engine.receive(0, [(address, datagram)], self._agenda.now))

    def _receive_upstream(self, octets: bytes) -> None:
        self._is_answered = True
        self._perform(self.engine.receive_upstream(octets, self._agenda.now))

    def _reconnect(self) -> None:
        if not self._on:
            return
        if not self._broker.up:
            self._try_later()
            return
        connection = Connection(self._agenda, self._dice, self._stream_delay_s_max)
        self.connection = connection
        self._is_answered = False
        connection.to_gateway.deliver = self._receive_upstream
        connection.lost_at_gateway = self._lost
        self._broker.accept(connection)
        self._perform(self.engine.opened(self._agenda.now))

    def _lost(self, connection: Connection) -> None:
        if connection is not self.connection:
            return
        self.connection = None
        if not self._is_answered:
            self.on_unanswered()
        self._perform(self.engine.closed(self._agenda.now))
        self._try_later()

    def _try_later(self) -> None:
        self._agenda.after(0.1 + self._dice.random() * RECONNECT_S_MAX, self._reconnect)

    # Effects

    def _perform(self, effects: list[Effect]) -> None:
        packets: list[bytes] = []
        drop = False
        for effect in effects:
            if isinstance(effect, Send):
                self.on_said(effect)
                self.send(effect.peer.address, encode(effect.frame))
            elif isinstance(effect, Transmit):
                packets.append(effect.packet)
            elif isinstance(effect, DropUpstream):
                drop = True
        connection = self.connection
        if connection is not None and packets:
            octets = b"".join(packets)
            self.on_octets(octets)
            connection.to_broker.write(octets)
        if connection is not None and drop:
            self._drop(connection)
        self.on_step()
        self._set_alarm()

    def _drop(self, connection: Connection) -> None:
        connection.lost_at_gateway = nothing
        connection.sever()
        self._agenda.after(0.0, self._lost, connection)

    # Time

    def _set_alarm(self) -> None:
        wake_at = self.engine.wake_at()
        if wake_at < self._alarm_at:
            self._alarm_at = wake_at
            self._agenda.at(wake_at, self._ring, wake_at)

    def _ring(self, alarm_at: float) -> None:
        if self._on and alarm_at == self._alarm_at:
            self._alarm_at = inf
            self._perform(self.engine.handle_time(self._agenda.now))
