"""`open_next`, by which nearly all envelopes are opened, takes nothing that `open` would not."""

from __future__ import annotations

from random import Random

import pytest

from gateway.core.access.device_keys import DeviceKeys
from gateway.core.addresses import protected_address
from gateway.core.protection.channel import BLOCK, Channel, Memory
from gateway.core.protection.envelope import parse
from gateway.core.protection.protection import Protection, ProtectionOptions, Received
from gateway.core.protection.schemes import NEEDS_PACKAGE
from gateway.core.state_records import Change
from gateway.frames import Forwarded, Pingreq, encode
from tests.support.protected_sensor import key_of

ADDRESS = b"there"
NAMES = ("tank", "well", "gone")
SCHEMES = ((0x00, 8), (0x00, 16), (0x40, 8), (0x43, 16))
PEERS = {protected_address(ADDRESS, key_of(name).sender_id) for name in NAMES}
PING = encode(Pingreq())


class End:
    """A gateway's; `is_quick`: as the dispatcher does it."""

    def __init__(self, *, is_quick: bool) -> None:
        self.keys = DeviceKeys(map(key_of, NAMES))
        self.protection = Protection(
            ProtectionOptions(lambda: self.keys, Random(5).randbytes), 1000, 1000
        )
        self.is_quick = is_quick
        self.quick = 0

    def receive(self, datagram: bytes) -> tuple[Received, list[Change]]:
        self.protection.look_at_keys()
        if self.is_quick:
            opened = self.protection.open_next(ADDRESS, datagram, PEERS)
            if opened is not None:
                self.quick += 1
                return Received(*opened), self.protection.take_changes()
        received = self.protection.open(ADDRESS, datagram, PEERS, 0.0)
        return received, self.protection.take_changes()


def device(name: str, dice: Random, memory: Memory | None, scheme: tuple[int, int]) -> Channel:
    key = key_of(name)
    return Channel(
        sender_id=key.sender_id,
        secret=key.secret,
        epoch=1,
        random=dice.randbytes,
        memory=memory,
        is_device=True,
        scheme=scheme[0],
        tag_bytes=scheme[1],
    )


def packets(dice: Random) -> bytes:
    size = dice.choice((1, 5, 5, 5, 250, 400))
    return dice.choice(
        (
            PING,
            PING,
            PING,
            bytes((7,)) + dice.randbytes(size),
            b"\x01" + dice.randbytes(size),
            encode(Forwarded(b"n", PING)),
            b"\x05\xff\x00\x00\x00",
            b"\x07",
        )
    )


def schemes() -> list[tuple[int, int]]:
    try:
        import cryptography  # noqa: F401
    except ImportError:
        return [each for each in SCHEMES if each[0] not in NEEDS_PACKAGE]
    return list(SCHEMES)


def altered(datagram: bytes, recorded: list[bytes], dice: Random) -> bytes:
    """Mostly as it is; or another one, so that this one is lost, or comes later."""
    match dice.randrange(8):
        case 0:
            return dice.choice(recorded[-80:])
        case 1:
            place = dice.randrange(len(datagram))
            changed = datagram[place] ^ 1 << dice.randrange(8)
            return datagram[:place] + bytes((changed,)) + datagram[place + 1 :]
        case 2:
            size = dice.randrange(2, len(datagram) + 1)
            return bytes((min(size, 255),)) + datagram[1:size]
    return datagram


@pytest.mark.parametrize("seed", range(12))
def test_they_take_the_same_of_all_that_may_come(seed: int) -> None:
    dice = Random(seed)
    quick, thorough = End(is_quick=True), End(is_quick=False)
    senders = [device(name, dice, None, dice.choice(schemes())) for name in NAMES]
    recorded: list[bytes] = []
    for step in range(1500):
        at = dice.randrange(len(senders))
        sender = senders[at]
        match dice.randrange(40):
            case 0:  # it starts again, perhaps without a memory, and in another scheme
                memory = dice.choice((None, sender.memory(), sender.memory_at_end()))
                senders[at] = device(NAMES[at], dice, memory, dice.choice(schemes()))
                continue
            case 1:
                for _ in range(dice.choice((10, 70, BLOCK))):
                    sender.seal(PING)
                continue
            case 2 if step > 1000 and len(quick.keys):
                quick.keys = thorough.keys = DeviceKeys(map(key_of, NAMES[:2]))
                continue
        datagram = sender.seal(packets(dice))
        recorded.append(datagram)
        datagram = altered(datagram, recorded, dice)
        found = quick.receive(datagram)
        assert found == thorough.receive(datagram), (step, datagram.hex())
        if found[0].reply:
            answer = sender.open(parse(found[0].reply), 0.0).reply
            if answer:
                assert quick.receive(answer) == thorough.receive(answer)
    assert quick.quick > 100, "most of it is opened so"
