"""The ledger's rules, on conversations written by hand."""

from __future__ import annotations

import cbor2
import pytest

from hil.oracle.conversation import Conversation
from hil.oracle.ledger import Device, Ledger, compare, percentile
from hil.oracle.readings import Read, check_of, read
from hil.rig.witness import Seen, Tag

DEVICE = "node"


def payload(counter: int, x: int = 5, check: int | None = None) -> bytes:
    right = check_of(x)
    values = {"x": x, "check": right if check is None else check}
    records = [{0: name, 2: value} for name, value in values.items()]
    return cbor2.dumps([{-2: f"{DEVICE}/", 0: "seq", 2: counter}, *records])


def publish(message_id: int, octets: bytes, dup: int = 0) -> bytes:
    body = bytes((0x20 | dup, 0, 1)) + message_id.to_bytes(2, "big") + octets
    return bytes((len(body) + 2, 0x0C)) + body


def puback(message_id: int, code: int = 0) -> bytes:
    return b"\x07\x0d\0\1" + message_id.to_bytes(2, "big") + bytes((code,))


def said(*counters: int) -> Conversation:
    """One that offered these, and was told that each is safe."""
    talk = Conversation(DEVICE)
    for number, counter in enumerate(counters, start=1):
        talk.up(publish(number, payload(counter)))
        talk.down(puback(number))
    return talk


def seen(*arrivals: tuple[int, int]) -> list[Seen]:
    """Counter and sequence of each."""
    return [
        Seen("hil/node", payload(counter), Tag("gw", 1, sequence), float(at))
        for at, (counter, sequence) in enumerate(arrivals)
    ]


def judged(talk: Conversation, arrivals: list[Seen], **of_device: object) -> Ledger:
    plain = {"stored": set(), "has_store": True, "was_cut": False, "commands": []}
    return compare(talk, arrivals, Device(**{**plain, **of_device}), set())  # type: ignore[arg-type]


def test_what_arrives_once_and_in_order_is_without_fault() -> None:
    found = judged(said(1, 2, 3), seen((1, 0), (2, 1), (3, 2)))
    assert (found.readings, found.acknowledged, found.lost) == (3, 3, ())
    assert found.repeated == found.copies == found.out_of_order == ()
    assert found.corrupt == ()
    assert len(found.latencies_ms) == len(found.answers_ms) == 3


def test_what_was_acknowledged_and_did_not_arrive_is_lost() -> None:
    assert judged(said(1, 2, 3), seen((1, 0), (3, 2))).lost == (2,)


def test_what_was_refused_is_not_lost() -> None:
    talk = Conversation(DEVICE)
    talk.up(publish(1, payload(1)))
    talk.down(puback(1, code=1))
    assert judged(talk, []).lost == ()


def test_what_was_stored_and_did_not_arrive_is_lost() -> None:
    assert judged(said(1), seen((1, 0)), stored={1, 2}).lost == (2,)


def test_of_a_board_without_a_store_all_up_to_the_last_are_owed_unless_its_power_was_cut() -> None:
    talk, arrivals = said(1, 4), seen((1, 0), (4, 1))
    assert judged(talk, arrivals, has_store=False).lost == (2, 3)
    assert judged(talk, arrivals, has_store=False, was_cut=True).lost == ()


def test_the_same_under_another_tag_is_repeated_and_under_the_same_a_copy() -> None:
    found = judged(said(1, 2), seen((1, 0), (1, 7), (2, 1), (2, 1)))
    assert (found.repeated, found.copies) == ((1,), (2,))


def test_what_the_board_itself_said_anew_is_excused() -> None:
    talk = said(1)
    talk.up(publish(9, payload(1)))
    found = judged(talk, seen((1, 0), (1, 7)))
    assert (found.repeated, found.excused) == ((), (1,))


def test_a_repeat_with_dup_under_its_own_message_id_excuses_nothing() -> None:
    talk = Conversation(DEVICE)
    talk.up(publish(1, payload(1)))
    talk.up(publish(1, payload(1), dup=0x80))
    assert judged(talk, seen((1, 0), (1, 7))).repeated == (1,)


def test_what_arrives_behind_a_later_one_is_out_of_order() -> None:
    assert judged(said(1, 2, 3), seen((2, 0), (1, 1), (3, 2))).out_of_order == (1,)


def test_a_repeat_behind_a_later_one_is_no_matter_of_order() -> None:
    found = judged(said(1, 2), seen((1, 0), (2, 1), (1, 7)))
    assert (found.out_of_order, found.repeated) == ((), (1,))


def test_octets_that_the_board_never_said_are_corrupt() -> None:
    talk = said(1)
    wrong = payload(1, x=6)
    found = judged(talk, [Seen("hil/node", wrong, Tag("gw", 1, 0), 0.0)])
    assert found.corrupt == (f"1 was never said so: {wrong.hex()}",)
    assert found.lost == (1,)


@pytest.mark.parametrize(
    "octets",
    [b"", b"21.5", b"\x81", payload(1)[:-3], payload(1, check=1), cbor2.dumps([]), cbor2.dumps(7)],
)
def test_what_is_no_whole_reading_is_none(octets: bytes) -> None:
    assert read(octets) is None


def test_a_counter_of_the_small_sensor_has_its_check_in_its_value() -> None:
    def small(value: int) -> Read | None:
        return read(cbor2.dumps([{-2: "tiny/", 0: "temperature", 1: "Cel", 2: value}]))

    assert small(7 * 8 + 7 * 5 % 8) == Read("tiny", 7)
    assert small(7 * 8) is None


def test_commands_that_the_board_did_not_hear_are_told() -> None:
    talk = said(1)
    talk.down(b"\x08\x0c\x20\0\2\0\1a")
    assert judged(talk, seen((1, 0)), commands=[b"a", b"b"]).commands == ("b",)


@pytest.mark.parametrize("frame", [b"", b"\x01", b"\x02\x0c", b"\x07\x0d\0\1", b"\x01\0\3", b"\0"])
def test_frames_that_are_too_short_are_nothing(frame: bytes) -> None:
    talk = Conversation(DEVICE)
    talk.up(frame)
    talk.down(frame)
    assert (talk.offered, talk.acknowledged, talk.commands) == ({}, {}, [])


def test_percentiles_are_values_that_were_there() -> None:
    assert percentile([], 0.5) == 0.0
    assert percentile([3.0, 1.0, 2.0], 0.5) == 2.0
    assert percentile(list(map(float, range(1, 101))), 0.95) == 95.0
