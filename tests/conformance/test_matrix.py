"""Every type of message, in every state, whole, cut and too long: as `matrix.txt` says."""

from __future__ import annotations

import pytest

from gateway.frames import Connect, Pingreq, WillTopicReq
from tests.conformance.client import BEFORE, HERE, STATES, Client, spelled
from tests.conformance.matrix import (
    MATRIX_OF_THE_SPECIFICATION,
    RESERVED,
    SHAPES,
    TYPE_NAMED,
    Matrix,
    Outcome,
    Said,
    read,
)
from tests.support.samples import named

MATRIX = MATRIX_OF_THE_SPECIFICATION
OF_THE_SPECIFICATION = [said for said in MATRIX.said if said.kind not in RESERVED]
# By these one is known that is here and in no will handshake; QoS -1 shows nothing.
SHOWING = {
    TYPE_NAMED[name]
    for name in (
        "REGISTER",
        "REGACK",
        "PUBLISH",
        "PUBACK",
        "PUBREC",
        "PUBREL",
        "PUBCOMP",
        "SUBSCRIBE",
        "UNSUBSCRIBE",
        "PINGREQ",
        "WILLTOPICUPD",
        "WILLMSGUPD",
    )
}
OF_NO_HANDSHAKE = [
    said
    for said in OF_THE_SPECIFICATION
    if (said.kind in SHOWING and "QoS -1" not in said.name) or said.name == "DISCONNECT for 600 s"
]
DROPPED = ("short", "wide", "strict")
ENVELOPE = bytes.fromhex("05 fe 00 0102")
LATER_S = 1000.0  # longer than the sleep of 600 s, with its tolerance


def expected(said: Said, shape: str, state: str) -> Outcome:
    answered, *others = MATRIX.outcome_of(said, shape, state)
    return (spelled(answered), *others)  # type: ignore[return-value]


def uncovered(matrix: Matrix) -> list[str]:
    """Each cell that has no row, or more than one."""
    return [
        f"{said.name}, {shape}, {state}: rows in lines {[row.line for row in rows]}"
        for said in matrix.said
        for shape in SHAPES
        for state in STATES
        if len(rows := matrix.rows_for(said, shape, state)) != 1
    ]


@pytest.mark.parametrize("said", OF_THE_SPECIFICATION, ids=lambda said: said.name)
def test_every_message_has_its_answer_in_every_state_and_shape(said: Said) -> None:
    for state in STATES:
        for shape in SHAPES:
            with named(state=state, shape=shape):
                assert_is_answered(said, state, shape)


def assert_is_answered(said: Said, state: str, shape: str) -> None:
    datagrams = said.datagrams(shape)
    # What is dropped leaves no trace, so one client may say it all.
    for group in [datagrams] if shape in DROPPED else [[each] for each in datagrams]:
        client = Client(state, said.before, strict=shape == "strict")
        for datagram in group:
            outcome = client.says(datagram)
            assert outcome == expected(said, shape, state), datagram.hex(" ")
        client.bench.wake(LATER_S)  # and no timer is left that cannot be served


@pytest.mark.parametrize("said", OF_THE_SPECIFICATION, ids=lambda said: said.name)
def test_a_node_behind_a_forwarder_is_answered_as_others_are(said: Said) -> None:
    for state in STATES:
        for shape in SHAPES:
            client = Client(state, said.before, strict=shape == "strict", envelope=ENVELOPE)
            for datagram in said.datagrams(shape)[:1]:  # of some none is too large
                outcome = client.says(datagram)
                if said.name == "FORWARDED":  # one inside another is no message
                    assert outcome[::2] == ("-", "malformed"), (state, shape)
                else:
                    assert outcome == expected(said, shape, state), (state, shape)


@pytest.mark.parametrize("state", STATES)
def test_the_types_that_are_reserved_are_counted_and_change_nothing(state: str) -> None:
    reserved = [said for said in MATRIX.said if said.kind in RESERVED]
    for strict in (False, True):
        client = Client(state, strict=strict)
        for said in reserved:
            for shape in SHAPES:
                for datagram in said.datagrams(shape):
                    outcome = client.says(datagram)
                    assert outcome == expected(said, shape, state), (shape, datagram.hex(" "))


def test_who_has_said_connect_and_nothing_else_is_answered_as_others_are() -> None:
    for said in OF_THE_SPECIFICATION:
        with named(said=said.name):
            assert_a_caller_is_answered(said)


def assert_a_caller_is_answered(said: Said) -> None:
    caller, client = Client("stranger"), Client("stranger")
    for each in (caller, client):
        each.bench.say(HERE, Connect(b"dev1", 60))
    client.bench.say(HERE, Pingreq())
    answered, _, _, passed_on = client.says(said.octets)
    assert caller.says(said.octets)[::3] == (answered, passed_on)


@pytest.mark.parametrize("state", ["active", "asleep"])
def test_a_copy_of_connect_that_asks_for_the_will_again_changes_no_answer(state: str) -> None:
    for said in OF_NO_HANDSHAKE:
        with named(said=said.name):
            assert_a_copy_changes_no_answer(said, state)


def assert_a_copy_changes_no_answer(said: Said, state: str) -> None:
    client = Client(state, said.before)
    assert client.bench.say(HERE, Connect(b"dev1", 60, will=True)) == [WillTopicReq()]
    answered, follows, counted, passed_on = client.says(said.octets)
    answer, following, *others = expected(said, "well", state)
    assert [counted, passed_on] == others
    assert follows == (state if following == "=" else following)
    if said.before in ("-", "reading", "will"):
        assert answered == answer
    else:  # what was under way comes again, and its name may have to be told again
        assert answered.startswith((answer.removesuffix("-"), "REGISTER"))


def test_each_cell_has_exactly_one_row() -> None:
    assert {said.kind for said in MATRIX.said} == set(range(256))
    assert uncovered(MATRIX) == []


def test_each_row_is_for_some_cell() -> None:
    """A name that is spelled wrong would stand for nothing."""
    for row in MATRIX.rows:
        for pattern in row.messages:
            alone = type(row)((pattern,), row.shapes, row.states, row.outcome, row.line)
            cells = [
                said
                for said in MATRIX.said
                if any(alone.is_for(said, shape, state) for shape in SHAPES for state in STATES)
            ]
            assert cells, f"line {row.line}: {pattern!r} is no message"
        assert set(row.shapes) <= set(SHAPES), f"line {row.line}"
        assert set(row.states) <= set(STATES), f"line {row.line}"


def test_the_octets_of_a_message_are_what_its_row_says() -> None:
    names = [said.name for said in MATRIX.said]
    assert len(names) == len(set(names))
    for said in OF_THE_SPECIFICATION:
        whole = said.octets[0] + 2 if said.name == "FORWARDED" else said.octets[0]
        assert whole == len(said.octets), said.name
        assert said.before in BEFORE, said.name


@pytest.mark.parametrize(
    ("cells", "found"),
    [
        ("", "CONNACK, well, active: rows in lines []"),
        ("CONNACK | well | active | - | = | - | -\n* | well | active | - | = | - | -",
         "CONNACK, well, active: rows in lines [6, 7]"),
    ],
)  # fmt: skip
def test_a_cell_without_a_row_and_one_with_two_are_found(cells: str, found: str) -> None:
    matrix = read(f"[groups]\nnone | \n[messages]\nCONNACK | 03 05 00 | = | -\n[cells]\n{cells}")
    assert found in uncovered(matrix)
