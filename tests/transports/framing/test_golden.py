"""Every row of the golden file, as it stands and cut at every byte."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict

from gateway.transports.serial.framing_choice import Framing
from tests.support.samples import for_each
from tests.transports.framing.golden import ROWS, SILENCE_S, Row

ALL = for_each("row", ROWS, shown=lambda row: row.name)
SENT = for_each("row", [row for row in ROWS if row.is_sent], shown=lambda row: row.name)


def received(line: Framing, reads: Iterable[tuple[float, bytes]]) -> list[bytes]:
    """What came, with the silence that a timer would tell of, when it asked for one."""
    messages, now = [], 0.0
    for silence_s, octets in reads:
        now += silence_s
        messages += line.feed(octets, now)
    if line.wait_s(now) is not None:
        messages += line.feed(b"", now + SILENCE_S)
    return messages


@ALL
def test_what_comes_is_received(row: Row) -> None:
    assert received(row.framing(), row.reads) == row.messages


@ALL
def test_what_comes_is_counted(row: Row) -> None:
    line = row.framing()
    received(line, row.reads)
    counted = {counter: count for counter, count in asdict(line.counters).items() if count}
    expected = row.counted | ({"good": len(row.messages)} if row.messages else {})
    assert counted == expected


@SENT
def test_what_is_sent_is_on_the_line(row: Row) -> None:
    (message,) = row.messages
    assert row.framing().wrap(message) == row.octets


@ALL
def test_it_is_the_same_in_single_octets(row: Row) -> None:
    singly: list[tuple[float, bytes]] = []
    for silence_s, octets in row.reads:
        singly.append((silence_s, octets[:1]))
        singly += [(0.0, octets[at : at + 1]) for at in range(1, len(octets))]
    line = row.framing()
    # Octets that are fetched late are known to be the rest of a message by all of them at once.
    if row.name.startswith("raw: fetched late"):
        assert received(line, singly) != row.messages
        return
    assert received(line, singly) == row.messages


@SENT
def test_it_is_the_same_wherever_it_is_cut(row: Row) -> None:
    for at in range(len(row.octets)):
        line = row.framing()
        reads = [(0.0, row.octets[:at]), (0.0, row.octets[at:])]
        assert received(line, reads) == row.messages, at
        assert line.held_bytes == 0


def test_there_are_rows_of_every_framing_in_both_directions() -> None:
    assert {(row.kind, row.is_sent) for row in ROWS} == {
        (kind, is_sent) for kind in ("hdlc", "slip", "raw") for is_sent in (False, True)
    }
