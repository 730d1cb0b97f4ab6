"""What the broker may hold for a collector is written down before it does."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_ingest.collect.subscriptions import BROKERS_MAX, Subscriptions


def opened(lake: Path, *wanted: str, session: str = "mqtt://b:1883 g-c1") -> Subscriptions:
    found = Subscriptions(lake, "c1", session, wanted)
    found.begin()
    return found


def test_what_is_named_no_more_is_former_until_it_is_ended(tmp_path: Path) -> None:
    assert opened(tmp_path, "a/#", "c").former == ()
    for _ in range(2):  # a run that is killed before it could ask
        former = opened(tmp_path, "b/#", "c")
        assert former.former == ("a/#",)
    former.ended(["a/#"])
    assert opened(tmp_path, "b/#", "c").former == ()


def test_a_new_session_has_nothing_else(tmp_path: Path) -> None:
    first = opened(tmp_path, "a/#")
    assert not first.is_whole, "what a release without the file has left is not known"
    second = opened(tmp_path, "b/#")
    second.session_began()
    assert (second.former, second.is_whole) == ((), True)
    third = opened(tmp_path, "c")
    assert (third.former, third.is_whole) == (("b/#",), True)
    fourth = opened(tmp_path, "c")
    fourth.session_began()
    fourth.session_began()
    assert (fourth.former, fourth.is_whole) == ((), True)


def test_each_broker_and_client_has_its_own(tmp_path: Path) -> None:
    opened(tmp_path, "a/#", session="one")
    opened(tmp_path, "b/#", session="two")
    assert opened(tmp_path, "c", session="one").former == ("a/#",)
    for number in range(BROKERS_MAX - 1):
        opened(tmp_path, "x", session=str(number))
    assert opened(tmp_path, "d", session="one").former == ("c", "a/#")
    assert opened(tmp_path, "d", session="two").former == (), "it was used longest ago"


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"brokers": {"mqtt://b:1883 g-c1": 5}}'])
def test_a_damaged_file_stops_no_collector(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, text: str
) -> None:
    (tmp_path / "subscriptions").mkdir()
    (tmp_path / "subscriptions" / "c1.json").write_text(text)
    assert opened(tmp_path, "a").former == ()
    assert "it is written again" in caplog.text
    assert opened(tmp_path, "b").former == ("a",)


def test_a_disk_that_takes_nothing_stops_no_collector(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "subscriptions").write_text("a file")
    opened(tmp_path, "a")
    assert "may stay subscribed" in caplog.text
