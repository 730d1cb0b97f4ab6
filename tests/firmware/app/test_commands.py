"""What messages do to a node's settings, in which order, and what it says of them."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firmware.app.bounded import Bounded
from firmware.app.given import PATH, load
from firmware.app.link import FRAME_OCTETS, PROBLEMS_MAX, Link
from firmware.app.log import LINE_MAX
from firmware.app.settings import RULES, WHOLE, Settings, change
from firmware.app.state import BYTES_MAX, State
from firmware.app.talk import ANSWER_MAX
from firmware.app.watch import Watch
from tests.firmware.app.fragile_flash import FragileFlash, PowerCutError
from tests.firmware.app.simulated_flash import SimulatedFlash

GIVEN = {"id": "n", "gateways": [["10.0.0.1", 1883]], "interval_s": 60}
FILE, DEFAULT = 60, 3_600  # of interval_s, of report_s
PUBLISH_OCTETS = 9  # in front of a payload that is longer than a frame of 255 bytes has room for


class Told:
    """A node's settings, and the flash that keeps them."""

    def __init__(self, flash: FragileFlash | None = None) -> None:
        self.flash = flash or SimulatedFlash()
        with self.flash.open(PATH, "wb") as file:
            file.write(json.dumps(GIVEN).encode())
        self.settings = load(self.flash)

    def take(self, name: str, payload: bytes, *, retained: bool = False) -> list[str] | None:
        return change(self.flash, self.settings, [(name, payload, retained)])

    def restart(self) -> Settings:
        self.settings = load(self.flash)
        assert self.settings.problems == []
        return self.settings


@pytest.fixture
def told() -> Told:
    return Told()


def test_one_setting_is_set_on_top_of_the_others_and_kept(told: Told) -> None:
    assert told.take("settings", b'{"interval_s": 30, "thresholds": {"soil": 0.5}}') == []
    assert told.take("report_s", b"120") == []
    for settings in (told.settings, told.restart()):
        assert (settings.interval_s, settings.report_s) == (30, 120)
        assert settings.thresholds == {"soil": 0.5}


def test_the_later_message_wins(told: Told) -> None:
    told.take("interval_s", b"45")
    told.take("report_s", b"90")
    told.take("settings", b'{"interval_s": 30}')
    assert (told.settings.interval_s, told.settings.report_s) == (30, DEFAULT)
    told.take("interval_s", b"45")
    for settings in (told.settings, told.restart()):
        assert (settings.interval_s, settings.report_s) == (45, DEFAULT)


def test_an_empty_one_gives_the_value_of_the_file_or_the_default_back(told: Told) -> None:
    told.take("settings", b'{"interval_s": 30, "report_s": 5, "retry_ms": 99}')
    assert told.take("interval_s", b"") == []
    assert told.take("report_s", b"") == []
    assert told.take("log_level", b"") == []
    for settings in (told.settings, told.restart()):
        assert (settings.interval_s, settings.report_s, settings.retry_ms) == (FILE, DEFAULT, 99)


@pytest.mark.parametrize("payload", [b"45", b" 45 ", b"45.0", b"+45"])
def test_a_whole_number_is_one_however_it_is_written(told: Told, payload: bytes) -> None:
    assert told.take("interval_s", payload) == []
    assert told.settings.interval_s == 45


@pytest.mark.parametrize(
    "payload",
    [b"4", b"86401", b"45.5", b"4e1", b"true", b'"45"', b"\xff", b"\0", b"9" * 380, b"-45", b"."],
)
def test_what_is_no_number_or_beyond_its_limits_is_refused_and_changes_nothing(
    told: Told, payload: bytes
) -> None:
    told.take("report_s", b"120")
    assert told.take("interval_s", payload) == ["interval_s: 5 to 86400"]
    for settings in (told.settings, told.restart()):
        assert (settings.interval_s, settings.report_s) == (FILE, 120)


def test_retained_messages_that_come_again_in_any_order_change_nothing(told: Told) -> None:
    """As they do when a node subscribes again."""
    told.take("settings", b'{"interval_s": 30}')
    told.take("interval_s", b"45")
    told.take("report_s", b"90")
    again = [("settings", b'{"interval_s": 30}'), ("interval_s", b"45"), ("report_s", b"90")]
    for order in itertools.permutations(again):
        told.restart()
        for name, payload in order:
            assert told.take(name, payload, retained=True) is None
        assert (told.settings.interval_s, told.settings.report_s) == (45, 90)


def test_a_retained_message_that_is_news_is_taken(told: Told) -> None:
    told.take("interval_s", b"45")
    told.restart()
    assert told.take("interval_s", b"46", retained=True) == []
    assert told.restart().interval_s == 46


def test_the_same_setting_sent_again_is_a_later_message(told: Told) -> None:
    told.take("interval_s", b"45")
    told.take("settings", b"{}")
    assert told.settings.interval_s == FILE
    assert told.take("interval_s", b"45") == []
    assert told.settings.interval_s == 45


def test_a_refused_one_is_named_each_time_that_it_comes(told: Told) -> None:
    told.take("interval_s", b"45")
    for retained in (False, True, True):
        assert told.take("interval_s", b"x", retained=retained) == ["interval_s: 5 to 86400"]
    assert told.take("interval_s", b"45", retained=True) == []


def test_what_changes_nothing_is_not_written(told: Told) -> None:
    told.take("interval_s", b"45")
    before = told.flash.operations
    told.take("interval_s", b"45")
    told.take("interval_s", b"45", retained=True)
    assert told.flash.operations == before
    told.take("interval_s", b"x")
    once = told.flash.operations
    assert once > before
    told.take("interval_s", b"y")
    assert told.flash.operations == once


def test_an_application_of_before_reads_what_is_kept(told: Told) -> None:
    """It knows the names of settings alone, at the top."""
    told.take("interval_s", b"45")
    told.take("report_s", b"90")
    kept = told.flash.load("/changed")
    assert kept is not None
    assert {name: value for name, value in json.loads(kept).items() if name in RULES} == {
        "interval_s": 45,
        "report_s": 90,
    }


def test_what_an_application_of_before_kept_is_read() -> None:
    flash = SimulatedFlash()
    flash.save("/changed", b'{"interval_s": 45}')
    told = Told(flash)
    assert (told.settings.interval_s, told.settings.restarted) == (45, -1)
    assert told.take("report_s", b"90") == []
    assert told.restart().interval_s == 45


def test_wherever_the_power_goes_there_is_the_setting_of_before_or_the_new_one() -> None:
    for seed, cut_in in itertools.product(range(3), range(12)):
        told = Told(SimulatedFlash(seed=seed))
        told.take("interval_s", b"45")
        told.flash.cut_in(cut_in)
        try:
            told.take("report_s", b"90")
        except PowerCutError:
            told.flash.restart()
        settings = told.restart()
        assert settings.interval_s == 45
        assert settings.report_s in (90, DEFAULT)


NAMES = st.sampled_from([*RULES, WHOLE])
PAYLOADS = st.sampled_from(
    [b"", b"5", b"86400", b"100", b"x", b"{}", b'{"interval_s": 30}', b'{"log_level": 7, "x": 1}']
)


@given(st.lists(st.tuples(NAMES, PAYLOADS, st.booleans()), max_size=12))
def test_a_restart_changes_no_setting(messages: list[tuple[str, bytes, bool]]) -> None:
    told = Told()
    for name, payload, retained in messages:
        told.take(name, payload, retained=retained)
    before = told.settings
    after = told.restart()
    assert (after.values(), after.thresholds) == (before.values(), before.thresholds)
    assert (after.changed, after.seen) == (before.changed, before.seen)


# link.py


class Connection:
    """As much of a client as a link has when messages come."""

    subscriptions: dict[bytes, int] = {}  # noqa: RUF012
    on_message: Any = None


def a_link() -> Link:
    link = Link(Connection(), "sensors/n", lambda: (7, False))  # type: ignore[arg-type]
    return link


def heard(link: Link, name: str | bytes, payload: bytes, *, retained: bool = False) -> None:
    encoded = name if isinstance(name, bytes) else name.encode()
    link.client.on_message(b"sensors/n/set/" + encoded, memoryview(payload), retained)  # type: ignore[misc]


def test_messages_that_come_at_once_are_all_kept_in_their_order_the_last_of_each_name() -> None:
    link = a_link()
    for name, payload in [("interval_s", b"1"), ("settings", b"{}"), ("report_s", b"2")]:
        heard(link, name, payload)
    heard(link, "interval_s", b"3")
    assert [(name, payload) for name, payload, _ in link.settings] == [
        ("settings", b"{}"),
        ("report_s", b"2"),
        ("interval_s", b"3"),
    ]


def test_of_retained_ones_the_whole_comes_first() -> None:
    link = a_link()
    for name in ("interval_s", "settings", "report_s"):
        heard(link, name, b"1", retained=True)
    assert [name for name, _, _ in link.settings] == ["settings", "interval_s", "report_s"]


def test_what_no_node_knows_is_named_and_takes_no_memory() -> None:
    link = a_link()
    for number in range(50):
        heard(link, f"colour{number}", b"5")
    heard(link, b"\xff", b"5")
    assert link.problems == ["unknown: colour49", "unknown: "]
    assert len(link.problems) == PROBLEMS_MAX
    assert link.settings == []


def test_a_restart_is_a_message_that_is_neither_retained_nor_empty() -> None:
    link = a_link()
    heard(link, "restart", b"")
    assert (link.restart, link.problems) == (None, [])
    heard(link, "restart", b"PRESS", retained=True)
    assert (link.restart, link.problems) == (None, ["restart: retained"])
    heard(link, "restart", b"PRESS")
    assert link.restart == (7, False)


def test_an_answer_that_nobody_waits_for_is_no_setting() -> None:
    link = a_link()
    heard(link, "answer", b"T1234")
    assert (link.settings, link.problems) == ([], [])


class OneFrame:
    gateways = index = 1

    def __init__(self, frame: bytes) -> None:
        self._frame = frame

    def receive(self, buffer: bytearray, wait_ms: int) -> int:
        buffer[: len(self._frame)] = self._frame
        return len(self._frame)


@pytest.mark.parametrize("flags", [0x20, 0xA0])
def test_a_repeat_is_known_by_its_message_id_and_flag(flags: int) -> None:
    body = bytes((0x0C, flags, 0, 5, 0x12, 0x34)) + b"PRESS"
    for frame in (bytes((1 + len(body),)) + body, b"\x01\x00" + bytes((3 + len(body),)) + body):
        bounded = Bounded(OneFrame(frame), Watch(lambda: None, 1000))
        bounded.receive(bytearray(40), 0)
        assert bounded.publication() == (0x1234, flags == 0xA0)


# state.py


def document(
    settings: str, update: str, trouble: list[str], others: dict[str, object]
) -> dict[str, Any]:
    state = State()
    for name, value in others.items():
        state.put(name, value)
    whole = bytes(state.finish(settings, update, trouble))
    assert len(whole) <= BYTES_MAX
    found: dict[str, Any] = json.loads(whole)
    assert found | others == found
    return found


def test_a_state_with_all_that_is_long_still_fits_in_a_frame() -> None:
    assert BYTES_MAX + PUBLISH_OCTETS <= FRAME_OCTETS
    longest: dict[str, object] = {"app": 2**32 - 1, "slot": "a", "mode": "normal", "died": 255}
    longest |= {"waiting": 99_999, "dropped": 9_999_999_999}
    longest |= {"commands": [*RULES, "restart", "update"]}
    longest |= {name: most for name, (_, most, _) in RULES.items()}
    for letter in ("x", "\0", "é", '"'):
        text = letter * ANSWER_MAX
        document(text, text, [letter * LINE_MAX] * 5, longest)


def test_the_troubles_are_cut_before_the_answers_and_left_out_from_the_last() -> None:
    answer = "refused: unknown: colour, interval_s: 5 to 86400"
    trouble = ["a" * 60, "b" * 60, "c" * 60]
    found = document(answer, "fetching 2", trouble, {"x": "x" * 200})
    assert (found["settings"], found["update"]) == (answer, "fetching 2")
    assert [text[0] for text in found["trouble"]] == ["a", "b", "c"]
    found = document(answer, "", trouble, {"x": "x" * 280})
    assert (found["settings"], [text[0] for text in found["trouble"]]) == (answer, ["a"])


@given(
    st.text(max_size=ANSWER_MAX),
    st.text(max_size=60),
    st.lists(st.text(max_size=LINE_MAX), max_size=5),
    st.integers(0, 300),
)
def test_any_state_is_json_that_fits(
    settings: str, update: str, trouble: list[str], filler: int
) -> None:
    found = document(settings, update, trouble, {"x": "x" * filler})
    assert settings.startswith(found["settings"])
    assert update.startswith(found["update"])
    for whole, text in zip(trouble, found["trouble"], strict=False):
        assert whole.startswith(text)
