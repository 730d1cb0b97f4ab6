"""Links on which only protected packets count."""

from __future__ import annotations

import pytest

from gateway.core.access.plain_frames import PROTECTION
from gateway.core.addresses import address_behind, is_protected
from gateway.core.clients.admission import AdmissionOptions
from gateway.core.drop_reasons import Reason
from gateway.core.effects import Dropped, Send
from gateway.core.engine import EngineOptions
from gateway.core.state_records import State
from gateway.frames import (
    Connack,
    Connect,
    Disconnect,
    Forwarded,
    Frame,
    Pingreq,
    Pingresp,
    Publish,
    Register,
    ReturnCode,
    SearchGw,
    Subscribe,
    encode,
)
from tests.support.engine_bench import UPSTREAM
from tests.support.state_bench import SAVING, StateBench

REFUSED = Connack(ReturnCode.NOT_SUPPORTED)
PROTECTED = EngineOptions(
    UPSTREAM,
    protected_links=frozenset({0}),
    admission=AdmissionOptions(answers_per_s_max=3, packets_per_s_max=1000),
    saves=True,
)
SENDER = bytes(8) + b"\xff"

FRAMES: tuple[Frame, ...] = (
    Connect(b"s1", 60),
    SearchGw(1),
    Register(0, 1, b"a"),
    Publish(topic_id=1, message_id=1, payload=b"1", qos=1),
    Publish(topic_id=1, message_id=0, payload=b"1", qos=-1),
    Subscribe(1, b"a", 1),
    Pingreq(),
    Pingreq(b"s1"),
    Disconnect(),
)


@pytest.mark.parametrize("frame", FRAMES, ids=lambda each: type(each).__name__)
@pytest.mark.parametrize("is_long", [False, True])
@pytest.mark.parametrize("is_behind", [False, True])
def test_a_plain_frame_is_dropped_and_only_connect_is_answered(
    frame: Frame, is_long: bool, is_behind: bool
) -> None:
    bench = StateBench(PROTECTED)
    octets = encode(frame)
    if is_long:
        octets = b"\x01" + (len(octets) + 2).to_bytes(2, "big") + octets[1:]
    answers = bench.say_octets(b"bridge", encode(Forwarded(b"n", octets)) if is_behind else octets)
    if is_behind:
        answers = bench.hear(address_behind(b"bridge", b"n"))
    assert answers == ([REFUSED] if isinstance(frame, Connect) else [])
    assert [each.reason for each in bench.told(Dropped)] == [Reason.UNPROTECTED]
    assert not bench.engine.sessions
    assert len(bench.engine.half_open) == 0


def test_a_flood_of_plain_frames_is_one_line_and_a_few_answers() -> None:
    bench = StateBench(PROTECTED)
    flood = [(b"%d" % number, encode(Connect(b"%d" % number, 60))) for number in range(100)]
    effects = bench.engine.receive(0, [*flood, (b"x", b""), (b"x", b"\x01")], 0.0)
    assert len([each for each in effects if isinstance(each, Send)]) == 3
    assert [each.count for each in effects if isinstance(each, Dropped)] == [102]


def test_protected_packets_pass_and_other_links_are_as_ever() -> None:
    bench = StateBench(PROTECTED)
    envelope = bytes((4, PROTECTION, 0, 0))
    effects = bench.engine.receive(0, [(b"a", envelope)], 0.0)
    reasons = [each.reason for each in effects if isinstance(each, Dropped)]
    assert Reason.UNPROTECTED not in reasons
    (sent,) = bench.engine.receive(1, [(b"a", encode(Connect(b"s1", 60)))], 0.0)
    assert isinstance(sent, Send)
    assert sent.frame == Connack(ReturnCode.ACCEPTED)


def test_after_a_restart_with_protection_who_was_plain_is_disconnected() -> None:
    bench = StateBench(SAVING)
    for at, name in ((b"a", b"plain"), (b"a" + SENDER, b"protected")):
        bench.say(at, Connect(name, 60), Pingreq())
    bench.restart(PROTECTED)
    states = {client_id: each.state for client_id, each in bench.engine.sessions.items()}
    assert states == {"plain": State.DISCONNECTED, "protected": State.ACTIVE}
    bench.restart(SAVING)
    assert bench.say(b"a" + SENDER, Pingreq()) == [Pingresp()]


def test_an_address_says_whether_its_peer_is_protected() -> None:
    ipv4 = bytes(7) + b"\xff"
    assert not is_protected(ipv4)
    assert is_protected(ipv4 + SENDER)
    assert is_protected(b"\x01" + SENDER)
    assert is_protected(address_behind(ipv4, b"node") + SENDER)
    assert not is_protected(address_behind(ipv4, bytes(250) + b"\xff\xff"))
