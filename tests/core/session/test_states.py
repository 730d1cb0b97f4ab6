"""All states and all inputs: where each leads, and that the others lead nowhere."""

from __future__ import annotations

import pytest

from gateway.core.session.states import Input, after
from gateway.core.state_records import State

# A dash: the table has no such arrow.
WHERE = """
            disconnected  connecting    active        asleep        awake         lost
CONNECT     connecting    connecting    connecting    connecting    connecting    connecting
ADMITTED    -             active        -             -             -             -
GOES_ON     -             active        -             -             -             -
SLEEPS_ON   -             asleep        -             -             -             -
REFUSED     -             disconnected  -             -             -             -
SIGNAL      -             -             -             active        active        -
SLEEP       -             -             asleep        asleep        asleep        -
DISCONNECT  -             disconnected  disconnected  disconnected  disconnected  -
PING        -             -             awake         awake         awake         -
DRAINED     -             -             -             -             asleep        -
UNANSWERED  -             -             lost          -             asleep        -
SILENT      -             disconnected  lost          lost          -             -
"""
HEAD, *ROWS = (line.split() for line in WHERE.strip().splitlines())
PAIRS = [
    (State(before), Input[name], cell)
    for name, *cells in ROWS
    for before, cell in zip(HEAD, cells, strict=True)
]


@pytest.mark.parametrize(("state", "given", "cell"), PAIRS)
def test_every_input_leads_where_the_specification_says(
    state: State, given: Input, cell: str
) -> None:
    assert after(state, given) is (None if cell == "-" else State(cell))


def test_all_states_and_all_inputs_are_here() -> None:
    assert {(state, given) for state, given, _ in PAIRS} == {
        (state, given) for state in State for given in Input
    }
