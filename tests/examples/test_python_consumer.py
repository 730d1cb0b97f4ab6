"""docs/examples/consumers/readings_to_sqlite.py beside a real broker, as docs/consumers.md starts
it: each reading once, whatever comes twice and whenever it ends.
"""

from __future__ import annotations

import asyncio
import sqlite3
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hil.rig.gateway import GatewayProcess
from hil.rig.logged_process import LoggedProcess
from hil.rig.mosquitto import Mosquitto
from hil.rig.scripted_client import sensor
from tests.examples import EXAMPLES
from tests.examples.published import TAKEN_AT, Message, mixed_pack, packs, publish, tag
from tests.support.waiting import until

END = Message(b'[{"n":"end","v":1}]', tag(1_000_000))


class Consumer(LoggedProcess):
    def __init__(self, folder: Path, broker: Mosquitto) -> None:
        super().__init__(folder / "consumer.log")
        self.database = folder / "readings.db"
        self._port = broker.port

    def start(self) -> None:
        program = str(EXAMPLES / "consumers" / "readings_to_sqlite.py")
        where = ["127.0.0.1", "sensors/+", "--port", str(self._port)]
        self.launch([sys.executable, program, str(self.database), *where])
        self.wait_for_log("subscribed")

    def rows(self, columns: str) -> list[tuple[object, ...]]:
        with sqlite3.connect(self.database) as table:
            return table.execute(f"SELECT {columns} FROM readings ORDER BY rowid").fetchall()

    def wait_for(self, name: str) -> None:
        until(lambda: (name,) in self.rows("name"))


@pytest.fixture
def broker() -> Iterator[Mosquitto]:
    with Mosquitto() as running:
        yield running


@pytest.fixture
def consumer(broker: Mosquitto, tmp_path: Path) -> Iterator[Consumer]:
    with Consumer(tmp_path, broker) as running:
        yield running


def test_senml_is_decoded_in_both_forms(broker: Mosquitto, consumer: Consumer) -> None:
    found = [*packs(), mixed_pack()]
    forms = [form for pack in found for form in (pack.cbor, pack.json)]
    publish(broker, [*(Message(form, tag(seq)) for seq, form in enumerate(forms)), END])
    consumer.wait_for("end")
    expected = [value for pack in found for value in (*pack.values, *pack.values)]
    assert consumer.rows("name, unit, value, unix_time")[:-1] == expected
    assert set(consumer.rows("client, topic")) == {("greenhouse-3", "sensors/greenhouse-3")}


def test_a_repeat_is_known_by_its_tag_and_by_nothing_else(
    broker: Mosquitto, consumer: Consumer
) -> None:
    payload = packs()[0].cbor
    tags = [tag(1), tag(2), tag(1), tag(1, epoch=4), tag(1, gateway="other"), tag(2)]
    publish(broker, [*(Message(payload, each) for each in tags), END])
    consumer.wait_for("end")
    found = consumer.rows("DISTINCT gw, epoch, seq")[:-1]
    assert found == [("gh", 3, 1), ("gh", 3, 2), ("gh", 4, 1), ("other", 3, 1)]
    assert len(consumer.rows("name")) == len(found) * len(packs()[0].values) + 1


def test_what_has_no_tag_is_taken_and_what_is_no_senml_is_left_out(
    broker: Mosquitto, consumer: Consumer
) -> None:
    payload = packs()[0].json
    wrong = [b"", b"21.5", b"{}", b"[1]", b"\xff\xff", b'[{"n":"x","v":"y"}]', b"\x82\xa1"]
    publish(broker, [Message(each, {}) for each in (payload, *wrong, payload)] + [END])
    consumer.wait_for("end")
    assert len(consumer.rows("name")) == 2 * 2 + 1
    assert consumer.log_path.read_text().count("left out") == len(wrong)


def test_what_came_while_it_was_killed_comes_again_and_is_there_once(
    broker: Mosquitto, consumer: Consumer
) -> None:
    payload = packs()[1].cbor
    publish(broker, [Message(payload, tag(seq)) for seq in range(50)])
    consumer.kill()
    publish(broker, [Message(payload, tag(seq)) for seq in (*range(40, 60), *range(50, 60))])
    consumer.start()
    publish(broker, [END])
    consumer.wait_for("end")
    assert consumer.rows("DISTINCT seq")[:-1] == [(seq,) for seq in range(60)]
    assert len(consumer.rows("name")) == 60 * 4 + 1


def test_readings_of_a_gateway_have_tag_and_client(
    broker: Mosquitto, consumer: Consumer, tmp_path: Path
) -> None:
    async def story(port: int) -> None:
        async with sensor(port, "tank") as tank:
            await tank.connect()
            topic = await tank.register("sensors/tank")
            for qos in (1, 2, 0):
                await tank.publish(topic, packs()[0].cbor, qos=qos)

    with GatewayProcess(tmp_path, broker.url) as gateway:
        gateway.wait_until_connected()
        asyncio.run(story(gateway.port))
        until(lambda: len(consumer.rows("name")) == 3 * 2)
    found = consumer.rows("gw, epoch, client, value, unix_time > ?".replace("?", str(TAKEN_AT)))
    assert [row[:4] for row in found[1::2]] == [
        ("under-test", 1, "tank", 21.37),
        ("under-test", 1, "tank", 21.37),
        ("under-test", -1, "tank", 21.37),
    ]
