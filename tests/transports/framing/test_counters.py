"""What became of frames, by the names that metrics have for it."""

from __future__ import annotations

from gateway.transports.framing.counters import FramingCounters


def test_each_frame_is_counted_by_what_became_of_it() -> None:
    counters = FramingCounters(good=3)
    counters.add("aborted")
    counters.add("too_long")
    counters.add("too_long")
    assert counters.frames() == {
        "good": 3,
        "bad_check": 0,
        "too_long": 2,
        "too_short": 0,
        "aborted": 1,
        "not_messages": 0,
    }
