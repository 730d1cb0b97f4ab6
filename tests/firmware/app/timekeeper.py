"""Answers nodes that ask for the time, as the OTA server does, but in this process.

A test that is not about the time need not start one, nor wait while nobody answers.
"""

from __future__ import annotations

import time

import paho.mqtt.client as paho

from firmware.ota_server import OtaServer
from hil.rig.mosquitto import Mosquitto
from tests.support.at_broker import AtBroker


class Timekeeper(AtBroker):
    def __init__(self, broker: Mosquitto) -> None:
        self._server = OtaServer(None)
        super().__init__(broker, "sensors/+/ask", 1)

    def _heard(self, client: object, userdata: object, message: paho.MQTTMessage) -> None:
        topic = message.topic.removesuffix("ask") + "set/answer"
        for answer in self._server.answers(bytes(message.payload), time.time_ns() // 1_000_000):
            self._client.publish(topic, answer, 1)
