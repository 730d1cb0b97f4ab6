"""Damaged datagrams in live conversations, over real sockets with a mosquitto behind the gateway:
it serves on, grows little and has nothing to tell.

The bulk of them meets the bare engine in tests/conformance/test_mutated_datagrams.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from hil.rig.gateway import GatewayProcess
from hil.rig.mosquitto import Mosquitto
from hil.rig.scripted_client import u16
from tests.conformance.conversation import KINDS_HEARD, Talker, what_was_heard, with_damaged_copy
from tests.end_to_end.on_air import ACCEPTED, PUBACK, PUBLISH, REGACK, REGISTER, serving, story
from tests.end_to_end.test_robustness import Air, airs, assert_quiet
from tests.support.application import application, heard
from tests.support.resident import resident_bytes

TALKERS = 12
GROWTH_BYTES_MAX = 8 << 20
CONFIG = """
[predefined_topics]
"sensors/boot" = 7
[qos_minus_one]
allow = true
[limits]
clients_max = 400
outbox_messages_max = 20
retained_messages_max = 20
"""


@pytest.fixture
def gateway(broker: Mosquitto, tmp_path: Path) -> Iterator[GatewayProcess]:
    with serving(tmp_path, broker, CONFIG) as running:
        yield running


class Bystander:
    """A client whose datagrams nobody touches: each of its readings is acknowledged."""

    def __init__(self, air: Air) -> None:
        self._air = air
        self._message_id = 0
        assert air.connect("bystander") == 0
        body = u16(0) + u16(1) + b"bystander/reading"
        self._topic_id = air.ask(REGISTER, body, REGACK)[:2]

    def publishes(self) -> None:
        self._message_id = self._message_id % 65_535 + 1
        ids = self._topic_id + u16(self._message_id)
        assert self._air.ask(PUBLISH, b"\x20" + ids + b"21.5", PUBACK) == ids + ACCEPTED


class Conversations:
    """Talkers at sockets of their own. Of all they say a damaged copy comes too."""

    def __init__(self, at: list[Air], bystander: Bystander, seed: int) -> None:
        self.dice = Random(seed)
        self.talkers = [
            Talker(b"talker-%d" % number, self.dice, may_be_clean=number % 4 == 0)
            for number in range(TALKERS)
        ]
        self._at = list(zip(self.talkers, at, strict=True))
        self._bystander = bystander
        self._before = b"\x02\x16"

    def go_on(self, damaged: int) -> None:
        for _ in range(damaged // TALKERS):
            for talker, air in self._at:
                for octets in air.heard():
                    talker.hears(octets)
                datagram = talker.says()
                for each in with_damaged_copy(datagram, self._before, self.dice):
                    air.send(each)
                self._before = datagram
            self._bystander.publishes()  # when it hears PUBACK, all of these were handled


@story
async def arrives(broker: Mosquitto, bystander: Bystander) -> None:
    async with application(broker, "bystander/reading") as app:
        bystander.publishes()
        assert (await heard(app)).payload == b"21.5"


def converse(gateway: GatewayProcess, broker: Mosquitto, damaged: int, seed: int) -> None:
    with airs(gateway.port, TALKERS) as everyone, airs(gateway.port, 1) as (untouched,):
        bystander = Bystander(untouched)
        conversations = Conversations(everyone, bystander, seed)
        conversations.go_on(damaged // 4)  # until tables and caches are warm
        before = resident_bytes(gateway.pid)
        conversations.go_on(damaged)
        assert resident_bytes(gateway.pid) - before < GROWTH_BYTES_MAX
        arrives(broker, bystander)
    # Conversations that never get anywhere would prove little.
    heard_by_talkers = what_was_heard(conversations.talkers)
    assert set(heard_by_talkers) >= KINDS_HEARD
    assert min(heard_by_talkers[kind] for kind in KINDS_HEARD) > damaged // 1000
    assert "Traceback" not in gateway.log
    assert gateway.connections == 1, "the broker never had a reason to break off"
    assert " unreachable: " not in gateway.log


def test_a_gateway_process_serves_on_while_conversations_are_damaged(
    broker: Mosquitto, gateway: GatewayProcess
) -> None:
    converse(gateway, broker, damaged=15_000, seed=1)
    assert_quiet(gateway)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_a_gateway_process_serves_on_through_a_million_of_them(
    broker: Mosquitto, gateway: GatewayProcess
) -> None:
    converse(gateway, broker, damaged=1_000_000, seed=2)
