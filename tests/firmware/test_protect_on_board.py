"""Protected packets on real MicroPython: the vectors, at the real gateway, asleep and restarted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import aiomqtt
import pytest

from firmware.mqttsn.protect import AES_CCM_64, HMAC_SHA256
from gateway.core.access.device_keys import sender_id_of
from gateway.storage.keys.file import change_keys
from gateway.storage.keys.records import NewKey
from hil.boards.unix import interpreter
from hil.rig.gateway import GatewayProcess
from hil.rig.mosquitto import Mosquitto
from tests.firmware import protect_cost
from tests.firmware.cryptolib import cryptolib
from tests.firmware.ports import PORTS, Runner, runner
from tests.firmware.program import program
from tests.firmware.session_bench import broker, next_heard, with_application
from tests.support.boards import board_with

__all__ = ["broker", "cryptolib"]

SOURCES = Path(__file__).resolve().parents[2] / "firmware"
LIMIT_S = 60.0
CONFIG = '[[udp]]\nlisten = "127.0.0.1:0"\nsecurity = "protected"\n'
NAME, SECRET = "vane", bytes(range(16))

# The vectors of the draft's layouts, with the keys 00 01 .. 1f and 00 01 .. 0f. The last line is of
# RFC 4231, case 2.
VECTORS = """
from mqttsn.protect import Hmac
from binascii import unhexlify

def looks(cipher, whole, at, tag_bytes):
    packet = unhexlify("07030000056869")
    end = at + len(packet)
    made = bytearray(whole)
    made[at:] = packet + bytes(tag_bytes)
    cipher.seal(made, at, end)
    print(made == whole, end=" ")
    print(cipher.open(made, at, end, len(made)) and made[at:end] == packet, end=" ")
    for place in range(len(whole)):
        made = bytearray(whole)
        made[place] ^= 1
        if cipher.open(made, at, end, len(made)):
            print("wrong")
    print(len(made))

looks(Hmac(bytes(range(32)), 32), unhexlify(
    "3bff120001020304050607080a0b0c0d000000010703000005686994c42add0086122db28f2603f352fda03c2d4ba3"
    "c1d39eb7bf5390c524689d02"), 20, 32)
looks(Hmac(bytes(range(32)), 8), unhexlify(
    "1fff400001020304050607080a0b0c0d07030000056869438e7318166ab410"), 16, 8)
print(Hmac(b"Jefe").mac(b"what do ya want for nothing?")[:4] == unhexlify("5bdcc146"))
"""
WITH_AES = """
try:
    from mqttsn.ccm import Ccm
    from mqttsn.protect import same
    cipher = Ccm(bytes(range(16)), 8, same)
except ImportError:
    print("no AES")
else:
    looks(cipher, unhexlify(
        "23ff124001020304050607080a0b0c0d00000001e0a82007031b5c112b4815df68d399"), 20, 8)
"""
RIGHT = ["True True 59", "True True 31", "True"]
RIGHT_WITH_AES = "True True 35"


@pytest.fixture(params=PORTS)
def run_on(request: pytest.FixtureRequest, tmp_path: Path) -> Runner:
    return runner(request, tmp_path, heap="256k", limit_s=LIMIT_S, memory=("64k",))


def test_the_vectors(run_on: Runner) -> None:
    *of_hmac, last = run_on(VECTORS + WITH_AES)
    assert of_hmac == RIGHT
    assert last in (RIGHT_WITH_AES, "no AES")  # the simulated board has none


@pytest.mark.usefixtures("cryptolib")
def test_the_vectors_on_cpython(capsys: pytest.CaptureFixture[str]) -> None:
    text = (VECTORS + WITH_AES).replace("from mqttsn", "from firmware.mqttsn")
    exec(text, {})
    assert capsys.readouterr().out.splitlines() == [*RIGHT, RIGHT_WITH_AES]


# With a restart, a lost flash, and a deep sleep in which neither flash nor gateway is asked.
BODY = """
from mqttsn.protect import Protected
saved = []

def fresh(kept):
    transport = Protected(
        Udp(("127.0.0.1", {port})), {sender}, {secret}, kept, saved.append, scheme={scheme}
    )
    client.transport = transport
    return transport

fresh(b"")
client.publish(b"a/b", b"1", 1)
transport = fresh(saved[-1])
client.publish(b"a/b", b"2", 1)
transport = fresh(b"")
client.publish(b"a/b", b"3", 1)
kept, count = transport.take(), len(saved)
transport = fresh(b"")
print(transport.put_back(kept[:-1] + b"x"), transport.put_back(kept))
client.publish(b"a/b", b"4", 1)
print(len(saved) - count, "saved")
"""


@pytest.mark.parametrize("scheme", [0x00, 0x40, 0x43])
def test_readings_arrive(
    run_on: Runner, keyed_gateway: GatewayProcess, broker: Mosquitto, scheme: int
) -> None:
    if scheme and run_on("import sys\ntry:\n import cryptolib\nexcept ImportError: print(1)"):
        pytest.skip("not run: this port has no AES")
    body = BODY.format(
        port=keyed_gateway.port, sender=sender_id_of(NAME), secret=SECRET, scheme=scheme
    )

    async def inner(app: aiomqtt.Client) -> list[tuple[str, bytes, int]]:
        assert run_on(program(keyed_gateway.port, body)) == ["False True", "0 saved"]
        return await next_heard(app, 4)

    heard = with_application(broker, inner)
    assert [payload for _, payload, _ in heard] == [b"1", b"2", b"3", b"4"]


def test_what_a_key_costs_is_measured_and_within_bounds(library: Path, tmp_path: Path) -> None:
    board = board_with(library, tmp_path / "flash", heap="64k")
    plain = protect_cost.in_wasi(board, protect_cost.PLAIN, 10)
    protected = protect_cost.in_wasi(board, HMAC_SHA256, 10)
    assert (plain.allocated, plain.effort > 0) == (0, True)
    assert protected.allocated <= 2048
    assert plain.effort < protected.effort < 4 * plain.effort


@pytest.mark.parametrize("scheme", [protect_cost.PLAIN, HMAC_SHA256, AES_CCM_64])
def test_what_a_key_costs_on_the_unix_port(library: Path, scheme: int) -> None:
    if (reason := interpreter.why_not()) is not None:
        pytest.skip(f"not run, no MicroPython of the Unix port: {reason}")
    cost = protect_cost.in_unix(library, scheme, 10)
    assert cost.allocated <= 8192


@pytest.fixture(scope="module")
def keyed_gateway(
    tmp_path_factory: pytest.TempPathFactory, broker: Mosquitto
) -> Iterator[GatewayProcess]:
    folder = tmp_path_factory.mktemp("gateway")
    new = NewKey(name=NAME, secret=SECRET)
    state = folder / "state"
    state.mkdir(mode=0o700)
    change_keys(state / "device.keys", lambda before: before.added([new], 0.0))
    with GatewayProcess(folder, broker.url, CONFIG) as process:
        process.wait_until_connected()
        yield process
