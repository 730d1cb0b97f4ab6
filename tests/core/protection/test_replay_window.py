"""The window against a set of all counters that came."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gateway.core.protection.replay_window import AHEAD_MAX, WINDOW, Age, ReplayWindow


@given(
    st.integers(0, 5000),
    st.booleans(),
    st.lists(st.one_of(st.integers(-150, 150), st.integers(-3000, 3000)), max_size=80),
)
def test_no_counter_is_new_twice(start: int, is_seen: bool, steps: list[int]) -> None:
    window = ReplayWindow(start, AHEAD_MAX, is_seen=is_seen)
    taken = {start} if is_seen else set()
    for step in steps:
        counter = max(0, window.highest + step)
        highest = window.highest
        age = window.judge(counter)
        assert window.judge(counter) is age, "judging changes nothing"
        if counter in taken:
            assert age is (Age.SEEN if highest - counter < WINDOW else Age.OLD)
        elif counter <= start or highest - counter >= WINDOW or counter - highest > AHEAD_MAX:
            assert age is Age.OLD
        else:
            assert age is Age.NEW
            window.commit(counter)
            taken.add(counter)
            assert window.highest == max(highest, counter)
