"""A sensor with a will, one that sleeps, and one that leaves: what sensor.py has not.

It declares sleep when it has been idle for `IDLE_S`, hears nothing until it wakes, fetches its
messages by PINGREQ with its id, and sleeps again on PINGRESP; with a reading to send it connects,
or, if it `talks_asleep`, publishes first. A hasty one does not wait long for PINGRESP, and at times
hears nothing: it sleeps on with its message unacknowledged, and asks again the next time.
Its will is given in each CONNECT but the one that only ends sleep. `leave` is a goodbye, `die` is
none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gateway.frames import (
    Connack,
    Connect,
    Disconnect,
    Frame,
    Pingreq,
    Pingresp,
    WillMsg,
    WillMsgReq,
    WillTopic,
    WillTopicReq,
)
from tests.simulation.plan import CALM_AT_S, PlannedReading, will_of
from tests.simulation.sensor import KEEP_ALIVE_S, T_RETRY_S, Exchange, Sensor
from tests.simulation.stream import nothing

IDLE_S = 4.0
WAKES_AT = 0.8  # of the sleep it declared
LEAVES_AFTER_S = 60.0  # without an answer to its goodbye


class Sleeper(Sensor):
    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.on_gone: Callable[[Sleeper], None] = nothing
        self.is_gone = False  # for good
        self._is_leaving = False
        self._is_asleep = False
        self._is_talking = False  # in its sleep
        self._naps = 0
        self._declared_s = 0

    @property
    def is_done(self) -> bool:
        return self.is_done_for or super().is_done

    @property
    def is_done_for(self) -> bool:
        """It is gone, or about to be."""
        return self.is_gone or self._is_leaving

    @property
    def is_forgetful(self) -> bool:
        """It lost readings itself, with its memory."""
        return self.is_done_for or (self.boots > 1 and not self.plan.keeps)

    # From the world

    def die(self) -> None:
        self.is_gone = True
        self._on = self.ready = False
        self.on_gone(self)

    def leave(self) -> None:
        """Goodbye, as soon as it is its turn to speak."""
        if self.is_done_for:
            return
        self._is_leaving = True
        self.on_gone(self)
        self.waiting.clear()
        self._wake_up()
        self._agenda.after(LEAVES_AFTER_S, self.die)
        self._go_on()

    def boot(self) -> None:
        if not self.is_gone:
            super().boot()

    def reboot(self) -> None:
        if self.is_done_for:
            return
        self._wake_up()
        super().reboot()

    def measure(self, reading: PlannedReading) -> None:
        if self.is_done_for or (self._is_asleep and reading.qos == 0):
            return
        super().measure(reading)

    def receive(self, frame: Frame) -> None:
        if self._is_asleep and (self._exchange is None or self._is_deaf):
            return  # its radio is off
        super().receive(frame)

    # Connecting

    def _connect(self) -> None:
        self._wake_up()
        if not self.plan.has_will:
            super()._connect()
            return
        self.ready = False
        self._unanswered_pings = 0
        client_id = self.plan.client_id.encode()
        self._ask(Connect(client_id, KEEP_ALIVE_S, will=True, clean_session=self.plan.clean))

    def _receive_will_topic_req(self, _frame: WillTopicReq) -> None:
        if self._asked(Connect):
            topic, _ = will_of(self.plan.client_id)
            self._ask(WillTopic(topic.encode(), qos=1))

    def _receive_will_msg_req(self, _frame: WillMsgReq) -> None:
        if self._asked(WillTopic):
            _, payload = will_of(self.plan.client_id)
            self._ask(WillMsg(payload))

    def _receive_any_connack(self, frame: Connack) -> None:
        if self._asked(WillMsg):
            self._exchange = Exchange(Connect(b"", KEEP_ALIVE_S))  # what this answers in the end
        self._receive_connack(frame)

    # Sleep

    def _go_on(self) -> None:
        if self._is_asleep and not self._is_talking:
            return
        if self._is_leaving and self._exchange is None and not self._steps and self._on:
            self._ask(Disconnect())
            return
        super()._go_on()
        if self._is_talking and self._exchange is None and super().is_done:
            self._is_talking = False
            self._ask(Pingreq(self.plan.client_id.encode()))
        if self.plan.sleeps_s and self._is_idle:
            self._naps += 1
            self._agenda.after(IDLE_S, self._fall_asleep, self._naps)

    @property
    def _is_idle(self) -> bool:
        return self._on and super().is_done and not self._is_asleep

    def _fall_asleep(self, nap: int) -> None:
        if nap == self._naps and self._is_idle and not self._is_leaving:
            self._ask(Disconnect(self._duration_s))

    @property
    def _duration_s(self) -> int:
        return self.plan.sleeps_s * (1 + self._naps % 2)

    def _receive_any_disconnect(self, frame: Disconnect) -> None:
        if not self._asked(Disconnect):
            self._receive_disconnect(frame)
            return
        asked = self._exchange.frame if self._exchange is not None else None
        self._exchange = None
        if self._is_leaving:
            self.die()
            return
        assert isinstance(asked, Disconnect)
        self._declared_s = asked.duration_s or 0
        self._sleep()

    def _sleep(self) -> None:
        self._is_asleep = True
        self._naps += 1
        self._agenda.after(WAKES_AT * self._declared_s, self._wake, self._naps)

    def _wake(self, nap: int) -> None:
        if nap != self._naps or not self._on or not self._is_asleep:
            return
        if self.waiting or self.is_carrying:
            if self.plan.talks_asleep:
                self._is_talking = True
                self._go_on()
                return
            self._wake_up()
            Sensor._connect(self)
            return
        self._ask(Pingreq(self.plan.client_id.encode()))

    def _wake_up(self) -> None:
        self._is_asleep = self._is_talking = False
        self._naps += 1

    @property
    def _is_deaf(self) -> bool:
        return self.plan.is_hasty and self._naps % 3 == 0 and self._agenda.now < CALM_AT_S

    def _retry(self, exchange: Exchange, tries: int) -> None:
        is_current = self._exchange is exchange and exchange.tries == tries and self._on
        is_asking = self._is_asleep and isinstance(exchange.frame, Pingreq)
        if is_current and is_asking and self.plan.is_hasty and self._agenda.now < CALM_AT_S:
            self._exchange = None
            self._sleep()
            return
        super()._retry(exchange, tries)

    def _receive_any_pingresp(self, frame: Pingresp) -> None:
        if self._is_asleep and self._asked(Pingreq):
            self._exchange = None
            if self.plan.redeclares:
                self._ask(Disconnect(self._duration_s))
            else:
                self._sleep()
        else:
            self._receive_pingresp(frame)

    def _ping(self, boots: int) -> None:
        if not self._is_asleep or boots != self.boots or not self._on:
            super()._ping(boots)
            return
        self._agenda.after(2 * T_RETRY_S, self._ping, boots)


Sleeper.receivers = {
    **Sensor.receivers,
    Connack: Sleeper._receive_any_connack,
    Disconnect: Sleeper._receive_any_disconnect,
    Pingresp: Sleeper._receive_any_pingresp,
    WillTopicReq: Sleeper._receive_will_topic_req,
    WillMsgReq: Sleeper._receive_will_msg_req,
}
