"""Clients that protect their packets, in a whole engine: served, and by no other packets."""

from __future__ import annotations

from random import Random

import pytest

from gateway.core.access.device_keys import DeviceKeys
from gateway.core.clients.admission import AdmissionOptions
from gateway.core.clients.qos_minus_one import QosMinusOneOptions
from gateway.core.drop_reasons import Reason
from gateway.core.effects import Dropped, Save
from gateway.core.protection.envelope import AES_CCM_128, HMAC_SHA256, parse
from gateway.core.state_records import ProtectionDeleted, ProtectionRecord, StateRecords
from gateway.frames import (
    Connack,
    Connect,
    Disconnect,
    Forwarded,
    Pingreq,
    Pingresp,
    Puback,
    Publish,
    ReturnCode,
    SearchGw,
    Suback,
    Subscribe,
    encode,
)
from tests.support.engine_bench import published, short
from tests.support.protected_sensor import ProtectedBench, ProtectedSensor, key_of

REFUSED = [Connack(0x03)]


def reasons(bench: ProtectedBench) -> list[Reason]:
    return [each.reason for each in bench.told(Dropped)]


def joined(bench: ProtectedBench, name: str, **given: object) -> ProtectedSensor:
    sensor = ProtectedSensor(bench, name, **given)  # type: ignore[arg-type]
    heard = sensor.say(Connect(name.encode(), 60, clean_session=False), Pingreq())
    assert heard[-2:] == [Connack(0), Pingresp()]
    bench.told(Dropped)
    return sensor


@pytest.mark.parametrize("node_id", [b"", b"\x07\x08"])
def test_a_protected_client_is_served_in_both_directions(node_id: bytes) -> None:
    bench = ProtectedBench("tank")
    tank = joined(bench, "tank", node_id=node_id)
    assert tank.say(short(b"21.5", 1, 7)) == [Puback(short(b"", 0, 0).topic_id, 7, 0)]
    (packet,) = [each for each in bench.seen() if getattr(each, "payload", b"") == b"21.5"]
    assert packet.payload == b"21.5"
    (suback,) = tank.say(Subscribe(9, b"ab", 0))
    assert isinstance(suback, Suback)
    bench.publishes("ab", b"on")
    assert published(tank.hear()) == [(b"on", 0, False)]
    assert bench.heard == [], "and nothing goes plain"
    assert bench.engine.sessions["tank"].peer.address == tank.peer  # type: ignore[index]


def test_a_protected_and_a_plain_client_at_one_address_are_two() -> None:
    bench = ProtectedBench("tank")
    tank = joined(bench, "tank")
    bench.join(b"well", at=tank.address)
    assert bench.say(tank.address, Pingreq()) == [Pingresp()]
    assert tank.say(Pingreq()) == [Pingresp()]


def test_the_client_id_of_a_protected_client_is_taken_by_no_other() -> None:
    bench = ProtectedBench("tank", "well")
    tank = joined(bench, "tank")
    well = ProtectedSensor(bench, "well", address=b"elsewhere")
    for clean in (False, True):
        connect = Connect(b"tank", 60, clean_session=clean)
        for address in (b"other", tank.address):
            assert bench.say(address, connect) == REFUSED
        assert well.say(connect) == REFUSED
    assert bench.say(b"other", Pingreq(b"tank")) == [Disconnect()]
    assert Reason.UNPROTECTED in reasons(bench)
    assert tank.say(Pingreq()) == [Pingresp()]


def test_the_id_of_one_that_is_half_open_is_not_taken_either() -> None:
    bench = ProtectedBench("tank")
    tank = ProtectedSensor(bench, "tank")
    assert tank.say(Connect(b"tank", 60)) == [Connack(0)]
    assert bench.say(b"other", Connect(b"tank", 60)) == REFUSED
    assert tank.say(Pingreq()) == [Pingresp()]


def test_a_plain_client_that_protects_its_packets_from_now_on_begins_again() -> None:
    bench = ProtectedBench("tank")
    bench.join(b"tank", at=b"plain")
    tank = joined(bench, "tank")
    assert bench.say(b"plain", Pingreq()) == [Disconnect()]
    assert tank.say(Pingreq()) == [Pingresp()]


def test_a_sleeper_wakes_at_another_address_by_its_own_sender_alone() -> None:
    bench = ProtectedBench("tank")
    tank = joined(bench, "tank")
    assert tank.say(Disconnect(60)) == [Disconnect()]
    assert bench.say(b"other", Pingreq(b"tank")) == [Disconnect()]
    moved = ProtectedSensor(bench, "tank", address=b"moved", memory=tank.channel.memory())
    assert moved.say(Pingreq(b"tank")) == [Pingresp()]


def test_where_packets_must_be_protected_plain_ones_are_dropped() -> None:
    bench = ProtectedBench("tank", is_required=lambda link: link == 0)
    assert bench.say(b"other", Connect(b"other", 60)) == [Connack(ReturnCode.NOT_SUPPORTED)]
    assert reasons(bench) == [Reason.UNPROTECTED]
    assert bench.say(b"other", Pingreq(b"other")) == []
    assert reasons(bench) == [Reason.UNPROTECTED]
    bench.say(b"other", SearchGw(0))
    bench.told(Dropped)
    assert SearchGw in bench.engine.received
    forwarded = encode(Forwarded(b"\x01", encode(Connect(b"other", 60))))
    bench.say_octets(b"bridge", forwarded, b"\x01\x00\x08\x04\x04\x01\x00\x3c")
    assert reasons(bench) == [Reason.UNPROTECTED] * 2
    joined(bench, "tank", node_id=b"\x01")
    assert set(bench.engine.sessions) == {"tank"}


def test_a_reading_without_a_connection_is_taken_from_one_who_was_asked_once() -> None:
    bench = ProtectedBench("tank", engine={"qos_minus_one": QosMinusOneOptions(allow=True)})
    bench.seen()
    tank = ProtectedSensor(bench, "tank")
    for number in range(3):
        assert tank.say(short(b"%d" % number, -1, 0)) == []
    assert [each.payload for each in bench.seen()] == [b"0", b"1", b"2"]


@pytest.mark.parametrize(
    "inner", [encode(Forwarded(b"\x01", encode(Pingreq()))), b"\x04\xff\x00\x00", b"\x00\x09"]
)
def test_what_may_not_be_in_an_envelope_is_malformed(inner: bytes) -> None:
    bench = ProtectedBench("tank")
    tank = joined(bench, "tank")
    tank.put(tank.channel.seal(inner))
    assert (reasons(bench), tank.hear()) == ([Reason.MALFORMED], [])


def test_what_cannot_be_is_dropped_with_a_reason_and_takes_no_memory() -> None:
    bench = ProtectedBench("tank", schemes={0}, tag_bytes_min=16)
    tank = joined(bench, "tank")
    unknown = ProtectedSensor(bench, "unknown")
    later = ProtectedSensor(bench, "tank", epoch=2)
    short_tag = ProtectedSensor(bench, "tank", tag_bytes=8)
    encrypted = ProtectedSensor(bench, "tank", scheme=0x40, tag_bytes=8)
    for each, reason in (
        (unknown, Reason.UNKNOWN_SENDER),
        (later, Reason.UNKNOWN_SENDER),
        (short_tag, Reason.NOT_SUPPORTED),
        (encrypted, Reason.NOT_SUPPORTED),
    ):
        assert each.say(Connect(b"x", 60)) == []
        assert reasons(bench) == [reason]
    no_counter = bytes.fromhex("1fff400001020304050607080a0b0c0d07030000056869438e7318166ab410")
    for datagram, reason in (
        (no_counter, Reason.NOT_SUPPORTED),
        (tank.sent[0][:-1], Reason.MALFORMED),
        (tank.sent[0], Reason.UNFRESH),
        (tank.sent[-1], Reason.REPLAYED),
        (tank.sent[-1][:-1] + b"\x00", Reason.FORGED),
    ):
        bench.say_octets(b"other", datagram)
        assert reasons(bench) in ([reason], [Reason.NOT_SUPPORTED]), datagram.hex()
    protection = bench.engine.protection
    assert protection is not None
    assert len(protection._channels) == 1


def test_too_many_packets_of_a_second_are_dropped_as_plain_ones_are() -> None:
    admission = AdmissionOptions(packets_per_s_max=5)
    bench = ProtectedBench("tank", engine={"admission": admission})
    tank = joined(bench, "tank")
    bench.told(Dropped)
    bench.at += 10
    assert [len(tank.say(Pingreq())) for _ in range(8)] == [1] * 5 + [0] * 3
    assert reasons(bench) == [Reason.TOO_MANY_PACKETS] * 3
    bench.at += 10
    assert tank.say(Pingreq()) == [Pingresp()]


def attacked(count: int) -> None:
    dice = Random(3)
    admission = AdmissionOptions(connects_per_s_max=100, connects_at_once_max=200)
    bench = ProtectedBench("tank", "well", "unused", engine={"admission": admission})
    tank, well = joined(bench, "tank"), joined(bench, "well", address=b"well's")
    lost = ProtectedSensor(bench, "tank", address=b"lost", seed=3)
    recorded = [*tank.sent, *well.sent, *lost.sent]
    bench.publishes("ab")
    tank.say(Subscribe(9, b"ab", 0))
    tank.channel.seal(b"\x02\x16")
    bench.seen()
    sessions = dict(bench.engine.sessions)
    received = dict(bench.engine.received)
    protection = bench.engine.protection
    assert protection is not None
    dropped: dict[Reason, int] = {}
    for number in range(count):
        datagram = bytearray(dice.choice(recorded))
        what = number % 4
        if what == 0:
            datagram[dice.randrange(len(datagram))] ^= 1 << dice.randrange(8)
        elif what == 1:
            del datagram[dice.randrange(1, len(datagram)) :]
            datagram[0] = len(datagram)
        elif what == 2:
            datagram[4:12] = dice.choice(
                [dice.randbytes(8), key_of("unused").sender_id, well.peer[-9:-1]]
            )
        sealed = bench.engine.sealed(tank.peer, b"\x02\x17")
        assert sealed is not None
        reflected = sealed[1] if number % 5 == 0 else bytes(datagram)
        bench.at += 0.001
        bench.say_octets(dice.choice([tank.address, b"well's", b"anywhere"]), reflected)
        bench.datagrams.clear()
        for each in bench.told(Dropped):
            dropped[each.reason] = dropped.get(each.reason, 0) + 1
        bench.told(Save)
        if number % 100 == 0:
            assert tank.say(Pingreq()) == [Pingresp()], number
            received[Pingreq] += 1
    assert bench.engine.received == received, "nothing of it was a frame"
    assert bench.engine.sessions == sessions
    assert len(protection._channels) <= 3
    assert bench.seen() == []
    wanted = {Reason.FORGED, Reason.REPLAYED, Reason.UNKNOWN_SENDER, Reason.MALFORMED}
    assert wanted <= set(dropped), dropped
    assert well.say(Pingreq()) == [Pingresp()]


def test_ten_thousand_wrong_envelopes_are_not_taken() -> None:
    attacked(10_000)


@pytest.mark.soak
def test_a_hundred_thousand_wrong_envelopes_are_not_taken() -> None:
    attacked(100_000)


def test_forged_envelopes_of_unknown_peers_leave_the_time_for_clients() -> None:
    admission = AdmissionOptions(connects_per_s_max=5, connects_at_once_max=10)
    bench = ProtectedBench("tank", "well", engine={"admission": admission})
    tank, well = joined(bench, "tank"), ProtectedSensor(bench, "well", address=b"well's")
    forged = tank.sent[-1][:-1] + b"\x00"
    for _ in range(20):
        bench.say_octets(b"anywhere", forged)
    assert reasons(bench) == [Reason.FORGED] * 10 + [Reason.TOO_MANY_PACKETS] * 10
    assert tank.say(Pingreq()) == [Pingresp()]
    assert well.say(Connect(b"well", 60)) == []
    bench.at += 1.0
    assert well.say(Connect(b"well", 60)) == [Connack(0)]


def test_a_rotated_key_is_used_once_its_device_does_and_the_old_one_till_then() -> None:
    bench = ProtectedBench("tank", engine={"saves": True})
    tank = joined(bench, "tank")
    bench.keys = DeviceKeys([key_of("tank"), key_of("tank", 2)])
    assert tank.say(Pingreq()) == [Pingresp()]
    later = ProtectedSensor(bench, "tank", epoch=2)
    assert later.say(Pingreq()) == [Pingresp()]
    bench.keys = DeviceKeys([key_of("tank", 2)])
    assert tank.say(Pingreq()) == []
    assert later.say(Pingreq()) == [Pingresp()]
    bench.keys = DeviceKeys()
    assert later.say(Pingreq()) == []
    assert bench.engine.sealed(tank.peer, b"\x02\x17") is None
    assert Save(ProtectionDeleted(key_of("tank").sender_id, 2)) in bench.news


def records(bench: ProtectedBench, *, is_end: bool) -> list[ProtectionRecord]:
    """What the state has after this run."""
    kept: dict[bytes, ProtectionRecord] = {}
    saved = [each.change for each in bench.told(Save)]
    for change in (*saved, *bench.engine.protection_changes(is_end=is_end)):
        if isinstance(change, ProtectionRecord):
            kept[change.sender_id] = change
    return list(kept.values())


@pytest.mark.parametrize("is_end", [True, False])
def test_counters_outlast_a_restart(is_end: bool) -> None:
    bench = ProtectedBench("tank", engine={"saves": True})
    tank = ProtectedSensor(bench, "tank")
    tank.say(Connect(b"tank", 60, clean_session=False), Pingreq())
    rows = records(bench, is_end=is_end)
    assert len(rows) == 1
    again = ProtectedBench("tank", engine={"saves": True}, seed=9)
    again.take(again.engine.restore(StateRecords([], [], [], [], protection=rows), 0.0))
    assert [type(each.change) for each in again.told(Save)] == [ProtectionRecord], "a new block"
    tank.bench = again
    again.say_octets(tank.address, tank.sent[-1])
    assert reasons(again) == [Reason.UNFRESH], "nothing that came before is taken"
    again.datagrams.clear()
    assert tank.say(Connect(b"tank", 60)) == [Connack(0)]
    assert reasons(again) == ([] if is_end else [Reason.UNFRESH])
    assert tank.say(Pingreq()) == [Pingresp()]


@pytest.mark.parametrize("schemes", [(HMAC_SHA256, AES_CCM_128), (HMAC_SHA256,)])
def test_what_was_encrypted_is_encrypted_after_a_restart_or_not_sent(
    schemes: tuple[int, ...],
) -> None:
    bench = ProtectedBench("tank", engine={"saves": True})
    tank = ProtectedSensor(bench, "tank", scheme=AES_CCM_128)
    tank.say(Connect(b"tank", 60, clean_session=False), Pingreq())
    rows = records(bench, is_end=False)
    assert [(each.scheme, each.tag_bytes) for each in rows] == [(AES_CCM_128, 16)]
    again = ProtectedBench("tank", engine={"saves": True}, seed=9, schemes=schemes)
    again.take(again.engine.restore(StateRecords([], [], [], [], protection=rows), 0.0))
    sealed = again.engine.sealed(tank.peer, bytes((2, Pingresp.KIND)))
    assert [parse(each[1]).scheme for each in (sealed and [sealed]) or []] == (
        [AES_CCM_128] if AES_CCM_128 in schemes else []
    )


def test_nothing_is_sealed_or_taken_before_its_counters_are_saved() -> None:
    bench = ProtectedBench("tank")
    protection = bench.engine.protection
    assert protection is not None
    tank = ProtectedSensor(bench, "tank")
    protection.hold()
    assert tank.say(Connect(b"tank", 60)) == []
    assert reasons(bench) == [Reason.STATE_NOT_SAVED]
    assert bench.engine.sealed(tank.peer, bytes((2, Pingresp.KIND))) is None
    protection.release()
    assert tank.say(Connect(b"tank", 60)) == [Connack(0)]


def test_rows_that_may_be_old_ones_are_deleted() -> None:
    rows = [ProtectionRecord(key_of("tank").sender_id, 1, 2, 3, 4, 5)]
    bench = ProtectedBench("tank", engine={"saves": True}, is_state_whole=False)
    bench.take(bench.engine.restore(StateRecords([], [], [], [], protection=rows), 0.0))
    saved = [each.change for each in bench.told(Save)]
    assert saved == [ProtectionDeleted(key_of("tank").sender_id, 1)]


def test_rows_of_devices_whose_key_is_gone_are_deleted() -> None:
    rows = [ProtectionRecord(key_of("well").sender_id, 1, 2, 3, 4, 5)]
    bench = ProtectedBench("tank", engine={"saves": True})
    bench.take(bench.engine.restore(StateRecords([], [], [], [], protection=rows), 0.0))
    saved = [each.change for each in bench.told(Save)]
    assert saved == [ProtectionDeleted(key_of("well").sender_id, 1)]


def test_a_secret_is_in_nothing_that_is_told() -> None:
    bench = ProtectedBench("tank")
    tank = joined(bench, "tank")
    bench.say_octets(b"other", tank.sent[-1][:-1] + b"\x00")
    told = f"{bench.told(Dropped)} {bench.news} {bench.keys!r} {key_of('tank')!r} {tank.channel!r}"
    assert "FORGED" in told
    assert "canary" not in told


def test_publish_is_still_known_as_one() -> None:
    bench = ProtectedBench("tank")
    tank = joined(bench, "tank")
    tank.say(short(b"a", 1, 7))
    tank.say(short(b"b", 1, 8))
    assert bench.engine.received[Publish] == 2


def test_a_device_that_was_not_heard_in_this_run_is_told_under_its_newest_key() -> None:
    bench = ProtectedBench("a")
    peer = ProtectedSensor(bench, "a").peer
    for _ in range(2):
        sealed = bench.engine.sealed(peer, b"\x02\x16")
        assert sealed is not None
        assert parse(sealed[1]).sender_id == key_of("a").sender_id
