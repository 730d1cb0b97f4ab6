"""docs/states.svg shows the table, all of it, and nothing that lies on something else."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from gateway.core.session.states import TRANSITIONS, Input
from gateway.core.session.states_drawing import arrows_of, drawing
from gateway.core.state_records import State

SVG = "{http://www.w3.org/2000/svg}"
DRAWN = Path(__file__).parents[3] / "docs" / "states.svg"


def test_the_picture_in_the_documentation_is_the_one_of_this_table(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "gateway.core.session.states_drawing")
    runpy.run_module("gateway.core.session.states_drawing", run_name="__main__")
    assert capsys.readouterr().out == DRAWN.read_text()


def test_every_arrow_of_the_table_is_drawn_once() -> None:
    drawn = {
        (arrow.before, given): arrow.after
        for state in State
        for arrow in arrows_of(state)
        for given in arrow.inputs
    }
    assert drawn == {
        (before, given): following
        for before, row in TRANSITIONS.items()
        for given, following in row.items()
    }
    arrows = sum(len(arrows_of(state)) for state in State)
    paths = ElementTree.fromstring(drawing()).findall(f"{SVG}path[@class='arrow']")
    assert len(paths) == arrows


def test_every_state_and_every_input_is_named() -> None:
    words = [element.text or "" for element in ElementTree.fromstring(drawing()).iter(f"{SVG}text")]
    assert words[: len(State)] == [state.value for state in State]
    assert all(any(given.value in word for word in words) for given in Input)


def test_no_two_words_share_a_line() -> None:
    texts = list(ElementTree.fromstring(drawing()).iter(f"{SVG}text"))[len(State) :]
    lines = [text.get("y") for text in texts]
    assert len(lines) == len(set(lines))
