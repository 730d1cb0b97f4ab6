"""What is published of a node's update, for each thing that nodes, people and the broker say."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firmware import update_entity
from firmware.ota_server import parts_of
from firmware.update_entity import NOTHING, Outcome, UpdateEntities, is_document, parsed

NODE = "sensors/a"
MANIFEST = b"U\x01" + (2).to_bytes(4, "big") + b"x" * 68
OLDER = b"U\x01" + (1).to_bytes(4, "big") + b"x" * 68
NEWER = b"U\x01" + (3).to_bytes(4, "big") + b"x" * 68


def entities(*, on_request: bool = False) -> UpdateEntities:
    return UpdateEntities(2, 1_000, MANIFEST, on_request)


def state(app: int = 1, update: str = "", **others: object) -> bytes:
    return json.dumps({"app": app, "update": update, **others}).encode()


def document(
    installed: int = 1, latest: int = 2, percent: int | None = None, *, running: bool = False
) -> bytes:
    return json.dumps(
        {
            "installed_version": str(installed),
            "latest_version": str(latest),
            "in_progress": running,
            "update_percentage": percent,
        }
    ).encode()


RUNNING = document(running=True)


def test_a_node_is_known_by_its_state() -> None:
    found = entities()
    assert found.part_asked("sensors/other", 0, 0.0) == NOTHING
    assert found.state_heard(NODE, state(), 0.0) == Outcome(document())
    assert found.state_heard(NODE, state(), 1.0) == NOTHING, "it is published already"


def test_the_documented_form_is_what_is_published() -> None:
    assert document() == (
        b'{"installed_version": "1", "latest_version": "2", '
        b'"in_progress": false, "update_percentage": null}'
    )


@pytest.mark.parametrize(
    "payload",
    [
        *(
            b"NaN",
            b"{",
            b"[]",
            b"5",
            b'{"app": "1", "update": ""}',
            b'{"app": 1}',
            b'{"a":' * 9_000,
        ),
        *(b'{"app": true, "update": ""}', b'{"app": -1, "update": ""}', b"\xff", b"[" * 16_000),
    ],
)
def test_what_is_no_state_of_a_node_is_nothing(payload: bytes) -> None:
    assert entities().state_heard(NODE, payload, 0.0) == NOTHING


def test_a_node_that_takes_no_updates_has_no_entity() -> None:
    found = entities(on_request=True)
    assert found.state_heard(NODE, state(commands=["restart"]), 0.0) == NOTHING
    assert found.install_asked(NODE, 0.0) == NOTHING
    assert found.state_heard(NODE, state(commands=["update"]), 0.0) == Outcome(document())


@pytest.mark.parametrize("app", [2, 3])
def test_a_node_that_has_it_is_up_to_date(app: int) -> None:
    assert entities().state_heard(NODE, state(app), 0.0) == Outcome(document(app, app))


def test_without_an_image_a_node_is_up_to_date() -> None:
    assert UpdateEntities().state_heard(NODE, state(), 0.0) == Outcome(document(1, 1))


def test_progress_is_told_by_whole_per_cent_and_once_a_second() -> None:
    found = entities()
    found.state_heard(NODE, state(update="fetching 2"), 0.0)
    at = [(0, 0.5), (100, 1.0), (105, 2.5), (200, 1.9), (300, 2.2), (400, 3.3), (5_000, 9.0)]
    told = [found.part_asked(NODE, start, now).document for start, now in at]
    percents = [None if each is None else json.loads(each)["update_percentage"] for each in told]
    assert percents == [None, 10, None, None, 30, 40, 100]


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (state(2), document(2, 2)),
        (state(2, mode="trial"), document(2, 2)),
        (state(update="refused 2: wrong key"), document()),
        (state(update="refused 2: was rolled back"), document()),
        (state(), document()),
    ],
)
def test_when_it_is_over_it_is_not_in_progress(said: bytes, expected: bytes) -> None:
    found = entities()
    found.state_heard(NODE, state(update="fetching 2"), 0.0)
    found.part_asked(NODE, 500, 2.0)
    assert found.state_heard(NODE, said, 2.1) == Outcome(expected)


def test_one_that_nobody_answers_is_still_in_progress() -> None:
    found = entities()
    found.state_heard(NODE, state(update="fetching 2"), 0.0)
    found.part_asked(NODE, 500, 2.0)
    assert found.state_heard(NODE, state(update="fetching 2: nobody answers"), 3.0) == NOTHING


def test_on_request_it_is_offered_when_it_is_asked_for_and_taken_away_when_it_runs() -> None:
    found = entities(on_request=True)
    assert found.state_heard(NODE, state(), 0.0) == Outcome(document())
    assert found.install_asked(NODE, 1.0) == Outcome(RUNNING, MANIFEST)
    assert found.install_asked(NODE, 1.0) == NOTHING
    found.state_heard(NODE, state(update="fetching 2"), 2.0)
    assert found.part_asked(NODE, 500, 3.0) == Outcome(document(percent=50, running=True))
    assert found.state_heard(NODE, state(2), 4.0) == Outcome(document(2, 2), b"")
    assert found.install_asked(NODE, 5.0) == NOTHING


def test_without_on_request_nobody_is_asked() -> None:
    found = entities()
    found.state_heard(NODE, state(), 0.0)
    assert found.install_asked(NODE, 1.0) == NOTHING


def test_one_that_was_refused_is_offered_again_when_the_node_has_taken_the_withdrawal() -> None:
    found = entities(on_request=True)
    found.state_heard(NODE, state(), 0.0)
    found.install_asked(NODE, 1.0)
    refused = state(update="refused 2: was damaged, or there is no room")
    assert found.state_heard(NODE, refused, 2.0) == Outcome(document())
    assert found.install_asked(NODE, 3.0) == Outcome(RUNNING, b"")
    assert found.state_heard(NODE, refused, 4.0) == NOTHING
    assert found.state_heard(NODE, state(), 5.0) == Outcome(None, MANIFEST)


def test_after_a_restart_the_retained_messages_tell_what_was_asked_for() -> None:
    found = entities(on_request=True)
    found.document_found(NODE, document(percent=40, running=True))
    assert found.manifest_found(NODE, MANIFEST) == NOTHING
    assert found.state_heard(NODE, state(update="fetching 2"), 0.0) == NOTHING
    assert found.part_asked(NODE, 500, 5.0) == Outcome(document(percent=50, running=True))


def test_a_broker_that_lost_everything_gets_it_again() -> None:
    found = entities(on_request=True)
    found.state_heard(NODE, state(), 0.0)
    found.install_asked(NODE, 1.0)
    found.reconnected()
    assert found.state_heard(NODE, state(), 2.0) == Outcome(RUNNING, MANIFEST)


def test_what_is_left_of_an_image_that_nobody_offers_is_taken_away() -> None:
    found = entities(on_request=True)
    found.document_found(NODE, document(0, 1, 40, running=True))
    assert found.manifest_found(NODE, OLDER) == Outcome(manifest=b"")
    assert found.manifest_found(NODE, NEWER) == NOTHING, "which is another server's"
    assert found.state_heard(NODE, state(0), 0.0) == Outcome(document(0, 2))


def test_a_node_whose_state_is_cleared_is_forgotten() -> None:
    found = entities()
    found.state_heard(NODE, state(), 0.0)
    assert found.state_heard(NODE, b"", 1.0) == Outcome(b"")
    assert found.state_heard(NODE, b"", 1.0) == NOTHING


def test_nodes_that_are_invented_take_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(update_entity, "NODES_MAX", 3)
    found = entities(on_request=True)
    for number in range(10):
        found.state_heard(f"sensors/{number}", state(), 0.0)
        found.install_asked(f"sensors/{number}", 0.0)
        found.part_asked(f"sensors/{number}", 0, 0.0)
        found.document_found(f"sensors/{number}", RUNNING)
        found.manifest_found(f"sensors/{number}", MANIFEST)
    assert len(found._nodes) == 3


@given(st.binary(max_size=60) | st.just(b"null") | st.just(document()))
def test_only_what_was_published_here_is_a_document(payload: bytes) -> None:
    assert is_document(parsed(payload)) == (payload == document())


@pytest.mark.parametrize(
    ("topic", "expected"),
    [
        ("sensors/a", ("sensors/a", "")),
        ("sensors/a/set/update", ("sensors/a", "set/update")),
        ("sensors/update", ("sensors/update", "")),
        ("sensors/state/state", ("sensors/state", "state")),
    ],
)
def test_a_node_may_have_any_name(topic: str, expected: tuple[str, str]) -> None:
    assert parts_of(topic, "sensors/+") == expected
