"""Floods and rubbish: afterwards the gateway serves, has told little and grown little."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from hil.rig.gateway import GatewayProcess
from hil.rig.mosquitto import Mosquitto
from hil.rig.scripted_client import BlockingClient, framed, u16
from tests.end_to_end.on_air import (
    ACCEPTED,
    CLEAN,
    CONNACK,
    CONNECT,
    DISCONNECT,
    PINGREQ,
    PINGRESP,
    PUBACK,
    PUBLISH,
    REGISTER,
    SUBSCRIBE,
    assert_untroubled,
    connected,
    fresh,
    long_form,
    serving,
    story,
)
from tests.support.application import application, heard
from tests.support.resident import resident_bytes

GREEDY = 4
GROWTH_BYTES_MAX = 10 << 20
LOG_LINES_MAX = 400
# So many datagrams go out before the gateway is asked whether it has handled them all; its receive
# buffer holds more.
BURST = 200
ANSWER_TIMEOUT_S = 200.0

# Each a whole message of MQTT-SN 1.2, from which mutants are made.
SEEDS = [
    bytes.fromhex(octets)
    for octets in """
    0500010384 030101 030201 070201c0a8010a 0a040401003c64657631 0a040801003c64657631
    0a040001003c64657632 030500 0206 0a07306c772f64657631 0207 0208 0509627965
    090a00000001612f62 070b0005000100 090c00000100006869 090c20000100076869
    090cb0000100076869 090c40000100086869 090c61000700006869 090c62747000006869
    100c600005000068656c6c6f74657374 070d0005000700 070d0005000702 040f0008 04100008
    040e0008 0812200003612f62 0812400004612f2b 07120100050007 07120200067470 061220000a23
    0813200005000300 0814000009612f62 07140100090007 04150009 0216 061664657631 01000416
    0217 0218 0418003c 04180001 071a206c772f78 021a 061c676f6e65 031b00 031d00
    05fe0001020216 07fe00010203040a040401003c64657631 0203 0211 02ff
    """.split()  # noqa: SIM905 - one line for each would be a page
]


@pytest.fixture
def gateway(broker: Mosquitto, tmp_path: Path) -> Iterator[GatewayProcess]:
    config = (
        '[predefined_topics]\n"sensors/boot" = 7\n'
        "[qos_minus_one]\nallow = true\nlong_topics = true\n"
        "[limits]\nclients_max = 1000\n"
    )
    with serving(tmp_path, broker, config) as running:
        yield running


class Air(BlockingClient):
    """A socket of a node; what comes is read and forgotten unless somebody asks."""

    def connect(self, client_id: str) -> int:
        """The return code."""
        body = bytes((CLEAN, 1)) + u16(600) + client_id.encode()
        return self.ask(CONNECT, body, CONNACK)[0]


@contextmanager
def airs(port: int, count: int) -> Iterator[list[Air]]:
    with ExitStack() as stack:
        made = [Air(port) for _ in range(count)]
        for air in made:
            stack.enter_context(air.socket)
        yield made


def rubbish(dice: random.Random) -> bytes:
    """Random bytes, or a message with something wrong in it, or a whole one out of turn."""
    choice = dice.random()
    if choice < 0.2:
        return dice.randbytes(dice.choice((1, 2, 3, 4, 7, 20, 300, 1500)))
    octets = bytearray(dice.choice(SEEDS))
    if choice < 0.4:
        del octets[dice.randrange(len(octets)) + 1 :]
    elif choice < 0.7:
        for _ in range(dice.randint(1, 3)):
            octets[dice.randrange(len(octets))] = dice.randrange(256)
    elif choice < 0.8:
        octets += dice.randbytes(dice.randint(1, 40))
        if dice.random() < 0.5 and octets[0] != 1:
            octets[0] = min(255, len(octets))
    elif choice < 0.9 and octets[0] > 1:
        octets = bytearray(long_form(octets[1], bytes(octets[2:]) + dice.randbytes(3)))
    return bytes(octets)


def bombard(gateway: GatewayProcess, datagrams: int, seed: int) -> None:
    """From twenty addresses, half of them clients again and again; never faster than it reads."""
    dice = random.Random(seed)
    with airs(gateway.port, 20) as everyone, airs(gateway.port, 1) as (referee,):
        assert referee.connect(fresh("referee")) == 0
        for _ in range(datagrams // BURST):
            for number, air in enumerate(everyone[::2]):
                # Among the rubbish are goodbyes.
                air.send(framed(CONNECT, bytes((CLEAN, 1)) + u16(600) + b"victim-%d" % number))
            for _ in range(BURST):
                dice.choice(everyone).send(rubbish(dice))
            assert referee.ask(PINGREQ, b"", PINGRESP) == b""
            for air in everyone:
                air.heard()
        referee.ask(DISCONNECT, b"", DISCONNECT)


async def serves(broker: Mosquitto, gateway: GatewayProcess) -> None:
    """One reading up and one command down."""
    up, down = fresh("up"), fresh("down")
    async with application(broker, up) as app, connected(gateway.port) as n:
        await n.publish(await n.register(up), b"still here", qos=2)
        assert (await heard(app)).payload == b"still here"
        number = await n.subscribe(down.encode(), qos=2)
        await app.publish(down, b"and there", qos=2)
        assert await n.message() == (0x40, number, b"and there")
        await n.leave()


@story
async def served_still(broker: Mosquitto, gateway: GatewayProcess) -> None:
    await serves(broker, gateway)


def assert_quiet(gateway: GatewayProcess) -> None:
    assert_untroubled(gateway)
    assert gateway.log.count("\n") < LOG_LINES_MAX, gateway.log[-5000:]


def test_rubbish_from_many_addresses_does_no_harm(
    broker: Mosquitto, gateway: GatewayProcess
) -> None:
    seed = 1200
    bombard(gateway, 1_000, seed)  # tables and caches are warm
    before = resident_bytes(gateway.pid)
    bombard(gateway, 6_000, seed + 1)
    assert resident_bytes(gateway.pid) - before < GROWTH_BYTES_MAX
    served_still(broker, gateway)
    assert_quiet(gateway)
    assert gateway.connections == 1, "the broker never had a reason to break off"
    assert " unreachable: " not in gateway.log


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_a_million_pieces_of_rubbish_do_no_harm(broker: Mosquitto, gateway: GatewayProcess) -> None:
    bombard(gateway, 50_000, 1)
    before = resident_bytes(gateway.pid)
    bombard(gateway, 1_000_000, 2)
    assert resident_bytes(gateway.pid) - before < GROWTH_BYTES_MAX
    served_still(broker, gateway)
    assert_untroubled(gateway)
    assert " unreachable: " not in gateway.log


def test_a_flood_of_new_clients_stops_at_the_limit_and_costs_members_nothing(
    broker: Mosquitto, gateway: GatewayProcess
) -> None:
    with airs(gateway.port, 1) as (member,):
        assert member.connect("member") == 0
        topic_id = member.ask(REGISTER, u16(0) + u16(1) + b"field", REGISTER + 1)[:2]
        codes = []
        for number in range(1_500):
            # An address of its own: the system may give a port again that was closed.
            spoof = Air(gateway.port, source=f"127.1.{number // 250}.{number % 250 + 1}")
            with spoof.socket:
                codes.append(spoof.connect(f"spoof-{number}"))
                if codes[-1] == 0:  # CONNECT alone takes no place
                    assert spoof.ask(PINGREQ, b"", PINGRESP) == b""
            if number % 100 == 0:
                body = b"\x20" + topic_id + u16(number + 2) + b"x"
                answer = member.ask(PUBLISH, body, PUBACK)
                assert answer == topic_id + u16(number + 2) + ACCEPTED
        assert codes == [0] * 999 + [1] * 501
        assert member.ask(PINGREQ, b"", PINGRESP) == b""
        assert member.connect("member") == 0
    assert_quiet(gateway)


def test_strangers_hear_no_more_than_the_limit_and_cost_members_nothing(
    broker: Mosquitto, gateway: GatewayProcess
) -> None:
    with airs(gateway.port, 50) as strangers, airs(gateway.port, 1) as (member,):
        assert member.connect("member") == 0
        for _ in range(100):
            for stranger in strangers:
                stranger.send(b"\x07\x0c\x20\x00\x01\x00\x01")
            assert member.ask(PINGREQ, b"", PINGRESP) == b""
        answers = [answer for stranger in strangers for answer in stranger.heard()]
        assert set(answers) == {b"\x02\x18"}
        # 20 at once, and 20 more for each second that this took.
        assert 20 <= len(answers) <= 200
        assert b"\x02\x18" not in member.heard()
    served_still(broker, gateway)
    assert_quiet(gateway)


def test_one_client_that_asks_for_everything_does_not_take_the_memory(
    broker: Mosquitto, gateway: GatewayProcess
) -> None:
    """Names and filters up to every limit of a client, by several clients."""
    with airs(gateway.port, 1 + GREEDY) as greedy:
        before = 0
        for number, air in enumerate(greedy):
            if number == 1:  # what is made once for all clients is there
                before = resident_bytes(gateway.pid)
            assert air.connect(f"greedy-{number}") == 0
            for count in range(300):
                name = f"greedy/{number}/{count}/".encode() + b"x" * 400
                air.ask(REGISTER, u16(0) + u16(count + 1) + name[:240], REGISTER + 1)
            for count in range(70):
                name = f"greedy/{number}/{count}/+".encode()
                air.ask(SUBSCRIBE, b"\x40" + u16(count + 1) + name, SUBSCRIBE + 1)
        # 256 names of 240 octets are 60 KiB, and their tables as much again.
        assert resident_bytes(gateway.pid) - before < GREEDY * 400 * 1024
    served_still(broker, gateway)
    assert_quiet(gateway)
