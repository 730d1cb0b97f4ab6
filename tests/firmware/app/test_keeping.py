"""What a node remembers, how it tells time, what it is told, and how long its steps may last."""

from __future__ import annotations

import errno
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firmware.app import given as told
from firmware.app.bounded import Bounded
from firmware.app.clock import ROUND_TRIP_MS_MAX, UNIX, Clock
from firmware.app.given import settings_of
from firmware.app.kept import OCTETS_MAX, Kept
from firmware.app.log import DEBUG, ERROR, INFO, TROUBLE_MAX, WARNING, Log
from firmware.app.settings import change
from firmware.app.watch import Watch
from firmware.mqttsn import cpython
from tests.firmware.app.simulated_flash import SimulatedFlash

THRESHOLDS = "thresholds: a number for each name"
GOOD = {"id": "n", "gateways": [["10.0.0.1", 1883]]}


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Milliseconds; ticks are about to wrap."""
    at = [cpython.TICKS_PERIOD - 500]
    monkeypatch.setattr(cpython.Clock, "now_ms", staticmethod(lambda: at[0]))
    return at


# kept.py


def a_kept() -> Kept:
    kept = Kept()
    kept.era, kept.offset_s, kept.learnt_at, kept.seconds = 65_535, -5, 7, 4_000_000_000
    kept.reported_at, kept.told_at, kept.oldest_unsent, kept.trying = 1, 2, 3, 2**32 - 1
    kept.silent, kept.skip, kept.listen_in, kept.ask_in, kept.told = 5, 63, 1000, 32, 2**32 - 1
    kept.last = {"soil": (-(2**31), 4), "": (2**31 - 1, 0)}
    kept.session = b"session"
    return kept


def test_what_is_taken_is_put_back() -> None:
    again = Kept()
    assert again.put_back(a_kept().take())
    assert vars(again) == vars(a_kept())
    assert not Kept().put_back(b"")


@given(st.binary(max_size=120))
def test_other_octets_are_nothing(octets: bytes) -> None:
    kept = Kept()
    assert not kept.put_back(octets)
    assert vars(kept) == vars(Kept())


def test_one_damaged_octet_makes_it_nothing() -> None:
    whole = a_kept().take()
    for at in range(len(whole)):
        damaged = bytearray(whole)
        damaged[at] ^= 8
        assert not Kept().put_back(bytes(damaged))
        assert not Kept().put_back(whole[:at])


def test_what_does_not_fit_goes_without_the_last_values() -> None:
    kept = a_kept()
    kept.last = {f"a sensor with a long name {number}": (1, 1) for number in range(80)}
    assert len(kept.take()) < OCTETS_MAX
    assert Kept().put_back(kept.take())


def test_a_session_that_does_not_fit_is_begun_anew() -> None:
    kept = a_kept()
    kept.session = bytes(OCTETS_MAX)
    again = Kept()
    assert again.put_back(kept.take())
    assert (again.session, again.oldest_unsent) == (b"", 3)


# clock.py


def test_a_reading_is_dated_by_its_age_until_the_time_is_known() -> None:
    at = [1000]
    clock = Clock(lambda: at[0], era=7)
    stamp = clock.stamp()
    assert clock.base_time(*stamp) == 0
    at[0] += 90
    assert clock.base_time(*stamp) == -90
    assert clock.is_due
    assert clock.learn(1_800_000_000_400, 1_000)
    assert not clock.is_due
    assert clock.base_time(*stamp) == 1_800_000_000 - 90
    assert clock.stamp() == (1_800_000_000, UNIX)
    assert clock.base_time(1_700_000_000, UNIX) == 1_700_000_000
    at[0] += 86_400
    assert clock.is_due


def test_nobody_knows_when_it_was_in_an_era_that_ended() -> None:
    clock = Clock(lambda: 50, era=8)
    clock.learn(1_800_000_000_000, 0)
    assert clock.base_time(10, 7) is None


def test_an_answer_that_took_long_says_nothing() -> None:
    clock = Clock(lambda: 50, era=8)
    assert not clock.learn(1_800_000_000_000, ROUND_TRIP_MS_MAX + 1)
    assert clock.is_due


# given.py and settings.py; for messages see the tests of commands


def files_with(path: str, content: bytes) -> SimulatedFlash:
    flash = SimulatedFlash()
    flash.files[path] = content
    return flash


def secrets_of(content: bytes) -> tuple[dict[str, Any], list[str]]:
    found = settings_of(GOOD, {})
    return told.load_secrets(files_with(told.SECRETS_PATH, content), found), found.problems


def test_a_node_without_secrets_needs_none() -> None:
    found = settings_of(GOOD, {})
    assert (told.load_secrets(SimulatedFlash(), found), found.problems) == ({}, [])


def test_secrets_are_as_they_are_and_the_key_is_octets() -> None:
    right = {"ssid": "Garden", "password": "p", "update_key": "0F" * 16}
    found, problems = secrets_of(json.dumps(right).encode())
    assert found == right | {"update_key": b"\x0f" * 16}
    assert problems == []


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"{", "/secrets.json is no JSON"),
        (b"[]", "/secrets.json is no object"),
        (b'{"ssid": 5}', "ssid: a text"),
        (b'{"password": null}', "password: a text"),
        *(
            (json.dumps({"update_key": key}).encode(), "update_key: at least 32 hexadecimal digits")
            for key in ("", "0", "0f" * 15, "0f" * 15 + "0", "zz" * 16, 5, None, ["0f"])
        ),
    ],
)
def test_a_secret_that_is_none_is_left_out_and_named(content: bytes, problem: str) -> None:
    assert secrets_of(content) == ({}, [problem])


def test_settings_have_defaults_and_what_the_file_says() -> None:
    found = told.load(files_with(told.PATH, json.dumps(GOOD | {"interval_s": 60}).encode()))
    assert (found.interval_s, found.listen_every, found.topic) == (60, 4, "sensors/n")
    assert found.is_usable
    assert found.problems == []


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"{", "/settings.json is no JSON"),
        (b"[1]", "/settings.json is no object"),
        (b"\xff", "/settings.json is no JSON"),
        (json.dumps(GOOD | {"id": 5}).encode(), "id: a text of 1 to 23 letters"),
        (json.dumps(GOOD | {"id": "n" * 24}).encode(), "id: a text of 1 to 23 letters"),
        (json.dumps({"id": "n"}).encode(), told.GATEWAYS_HELP),
        (json.dumps(GOOD | {"interval_s": "x"}).encode(), "interval_s: 5 to 86400"),
        (json.dumps(GOOD | {"interval_s": True}).encode(), "interval_s: 5 to 86400"),
        (json.dumps(GOOD | {"thresholds": {"a": -1}}).encode(), THRESHOLDS),
        (json.dumps(GOOD | {"gateways": 5}).encode(), told.GATEWAYS_HELP),
        (json.dumps(GOOD | {"gateways": [["h", "1"]]}).encode(), told.GATEWAYS_HELP),
        (json.dumps(GOOD | {"uart": 1}).encode(), 'uart: {"number": 1, "baud": 115200}'),
        (json.dumps(GOOD | {"local_port": 0}).encode(), "local_port: 1 to 65535"),
        (json.dumps(GOOD | {"topic": "a/+"}).encode(), "topic: without + and #"),
        (json.dumps(GOOD | {"sensors": {}}).encode(), "sensors: a list"),
        (json.dumps(GOOD | {"interval": 5}).encode(), "unknown: interval"),
    ],
)  # fmt: skip
def test_what_is_wrong_in_the_file_is_named_and_its_default_holds(
    content: bytes, problem: str
) -> None:
    found = told.load(files_with(told.PATH, content))
    assert problem in found.problems
    assert found.interval_s == 900


def test_without_a_file_it_says_so() -> None:
    found = told.load(SimulatedFlash())
    assert "/settings.json is not there" in found.problems
    assert not found.is_usable


def test_a_remote_change_is_taken_whole_and_kept() -> None:
    flash = files_with(told.PATH, json.dumps(GOOD).encode())
    found = told.load(flash)
    message = b'{"interval_s": 30, "thresholds": {"soil": 0.5}}'
    assert change(flash, found, [("settings", message, False)]) == []
    again = told.load(flash)
    assert (again.interval_s, again.thresholds, again.problems) == (30, {"soil": 0.5}, [])
    assert found.interval_s == 30


@pytest.mark.parametrize(
    ("message", "problem"),
    [
        (b"", "no JSON"),
        (b"\xff\xfe", "no JSON"),
        (b"5", "no object"),
        (b'{"id": "other"}', "unknown: id"),
        (b'{"interval_s": 30, "budget_s": 1}', "budget_s: 5 to 120"),
        (b'{"interval_s": 30, "report_s": null}', "report_s: 0 to 86400"),
        (b'{"thresholds": [1]}', "thresholds: a number for each name"),
    ],
)
def test_a_remote_change_that_is_partly_wrong_changes_nothing(message: bytes, problem: str) -> None:
    flash = files_with(told.PATH, json.dumps(GOOD).encode())
    found = told.load(flash)
    assert change(flash, found, [("settings", message, False)]) == [problem]
    assert found.interval_s == told.load(flash).interval_s == 900


@given(st.dictionaries(st.text(max_size=5), st.none() | st.booleans() | st.integers() | st.text()))
def test_any_object_is_a_file_of_settings(given_: dict[str, Any]) -> None:
    assert not settings_of(given_, {}).is_usable


def test_the_watchdog_is_on_unless_it_is_switched_off() -> None:
    assert settings_of(GOOD, {}).watchdog_s == 30
    assert settings_of(GOOD | {"watchdog_s": 0}, {}).watchdog_s == 0
    wrong = settings_of(GOOD | {"watchdog_s": 1}, {})
    assert (wrong.watchdog_s, wrong.problems) == (30, ["watchdog_s: 2 to 3600"])


def test_the_gateway_is_told_of_a_silence_of_two_intervals() -> None:
    found = settings_of(GOOD | {"interval_s": 100, "report_s": 1000}, {})
    assert found.silence_s == 260
    found.change({"thresholds": {"a": 1}})
    assert found.silence_s == 2060
    found.change({"thresholds": {"a": 1}, "report_s": 86_400})
    assert found.silence_s == 65_535


# log.py


def test_a_log_has_a_level_and_keeps_the_last_troubles() -> None:
    lines: list[str] = []
    log = Log(INFO, lines.append)
    log(DEBUG, "unseen")
    log(INFO, "seen")
    for number in range(TROUBLE_MAX + 2):
        log(ERROR if number % 2 else WARNING, f"trouble {number} " + "x" * 100)
    assert lines[:2] == ["I seen", "W trouble 0 " + "x" * 100]
    assert [text[:9] for text in log.trouble] == [f"trouble {number}" for number in (2, 3, 4, 5)]
    assert {len(text) for text in log.trouble} == {60}


# watch.py, bounded.py


def test_the_watchdog_is_fed_while_the_step_has_time_and_not_after(now: list[int]) -> None:
    fed: list[str] = []
    watch = Watch(lambda: fed.append(watch.what), 10_000)
    watch.step("measure", 1_000)
    assert (watch.left(), watch.budget()) == (1_000, 10_000)
    now[0] += 999
    assert watch.left() == 1
    now[0] += 1
    fed.clear()
    assert watch.left() == 0
    assert fed == []
    watch.step("send", 60_000)
    assert watch.left() == 9_000
    now[0] += 9_000
    fed.clear()
    watch.step("rest", 1_000)
    assert (watch.left(), watch.budget(), fed) == (0, 0, [])


class Silent:
    """A transport that hears nothing, for as long as it is asked to wait."""

    gateways = 2
    index = 0

    def __init__(self, now: list[int]) -> None:
        self.now = now
        self.waits: list[int] = []
        self.sent = 0
        self.hears_at = -1

    def send(self, frame: bytearray, size: int) -> None:
        self.sent += 1

    def receive(self, buffer: bytearray, wait_ms: int) -> int:
        self.waits.append(wait_ms)
        self.now[0] += wait_ms
        return 7 if len(self.waits) == self.hears_at else 0

    def next(self) -> None:
        self.index ^= 1

    def close(self) -> None:
        self.index = -1


def test_a_long_wait_is_cut_in_parts_and_ends_with_the_step(now: list[int]) -> None:
    fed = []
    inner = Silent(now)
    watch = Watch(lambda: fed.append(now[0]), 20_000)
    bounded = Bounded(inner, watch)
    watch.step("send", 2_500)
    fed.clear()
    with pytest.raises(OSError, match=str(errno.ETIMEDOUT)):
        bounded.receive(bytearray(8), 60_000)
    assert inner.waits == [500] * 5
    assert len(fed) == 5
    with pytest.raises(OSError, match=str(errno.ETIMEDOUT)):
        bounded.send(bytearray(8), 2)
    assert inner.sent == 0


def test_a_wait_that_fits_returns_what_came_or_nothing(now: list[int]) -> None:
    inner = Silent(now)
    watch = Watch(lambda: None, 20_000)
    bounded = Bounded(inner, watch)
    watch.step("send", 10_000)
    assert bounded.receive(bytearray(8), 1_500) == 0
    assert bounded.receive(bytearray(8), 0) == 0
    inner.hears_at = len(inner.waits) + 2
    assert bounded.receive(bytearray(8), 9_000) == 7
    assert bounded.heard == 1
    bounded.index = 1
    bounded.next()
    assert (bounded.index, bounded.gateways) == (0, 2)
    bounded.close()
    assert inner.index == -1
