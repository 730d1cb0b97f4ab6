"""Both ends of a channel: what is taken, and what is asked after memory was lost."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from gateway.core.protection.channel import (
    BLOCK,
    COUNTER_MAX,
    NO_SERIES,
    QUESTIONS_PER_S_MAX,
    RECENT,
    Channel,
    Memory,
    Verdict,
)
from gateway.core.protection.envelope import AES_CCM_64, AES_CCM_128, parse
from gateway.core.protection.replay_window import AHEAD_MAX
from tests.core.protection.ends import carried, device, exchanged, gateway, opened

PACKET = b"\x02\x16"
OTHER = b"\x02\x17"


def met(dice: Random) -> tuple[Channel, Channel]:
    one, other = device(dice), gateway(dice)
    assert exchanged(one, other, PACKET) == ([PACKET], 3)
    return one, other


def test_the_first_packet_takes_one_question_and_no_later_one_does() -> None:
    one, other = met(Random(1))
    for _ in range(5):
        assert exchanged(one, other, PACKET) == ([PACKET], 1)
        assert exchanged(other, one, OTHER) == ([OTHER], 1)


@pytest.mark.parametrize(
    ("scheme", "tag_bytes"), [(0, 8), (0, 16), (0, 32), (AES_CCM_64, 8), (AES_CCM_128, 16)]
)
def test_the_gateway_sends_as_its_device_does(scheme: int, tag_bytes: int) -> None:
    dice = Random(2)
    one, other = device(dice, scheme=scheme, tag_bytes=tag_bytes), gateway(dice)
    assert exchanged(one, other, PACKET)[0] == [PACKET]
    sealed = parse(other.seal(OTHER))
    assert (sealed.scheme, sealed.tag_bytes) == (scheme, tag_bytes)


def test_a_copy_is_taken_once_and_a_reflected_one_not_at_all() -> None:
    one, other = met(Random(3))
    datagram = one.seal(PACKET)
    assert opened(other, datagram).verdict is Verdict.FRESH
    found = opened(other, datagram)
    assert (found.verdict, found.packet, found.reply) == (Verdict.REPLAYED, b"", b"")
    assert opened(one, datagram).verdict is Verdict.FORGED


@pytest.mark.parametrize("place", range(RECENT + 2))
def test_of_what_is_carried_to_another_gateway_only_the_last_packet_is_taken(place: int) -> None:
    """The path keeps packets back, and carries them and all questions to a gateway with the key."""
    dice = Random(4)
    one, _ = met(dice)
    packets = [bytes((3, 0x16, number)) for number in range(RECENT + 2)]
    kept_back = [one.seal(packet) for packet in packets]
    assert opened(gateway(dice), kept_back[place]).verdict is Verdict.UNFRESH
    taken, _ = carried(kept_back[place], one, gateway(dice))
    assert taken in ([], packets[-1:])
    if place == RECENT + 1:
        assert taken == packets[-1:]


@pytest.mark.parametrize("place", range(0, 41))
def test_one_other_byte_is_forged(place: int) -> None:
    from gateway.frames import MalformedFrame

    one, other = met(Random(4))
    datagram = bytearray(one.seal(PACKET))
    datagram[place % len(datagram)] ^= 1
    try:
        found = opened(other, bytes(datagram))
    except MalformedFrame:
        return
    except AssertionError:  # without a counter: not for a channel
        return
    assert found.verdict is Verdict.FORGED


def test_a_gateway_that_was_stopped_in_order_asks_nothing() -> None:
    dice = Random(5)
    one, other = met(dice)
    other = gateway(dice, other.memory_at_end())
    other.reserve()
    assert exchanged(one, other, PACKET) == ([PACKET], 1)
    assert exchanged(other, one, OTHER) == ([OTHER], 1)


def test_what_has_received_nothing_reserves_what_it_sends() -> None:
    channel = gateway(Random(1))
    channel.reserve()
    assert channel.has_changed
    assert channel.memory().received_series == NO_SERIES
    assert channel.memory().next_counter > channel.memory_at_end().next_counter


def test_a_gateway_whose_power_failed_asks_once() -> None:
    dice = Random(6)
    one, other = met(dice)
    recorded = one.seal(OTHER)
    assert opened(other, recorded).packet == OTHER
    other = gateway(dice, other.memory())
    other.reserve()
    assert opened(other, recorded).packet == b"", "it may be a replay, and is one"
    assert exchanged(one, other, PACKET)[0] == [PACKET]
    assert opened(other, recorded).packet == b""
    assert exchanged(one, other, PACKET) == ([PACKET], 1)
    assert exchanged(other, one, OTHER)[0] == [OTHER]


def test_a_gateway_that_lost_all_asks_once_and_is_asked() -> None:
    dice = Random(7)
    one, _ = met(dice)
    other = gateway(dice)
    taken, count = exchanged(one, other, PACKET)
    assert taken == [PACKET]
    assert count <= 4
    assert exchanged(one, other, PACKET) == ([PACKET], 1)
    assert exchanged(other, one, OTHER) == ([OTHER], 1)


def test_a_device_that_restarts_is_taken_at_once_and_asks_the_gateway() -> None:
    dice = Random(8)
    one, other = met(dice)
    before = other.seal(OTHER)
    one = device(dice, one.memory())
    assert opened(one, before).packet == b"", "nothing shows that this is no recording"
    taken, count = exchanged(one, other, PACKET)
    assert (taken, count) == ([PACKET], 2)
    assert exchanged(other, one, OTHER) == ([OTHER], 1)


def test_a_device_that_lost_its_flash_is_asked_once() -> None:
    dice = Random(9)
    one, other = met(dice)
    old = [one.seal(b"\x02" + bytes((number,))) for number in range(20)]
    assert all(opened(other, each).packet for each in old)
    one = device(dice)
    assert exchanged(one, other, PACKET) == ([PACKET], 3)
    assert not any(opened(other, each).packet for each in old)
    assert exchanged(one, other, PACKET) == ([PACKET], 1)


def test_a_device_that_got_an_old_memory_back_is_asked_once() -> None:
    dice = Random(10)
    one, other = met(dice)
    old = one.memory()
    old.next_counter = parse(one.seal(PACKET)).counter or 0
    recorded = [one.seal(PACKET) for _ in range(200)]
    assert all(opened(other, each).packet for each in recorded)
    one = device(dice, old)
    assert exchanged(one, other, PACKET)[0] == [PACKET]
    assert not any(opened(other, each).packet for each in recorded)


def test_a_question_from_a_recording_changes_nothing() -> None:
    dice = Random(11)
    one, other = device(dice), gateway(dice)
    question = opened(other, one.seal(PACKET)).reply
    answer = opened(one, question).reply
    assert opened(other, answer).packet == PACKET
    one.has_changed = False
    assert opened(one, question).reply == b""
    for _ in range(3):
        assert opened(other, one.seal(PACKET)).packet == PACKET
    one = device(dice, one.memory())
    one.seal(PACKET)
    one.has_changed = False
    opened(one, question)
    assert not one.has_changed, "no series is begun, and no flash worn"


def test_questions_have_a_limit() -> None:
    dice = Random(12)
    one, other = device(dice), gateway(dice)
    datagrams = [one.seal(PACKET) for _ in range(QUESTIONS_PER_S_MAX + 5)]
    replies = [opened(other, each).reply for each in datagrams]
    assert len(list(filter(None, replies))) == QUESTIONS_PER_S_MAX
    assert opened(other, datagrams[0], 1.0).reply, "and another second has others"


def test_blocks_are_saved_before_they_are_used() -> None:
    one, other = met(Random(13))
    other.has_changed = False
    memory = other.memory()
    for _ in range(2 * BLOCK):
        assert opened(other, one.seal(PACKET)).packet
        other.seal(OTHER)
        if other.has_changed:
            memory = other.memory()
            other.has_changed = False
        assert memory.next_counter >= other.memory_at_end().next_counter + AHEAD_MAX - 1
        assert memory.bound >= other.memory_at_end().bound + AHEAD_MAX - 1


def test_at_the_end_of_all_counters_another_series_begins() -> None:
    dice = Random(14)
    one, other = met(dice)
    memory = other.memory_at_end()
    memory.next_counter = COUNTER_MAX
    other = gateway(dice, memory)
    assert exchanged(other, one, OTHER)[0] == [OTHER]
    assert other.memory().series == 0
    taken, _ = exchanged(other, one, OTHER)
    assert taken == []
    assert other.memory().series, "refused, and asked for in another series"
    assert exchanged(other, one, OTHER) == ([OTHER], 1)
    memory = Memory(5, COUNTER_MAX, 6, COUNTER_MAX)
    assert gateway(dice, memory).memory_at_end() == memory


def test_no_head_comes_twice_whatever_is_lost() -> None:
    """Restarts, power cuts and lost memories on both sides: no head twice with one key, and of two
    packets of a device the second is taken, however bad it was.
    """
    dice = Random(15)
    seen: set[tuple[bool, bytes]] = set()

    def noted(is_device: bool, datagram: bytes) -> bytes:
        if datagram:
            key = (is_device, parse(datagram).head[3:])
            assert key not in seen
            seen.add(key)
        return datagram

    pair = Pair(dice, noted)
    for number in range(3000):
        pair.lose(dice.random())
        packet = b"\x04\x16" + number.to_bytes(2, "big")
        assert pair.send(packet, float(number)), "the answer to a question has the packet with it"
        datagram = noted(False, pair.other.seal(packet))
        assert opened(pair.one, datagram, float(number)).packet == packet, number


class Pair:
    def __init__(self, dice: Random, noted: Callable[[bool, bytes], bytes]) -> None:
        self.one, self.other = device(dice), gateway(dice)
        self._dice, self._noted = dice, noted
        self._saved: Memory | None = None

    def lose(self, what: float) -> None:
        """A restart of the device, its flash, power or all of the gateway; mostly nothing."""
        if what < 0.02:
            self.one = device(self._dice, self.one.memory())
        elif what < 0.03:
            self.one = device(self._dice)
        elif what < 0.05:
            self.other = gateway(self._dice, self._saved)
            self.other.reserve()
        elif what < 0.06:
            self.other, self._saved = gateway(self._dice), None

    def send(self, packet: bytes, now: float) -> bool:
        """Whether the gateway takes it."""
        taken, is_device = False, True
        datagram = self._noted(True, self.one.seal(packet))
        while datagram:
            found = opened(self.other if is_device else self.one, datagram, now)
            taken |= is_device and found.packet == packet
            is_device = not is_device
            datagram = self._noted(is_device, found.reply)
        if self.other.has_changed:
            self.other.has_changed, self._saved = False, self.other.memory()
        return taken


def test_a_secret_is_in_no_text() -> None:
    one, _ = met(Random(16))
    parts = [getattr(one, each, None) for each in dir(one)]  # a compiled one has no vars()
    assert "0123456789abcdef" not in f"{one!r} {parts!r}".replace(repr(one.secret), "")
    assert repr(one) == "Channel(0102030405060708, 1)"


def test_a_device_with_an_old_memory_is_asked_at_once() -> None:
    """Its counters have come, but in another run: they are no copies."""
    dice = Random(1)
    one, other = device(dice), gateway(dice)
    exchanged(one, other, b"\x02\x16")
    old = one.memory()
    again = device(dice, old)
    for _ in range(3):
        exchanged(again, other, b"\x02\x16")
    taken, _ = exchanged(device(dice, old), other, b"\x03\x16\x00")
    assert taken == [b"\x03\x16\x00"]


@pytest.mark.parametrize(("scheme", "tag_bytes"), [(0, 8), (AES_CCM_64, 8), (AES_CCM_128, 16)])
@pytest.mark.parametrize("is_end", [True, False])
def test_after_a_restart_it_sends_as_its_device_did_last(
    scheme: int, tag_bytes: int, is_end: bool
) -> None:
    """What was encrypted does not go out in clear before the device is heard again."""
    dice = Random(2)
    one, other = device(dice), gateway(dice)
    exchanged(one, other, PACKET)
    other.has_changed = False
    changed = device(dice, memory=one.memory(), scheme=scheme, tag_bytes=tag_bytes)
    exchanged(changed, other, PACKET)
    assert other.has_changed
    again = gateway(dice, other.memory_at_end() if is_end else other.memory())
    again.reserve()
    sealed = parse(again.seal(OTHER))
    assert (sealed.scheme, sealed.tag_bytes, again.scheme) == (scheme, tag_bytes, scheme)


def test_a_device_with_an_old_memory_is_asked_also_if_packets_had_been_lost() -> None:
    """Its first counter was never seen, and those that follow were."""
    dice = Random(5)
    one, other = device(dice), gateway(dice)
    exchanged(one, other, PACKET)
    old = one.memory()
    lossy = device(dice, old)
    lossy.seal(PACKET)
    for _ in range(8):
        exchanged(lossy, other, PACKET)
    again = device(dice, old)
    assert [exchanged(again, other, PACKET)[0] for _ in range(20)] == [[PACKET]] * 20
