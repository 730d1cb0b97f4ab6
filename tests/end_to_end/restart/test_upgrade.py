"""The gateway is killed and another release goes on in its folder: sensors notice nothing.

From 0.1.0, early and late, to this one, and back. Each of the two is a process of its own sources.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import aiomqtt
import pytest

from gateway.app.exit_codes import ExitCode
from hil.rig.gateway import GatewayProcess
from hil.rig.mosquitto import Mosquitto
from hil.rig.ports import free_udp_port
from hil.rig.scripted_client import u16
from tests.end_to_end.on_air import (
    DISCONNECT,
    PINGREQ,
    PINGRESP,
    PUBCOMP,
    PUBLISH,
    PUBREC,
    PUBREL,
    Node,
    assert_untroubled,
    connected,
    fresh,
    story,
)
from tests.end_to_end.restart.conftest import CONFIG
from tests.end_to_end.restart.restarting import begin_again, gets
from tests.support.application import application, delivery_tag, heard
from tests.support.revision_before import (
    EARLY_REVISION,
    LATE_REVISION,
    REPOSITORY,
    REVISION,
    gateway_of,
    unpack_before,
    why_not,
)

ASLEEP_S = 600
HALF_WAY = 700  # a message id
READINGS = [b"reading %d" % number for number in range(20)]
MESSAGES = [b"command %d" % number for number in range(4)]
LISTEN = '[[udp]]\nlisten = "127.0.0.1:{}"\n'


@pytest.fixture(scope="module")
def before(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    reason = why_not(request.param)
    if reason is not None:
        pytest.skip(f"not run: {reason}")
    return unpack_before(tmp_path_factory.mktemp("before"), request.param)


@dataclass
class Names:
    """Of topics: for readings, for commands that wait and that come later, of a retained message,
    and of a will."""

    up: str = field(default_factory=fresh)
    live: str = field(default_factory=fresh)
    down: str = field(default_factory=fresh)
    retained: str = field(default_factory=fresh)
    will: str = field(default_factory=fresh)


@pytest.mark.parametrize(
    ("before", "is_upgrade", "can_go_back"),
    [
        (REVISION, True, True),
        (REVISION, False, True),
        (EARLY_REVISION, True, False),
        (LATE_REVISION, True, True),
    ],
    ids=["to this one", "back from this one", "from an early one", "from a late one"],
    indirect=["before"],
)
@story
async def test_another_revision_goes_on_in_the_folder_of_one_that_was_killed(
    broker: Mosquitto,
    before: Path,
    tmp_path: Path,
    is_upgrade: bool,
    can_go_back: bool,
) -> None:
    revisions = (before, REPOSITORY) if is_upgrade else (REPOSITORY, before)
    config = CONFIG + LISTEN.format(free_udp_port())
    first, second = (
        GatewayProcess(tmp_path, broker.url, config, command=gateway_of(each)) for each in revisions
    )
    names = Names()
    with first:
        first.wait_until_connected()
        async with (
            connected(first.port, clean=False) as awake,
            connected(first.port, clean=False) as asleep,
        ):
            up_id = await awake.register(names.up)
            await awake.subscribe(f"{names.live}/+".encode(), qos=0)
            down_id = await leave_messages(broker, first, names, asleep)
            broker.stop()
            first.wait_for_log(" unreachable: | is away: ")
            await leave_readings(awake, up_id)
            async with connected(first.port, clean=False, keep_alive_s=1) as silent:
                await silent.bequeaths(names.will, b"gone")
                first.kill()
            assert_untroubled(first)
            with second:
                await gets_the_retained_message(second, names)
                second.kill()  # or readings would be at the broker before they are listened for
                broker.start()
                async with application(broker, names.up, names.will) as app:
                    begin_again(second)
                    tags = await find_readings(app, awake, names, up_id)
                    await find_messages(asleep, down_id)
                    await app.publish(f"{names.live}/now", b"now", qos=1)
                    await gets(awake, b"now")
                    assert_untroubled(second)
                    if can_go_back:
                        second.kill()
                    else:
                        second.stop()  # or the older one would close its log, though it refuses
                        refuses(first)
                    last = first if can_go_back else second
                    begin_again(last)
                    await find_no_new_ones(app, awake, up_id, tags)
                    assert_untroubled(last)


def refuses(gateway: GatewayProcess) -> None:
    gateway.start()
    assert gateway.wait_for_exit() == ExitCode.CANNOT_CREATE
    assert "state.db was written by a newer Tidegate (schema 5" in gateway.log


async def leave_messages(
    broker: Mosquitto, gateway: GatewayProcess, names: Names, asleep: Node
) -> int:
    """A retained one, and four for a sleeper; the id of their topic."""
    async with application(broker) as app, connected(gateway.port) as listener:
        await app.publish(names.retained, b"auto", qos=1, retain=True)
        await listener.subscribe(names.retained.encode(), qos=1)
        assert (await listener.message())[2] == b"auto"
        # What it has heard is in the sleeper's queue too.
        await listener.subscribe(names.down.encode(), qos=2)
        down_id = await asleep.subscribe(names.down.encode(), qos=2)
        await asleep.asks(DISCONNECT, u16(ASLEEP_S), DISCONNECT)
        for number, payload in enumerate(MESSAGES):
            await app.publish(names.down, payload, qos=1 + number % 2)
            await gets(listener, payload)
    return down_id


async def leave_readings(awake: Node, up_id: int) -> None:
    """Without the broker; the last one at QoS 2 half-way."""
    for number, payload in enumerate(READINGS):
        await awake.publish(up_id, payload, qos=1 + number % 2)
    await awake.say(PUBLISH, b"\x40" + u16(up_id) + u16(HALF_WAY) + b"half")
    await awake.hears(PUBREC, u16(HALF_WAY))


async def gets_the_retained_message(gateway: GatewayProcess, names: Names) -> None:
    async with connected(gateway.port) as newcomer:
        topic_id = await newcomer.subscribe(names.retained.encode(), qos=1)
        assert await newcomer.message() == (0x30, topic_id, b"auto")


async def find_readings(
    app: aiomqtt.Client, awake: Node, names: Names, up_id: int
) -> set[tuple[str, str]]:
    """Each arrives once, in the order of its QoS, and so does the will; their delivery tags."""
    await awake.asks(PUBREL, u16(HALF_WAY), PUBCOMP, u16(HALF_WAY))
    assert await awake.register(names.up) == up_id
    await awake.publish(up_id, b"last", qos=2)
    qos_1, qos_2, will = READINGS[0::2], [*READINGS[1::2], b"half", b"last"], [b"gone"]
    messages = [await heard(app) for _ in (*qos_1, *qos_2, *will)]
    payloads = [each.payload for each in messages if each.topic.value == names.up]
    assert [each for each in payloads if each in qos_1] == qos_1
    assert [each for each in payloads if each in qos_2] == qos_2
    assert [each.payload for each in messages if each.topic.value == names.will] == will
    tags = {tag_of(message) for message in messages}
    assert len(tags) == len(messages)
    return tags


def tag_of(message: aiomqtt.Message) -> tuple[str, str]:
    tag = delivery_tag(message)
    return tag["epoch"], tag["seq"]


async def find_messages(asleep: Node, down_id: int) -> None:
    await asleep.say(PINGREQ, asleep.client_id.encode())
    assert await gets(asleep, *MESSAGES, till=PINGRESP) == [down_id] * len(MESSAGES)
    await asleep.asks(PINGREQ, asleep.client_id.encode(), PINGRESP)


async def find_no_new_ones(
    app: aiomqtt.Client, awake: Node, up_id: int, tags: set[tuple[str, str]]
) -> None:
    """What comes again, as it was not yet noted that the broker has it, has the tag it had."""
    await awake.publish(up_id, b"and on", qos=2)
    while (message := await heard(app)).payload != b"and on":
        assert tag_of(message) in tags, message.payload
